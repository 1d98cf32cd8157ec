"""encoderlab train: trains an encoder from a config, and reports how good it is."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from encoderlab.baselines.supervised import Baseline, baselines
from encoderlab.config.commands import RunConfig
from encoderlab.errors import SettingError
from encoderlab.reports.cards import model_card
from encoderlab.reports.preparation import labels_alike, shared_rows, show_dry_run, show_survey
from encoderlab.reports.training import build_report, show_report, write_report
from encoderlab.runs.assembly import Assembly, assemble, cache_folder, compute_for, run_settings
from encoderlab.runs.corpus import Corpus, reading_notes
from encoderlab.runs.dry_run import dry_run
from encoderlab.runs.explain import token_importance
from encoderlab.runs.fit import Fitted
from encoderlab.runs.fitting.teaching import UNTAUGHT, Teaching
from encoderlab.runs.fitting.training_run import Prepared, Training, run_training
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.folds import cross_validate, report_folds
from encoderlab.runs.for_reports import files_of, run_facts, summary_of
from encoderlab.runs.pretrained import Pretrained
from encoderlab.runs.resume import Config
from encoderlab.runs.saved_model import Origin, save_model
from encoderlab.runs.score import score_splits, threshold_notes
from encoderlab.runs.trackers import Trackers
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


def train_on_labels(
    config: Config, command: str, processes: Processes, taught_by: Callable[[Config, Corpus], Teaching] | None = None
) -> RunFolder | None:
    """Do the work of `command`, from fresh weights or from the pretrained encoder in `config.starts_from`; see `train`.

    `taught_by` opens the teacher, given the run's settings and rows; see `runs.fitting.teaching`.
    """

    def run(config: Config, processes: Processes) -> RunFolder | None:
        return run_training(TrainingOnLabels(command, taught_by), config, processes)

    if config.folds is None:
        return run(config, processes)
    refuse_documents(config)
    return cross_validate(config, command, processes, run, report_folds)


def refuse_documents(config: RunConfig) -> None:
    """Raise SettingError for a task that has no labels."""
    if isinstance(config.task, DocumentTaskConfig):
        command = "pretrain" if isinstance(config.task, PretrainingConfig) else "distill"
        raise SettingError(f"task={config.task.name} has no labels to learn", remedy=f"Run encoderlab {command}")


class TrainingOnLabels(Training[Config]):
    """Examples with targets, and perhaps a teacher."""

    def __init__(self, command: str, taught_by: Callable[[Config, Corpus], Teaching] | None = None) -> None:
        self.command, self.taught_by, self.teaching, self.init_from = command, taught_by, UNTAUGHT, None
        self.reading: list[str] = []  # how much of the long rows is read

    def check(self, config: Config) -> None:
        """See `Training.check`: pretraining has no labels."""
        refuse_documents(config)
        if config.folds is not None:  # reached from Python, where resume= brings the settings later
            raise SettingError(
                f"The run in {config.run_dir} is a cross-validation", remedy=f"Set folds={config.folds} too"
            )

    def prepare(self, config: Config, pretrained: Pretrained | None, processes: Processes) -> Prepared:
        """See `Training.prepare`."""
        self.init_from = config.starts_from
        resolved = replace(config, model=run_settings(config, pretrained).model)
        compute = compute_for(resolved, processes)
        corpus = Corpus.load(config.dataset, cache_folder(config.cache_dir), config.task.target)
        corpus.check_training_labels()
        scored = self.scored_splits(corpus)
        show_survey(corpus.survey.as_dict())
        if self.taught_by is not None:
            self.teaching = self.taught_by(resolved, corpus)
        assembly = assemble(config, compute, corpus, pretrained, processes, self.teaching.encoder)
        rows: dict[str, Rows] = {name: corpus.rows(name, assembly.task) for name in ("train", *scored)}
        self.reading = reading_notes(rows, assembly.task)
        if assembly.task.windows is not None:
            print(*self.reading, sep="\n", file=sys.stderr)
        rows["train"] = self.teaching.prepare(assembly, corpus, rows["train"])
        return Prepared(assembly, corpus, rows)

    def begin(self, prepared: Prepared) -> None:
        """See `Training.begin`."""
        self.teaching.begin(prepared.assembly)

    def scored_splits(self, corpus: Corpus) -> list[str]:
        """Return the splits to score; the report's main one comes last. Raises DataError if there is none."""
        return corpus.scored_splits()

    def show_dry_run(self, prepared: Prepared) -> None:
        """See `Training.show_dry_run`."""
        facts = dry_run(prepared.assembly, prepared.rows)
        show_dry_run(facts, self.command, sys.stdout)

    def fingerprints(self) -> dict[str, str]:
        """See `Training.fingerprints`."""
        return self.teaching.fingerprints()

    def report(self, prepared: Prepared, fitted: Fitted, folder: RunFolder, trackers: Trackers) -> None:
        """See `Training.report`."""
        rows, corpus, scored = prepared.rows, _examples(prepared), list(prepared.rows)[-1]
        assembly, scores = score_splits(prepared.assembly, rows)
        assembly.processes.leave()
        if not assembly.processes.is_main:
            return
        config = assembly.config
        found = _baselines(corpus, scored, prepared.assembly.task) if config.baselines else {}
        notes = [*fitted.notes, *_frozen_notes(assembly), *self.reading]
        notes += threshold_notes(prepared.assembly.config.task, scores)
        surveyed = corpus.survey.as_dict()
        notes += filter(None, [shared_rows(scored, surveyed[scored]), labels_alike(surveyed["train"]["labels"])])
        report = build_report(
            summary_of(self.command, assembly, replace(fitted, notes=notes), self.init_from), scores, found
        )
        origin = Origin(fitted.checkpoint, corpus.paired, corpus.fingerprints())
        facts = run_facts(folder, self.command)
        save_model(assembly.saved(origin), folder.model, model_card(report, facts, assembly.task.labels))
        trackers.report(report)
        examples, explain = corpus.split(scored), partial(token_importance, assembly)
        carried = None if examples.carried is None else examples.carried.select(scores[scored].rows)
        write_report(folder.root, report, facts, examples, scores[scored], explain, carried)
        files = files_of(folder, "page", "report", "predictions", "plots", "model")
        show_report(report, files, _next_commands(folder, scored, corpus.paired))


def _examples(prepared: Prepared) -> Corpus:
    assert isinstance(prepared.corpus, Corpus)
    return prepared.corpus


def _baselines(corpus: Corpus, split: str, task: Task) -> dict[str, Baseline]:
    """Return the baselines on a split; for two classes, the linear one has a threshold like the task's."""
    if isinstance(task, Classification):
        return baselines(corpus.splits, split, task.threshold, task.positive)
    return baselines(corpus.splits, split)


def _frozen_notes(assembly: Assembly) -> list[str]:
    frozen = sum(parameter.numel() for parameter in assembly.model.parameters() if not parameter.requires_grad)
    layers = assembly.config.training.freeze_layers
    return [f"{frozen:,} parameters were frozen: training.freeze_layers={layers}, and the embeddings"] if frozen else []


def _next_commands(folder: RunFolder, scored: str, paired: bool) -> list[str]:
    if folder.is_nested:
        return []
    run = f"run={shlex.quote(str(folder.root))}"
    text = "text='...' text_pair='...'" if paired else "text='...'"
    return [
        *(f"encoderlab {command} {run} {text}" for command in ("predict", "explain", "attention")),
        f"encoderlab eval {run} split={scored}",
    ]
