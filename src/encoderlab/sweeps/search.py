"""A search: jobs of a sweep whose settings Optuna draws, to score as high as possible on validation, never on test."""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep

from encoderlab.errors import SettingError
from encoderlab.metrics.scores import is_lower_better
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.folders.sweep import FINISHED, JobRecord
from encoderlab.sweeps.other_machines import wait_for_others
from encoderlab.sweeps.sweep import Sweep
from encoderlab.system.files import atomic_write_text

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

SEARCHED = ("train", "pretrain", "finetune", "distill")
SPLIT = "validation"
FAILURES_AT_FIRST = 3  # if none succeeded before them, the cause is something all trials share
_LOG = re.compile(r"=log\((.*)\)$")


def search(
    sweep: Sweep, arguments: Sequence[str], trials: int, run: Callable[[list[str], int], JobRecord | None]
) -> None:
    """Run trials until the sweep's folder has as many, wait for those that other processes run, and show all, the best
    first.

    `run` starts the job of a command line with a number. What other processes that search in the same folder have tried
    counts; a trial that was started and left is resumed. Raises SettingError if there is nothing to search, or if the
    search was started with other values.
    """
    if sweep.command not in SEARCHED:
        raise SettingError(f"encoderlab {sweep.command} has nothing to search", allowed=f"one of {', '.join(SEARCHED)}")
    space, fixed = search_space(arguments)
    study = _study(sweep)
    _refuse_other_values(study, space)
    for number in _unfinished(study):
        _run_trial(study, number, fixed, run)
    while len(study.get_trials(deepcopy=False)) < trials:
        _run_trial(study, _ask(study, space), fixed, run)
    since = time.monotonic()
    while left := _unfinished(study):
        for number in left:
            _run_trial(study, number, fixed, run, give_up=time.monotonic() - since > sweep.takeover_seconds)
        if _unfinished(study) and not wait_for_others(sweep):  # others are about to report theirs to the study
            time.sleep(sweep.claims.pause)
    _show(sweep, study, fixed)


def _unfinished(study: Study) -> list[int]:
    return [trial.number for trial in study.get_trials(deepcopy=False) if not trial.state.is_finished()]


def _run_trial(
    study: Study,
    number: int,
    fixed: Sequence[str],
    run: Callable[[list[str], int], JobRecord | None],
    *,
    give_up: bool = False,
) -> None:
    """Run a trial, unless another process does, and report its score to the study.

    One without values is left to the process that draws them, which may be dead: with `give_up`, the trial has failed.
    """
    drawn = study.get_trials(deepcopy=False)[number].user_attrs.get("drawn")
    record = None if drawn is None else run([*fixed, *drawn], number)
    if record is None and (drawn is not None or not give_up):
        return
    value = None
    if record is not None and record.state == FINISHED and record.folder is not None:
        value = score_of(RunFolder(record.folder))
    study.tell(number, value, state=None if value is not None else _failed(), skip_if_finished=True)
    _stop_if_hopeless(study)


def search_space(arguments: Sequence[str]) -> tuple[dict[str, BaseDistribution], list[str]]:
    """Return the distribution of each setting that is given several values, and the other arguments.

    The values are written as Hydra writes them, interval(a,b), range(a,b,step) or a,b,c; log(a,b) is an interval of
    which each tenfold gets the same share. Raises SettingError if there is nothing to draw.
    """
    parser, space, fixed = OverridesParser.create(), {}, []
    for argument in arguments:
        if argument.startswith("-"):
            fixed.append(argument)
            continue
        override = parser.parse_override(_LOG.sub(r"=tag(log,interval(\1))", argument))
        if override.is_sweep_override():
            space[override.get_key_element()] = _distribution(override, argument)
        else:
            fixed.append(argument)
    presets = [argument for argument in fixed if argument.startswith(("sweep=", "hydra/launcher="))]
    if presets:
        raise SettingError(
            f"{presets[0]} does not work with trials",
            remedy="Give ranges to search, such as training.learning_rate=log(1e-5,1e-2); several processes with one "
            "sweep_dir= share a search",
        )
    if not space:
        raise SettingError(
            "trials=... has nothing to search", remedy="Give a range, such as training.learning_rate=log(1e-5,1e-2)"
        )
    return space, fixed


def _distribution(override: Override, argument: str) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    values = override.value()
    try:
        if isinstance(values, IntervalSweep):
            kind = (
                IntDistribution if isinstance(values.start, int) and isinstance(values.end, int) else FloatDistribution
            )
            bounds: Any = (values.start, values.end)
            return kind(*bounds, log="log" in values.tags)
        parts = (values.start, values.stop, values.step) if isinstance(values, RangeSweep) else ()
        if len(whole := [part for part in parts if isinstance(part, int)]) == 3:
            return IntDistribution(whole[0], whole[1] - 1, step=whole[2])
    except ValueError as error:
        raise SettingError(
            f"{argument} cannot be searched: {error}", allowed="log(a,b) and interval(a,b) with a < b"
        ) from None
    return CategoricalDistribution(list(override.sweep_string_iterator()))


def _study(sweep: Sweep) -> Study:
    """Return the study with its journal in the sweep's folder. Raises SettingError if Optuna is not installed."""
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        raise SettingError("trials=... needs Optuna", remedy="Run pip install 'encoderlab[optuna]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sweep.folder.root.mkdir(parents=True, exist_ok=True)
    storage = JournalStorage(JournalFileBackend(str(sweep.folder.trials)))
    return optuna.create_study(storage=storage, study_name=sweep.command, direction="maximize", load_if_exists=True)


def _refuse_other_values(study: Study, space: dict[str, BaseDistribution]) -> None:
    """Raise SettingError if `space` has what the study cannot go on with: of another kind, or another list of values."""
    from optuna.distributions import check_distribution_compatibility

    previous = {
        name: values for trial in study.get_trials(deepcopy=False) for name, values in trial.distributions.items()
    }
    for name in sorted(previous.keys() & space.keys()):
        try:
            check_distribution_compatibility(previous[name], space[name])
        except ValueError:
            typed = _written(name, previous[name])
            raise SettingError(
                f"This search was started with {typed}, and cannot continue with {_written(name, space[name])}",
                remedy=f"Set {shlex.quote(typed)}, or another sweep_dir",
            ) from None


def _written(name: str, values: BaseDistribution) -> str:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(values, CategoricalDistribution):
        return f"{name}={','.join(map(str, values.choices))}"
    assert isinstance(values, IntDistribution | FloatDistribution)
    low, high = (int(end) if end == int(end) else end for end in (values.low, values.high))
    if isinstance(values, FloatDistribution):
        return f"{name}={'log' if values.log else 'interval'}({low},{high})"
    if values.log:
        return f"{name}=tag(log,int(interval({low},{high})))"
    return f"{name}=range({low},{high + 1})" if values.step == 1 else f"{name}=range({low},{high + 1},{values.step})"


def _ask(study: Study, space: dict[str, BaseDistribution]) -> int:
    """Draw a trial by the tree-structured Parzen estimator (Bergstra et al. 2011), seeded by the trial's number.

    Its number is known first: processes that ask at the same moment draw different values.
    """
    from optuna.samplers import TPESampler

    trial = study.ask()
    study.sampler = TPESampler(seed=trial.number)
    drawn = {name: _suggested(trial, name, values) for name, values in space.items()}
    trial.set_user_attr("drawn", [f"{name}={value}" for name, value in drawn.items()])
    return trial.number


def _suggested(trial: Trial, name: str, values: BaseDistribution) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(values, CategoricalDistribution):
        return trial.suggest_categorical(name, values.choices)
    if isinstance(values, IntDistribution):
        return trial.suggest_int(name, values.low, values.high, step=values.step, log=values.log)
    assert isinstance(values, FloatDistribution)
    return trial.suggest_float(name, values.low, values.high, step=values.step, log=values.log)


def _failed() -> Any:
    from optuna.trial import TrialState

    return TrialState.FAIL


def score_of(folder: RunFolder) -> float | None:
    """Return the main figure of a finished run on validation, an error (as MAE) with a minus; None if it is no finite
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


def _stop_if_hopeless(study: Study) -> None:
    ended = [trial for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()]
    if len(ended) == FAILURES_AT_FIRST and all(trial.value is None for trial in ended):
        raise SettingError(
            f"The first {FAILURES_AT_FIRST} trials have all failed", remedy="Correct the errors shown above"
        )


def _show(sweep: Sweep, study: Study, fixed: Sequence[str]) -> None:
    """Print the trials, the best first, and the line that trains with its settings; write them to search.csv."""
    from encoderlab.reports.predictions import as_csv
    from encoderlab.reports.screen import show
    from encoderlab.reports.tables import Items, Table

    trials = sorted(study.get_trials(), key=lambda trial: (-_value(trial), trial.number))
    names = list(dict.fromkeys(name for trial in trials for name in trial.params))
    rows = [
        [str(trial.number), "-" if trial.value is None else f"{trial.value:.4f}", *_drawn(trial, names)]
        for trial in trials
    ]
    lines = ([trial.number, trial.value, *(trial.params.get(name) for name in names)] for trial in trials)
    atomic_write_text(sweep.folder.root / "search.csv", as_csv(["trial", SPLIT, *names], lines))
    show([Table(("trial", f"on {SPLIT}", *names), rows)])
    if trials and trials[0].value is not None:
        line = shlex.join(["encoderlab", sweep.command, *fixed, *trials[0].user_attrs["drawn"]])
        compare = f"encoderlab compare {shlex.quote(str(sweep.folder.root))}"
        show([Items(f"Best on {SPLIT}", [line]), Items("Next", [compare])])
    print(f"{len(trials)} trials in {sweep.folder.root}", file=sys.stderr)


def _value(trial: FrozenTrial) -> float:
    return float("-inf") if trial.value is None else trial.value


def _drawn(trial: FrozenTrial, names: Sequence[str]) -> list[str]:
    values = [trial.params.get(name) for name in names]
    return [f"{value:.4g}" if isinstance(value, float) else str(value) for value in values]
