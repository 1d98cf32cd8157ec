"""A search: runs whose settings Optuna draws, to score as high as possible on validation, never on test."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep

from encoderlab.config.composing import CommandLine, composed
from encoderlab.errors import SettingError, UserError
from encoderlab.metrics.scores import is_lower_better
from encoderlab.reports.predictions import as_csv
from encoderlab.reports.screen import show
from encoderlab.reports.tables import Items, Table
from encoderlab.runs.folder import JOURNAL, FolderInUseError, RunFolder
from encoderlab.sweeps.jobs import Jobs
from encoderlab.system.files import atomic_write_text

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

SEARCHED = ("train", "pretrain", "finetune", "distill")
SPLIT = "validation"
FAILURES_AT_FIRST = 3  # if no trial succeeded before them, the cause is something that all trials share


def search(line: CommandLine, jobs: Jobs, n_trials: int) -> None:
    """Run trials until the study has `n_trials`, and show all of them, the best first.

    The study is Optuna's journal in the sweep's folder: several processes may share it, and a trial that was left
    unfinished is resumed. Raises SettingError if there is nothing to search, or if the study has other values.
    """
    if line.command not in SEARCHED:
        raise SettingError(f"encoderlab {line.command} has nothing to search", allowed=f"one of {', '.join(SEARCHED)}")
    space, fixed = search_space(line)
    study = _study(jobs)
    for trial in [trial for trial in study.get_trials() if not trial.state.is_finished()]:
        _run(study, trial, replace(line, overrides=fixed), jobs)
    while len(study.get_trials(deepcopy=False)) < n_trials:
        _run(study, _ask(study, space), replace(line, overrides=fixed), jobs)
    _show(study, jobs, fixed)


def search_space(line: CommandLine) -> tuple[dict[str, BaseDistribution], list[str]]:
    """Return the distribution of each setting that is given several values, and the other settings.

    The values are written as Hydra writes them, interval(a,b), range(a,b,step) or a,b,c; log(a,b) is an interval of
    which each tenfold gets the same share. Raises SettingError if there is nothing to draw.
    """
    presets = [one for one in line.overrides if one.startswith(("sweep=", "hydra/launcher="))]
    if presets:
        raise SettingError(
            f"{presets[0]} does not work with trials", remedy="Start several processes with one sweep_dir"
        )
    sweeps = [override for override in line.parsed() if override.is_sweep_override()]
    if not sweeps:
        raise SettingError(
            "trials=... has nothing to search", remedy="Give a range, such as training.learning_rate=log(1e-5,1e-2)"
        )
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
            start, stop, step = values.start, values.stop, values.step
            if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
                return IntDistribution(start, stop - 1, step=step)
    except ValueError as error:
        raise SettingError(
            f"{override.input_line} cannot be searched: {error}", allowed="log(a,b) and interval(a,b) with a < b"
        ) from None
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
    """Draw a trial by the tree-structured Parzen estimator (Bergstra et al. 2011), seeded by the number of trials.

    Raises SettingError if the study was started with other lists of values or other kinds of ranges.
    """
    from optuna.samplers import TPESampler

    study.sampler = TPESampler(seed=len(study.get_trials(deepcopy=False)))
    try:
        trial = study.ask(space)
    except ValueError as error:
        raise SettingError(
            f"This search was started with other values: {error}", remedy="Set another sweep_dir"
        ) from None
    trial.set_user_attr("drawn", [f"{name}={value}" for name, value in trial.params.items()])
    return study.get_trials()[trial.number]


def _run(study: Study, trial: FrozenTrial, line: CommandLine, jobs: Jobs) -> None:
    """Run a trial, unless another process does, and report its score to the study."""
    from optuna.trial import TrialState

    overrides = [*line.overrides, *trial.user_attrs.get("drawn", [])]
    score = None
    if "drawn" in trial.user_attrs:
        try:
            settings = composed(replace(line, overrides=overrides))
            folder = jobs.run(settings, overrides, f"trial-{trial.number}")
            score = None if folder is None else score_of(folder)
        except FolderInUseError:
            return
        except UserError:  # it has been shown
            pass
    study.tell(trial.number, score, state=TrialState.FAIL if score is None else None, skip_if_finished=True)
    ended = [one for one in study.get_trials(deepcopy=False) if one.state.is_finished()]
    if len(ended) == FAILURES_AT_FIRST and all(one.value is None for one in ended):
        raise SettingError(
            f"The first {FAILURES_AT_FIRST} trials have all failed", remedy="Correct the errors shown above"
        )


def score_of(folder: RunFolder) -> float | None:
    """Return the main score of a finished run on validation, an error (as MAE) with a minus; None if it is no finite
    number.

    Raises SettingError if validation was not scored.
    """
    report = json.loads(folder.report.read_text(encoding="utf-8"))
    if SPLIT not in report["splits"]:
        raise SettingError(
            "A search needs validation rows to score trials",
            remedy="Hold some out with dataset.validation_fraction=0.1",
        )
    score = report["splits"][SPLIT][report["main_figure"]]
    return -score if score is not None and is_lower_better(report["main_figure"]) else score


def _show(study: Study, jobs: Jobs, fixed: Sequence[str]) -> None:
    """Print the trials, the best first, and the line that trains with its settings; write them to search.csv."""
    trials = sorted(study.get_trials(), key=lambda trial: (-_value(trial), trial.number))
    names = list(dict.fromkeys(name for trial in trials for name in trial.params))
    rows = []
    for trial in trials:
        values = [trial.params.get(name) for name in names]
        shown = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in values]
        rows.append([str(trial.number), "-" if trial.value is None else f"{trial.value:.4f}", *shown])
    lines = ([trial.number, trial.value, *(trial.params.get(name) for name in names)] for trial in trials)
    atomic_write_text(jobs.root / "search.csv", as_csv(["trial", SPLIT, *names], lines))
    show([Table(("trial", f"on {SPLIT}", *names), rows)])
    if trials and trials[0].value is not None:
        line = shlex.join(["encoderlab", jobs.command, *fixed, *trials[0].user_attrs["drawn"]])
        compare = f"encoderlab compare {shlex.quote(str(jobs.root))}"
        show([Items(f"Best on {SPLIT}", [line]), Items("Next", [compare])])
    print(f"{len(trials)} trials in {jobs.root}", file=sys.stderr)


def _value(trial: FrozenTrial) -> float:
    return float("-inf") if trial.value is None else trial.value
