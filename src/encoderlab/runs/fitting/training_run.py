"""The one flow of every command that trains: begin or resume, prepare, open a run folder, fit, and report."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Generic

from encoderlab.config.commands import RunConfig
from encoderlab.errors import SettingError
from encoderlab.runs.assembly import Assembly
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.document_corpus import DocumentCorpus
from encoderlab.runs.fit import Fitted, fit
from encoderlab.runs.folder import RunFolder, check_free
from encoderlab.runs.pretrained import Pretrained, load_pretrained
from encoderlab.runs.records import announce, record_start
from encoderlab.runs.resume import Config, continued_run, run_folder
from encoderlab.runs.trackers import Trackers, check_trackers, tracked
from encoderlab.system.processes import Processes
from encoderlab.tasks.stream import StreamedRows
from encoderlab.training.checkpoint import checkpoints
from encoderlab.training.config import TrainingConfig
from encoderlab.training.distribution import is_sharded
from encoderlab.training.horizon import fixed_by_validation, length_in_words


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run before its first step: the assembled model, its corpus, and the rows of `train` and of each scored split."""

    assembly: Assembly
    corpus: Corpus | DocumentCorpus
    rows: dict[str, Any]


class Training(ABC, Generic[Config]):
    """What a command trains on, and how it reports it; `run_training` calls the methods in this order."""

    command: str

    def check(self, config: Config) -> None:  # noqa: B027  most commands refuse nothing
        """Refuse settings that this command cannot use. Raises SettingError."""

    @abstractmethod
    def prepare(self, config: Config, pretrained: Pretrained | None, processes: Processes) -> Prepared:
        """Load the data and build the model, from `pretrained` if there is one. Raises SettingError and DataError."""

    @abstractmethod
    def show_dry_run(self, prepared: Prepared) -> None:
        """Print an estimate of the run on standard output."""

    def fingerprints(self) -> dict[str, str]:
        """Return fingerprints of the files read besides the dataset, by the setting naming them. A resumed run compares
        them.
        """
        return {}

    def begin(self, prepared: Prepared) -> None:  # noqa: B027  most models are ready
        """Compute the model's initial weights, if building it did not: not in a dry run, nor with a checkpoint to
        resume from.

        Only the main process calls it. The others receive its weights when the model is distributed.
        """

    @abstractmethod
    def report(self, prepared: Prepared, fitted: Fitted, folder: RunFolder, trackers: Trackers) -> None:
        """Score the fitted model, save it, and write and show the report. All processes call it; the main one writes."""


def run_training(training: Training[Config], config: Config, processes: Processes) -> RunFolder | None:
    """Run `training.command`; return the finished run folder, or None for a dry run.

    Anything invalid is refused before the folder is created. Raises SettingError, DataError or TrainingError.
    """
    command = training.command
    run = processes.broadcast_from_main(lambda: continued_run(config, command))
    if run is None:
        processes.broadcast_from_main(lambda: check_free(config.run_dir))
    else:
        config, _ = run
    training.check(config)
    check_trackers(config.trackers)
    pretrained = (
        None if config.starts_from is None else _load_pretrained(config.starts_from, config.training, processes)
    )
    with processes.main_process_first():
        prepared = training.prepare(config, pretrained, processes)
    del pretrained  # its weights are as large as the model's, and no longer needed
    prepared = _settled(prepared)
    assembly, corpus, rows = prepared.assembly, prepared.corpus, prepared.rows
    if config.dry_run:
        return training.show_dry_run(prepared)
    config = replace(config, task=assembly.config.task, model=assembly.config.model, training=assembly.config.training)
    beside = training.fingerprints()
    with processes.entered_by_main(lambda: run_folder(run, config, command, corpus.fingerprints(), beside)) as folder:
        if processes.is_main:
            record_start(folder, command, config, assembly.compute, corpus, beside)
        _announce(prepared, folder)
        _begin(training, prepared, folder)
        named = config if processes.is_main else replace(config, trackers=[])
        with tracked(named, command, folder) as trackers:
            fitted = fit(assembly, rows["train"], rows.get("validation"), folder, trackers)
            training.report(prepared, fitted, folder, trackers)
    return folder


def _load_pretrained(init_from: str, training: TrainingConfig, processes: Processes) -> Pretrained:
    """Return the main process's pretrained encoder; for a model to be sharded, the others only need its weights'
    shapes.
    """
    if not is_sharded(training, processes):
        return processes.broadcast_from_main(lambda: load_pretrained(init_from))
    loaded: list[Pretrained] = []

    def shapes() -> Pretrained:
        loaded.append(load_pretrained(init_from))
        weights = {name: weight.to("meta") for name, weight in loaded[0].weights.items()}
        return replace(loaded[0], weights=weights)

    shared = processes.broadcast_from_main(shapes)
    return loaded[0] if loaded else shared


def refuse_endless(config: RunConfig) -> None:
    """Raise SettingError if a stream, which has no end, is to be read for a number of epochs."""
    if config.dataset.is_stream and config.training.steps is None and config.training.budget is None:
        raise SettingError(
            "dataset.streaming=true has no end, and neither training.steps nor training.budget is set",
            remedy="Set training.steps=100000, or training.budget=12h",
        )


def _settled(prepared: Prepared) -> Prepared:
    """Return the run with the settings decided that were left to its rows; see `Assembly.settled` and
    `fixed_by_validation`.
    """
    assembly = prepared.assembly.settled(prepared.rows["train"])
    training, validation = assembly.config.training, prepared.rows.get("validation")
    if validation is None or (fixed := fixed_by_validation(training, len(validation))) == training:
        return replace(prepared, assembly=assembly)
    few = f"{len(validation):,} validation row{'s' * (len(validation) != 1)}"
    print(
        f"{few}: too few to choose a checkpoint, so the last is kept, and training does not stop early "
        f"(training.min_validation_rows={training.min_validation_rows})",
        file=sys.stderr,
    )
    return replace(prepared, assembly=replace(assembly, config=replace(assembly.config, training=fixed)))


def _begin(training: Training, prepared: Prepared, folder: RunFolder) -> None:
    """Compute the initial weights on the main process, unless `folder` has a checkpoint, whose weights would replace
    them.
    """
    processes = prepared.assembly.processes
    if processes.broadcast_from_main(lambda: checkpoints(folder.checkpoints)):
        return
    with processes.main_process_first():  # the others wait with a message
        if processes.is_main:
            training.begin(prepared)


def _announce(prepared: Prepared, folder: RunFolder) -> None:
    """Print what is about to be trained, on which device, for how long, and where, in a short line each."""
    assembly, rows = prepared.assembly, prepared.rows
    epoch = "window" if isinstance(rows["train"], StreamedRows) else "epoch"
    length = length_in_words(assembly.config.training, len(rows["train"]), evaluated="validation" in rows, epoch=epoch)
    announce((f"{assembly.model.n_parameters:,} parameters", *assembly.choices, length, f"run folder {folder.root}"))
