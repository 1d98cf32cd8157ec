"""A search: Optuna draws the settings of each trial, which is scored on validation and never on test."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep

from encoderlab.apps.comparing.jobs import Jobs, made_comparable, say, set_by_sweep
from encoderlab.config import TRAINING_COMMANDS
from encoderlab.config.composing import CommandLine, composed
from encoderlab.errors import SettingError, TrainingError, UserError
from encoderlab.metrics.scores import is_lower_better
from encoderlab.reports.blocks import Items, Table, show
from encoderlab.runs.run import JOURNAL, FolderInUseError, Run
from encoderlab.system.files import atomic_write_text

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

SPLIT = "validation"


def search(line: CommandLine, jobs: Jobs, n_trials: int) -> None:
    """Run trials until the study has `n_trials`, and show all of them, the best first.

    The study is Optuna's journal in the sweep's folder: several processes may share it, and a trial that was left
    unfinished is resumed. Raises SettingError if there is nothing to search, or if the study has other values, and
    TrainingError if no trial has a score.
    """
    if line.command not in TRAINING_COMMANDS:
        commands = ", ".join(TRAINING_COMMANDS)
        raise SettingError(f"encoderlab {line.command} has nothing to search", allowed=f"one of {commands}")
    # What is searched, and what was tried before: the journal in the sweep's folder remembers.
    space, fixed = search_space(line)
    study = _study(jobs)

    def run(trial: FrozenTrial) -> None:
        drawn = trial.user_attrs.get("drawn", [])
        _run(study, trial, replace(line, overrides=[*fixed, *drawn]), jobs)

    # Unfinished trials come first, then new ones.
    for trial in [trial for trial in study.get_trials() if not trial.state.is_finished()]:
        run(trial)
    while len(study.get_trials(deepcopy=False)) < n_trials:
        run(_ask(study, space))
    _show(study, jobs, fixed)
    if not any(trial.value is not None for trial in study.get_trials(deepcopy=False)):
        raise TrainingError("No trial has a score", remedy="See the lines above")


def search_space(line: CommandLine) -> tuple[dict[str, BaseDistribution], list[str]]:
    """Return the distribution of each setting that is given several values, and the other settings.

    The values are written as Hydra writes them, interval(a,b), range(a,b,step) or a,b,c; log(a,b) is an interval of
    which each tenfold gets the same share. Raises SettingError if there is nothing to draw.
    """
    presets = [override for override in line.overrides if override.startswith(("sweep=", "hydra/launcher="))]
    if presets:
        remedy = "Start several processes with one sweep_dir"
        raise SettingError(f"{presets[0]} does not work with trials", remedy=remedy)
    sweeps = [override for override in line.parsed() if override.is_sweep_override()]
    if not sweeps:
        remedy = "Give a range, such as training.learning_rate=log(1e-5,1e-2)"
        raise SettingError("trials=... has nothing to search", remedy=remedy)
    space = {override.get_key_element(): _distribution(override) for override in sweeps}
    return space, [override.input_line or "" for override in line.parsed() if override not in sweeps]


def _distribution(override: Override) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    values = override.value()
    try:
        if isinstance(values, IntervalSweep):
            whole = isinstance(values.start, int) and isinstance(values.end, int)
            bounds: Any = (values.start, values.end)
            return (IntDistribution if whole else FloatDistribution)(*bounds, log="log" in values.tags)
        if isinstance(values, RangeSweep):
            start = values.start
            stop = values.stop
            step = values.step
            if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
                return IntDistribution(start, stop - 1, step=step)
    except ValueError as error:
        raise SettingError(f"{override.input_line} cannot be searched: {error}") from None
    return CategoricalDistribution(list(override.sweep_string_iterator()))


def _study(jobs: Jobs) -> Study:
    """Return the study with its journal in the sweep's folder. Raises SettingError if Optuna is not installed."""
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        raise SettingError("trials=... needs Optuna", remedy="Run pip install 'encoderlab[optuna]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    jobs.root.mkdir(parents=True, exist_ok=True)
    storage = JournalStorage(JournalFileBackend(str(jobs.root / JOURNAL)))
    return optuna.create_study(storage=storage, study_name=jobs.command, direction="maximize", load_if_exists=True)


def _ask(study: Study, space: dict[str, BaseDistribution]) -> FrozenTrial:
    """Draw a trial by the multivariate tree-structured Parzen estimator (Bergstra et al. 2011; Falkner et al. 2018),
    seeded by the number of trials.

    Optuna 5 changed the defaults of both settings, so they are named: a seed means the same in every version. Trials
    that other processes are running count as bad ones, so that nobody draws the same. Raises SettingError if the study
    was started with other lists of values or other kinds of ranges.
    """
    from optuna.samplers import TPESampler

    seed = len(study.get_trials(deepcopy=False))
    with warnings.catch_warnings(action="ignore"):  # before Optuna 5 both were called experimental
        study.sampler = TPESampler(seed=seed, multivariate=True, constant_liar=True)
    try:
        trial = study.ask(space)
    except ValueError as error:
        problem = f"This search was started with other values: {error}"
        raise SettingError(problem, remedy="Set another sweep_dir") from None
    trial.set_user_attr("drawn", [f"{name}={value}" for name, value in trial.params.items()])
    return study.get_trials()[trial.number]


def _run(study: Study, trial: FrozenTrial, line: CommandLine, jobs: Jobs) -> None:
    """Run a trial with the settings of `line`, unless another process does, and report its score to the study."""
    from optuna.trial import TrialState

    score = None
    if "drawn" in trial.user_attrs:
        shown = " ".join([f"trial {trial.number}:", *trial.user_attrs["drawn"]])
        try:
            requested = composed(line)
            settings = made_comparable(requested, jobs.varied)
            overrides = [*line.overrides, *set_by_sweep(requested, settings)]
            folder = jobs.run(settings, overrides, f"trial-{trial.number}", shown)
        except FolderInUseError:
            return
        except UserError as error:
            say(f"{shown}: failed: {error}")
            folder = None
        score = None if folder is None else score_of(folder)
    study.tell(trial.number, score, state=TrialState.FAIL if score is None else None, skip_if_finished=True)


def score_of(folder: Run) -> float | None:
    """Return the main score of a finished run on validation, an error (as MAE) with a minus; None if it is no finite
    number.

    Raises SettingError if validation was not scored.
    """
    report = folder.report
    if SPLIT not in report["splits"]:
        problem = "A search needs validation rows to score trials"
        raise SettingError(problem, remedy="Hold some out with dataset.validation_fraction=0.1")
    score = report["splits"][SPLIT][report["main_score"]]
    return -score if score is not None and is_lower_better(report["main_score"]) else score


def _show(study: Study, jobs: Jobs, fixed: Sequence[str]) -> None:
    """Print the trials, the best first, and the line that trains with its settings; write them to search.csv."""
    table = study.trials_dataframe(("number", "value", "params")).sort_values("value", ascending=False)
    names = [name.removeprefix("params_") for name in table.columns[2:]]
    table.columns = ["trial", SPLIT, *names]
    atomic_write_text(jobs.root / "search.csv", table.to_csv(index=False))
    shown = [[f"{value:.4g}" if isinstance(value, float) else str(value) for value in row] for row in table.values]
    show([Table(("trial", f"on {SPLIT}", *names), shown)])
    if table[SPLIT].notna().any():
        best = shlex.join(["encoderlab", jobs.command, *fixed, *study.best_trial.user_attrs["drawn"]])
        compare = f"encoderlab compare {shlex.quote(str(jobs.root))}"
        show([Items(f"Best on {SPLIT}", [best]), Items("Next", [compare])])
    print(f"{len(table)} trials in {jobs.root}", file=sys.stderr)
