"""encoderlab train: from a config to a trained encoder and a report of how good it is."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from encoderlab.config import RunConfig
from encoderlab.device import choose_compute
from encoderlab.metrics import Scores
from encoderlab.reports.model_card import model_card
from encoderlab.reports.report import build_report
from encoderlab.reports.screen import show_report, show_survey
from encoderlab.reports.written import write_report
from encoderlab.runs.assembly import Assembly, assemble, cache_folder
from encoderlab.runs.baselines import Baseline, baselines
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.fit import Fitted, fit
from encoderlab.runs.folder import RunFolder, check_free
from encoderlab.runs.records import record_start
from encoderlab.runs.saved_model import Origin, save_model
from encoderlab.tasks.rows import ExampleRows


def train(config: RunConfig) -> RunFolder:
    """Train, score, and write the run folder; everything that can be refused is refused before the folder is made.

    Raises SettingError, DataError or TrainingError with what the user can do.
    """
    check_free(config.run_dir)
    compute = choose_compute(config.training.device, config.training.precision.value, config.training.threads)
    corpus = Corpus.load(config.dataset, cache_folder(config.cache_dir))
    corpus.check_training_labels()
    scored = corpus.scored_splits()
    show_survey(corpus.survey.as_dict())
    assembly = assemble(config, compute, corpus)
    rows = {name: corpus.rows(name, assembly.task) for name in ("train", *scored)}
    folder = RunFolder.create(config.run_dir, "train", config.task.name)
    with folder.discarded_if_nothing_came_of_it():
        record_start(folder, config, compute, corpus)
        print(f"{assembly.model.n_parameters:,} parameters; {compute}; run folder {folder.root}", file=sys.stderr)
        _fit_and_report(assembly, corpus, rows, folder)
    return folder


def _fit_and_report(assembly: Assembly, corpus: Corpus, rows: dict[str, ExampleRows], folder: RunFolder) -> None:
    config = assembly.config
    scored = [name for name in rows if name != "train"]
    fitted = fit(assembly, rows["train"], rows.get("validation"), folder)
    scores = {name: assembly.evaluate(rows[name]) for name in scored}
    found = baselines(corpus.split("train"), corpus.split(scored[-1])) if config.baselines else {}
    notes = [*fitted.notes, *_truncation_notes(rows, config.model.max_length)]
    report = _report(assembly, fitted, scores, found, notes)
    origin = Origin(fitted.checkpoint, corpus.paired, corpus.fingerprints())
    save_model(assembly, folder.model, origin, model_card(report, assembly.task.labels))
    write_report(folder, report, corpus.split(scored[-1]), scores[scored[-1]])
    show_report(report, _paths(folder), _next_commands(folder, scored[-1], corpus.paired))


def _report(
    assembly: Assembly, fitted: Fitted, scores: dict[str, Scores], found: dict[str, Baseline], notes: list[str]
) -> dict[str, Any]:
    return build_report(
        command="train",
        task=assembly.config.task.name,
        seed=assembly.config.seed,
        parameters={"total": assembly.model.n_parameters, **assembly.model.parameters_by_part()},
        splits=scores,
        baselines=found,
        throughput=fitted.throughput,
        checkpoint=fitted.checkpoint,
        notes=notes,
    )


def _truncation_notes(rows: dict[str, ExampleRows], max_length: int) -> list[str]:
    shares = {name: part.truncated_share() for name, part in rows.items()}
    return [
        f"{share:.1%} of the rows of {name} were cut to model.max_length={max_length} tokens"
        for name, share in shares.items()
        if share
    ]


def _paths(folder: RunFolder) -> dict[str, str]:
    names = {"report": folder.report, "predictions": folder.predictions, "plots": folder.plots, "model": folder.model}
    return {name: str(path) for name, path in names.items()}


def _next_commands(folder: RunFolder, scored: str, paired: bool) -> list[str]:
    run = f"run={shlex.quote(str(folder.root))}"
    text = "text='...' text_pair='...'" if paired else "text='...'"
    return [f"encoderlab predict {run} {text}", f"encoderlab attention {run} {text}", f"encoderlab eval {run} split={scored}"]
