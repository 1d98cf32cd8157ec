"""Cross-validation: a run for each fold of the training rows, inside one folder for all of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from encoderlab.config.commands import OpenRunConfig, RunConfig
from encoderlab.data.examples import Folded, Splits, WordsExample
from encoderlab.data.survey import survey
from encoderlab.reports.folds import (
    OUT_OF_FOLD,
    Fold,
    build_folds_report,
    check_labels,
    out_of_fold_table,
    show_folds_report,
    write_folds_report,
)
from encoderlab.runs.assembly import cache_folder, reopen
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.predict import answers_of
from encoderlab.runs.records import files_of, record_start, resumed_or_new, run_facts
from encoderlab.runs.resume import AUTO, HARDWARE, Config, run_folder, with_recorded_settings
from encoderlab.runs.task import with_positive_label
from encoderlab.system.device import choose_compute
from encoderlab.system.processes import Processes
from encoderlab.system.signals import stop_if_interrupted

Train = Callable[[Config, str, Processes], RunFolder | None]


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """A cross-validation with all folds trained: its settings and rows, and a finished run for each fold."""

    config: RunConfig
    command: str
    corpus: Corpus
    folded: Folded
    folder: RunFolder
    runs: Sequence[RunFolder]


def cross_validate(config: Config, command: str, processes: Processes, train: Train[Config]) -> RunFolder | None:
    """Call `train` for each of `config.folds` folds, and report all of them together; return the folder of all.

    The `processes` share each fold, one fold after another.

    An unfinished cross-validation resumes if `config.resume` or `config.run_dir` names it: finished folds are kept. A
    dry run covers the first fold, and returns None. Raises SettingError, DataError or TrainingError.
    """
    assert config.folds is not None
    named = replace(config, resume=config.resume or (AUTO if config.run_dir is not None else None), dry_run=False)
    settings, resumed = resumed_or_new(named, command, processes)
    if resumed is not None:
        config = replace(settings, dry_run=config.dry_run)
    with processes.main_process_first():
        corpus, folded = _whole(config)
    if config.dry_run:
        print(f"folds={config.folds} takes {config.folds} runs like this one, the first:", file=sys.stderr)
        return train(_of_fold(config, 1, run_dir=None), command, processes)
    with processes.entered_by_main(
        lambda: run_folder(resumed and (config, resumed), config, command, corpus.fingerprints())
    ) as folder:
        if processes.is_main:
            _record_start(folder, command, config, corpus)
        labels = corpus.survey.splits[OUT_OF_FOLD].labels
        config = replace(config, task=with_positive_label(config.task, corpus.labels, labels))  # the same in every fold
        staying = replace(processes, stay=True)  # for the next fold
        runs = [
            _fold_run(config, command, folder, number, train, staying) for number in range(1, (config.folds or 0) + 1)
        ]
        processes.leave()
        if processes.is_main:
            report_folds(CrossValidation(config, command, corpus, folded, folder, runs))
    return folder


def _record_start(folder: RunFolder, command: str, config: RunConfig, corpus: Corpus) -> None:
    training = config.training
    compute = choose_compute(
        training.device, training.precision.value, training.threads, deterministic=training.deterministic
    )
    record_start(folder, command, config, compute, corpus)


def _whole(config: RunConfig) -> tuple[Corpus, Folded]:
    """Return all tested rows, as the only split of a corpus, and the fold of each. Raises DataError if folds cannot be
    made.
    """
    cache = cache_folder(config.cache_dir)
    splits = replace(config.dataset, fold=f"1/{config.folds}").load(cache, config.task.target)
    assert splits.folded is not None
    if unused := splits.origin["unused_test_rows"]:
        print(
            f"The test split ({unused:,} rows) is not used, because folds are made of the training rows",
            file=sys.stderr,
        )
    whole = Splits({OUT_OF_FOLD: splits.folded.rows}, splits.labels, {**splits.origin, "fold": None})
    return Corpus(whole, survey(whole), cache), splits.folded


def _of_fold(config: Config, number: int, run_dir: str | None) -> Config:
    dataset = replace(config.dataset, fold=f"{number}/{config.folds}")
    return replace(config, folds=None, dataset=dataset, run_dir=run_dir, resume=None)


def _fold_run(
    config: Config, command: str, folder: RunFolder, number: int, train: Train[Config], processes: Processes
) -> RunFolder:
    """Return the finished run of a fold: a finished one is kept, an interrupted one is resumed with its own
    settings.
    """
    stop_if_interrupted(processes)
    place = RunFolder(folder.fold(number))
    of = f"fold {number} of {config.folds}"
    if processes.broadcast_from_main(lambda: place.finished):
        print(f"\nencoderlab: {of} is finished: {place.root}", file=sys.stderr)
        return place
    print(f"\nencoderlab: {of}", file=sys.stderr)
    settings = _of_fold(config, number, run_dir=str(place.root))

    def resumed() -> Config:
        if not place.config.is_file():
            return settings
        return with_recorded_settings(replace(settings, resume=str(place.root)), HARDWARE, command)

    train(processes.broadcast_from_main(resumed), command, processes)
    with processes.main_process_first():  # the others wait for its report
        return place


def report_folds(folds: CrossValidation) -> None:
    """Write predictions.csv, label_errors.csv, report.html and report.json, and show the scores."""
    rows, labels = folds.folded.rows, folds.corpus.labels
    report = build_folds_report(list(map(_finished, folds.runs)), folds.corpus.splits.origin["unused_test_rows"] or 0)
    where = list(map(rows.where, range(len(rows))))
    table = out_of_fold_table([run.predictions for run in folds.runs], folds.folded.folds, where, labels)
    of_words = _word_probabilities(folds) if isinstance(rows[0], WordsExample) else None
    checked = check_labels(table, labels, rows.target, of_words)
    write_folds_report(folds.folder.root, report, run_facts(folds.folder, folds.command), table, checked)
    files = files_of(folds.folder, "page", "report", "predictions", "label_errors")
    show_folds_report(report, checked, files)


def _finished(run: RunFolder) -> Fold:
    records = [json.loads(path.read_text(encoding="utf-8")) for path in (run.report, run.environment)]
    return Fold(run.root, records[0], records[1]["dataset"]["splits"]["train"]["rows"])


def _word_probabilities(folds: CrossValidation) -> Iterator[np.ndarray]:
    """Yield the out-of-fold probabilities of each row's words, [words, labels], in the rows' order; truncated words
    have none.

    Runs do not record them: each fold's model is opened, and predicts its rows again. Raises DataError if a model is
    damaged.
    """
    config, training = folds.config, folds.config.training
    hardware = {"device": training.device, "precision": training.precision, "threads": training.threads}
    of_row: dict[int, np.ndarray] = {}
    for number, run in enumerate(folds.runs, start=1):
        stop_if_interrupted()
        assembly = reopen(OpenRunConfig(cache_dir=config.cache_dir, run=str(run.root), **hardware))
        assert assembly.task.labels == folds.corpus.labels
        rows = np.flatnonzero(folds.folded.folds == number).tolist()
        for row, answer in zip(rows, answers_of(assembly, list(folds.folded.rows.take(rows))), strict=True):
            assert answer.word_probabilities is not None
            of_row[row] = answer.word_probabilities
    yield from (of_row[row] for row in range(len(folds.folded.rows)))
