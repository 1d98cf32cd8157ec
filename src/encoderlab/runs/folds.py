"""Cross-validation: a run for each fold of the training rows, inside one folder for all of them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from encoderlab.config.commands import AnyRunConfig, RunConfig
from encoderlab.data.data import Data
from encoderlab.data.examples import Folded
from encoderlab.data.selected import FEW_RANDOM, SELECTED, Reason
from encoderlab.reports import folds as reports
from encoderlab.reports.folds import OUT_OF_FOLD
from encoderlab.runs.opening import open_run
from encoderlab.runs.requested import RequestedRun
from encoderlab.runs.resume import HARDWARE
from encoderlab.runs.run import Run
from encoderlab.runs.summary import run_facts
from encoderlab.runs.tracking import check_trackers
from encoderlab.system.device import set_up_compute
from encoderlab.system.messages import print_lines
from encoderlab.system.processes import Processes, stop_if_interrupted

Train = Callable[[AnyRunConfig, Processes], Run | None]


def cross_validate(
    requested: RequestedRun, processes: Processes, train: Train[RunConfig], *, is_dry: bool = False
) -> Run | None:
    """Call `train` for each fold of the settings, and report all of them together; return the run of all.

    The `processes` share each fold, one fold after another.

    Of a cross-validation that is resumed, finished folds are kept. A dry run covers the first fold, and returns None.
    Raises SettingError, DataError or TrainingError.
    """
    config = replace(requested.config, dry_run=False)
    check_trackers(config)

    # All rows are read once, to know which fold each of them is in.
    with processes.main_process_first():
        data, folded = _whole(config)
    if is_dry:
        print_lines(f"{config.folds} folds take {config.folds} runs like this one, the first:")
        first = _settings_of_fold(config, 1, dry_run=True)
        return train(first, processes)

    # The folder of all folds records the hardware, too, and each fold sets it up again for itself.
    training = config.training
    compute = set_up_compute(
        training.device,
        training.precision.value,
        requested.threads,
        deterministic=training.deterministic,
        processes=processes,
    )
    with open_run(requested, config, data, compute, processes) as run:
        # What the frequencies of labels decide is the same in every fold.
        tested = data.survey[OUT_OF_FOLD]
        task, _ = config.task.settled(data.labels, tested, has_validation=True)
        if config.task.target != "label":
            task = config.task
        shared = replace(config, task=task)
        staying = replace(processes, stay=True)  # for the next fold

        # A run for each fold, in a folder inside this one. Finished ones are kept.
        runs = []
        for number in range(1, (config.folds or 0) + 1):
            runs.append(_fold_run(shared, run, number, train, staying))

        # The main process adds up the folds, for which it needs no other.
        processes.leave()
        if processes.is_main:
            report_folds(run, data, folded, runs)
    return run


def _whole(config: RunConfig) -> tuple[Data, Folded]:
    """Return all tested rows, as the only split, and the fold of each. Raises DataError for too few rows."""
    # Reading any fold divides the rows, so the first one tells where all of them are.
    data = replace(config.dataset, fold=f"1/{config.folds}").load(config.cache, config.task.target)
    assert data.folded is not None
    unused = data.origin["unused_test_rows"]
    if unused:
        print_lines(f"the test split ({unused:,} rows) is not used, because folds are made of the training rows")

    # For the record of the whole, the rows are one split, of which each row is predicted once.
    whole = Data({OUT_OF_FOLD: data.folded.whole}, data.labels, {**data.origin, "fold": None})
    return whole, data.folded


def _settings_of_fold(config: AnyRunConfig, number: int, **further: Any) -> AnyRunConfig:
    """Return the settings of one fold, of which nothing is resumed unless `further` settings say so."""
    dataset = replace(config.dataset, fold=f"{number}/{config.folds}")
    training = replace(config.training, measure=False)  # folds are compared, and added up
    own = {"folds": None, "dataset": dataset, "training": training, "run_dir": None, "resume": None}
    return replace(config, **own | further)


def _fold_run(config: AnyRunConfig, run: Run, number: int, train: Train[AnyRunConfig], processes: Processes) -> Run:
    """Return the finished run of a fold; an interrupted one is resumed with its own settings."""
    stop_if_interrupted(processes)
    fold_run = Run(run.fold(number))

    # All processes must skip the same folds, so the main one looks.
    finished = processes.broadcast_from_main(lambda: fold_run.finished)
    print_lines("", f"fold {number} of {config.folds}{f' is finished: {fold_run.folder}' if finished else ''}")
    if finished:
        return fold_run
    further: dict[str, Any] = {"run_dir": str(fold_run.folder)}
    has_begun = processes.broadcast_from_main(lambda: fold_run.config_file.is_file())
    if has_begun:
        # Only the hardware may be another one; everything else is as the fold was started.
        further |= {"resume": str(fold_run.folder), "overrides": sorted(HARDWARE)}
    train(_settings_of_fold(config, number, **further), processes)
    with processes.main_process_first():  # the others wait for its report
        return fold_run


def report_folds(run: Run, data: Data, folded: Folded, runs: Sequence[Run]) -> None:
    """Write predictions.csv, label_errors.csv (of labelled texts), report.html and report.json; show the scores."""
    # The scores of all folds together.
    rows = folded.whole
    labels = data.labels
    finished = []
    for fold_run in runs:
        learned = fold_run.record.environment["dataset"]["splits"]["train"]["rows"]
        finished.append(reports.Fold(fold_run.folder, fold_run.report, learned))
    report = reports.build_folds_report(finished, data.origin["unused_test_rows"] or 0)

    # The prediction for each row, by the fold that has not seen it. Rows drawn at random have a score of their own.
    where = list(map(rows.where, range(len(rows))))
    table = reports.out_of_fold_table([fold_run.predictions_file for fold_run in runs], folded.folds, where, labels)
    if rows.target == "label" and SELECTED in table:
        drawn = np.asarray(table[SELECTED] == Reason.random.value)
        if FEW_RANDOM <= drawn.sum() < len(drawn):
            reports.add_random_rows(report, table, drawn)

    # Labels that the predictions doubt.
    judged = rows.target in ("label", "label_set")
    to_check = reports.labels_to_check(table, labels, rows.target) if judged else None
    reports.write_folds_report(run.folder, report, run_facts(run), table, to_check)
    files = run.files("page", "report", "predictions", *["label_errors"] * judged)
    reports.show_folds_report(report, to_check, files)
