"""Cross-validation: a run for each fold of the training rows, inside one folder for all of them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from encoderlab.config.commands import RunConfig
from encoderlab.data.examples import Folded, Splits
from encoderlab.data.survey import survey
from encoderlab.reports import folds as reports
from encoderlab.reports.folds import OUT_OF_FOLD
from encoderlab.runs import records
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.records import Config
from encoderlab.runs.task import resolve_labels
from encoderlab.system.device import choose_compute
from encoderlab.system.processes import Processes, stop_if_interrupted

Train = Callable[[Config, str, Processes], RunFolder | None]


def cross_validate(config: Config, command: str, processes: Processes, train: Train[Config]) -> RunFolder | None:
    """Call `train` for each of `config.folds` folds, and report all of them together; return the folder of all.

    The `processes` share each fold, one fold after another.

    An unfinished cross-validation resumes if `config.resume` or `config.run_dir` names it: finished folds are kept. A
    dry run covers the first fold, and returns None. Raises SettingError, DataError or TrainingError.
    """
    assert config.folds is not None
    resume = config.resume or (records.AUTO if config.run_dir is not None else None)
    named = replace(config, resume=resume, dry_run=False)
    settings, beginning = records.beginning_of(named, command, processes)
    if beginning.resumed is not None:
        config = replace(settings, dry_run=config.dry_run)
    with processes.main_process_first():
        corpus, folded = _whole(config)
    if config.dry_run:
        records.announce(f"{config.folds} folds take {config.folds} runs like this one, the first:")
        return train(_of_fold(config, 1, run_dir=None), command, processes)
    with processes.entered_by_main(lambda: records.run_folder(beginning, config, command, corpus)) as folder:
        if processes.is_main:
            training = config.training
            hardware = (training.device, training.precision.value, training.threads)
            compute = choose_compute(*hardware, deterministic=training.deterministic)
            records.record_start(folder, command, config, compute, corpus, beginning.composed)
        labels = corpus.survey[OUT_OF_FOLD].labels
        config = replace(config, task=resolve_labels(config.task, corpus.labels, labels))  # the same in every fold
        staying = replace(processes, stay=True)  # for the next fold
        numbers = range(1, (config.folds or 0) + 1)
        runs = [_fold_run(config, command, folder, number, train, staying) for number in numbers]
        processes.leave()
        if processes.is_main:
            report_folds(folder, command, corpus, folded, runs)
    return folder


def _whole(config: RunConfig) -> tuple[Corpus, Folded]:
    """Return all tested rows, as the only split, and the fold of each. Raises DataError for too few rows."""
    splits = replace(config.dataset, fold=f"1/{config.folds}").load(config.cache, config.task.target)
    assert splits.folded is not None
    if unused := splits.origin["unused_test_rows"]:
        records.announce(f"the test split ({unused:,} rows) is not used, because folds are made of the training rows")
    whole = Splits({OUT_OF_FOLD: splits.folded.rows}, splits.labels, {**splits.origin, "fold": None})
    return Corpus(whole, survey(whole), config.cache), splits.folded


def _of_fold(config: Config, number: int, run_dir: str | None) -> Config:
    dataset = replace(config.dataset, fold=f"{number}/{config.folds}")
    return replace(config, folds=None, dataset=dataset, run_dir=run_dir, resume=None)


def _fold_run(
    config: Config, command: str, folder: RunFolder, number: int, train: Train[Config], processes: Processes
) -> RunFolder:
    """Return the finished run of a fold; an interrupted one is resumed with its own settings."""
    stop_if_interrupted(processes)
    place = RunFolder(folder.fold(number))
    finished = processes.broadcast_from_main(lambda: place.finished)
    records.announce("", f"fold {number} of {config.folds}{f' is finished: {place.root}' if finished else ''}")
    if finished:
        return place
    settings = _of_fold(config, number, run_dir=str(place.root))

    def resumed() -> Config:
        if not place.config.is_file():
            return settings
        run = records.run_to_resume(replace(settings, resume=str(place.root)), command, records.HARDWARE)
        return settings if run is None else run[0]

    train(processes.broadcast_from_main(resumed), command, processes)
    with processes.main_process_first():  # the others wait for its report
        return place


def report_folds(folder: RunFolder, command: str, corpus: Corpus, folded: Folded, runs: Sequence[RunFolder]) -> None:
    """Write predictions.csv, label_errors.csv (of labelled texts), report.html and report.json; show the scores."""
    rows, labels = folded.rows, corpus.labels
    finished = []
    for run in runs:
        report, started = (json.loads(path.read_text(encoding="utf-8")) for path in (run.report, run.environment))
        finished.append(reports.Fold(run.root, report, started["dataset"]["splits"]["train"]["rows"]))
    report = reports.build_folds_report(finished, corpus.splits.origin["unused_test_rows"] or 0)
    where = list(map(rows.where, range(len(rows))))
    table = reports.out_of_fold_table([run.predictions for run in runs], folded.folds, where, labels)
    judged = rows.target in ("label", "label_set")
    to_check = reports.labels_to_check(table, labels, rows.target) if judged else None
    reports.write_folds_report(folder.root, report, records.run_facts(folder, command), table, to_check)
    files = records.files_of(folder, "page", "report", "predictions", *["label_errors"] * judged)
    reports.show_folds_report(report, to_check, files)
