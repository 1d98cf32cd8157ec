"""encoderlab train: from a config to a trained encoder and a report of how good it is."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from encoderlab.baselines.supervised import baselines, planned
from encoderlab.config.command_settings import RunConfig
from encoderlab.config.schemas import settings_to_dict
from encoderlab.errors import SettingError
from encoderlab.reports.parts.run_facts import run_facts
from encoderlab.reports.parts.run_report import summary_of
from encoderlab.reports.screens.dry_run import show_dry_run
from encoderlab.reports.training.model_card import model_card
from encoderlab.reports.training.report import BASELINE_NAMES, build_report
from encoderlab.reports.training.screen import show_report, show_survey
from encoderlab.reports.training.stronger_command import stronger_command
from encoderlab.reports.training.written import write_report
from encoderlab.runs.corpora.corpus import Corpus
from encoderlab.runs.dry_run.dry_run import dry_run
from encoderlab.runs.dry_run.time_estimate import with_time_before
from encoderlab.runs.fitting.fit import fit
from encoderlab.runs.fitting.scoring import score_splits
from encoderlab.runs.fitting.teaching import UNTAUGHT, Teaching
from encoderlab.runs.folders.folder import RunFolder, check_free
from encoderlab.runs.folders.resume import continued_run, read_record, run_folder
from encoderlab.runs.inference.importance import token_importance
from encoderlab.runs.models.assembly import Assembly, assemble, cache_folder, compute_for, run_settings
from encoderlab.runs.models.pretrained import load_pretrained
from encoderlab.runs.models.same_parts import check_same_parts
from encoderlab.runs.models.saved_model import Origin, save_model
from encoderlab.runs.records.records import record_start
from encoderlab.runs.records.trackers import Trackers, check_trackers, tracked
from encoderlab.system.distributed import SINGLE_PROCESS, Processes
from encoderlab.tasks.config import DocumentTaskConfig, PretrainingConfig
from encoderlab.tasks.rows import Rows
from encoderlab.training.horizon import length_in_words


def train(config: RunConfig, processes: Processes = SINGLE_PROCESS) -> RunFolder | None:
    """Train, score, and write the run folder; everything that can be refused is refused before the folder is made.

    With `config.dry_run` there is no folder: what the run would be like is printed. The `processes` share the work.
    Raises SettingError, DataError or TrainingError with what the user can do.
    """
    return train_and_report(config, "train", processes)


def train_and_report(
    config: RunConfig,
    command: str,
    processes: Processes,
    taught_by: Callable[[Any, Corpus], Teaching] | None = None,
) -> RunFolder | None:
    """What `command` does, from weights as drawn, or from the pretrained encoder that `config.init_from` names; see `train`.

    `taught_by` opens the teacher, given the run's settings and rows; see `runs.fitting.teaching`.
    """
    run = processes.broadcast_from_main(lambda: continued_run(config, command))
    if run is None:
        processes.broadcast_from_main(lambda: check_free(config.run_dir))
    else:
        config, _ = run
    _refuse_pretraining(config)
    check_trackers(config.trackers)
    init_from = getattr(config, "init_from", None)
    pretrained = None if init_from is None else processes.broadcast_from_main(lambda: load_pretrained(init_from))
    with processes.main_process_first():
        config = replace(config, model=run_settings(config, pretrained).model)
        compute = compute_for(config, processes)
        corpus = Corpus.load(config.dataset, cache_folder(config.cache_dir), config.task.target)
        corpus.check_training_labels()
        scored = corpus.scored_splits()
        show_survey(corpus.survey.as_dict())
        teaching = UNTAUGHT if taught_by is None else taught_by(config, corpus)
        assembly = assemble(config, compute, corpus, pretrained, processes, teaching.encoder)
        rows: dict[str, Rows] = {name: corpus.rows(name, assembly.task) for name in ("train", *scored)}
        rows["train"] = teaching.prepare(assembly, corpus, rows["train"])
    check_same_parts(assembly, corpus.fingerprints())
    assembly = assembly.settled(rows["train"])
    if config.dry_run:
        return _try_out(assembly, corpus, rows, command, teaching)
    config = replace(config, task=assembly.config.task, model=assembly.config.model, training=assembly.config.training)
    length = length_in_words(config.training, len(rows["train"]), evaluated="validation" in rows)
    beside = teaching.fingerprints()
    with processes.entered_by_main(lambda: run_folder(run, config, command, corpus.fingerprints(), beside)) as folder:
        if processes.is_main:
            record_start(folder, command, config, compute, corpus, beside)
        print(f"{assembly.model.n_parameters:,} parameters; {assembly.picked}; run folder {folder.root}", file=sys.stderr)
        print(length, file=sys.stderr)
        teaching.train_before(folder)
        with tracked(config, command, folder, processes) as trackers:
            _fit_and_report(assembly, corpus, rows, folder, command, init_from, trackers, teaching)
    return folder


def _try_out(assembly: Assembly, corpus: Corpus, rows: dict[str, Rows], command: str, teaching: Teaching) -> None:
    """Print, on standard output, what the run would be like."""
    facts = dry_run(assembly, rows)
    facts["time"] = with_time_before(facts["time"], teaching.seconds_before(facts["time"]["total"]))
    beside = planned(corpus.splits) if assembly.config.baselines else {}
    titled = {BASELINE_NAMES[name]: skipped for name, skipped in beside.items()}
    show_dry_run(facts, command, titled, RunFolder.contents(scored_answers=True), sys.stdout)


def _refuse_pretraining(config: RunConfig) -> None:
    if isinstance(config.task, DocumentTaskConfig):
        command = "pretrain" if isinstance(config.task, PretrainingConfig) else "distill"
        raise SettingError(f"task={config.task.name} has no labels to learn", remedy=f"Run encoderlab {command}")


def _fit_and_report(
    assembly: Assembly,
    corpus: Corpus,
    rows: dict[str, Rows],
    folder: RunFolder,
    command: str,
    init_from: str | None,
    trackers: Trackers,
    teaching: Teaching,
) -> None:
    config = assembly.config
    scored = [name for name in rows if name != "train"]
    fitted = fit(assembly, rows["train"], rows.get("validation"), folder, trackers)
    assembly, scores = score_splits(assembly, rows)
    assembly.processes.leave()
    if not assembly.processes.is_main:
        return
    found = baselines(corpus.splits, scored[-1]) if config.baselines else {}
    notes = [*fitted.notes, *_frozen_notes(assembly), *_truncation_notes(rows, assembly.task.max_length)]
    report = build_report(summary_of(command, assembly, replace(fitted, notes=notes), init_from), scores, found)
    report |= teaching.compared(assembly, corpus, folder, scored[-1], scores[scored[-1]])
    report["stronger_command"] = stronger_command(report, read_record(folder), settings_to_dict(config))
    origin = Origin(fitted.checkpoint, corpus.paired, corpus.fingerprints())
    save_model(assembly.saved(origin), folder.model, model_card(report, assembly.task.labels, run_facts(folder, command)))
    trackers.report(report)
    write_report(folder, report, corpus.split(scored[-1]), scores[scored[-1]], partial(token_importance, assembly))
    following = [report["stronger_command"], *_next_commands(folder, scored[-1], corpus.paired)]
    show_report(report, _paths(folder), [*filter(None, following)])


def _frozen_notes(assembly: Assembly) -> list[str]:
    frozen = sum(parameter.numel() for parameter in assembly.model.parameters() if not parameter.requires_grad)
    layers = assembly.config.training.freeze_layers
    return [f"{frozen:,} parameters did not learn: training.freeze_layers={layers}, and the embeddings with them"] if frozen else []


def _truncation_notes(rows: dict[str, Rows], max_length: int) -> list[str]:
    shares = {name: part.truncated_share() for name, part in rows.items()}
    return [
        f"{share:.1%} of the rows of {name} were cut to model.max_length={max_length} tokens"
        for name, share in shares.items()
        if share
    ]


def _paths(folder: RunFolder) -> dict[str, str]:
    names = {
        "page": folder.page,
        "report": folder.report,
        "predictions": folder.predictions,
        "plots": folder.plots,
        "model": folder.model,
    }
    return {name: str(path) for name, path in names.items()}


def _next_commands(folder: RunFolder, scored: str, paired: bool) -> list[str]:
    if folder.is_nested:
        return []
    run = f"run={shlex.quote(str(folder.root))}"
    text = "text='...' text_pair='...'" if paired else "text='...'"
    return [
        *(f"encoderlab {command} {run} {text}" for command in ("predict", "explain", "attention")),
        f"encoderlab eval {run} split={scored}",
    ]
