"""encoderlab train: trains an encoder from a config, and reports how good it is."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from encoderlab.baselines.supervised import Baseline, baselines
from encoderlab.config.commands import RunConfig
from encoderlab.errors import SettingError
from encoderlab.metrics import PredictionScores
from encoderlab.reports.cards import model_card
from encoderlab.reports.preparation import labels_alike, shared_rows, show_survey
from encoderlab.reports.training import build_report, show_report, write_report
from encoderlab.runs.assembly import Assembly, assemble, cache_folder, compute_for, load_start, settle
from encoderlab.runs.corpus import Corpus, reading_notes
from encoderlab.runs.dry_run import dry_run
from encoderlab.runs.explain import token_importance
from encoderlab.runs.fit import Fitted, fit
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.folds import cross_validate
from encoderlab.runs.records import Run, files_of, open_run, resumed_or_new, run_facts, summary_of
from encoderlab.runs.saved_model import Origin, save_model
from encoderlab.runs.score import score_splits, threshold_notes
from encoderlab.runs.task import build_task
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.tasks.config import DocumentTaskConfig, PretrainingConfig
from encoderlab.tasks.task import Task
from encoderlab.tasks.texts import Classification
from encoderlab.training.batches import Rows


def train(config: RunConfig, processes: Processes = SINGLE_PROCESS) -> RunFolder | None:
    """Train, score, and write the run folder. Anything invalid is refused before the folder is created.

    With `config.dry_run` no folder is written; an estimate of the run is printed. The `processes` share the work.
    Raises SettingError, DataError or TrainingError, each with a remedy.
    """
    return train_on_labels(config, "train", processes)


def train_on_labels(config: RunConfig, command: str, processes: Processes) -> RunFolder | None:
    """Do the work of `train` and `finetune`: from fresh weights, or from the pretrained encoder in
    `config.starts_from`.
    """
    if isinstance(config.task, DocumentTaskConfig):
        other = "pretrain" if isinstance(config.task, PretrainingConfig) else "distill"
        raise SettingError(f"task={config.task.name} has no labels to learn", remedy=f"Run encoderlab {other}")
    if config.folds is not None:
        return cross_validate(config, command, processes, train_on_labels)
    config, resumed = resumed_or_new(config, command, processes)
    pretrained = load_start(config, processes)
    with processes.main_process_first():
        compute = compute_for(config, pretrained, processes)
        corpus = load_examples(config)
        scored = corpus.scored_splits()
        show_survey(corpus.survey.as_dict())
        assembly = assemble(config, compute, corpus, pretrained, processes)
        rows = encoded_splits(corpus, assembly.task, scored)
    del pretrained  # its weights are as large as the model's
    assembly = settle(assembly, rows)
    if config.dry_run:
        return dry_run(assembly, rows, command)
    with open_run(command, assembly, corpus, rows, config=config, resumed=resumed) as run:
        fitted = fit(assembly, rows, run.folder, run.trackers)
        assembly, scores = score_splits(assembly, rows)
        processes.leave()
        if processes.is_main:
            report_on_labels(run, assembly, corpus, rows, fitted, scores)
    return run.folder


def load_examples(config: RunConfig) -> Corpus:
    """Load the dataset of a run. Raises SettingError or DataError if it cannot be read, or nothing can be learned."""
    corpus = Corpus.load(config.dataset, cache_folder(config.cache_dir), config.task.target)
    corpus.check_training_labels()
    return corpus


def encoded_splits(corpus: Corpus, task: Task, scored: list[str]) -> dict[str, Rows]:
    """Return the rows of `train` and of the `scored` splits, and print how much of long ones is read in windows."""
    rows: dict[str, Rows] = {name: corpus.rows(name, task) for name in ("train", *scored)}
    if task.windows is not None:
        print(*reading_notes(rows, task), sep="\n", file=sys.stderr)
    return rows


def report_on_labels(
    run: Run,
    assembly: Assembly,
    corpus: Corpus,
    rows: Mapping[str, Rows],
    fitted: Fitted,
    scores: Mapping[str, PredictionScores],
) -> None:
    """Save the model, and write and show the report of a run on labelled rows."""
    config, folder, split = run.config, run.folder, list(rows)[-1]
    survey = corpus.survey.as_dict()
    notes = [*fitted.notes, *_frozen_notes(assembly), *reading_notes(rows, assembly.task)]
    notes += threshold_notes(config.task, scores)
    notes += filter(None, [shared_rows(split, survey[split]), labels_alike(survey["train"]["labels"])])
    summary = summary_of(run.command, assembly, replace(fitted, notes=notes), config.starts_from)
    report = build_report(summary, scores, _baselines(corpus, split, config, assembly.task))
    facts = run_facts(folder, run.command)
    origin = Origin(fitted.checkpoint, corpus.paired, corpus.fingerprints())
    save_model(assembly.saved(origin), folder.model, model_card(report, facts, assembly.task.labels))
    run.trackers.report(report)
    examples, explain = corpus.split(split), partial(token_importance, assembly)
    carried = None if examples.carried is None else examples.carried.select(scores[split].rows)
    write_report(folder.root, report, facts, examples, scores[split], explain, carried)
    show_report(
        report,
        files_of(folder, "page", "report", "predictions", "plots", "model"),
        _next_commands(folder, split, corpus.paired),
    )


def _baselines(corpus: Corpus, split: str, config: RunConfig, task: Task) -> dict[str, Baseline]:
    """Return the baselines on a split; for two classes, the linear one gets a threshold by the rule of
    `config.task`.
    """
    if not config.baselines:
        return {}
    asked = build_task(config.task, task.tokenizer, task.labels, task.max_length)
    if isinstance(asked, Classification):
        return baselines(corpus.splits, split, asked.threshold, asked.positive)
    return baselines(corpus.splits, split)


def _frozen_notes(assembly: Assembly) -> list[str]:
    frozen = sum(parameter.numel() for parameter in assembly.model.parameters() if not parameter.requires_grad)
    layers = assembly.config.training.freeze_layers
    return [f"{frozen:,} parameters were frozen: training.freeze_layers={layers}, and the embeddings"] if frozen else []


def _next_commands(folder: RunFolder, split: str, paired: bool) -> list[str]:
    if folder.is_nested:
        return []
    run = f"run={shlex.quote(str(folder.root))}"
    text = "text='...' text_pair='...'" if paired else "text='...'"
    commands = [f"encoderlab {command} {run} {text}" for command in ("predict", "explain", "attention")]
    return [*commands, f"encoderlab eval {run} split={split}"]
