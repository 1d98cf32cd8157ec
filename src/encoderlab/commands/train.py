"""encoderlab train: trains an encoder from a config, and reports how good it is.

`train_once` is the whole story, also of `finetune`, `pretrain` and `distill`, which start from other weights, learn
from other rows or have a teacher.
"""

from __future__ import annotations

from dataclasses import replace

from encoderlab.config.commands import RunConfig
from encoderlab.runs.finish import finish
from encoderlab.runs.fit import dry_run
from encoderlab.runs.fit_best import fit_best
from encoderlab.runs.fit_branch import fit_linear
from encoderlab.runs.prepare import prepare
from encoderlab.runs.resume import folds_of
from encoderlab.runs.run import Run
from encoderlab.runs.scoring import score
from encoderlab.runs.tracking import track
from encoderlab.system.processes import SINGLE_PROCESS, Processes


def train(config: RunConfig, processes: Processes = SINGLE_PROCESS) -> Run | None:
    """Train, score, and write the run folder. Anything invalid is refused before the folder is created.

    With `config.dry_run` no folder is written; an estimate of the run is printed. The `processes` share the work.
    Raises SettingError, DataError or TrainingError, each with a remedy.
    """
    return run_training(config, processes)


def run_training(config: RunConfig, processes: Processes) -> Run | None:
    """Train a model, or one for each fold, and hand the run to its tracker; None for a dry run."""
    folds = folds_of(config, processes)
    if folds is None:
        run = train_once(config, processes)
    else:
        from encoderlab.runs.folds import cross_validate

        run = cross_validate(replace(config, folds=folds), processes, train_once)

    # The run is complete, whatever happens to a tracker. The runs of folds are not handed over.
    if run is not None and processes.is_main:
        track(run)
    return run


def train_once(config: RunConfig, processes: Processes) -> Run | None:
    """Train the model on one split of the rows, score it, and write its run folder; return None for a dry run."""
    # Read the data and the weights to start from, decide every open setting, build the model and the rows it reads.
    prepared = prepare(config, processes)
    if config.dry_run:
        dry_run(prepared.model, prepared.trained_on, prepared.rows)
        return None

    # From here on there is a run folder. It is complete when it has a report.
    with prepared.open_run() as run:
        prepared.announce(run)
        validation = prepared.rows.get("validation")
        result = fit_best(prepared.model, prepared.trained_on, validation, run, prepared.head_alone)
        linear = fit_linear(prepared.model, prepared.data, prepared.out_of_fold)
        scored = score(prepared.model, prepared.rows, linear)
        processes.leave()  # baselines and the report may take longer than the others would wait
        if processes.is_main:
            finish(run, prepared, scored, result)
    return run
