"""Many runs from one command line: every combination of values, by Hydra's sweeper and launchers, or a search whose
settings Optuna draws, scored on validation and never on test; and then a table of all runs.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
import traceback
import uuid
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep
from omegaconf import DictConfig

from encoderlab.apps.comparing.comparison import build_comparison, setting_value
from encoderlab.apps.comparing.comparison_page import show_comparison, write_comparison
from encoderlab.apps.comparing.finished_runs import finished_runs
from encoderlab.config import TRAINING_COMMANDS
from encoderlab.config.composing import CommandLine, composed, quote, run_hydra, settings_of
from encoderlab.config.earlier_run import EXPERIMENT
from encoderlab.config.schemas import settings_to_dict
from encoderlab.errors import DataError, SettingError, TrainingError, UserError, one_line
from encoderlab.metrics.scores import is_lower_better
from encoderlab.reports.blocks import Items, Table, show
from encoderlab.reports.wording import counted
from encoderlab.runs.resume import LOGGING
from encoderlab.runs.run import JOURNAL, FolderInUseError, Run, is_sweep, runs_in
from encoderlab.settings import flat_settings
from encoderlab.system.device import available_cores, precision_here
from encoderlab.system.files import atomic_write_text
from encoderlab.system.processes import Interrupted, deferred, signals_handled
from encoderlab.system.records import json_of
from encoderlab.training.config import Precision

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

MULTIRUN = Path("outputs") / "multirun"
PARALLEL = "hydra/launcher=parallel"
N_JOBS = "hydra.launcher.n_jobs="
LONGEST_NAME = 100  # characters of a folder's name that name the settings
SPLIT = "validation"
COMPARED = (*TRAINING_COMMANDS, "eval")  # commands whose runs the table at the end compares
LOGS = "logs"  # a folder of the sweep
OF_NETWORK = {"model", "training"}  # groups of settings
CHANGE_WIDTH = {"model", "model.d_model", "init_from", "experiment"}  # settings that may change the width


def sweep(line: CommandLine, start: Callable[[Any, Sequence[str]], None]) -> None:
    """Run every combination of the values given, or the trials of a search.

    `start` runs the command with one job's settings and overrides. Raises UserError, with the exit code of the first
    job that failed, when all others have run.
    """
    assert line.sweep is not None
    trials = line.sweep.trials
    parsed = line.parsed()
    dry = any(override.key_or_group == "dry_run" and override.value() is True for override in parsed)
    if dry and trials is not None:
        raise SettingError("dry_run=true gives no score to search by", remedy="Remove trials or dry_run")
    varied = [override.key_or_group for override in parsed if override.is_sweep_override()]
    with _folder(line.sweep.sweep_dir, dry=dry) as root:
        if line.command in COMPARED and not dry:
            say(f"a line for each job follows; what they print besides is in {root / LOGS}")
        jobs = Jobs(line, root, start, varied, dry)
        try:
            if trials is not None:
                search(line, jobs, trials)
            else:
                _combine(line, jobs)
        except UserError:  # about the jobs that failed; the others have run
            _finish(jobs, compared=trials is None)
            raise
        except Interrupted:
            searched = [] if trials is None else [f"trials={trials}"]
            words = ["encoderlab", line.command, "-m", *line.typed(line.overrides), *searched, f"sweep_dir={root}"]
            if not dry:
                print(f"Finished runs are not repeated. Resume with: {shlex.join(words)}", file=sys.stderr)
            raise
        _finish(jobs, compared=trials is None)


@contextmanager
def _folder(sweep_dir: str | None, *, dry: bool) -> Iterator[Path]:
    """Open the folder of a sweep, a temporary one if its jobs are `dry` runs.

    Raises SettingError if `sweep_dir` holds something else.
    """
    if dry:
        with tempfile.TemporaryDirectory(prefix="encoderlab-dry-sweep-") as folder:
            yield Path(folder)
        return
    new = MULTIRUN / f"{time.strftime('%Y-%m-%d_%H-%M-%S')}-{uuid.uuid4().hex[:6]}"
    root = new if sweep_dir is None else Path(sweep_dir)
    if root.is_file() or (root.is_dir() and any(root.iterdir()) and not is_sweep(root)):
        allowed = "a new or empty folder, or a sweep to resume"
        raise SettingError(f"sweep_dir={sweep_dir} is not a sweep", allowed=allowed)
    yield root


def _combine(line: CommandLine, jobs: Jobs) -> None:
    """Let Hydra's sweeper and launcher run a job for each combination."""
    overrides = [*line.overrides, f"hydra.sweep.dir={quote(str(jobs.root))}"]
    if PARALLEL in overrides and not any(override.startswith(N_JOBS) for override in overrides):
        overrides.append(f"{N_JOBS}{torch.cuda.device_count() or available_cores()}")
    in_workers = PARALLEL in overrides  # they get Ctrl-C too, save, and then end this process
    jobs.failures_file.unlink(missing_ok=True)  # of an earlier start
    try:
        with deferred("each job saves after its step") if in_workers else nullcontext():
            run_hydra(replace(line, overrides=overrides), jobs)
    except BrokenProcessPool:
        problem = (
            "A process of this sweep was killed, perhaps because memory ran out, which ended the other running jobs"
        )
        remedy = f"Repeat the line with sweep_dir={jobs.root}, and {N_JOBS}1 to run one job at a time"
        raise TrainingError(problem, remedy=remedy) from None
    _refuse_failures(jobs)


def _refuse_failures(jobs: Jobs) -> None:
    """Raise UserError, with the exit code of the first one, if jobs have failed; the reason of each has been shown."""
    if not jobs.failures_file.is_file():
        return
    failures = [json.loads(line) for line in jobs.failures_file.read_text(encoding="utf-8").splitlines()]
    jobs.failures_file.unlink()
    names = "; ".join(failure["job"] for failure in failures)
    problem = f"{counted(len(failures), 'job')} failed, for the reasons above: {names}"
    again = "" if jobs.dry else f", or repeat the line with sweep_dir={jobs.root}: finished jobs are not repeated"
    error = UserError(problem, remedy=f"Correct the settings{again}")
    error.exit_code = failures[0]["exit_code"]
    raise error


def _finish(jobs: Jobs, *, compared: bool) -> None:
    """Show and write the comparison of all finished runs; delete the folder if there is no run."""
    runs = runs_in(jobs.root) if jobs.root.is_dir() else []
    if not runs and not jobs.dry:
        shutil.rmtree(jobs.root, ignore_errors=True)
        if jobs.root.parent == MULTIRUN:
            with suppress(OSError):  # they hold something else
                MULTIRUN.rmdir()
                MULTIRUN.parent.rmdir()
    if compared and jobs.command in COMPARED and any(Run(run).finished for run in runs):
        try:
            comparison = build_comparison(finished_runs(runs)[0])
            show_comparison(comparison, write_comparison(jobs.root, comparison))
        except (DataError, SettingError) as error:
            print(f"encoderlab: the runs are not compared: {error}", file=sys.stderr)


@dataclass
class Jobs:
    """Runs the command of a `line` in the sweep's folder `root` for one combination after another.

    `start` runs the command with its settings and the overrides that gave them. `varied` names the settings that differ
    between jobs. Hydra's launchers send this to their workers. `dry`: nothing is written.
    """

    line: CommandLine
    root: Path
    start: Callable[[Any, Sequence[str]], None]
    varied: Sequence[str] = ()
    dry: bool = False
    main_process: int = field(default_factory=os.getpid)

    @property
    def command(self) -> str:
        """Return the name of the command."""
        return self.line.command

    @property
    def failures_file(self) -> Path:
        """Return the file in which jobs that fail, in any process, note that until all have ended: a line for each."""
        return self.root / LOGS / "failures.jsonl"

    def __call__(self, config: DictConfig) -> None:
        """Run the job of a config that Hydra has composed, in this process or in a launcher's worker.

        A failure is a line, and is noted; raised, Hydra would add lines of its own.
        """
        # What was typed for this job, and what of it differs between jobs.
        hydra = HydraConfig.get()
        overrides = [override for override in hydra.overrides.task if override != f"experiment={EXPERIMENT}"]
        varied = {*self.varied, *(hydra.sweeper.get("params") or {})}
        own = [override for override in overrides if override.partition("=")[0] in varied]
        try:
            self._run_composed(config, overrides, own, varied)
        except UserError as error:
            shown = " ".join(own or overrides)
            say(f"{shown}: failed: {error}")
            self.failures_file.parent.mkdir(parents=True, exist_ok=True)
            with self.failures_file.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"job": shown, "exit_code": error.exit_code}) + "\n")

    def _run_composed(
        self, config: DictConfig, overrides: Sequence[str], own: Sequence[str], varied: Collection[str]
    ) -> None:
        """Run the job of a config, of whose `overrides` its `own` differ between jobs. Raises UserError if it fails."""
        hydra = HydraConfig.get()
        settings = settings_of(config, self.line)

        # Its folder is named by these settings, so the same line finds its finished runs again. What only watches a run
        # makes it no other run.
        plain = {name: value for name, value in flat_settings(settings_to_dict(settings)) if name not in LOGGING}
        words = [override.partition("=")[0].rpartition(".")[2] + "-" + override.partition("=")[2] for override in own]
        if hasattr(settings, "task"):
            words.insert(0, settings.task.name)

        # Jobs that run at the same time share the cores.
        n_parallel = hydra.launcher.get("n_jobs") or 1
        requested = settings
        if n_parallel > 1:
            settings = _share_of_machine(settings, n_parallel, hydra.job.num)
        settings = _comparable(settings, varied)
        overrides = [*overrides, *_set_by_sweep(requested, settings)]
        in_worker = os.getpid() != self.main_process
        with signals_handled() if in_worker else nullcontext():
            self.run(settings, overrides, _name(words, plain), " ".join(own or overrides), logged=n_parallel > 1)

    def run(
        self, settings: Any, overrides: Sequence[str], name: str, shown: str, *, logged: bool = False
    ) -> Run | None:
        """Run the command, or skip or resume it if the folder of this name holds its run; return its run folder.

        A line, which begins with what is `shown` of the job, says how it ended. What a run prints besides is in its
        log, and so is all that a job prints which is to be `logged`. Raises UserError if it fails; FolderInUseError if
        another process is running it.
        """
        # A finished run is not repeated, and an unfinished one is resumed.
        folder = None
        if hasattr(settings, "run_dir") and not self.dry:
            folder = Run(Path(settings.run_dir or self.root / name))
            if folder.finished:
                _report_of(folder)  # refuses one that is cut off, before the table at the end
                say(f"{shown}: finished before: {folder.folder}")
                return folder
            resume = {"resume": "auto"} if getattr(settings, "resume", "") is None else {}
            settings = replace(settings, run_dir=str(folder.folder), **resume)

        # The job itself: a mistake of the user's is shown in its line, and the sweep goes on.
        logged = logged or (folder is not None and self.command in COMPARED)
        if not logged:
            say(f"starting: {shown}")
        started = time.monotonic()
        try:
            with self._output(name) if logged else nullcontext():
                self.start(settings, overrides)
        except UserError:
            raise
        except Exception as error:
            traceback.print_exception(error)
            raise UserError(f"{shown} failed: {type(error).__name__}: {error}") from None
        if folder is not None and logged:
            say(f"{shown}: {_outcome(folder)}, {time.monotonic() - started:.0f} s: {folder.folder}")
        return folder

    @contextmanager
    def _output(self, name: str) -> Iterator[None]:
        """Send what the job prints to its log."""
        logs = self.root / LOGS
        logs.mkdir(parents=True, exist_ok=True)
        with (logs / f"{name}.log").open("a", encoding="utf-8") as log, redirect_stdout(log), redirect_stderr(log):
            yield


def _report_of(folder: Run) -> dict[str, Any]:
    """Return the report of a finished run. Raises DataError if it is cut off or no report."""
    path = folder.report_file
    try:
        report = dict(json_of(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        problem = f"{path} cannot be read: {one_line(str(error))[:200]}"
        raise DataError(problem, remedy=f"Remove {folder.folder} to run this job again") from None
    return report


def _outcome(folder: Run) -> str:
    """Return the main score of a finished run in words, such as "accuracy 0.912 on test"."""
    report = _report_of(folder)
    splits = report.get("splits", {})
    name = report.get("main_score")
    for split in ("test", SPLIT, *splits):
        score = splits.get(split, {}).get(name)
        if score is not None:
            return f"{name} {score:.4g} on {split}"
    return "finished"


def _name(shown: Sequence[str], identity: Any) -> str:
    """Return the name of a job's folder, such as brackets_seed-1_n_layers-2_0acd1f24; the end is a hash of `identity`.

    It has no character that a shell or Hydra's grammar reads as anything but a letter.
    """
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:8]
    readable = re.sub(r"[^\w.-]+", "-", "_".join(shown))[:LONGEST_NAME]
    return f"{readable}_{digest}" if readable else digest


def _share_of_machine(settings: Any, n_parallel: int, number: int) -> Any:
    """Return the settings with one job's share of the cores, and a GPU in turn, unless they are set."""
    holder = getattr(settings, "training", settings)
    share = {}
    if getattr(holder, "threads", 0) is None:
        share["threads"] = max(available_cores() // n_parallel, 1)
    n_gpus = torch.cuda.device_count()
    if n_gpus and getattr(holder, "device", None) in ("auto", "cuda"):
        share["device"] = f"cuda:{number % n_gpus}"
    changed = replace(holder, **share)
    return changed if holder is settings else replace(settings, training=changed)


def _comparable(settings: Any, varied: Collection[str]) -> Any:
    """Return the settings of a job with a precision that does not depend on how fast it is, and that all jobs share.

    The rules choose it by the encoder's width. Where that may differ between the jobs, it is that of wide encoders.
    Where the jobs differ in the network or its training, no linear model is added to it: with 150 steps on brackets,
    networks of one and two layers had 0.81 and 0.91, and 0.95 together with a linear model.
    """
    training = getattr(settings, "training", None)
    if training is None:
        return settings
    changes_network = any(name.partition(".")[0] in OF_NETWORK for name in varied)
    if changes_network and getattr(settings.task, "linear_weight", 0.0) is None:
        settings = replace(settings, task=replace(settings.task, linear_weight=0.0))
    training = replace(training, measure=False)
    if training.precision is Precision.auto and not CHANGE_WIDTH.isdisjoint(varied):
        training = replace(training, precision=Precision[precision_here(training.device)])
    return replace(settings, training=training)


def _set_by_sweep(requested: Any, settings: Any) -> list[str]:
    """Return what the sweep has set of a job's `settings`, as it is typed in the line that repeats the job."""
    before = dict(flat_settings(settings_to_dict(requested)))
    after = dict(flat_settings(settings_to_dict(settings)))
    return [f"{name}={setting_value(value)}" for name, value in after.items() if value != before[name]]


def say(line: str) -> None:
    """Print a line about the sweep."""
    print(f"encoderlab: {one_line(line)}", file=sys.stderr)


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
            settings = _comparable(requested, jobs.varied)
            overrides = [*line.overrides, *_set_by_sweep(requested, settings)]
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
    report = _report_of(folder)
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
