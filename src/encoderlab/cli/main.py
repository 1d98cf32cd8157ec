"""The command line: one function per command; a user's mistake is one line and an exit code."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoderlab.cli.overview import COMMANDS, OVERVIEW
from encoderlab.errors import SettingError, UserError, closest
from encoderlab.system.processes import SINGLE_PROCESS, Processes, connect, only_main_prints, processes_of_torchrun
from encoderlab.system.signals import Interrupted, deferred, signals_handled, signals_passed_on, stop_if_interrupted

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from encoderlab.config.commands import SweepConfig
    from encoderlab.sweeps.sweep import Sweep

MULTIRUN = ("-m", "--multirun")
RESUMABLE = ("train", "pretrain", "finetune", "distill")
ACROSS_PROCESSES = (*RESUMABLE, "eval")
GARBAGE_EVERY = (
    50_000  # objects; with Python's 700, collection took a third of the time that prediction spends outside the model
)


def main() -> None:
    """Run the command that `sys.argv` names, and exit with its code."""
    gc.set_threshold(GARBAGE_EVERY)
    atexit.register(
        gc.freeze
    )  # Python's last collections would visit every object of a process that ends: 0.5 s after training
    warnings.filterwarnings("ignore", module=r"sklearn(\.|$)")  # about fits and undefined scores: reports explain these
    os.environ.setdefault(
        "THP_MEM_ALLOC_ENABLE", "1"
    )  # huge pages if available; PyTorch reads this at its first allocation
    os.environ.setdefault(
        "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
    )  # read once; any job of a sweep may need deterministic products
    if (
        "WORLD_SIZE" in os.environ
    ):  # DDP would warn at every start that all parameters are used; see `training.distribution`
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    if sys.platform == "linux" and "PYTORCH_CUDA_ALLOC_CONF" not in os.environ:  # the older name of the same variable
        # Lengths differ from batch to batch, and fixed segments of a GPU's memory would be left in pieces that fit no
        # other batch.
        os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    processes, exit_code = SINGLE_PROCESS, 0
    try:
        processes = processes_of_torchrun()
        with signals_handled(), only_main_prints(processes):
            with deferred(
                "stopping once all processes have started"
            ):  # otherwise the others would wait for one that ends first
                processes = connect(processes)
                stop_if_interrupted(processes)
            run(sys.argv[1:], processes)
            processes.leave()
    except UserError as error:
        if processes.tells_user():
            print(f"encoderlab: {error}", file=sys.stderr)
        exit_code = error.exit_code
    except Interrupted as interrupted:
        exit_code = interrupted.exit_code
        if processes.is_main:
            print(f"encoderlab: stopped by {interrupted.name}", file=sys.stderr)
    except BrokenPipeError:  # the reader of standard output is gone, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        exit_code = 141
    processes.end(exit_code)


def run(arguments: list[str], processes: Processes = SINGLE_PROCESS) -> None:
    """Run one command as one of several `processes`. Raises UserError for anything the user can fix."""
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        lines = "\n".join(f"  {name:<12}{line}" for name, line in COMMANDS.items())
        print(OVERVIEW.format(version=version("encoderlab"), commands=lines))
    elif arguments[0] == "--version":
        print(version("encoderlab"))
    elif arguments[0] not in COMMANDS:
        near = closest(arguments[0], COMMANDS)
        raise SettingError(
            f"Unknown command {arguments[0]}",
            allowed=", ".join(COMMANDS),
            remedy=f"Did you mean encoderlab {near}?" if near else "See encoderlab --help",
        )
    elif arguments[0] == "list":
        groups = [argument for argument in arguments[1:] if argument not in ("--help", "-h")]
        import_module("encoderlab.commands.list").list_configs(config_folder(), groups)
    elif {"--help", "-h"} & set(arguments):
        import_module("encoderlab.cli.help").print_help(arguments[0], COMMANDS[arguments[0]], config_folder())
    else:
        _check_processes(processes, *arguments)
        resumes = (
            processes.restarted
            and arguments[0] in RESUMABLE
            and not any(one.startswith("resume=") for one in arguments)
        )
        _run_with_hydra(arguments[0], [*arguments[1:], *(["resume=auto"] if resumes else [])], processes)


def config_folder() -> Path:
    """Return the shipped configs: inside the package in a wheel, at the top of the repository in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "configs"
    return inside if inside.is_dir() else package.parents[1] / "configs"


def _check_processes(processes: Processes, command: str, *arguments: str) -> None:
    """Raise SettingError for what several processes cannot run."""
    if processes.size == 1:
        return
    if command not in ACROSS_PROCESSES:
        raise SettingError(
            f"encoderlab {command} cannot run across {processes.size} processes",
            allowed=f"one process, or one of {', '.join(ACROSS_PROCESSES)}",
            remedy="Start it without torchrun",
        )
    if {*MULTIRUN} & set(arguments):
        raise SettingError(
            f"-m starts several runs, but torchrun starts {processes.size} processes of one run",
            allowed="one of the two",
            remedy="Start each run with its own torchrun, or do not use torchrun",
        )


def _run_with_hydra(command: str, arguments: list[str], processes: Processes) -> None:
    from encoderlab.config.composing import check_combinations, checked_flags
    from encoderlab.config.hydra_errors import explained, refuse_what_hydra_cannot
    from encoderlab.config.overrides import folders_as_setting, quoted_arguments, with_task_of_own_data
    from encoderlab.config.schemas import COMMAND_CONFIGS, check_shown, register_schemas
    from encoderlab.sweeps.settings import sweep_settings

    refuse_what_hydra_cannot(command, arguments)
    register_schemas(command, arguments)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # makes Hydra raise its errors instead of printing them and exiting
    started: list[str] = []
    refused: list[UserError | BrokenPipeError] = []
    with explained(command, started):
        flags = checked_flags(command, arguments)
        arguments = with_task_of_own_data(command, folders_as_setting(command, arguments, flags.overrides))
        options, arguments = sweep_settings(arguments, flags.multirun)
        if flags.multirun and options.trials is None:
            check_combinations(quoted_arguments(flags.overrides))
        if flags.multirun and not flags.cfg:
            _sweep(command, arguments, options, started, processes)
            return
        shown = COMMAND_CONFIGS[command] if flags.cfg else None
        _with_hydra(
            command, arguments, _job(command, started, refused, processes), lambda config: check_shown(config, shown)
        )
    if refused:
        raise refused[0]


def _with_hydra(
    command: str, arguments: list[str], job: Callable[[DictConfig], None], check: Callable[[DictConfig], None]
) -> None:
    """Let Hydra compose the config or configs for the arguments; pass each to `check`, then to `job`."""
    import hydra

    from encoderlab.config.composing import checked_configs
    from encoderlab.config.overrides import quoted_arguments

    sys.argv = [f"encoderlab {command}", *quoted_arguments(arguments)]
    with checked_configs(check):
        hydra.main(config_path=str(config_folder()), config_name=command, version_base="1.3")(job)()


def _job(
    command: str,
    started: list[str],
    refused: list[UserError | BrokenPipeError],
    processes: Processes,
) -> Callable[[DictConfig], None]:
    """Return the function that Hydra calls with the composed config. It adds to `started` when its command starts.

    A user's mistake goes to `refused`, because Hydra would add a line of its own to it.
    """
    from hydra.core.hydra_config import HydraConfig

    from encoderlab.config.hydra_errors import explained
    from encoderlab.config.schemas import COMMAND_CONFIGS, typed

    def job(config: DictConfig) -> None:
        try:
            with explained(command):
                settings = typed(config, COMMAND_CONFIGS[command])
            started.append(command)
            _start(command, settings, HydraConfig.get().overrides.task, processes)
        except (UserError, BrokenPipeError) as error:
            refused.append(error)

    return job


def _start(command: str, settings: Any, overrides: Sequence[str], processes: Processes) -> Any:
    """Run a command; return its run folder if it fills one."""
    explicit = {argument.partition("=")[0].lstrip("+~") for argument in overrides}
    shared = {"processes": processes} if command in ACROSS_PROCESSES else {}
    with processes.connection_watched():
        if getattr(settings, "resume", None) is not None:
            resume = import_module("encoderlab.runs.resume")
            settings = processes.broadcast_from_main(lambda: resume.with_recorded_settings(settings, explicit, command))
        return getattr(import_module(f"encoderlab.commands.{command}"), command)(settings, **shared)


def _sweep(command: str, arguments: list[str], options: SweepConfig, started: list[str], processes: Processes) -> None:
    """Run every combination of the values given, or the trials of a search. Raises SweepError if jobs failed."""
    from hydra.core.hydra_config import HydraConfig

    from encoderlab.config.overrides import quote
    from encoderlab.runs.folders.sweep import JobRecord, WorkerKilledError
    from encoderlab.sweeps.results import show_results
    from encoderlab.sweeps.settings import as_arguments, folder_for
    from encoderlab.sweeps.sweep import Sweep

    def start(settings: Any, overrides: Sequence[str]) -> Any:
        started.append(command)
        return _start(command, settings, overrides, processes)

    def job(config: DictConfig) -> None:
        sweep.job(config, HydraConfig.get().job.num, HydraConfig.get().overrides.task)

    def trial(line: list[str], number: int) -> JobRecord | None:
        records: list[JobRecord | None] = []
        _with_hydra(command, line, lambda config: records.append(sweep.job(config, number, line)), sweep.prepare)
        return records[0]

    dry = "dry_run=true" in [argument.lower() for argument in arguments]  # needed before any job has its settings
    with folder_for(options, dry=dry) as folder:
        sweep = Sweep(command, folder, start, dry)
        try:
            if options.trials is None:
                _combine(sweep, [*arguments, f"hydra.sweep.dir={quote(str(sweep.folder.root))}"], job)
            else:
                single = [argument for argument in arguments if argument not in MULTIRUN]
                import_module("encoderlab.sweeps.search").search(sweep, single, options.trials, trial)
        except (Interrupted, WorkerKilledError):
            sweep.say_how_to_resume([*arguments, *as_arguments(options)])
            raise
        show_results(sweep, compared=options.trials is None)


def _combine(sweep: Sweep, arguments: list[str], job: Callable[[DictConfig], None]) -> None:
    """Let Hydra run a job for each combination, and again while jobs of other processes become free.

    Jobs may run in workers. Raises WorkerKilledError; Interrupted when they have ended.
    """
    from encoderlab.sweeps.other_machines import wait_for_others

    _combine_once(sweep, arguments, job)
    while wait_for_others(sweep):
        _combine_once(sweep, arguments, job)


def _combine_once(sweep: Sweep, arguments: list[str], job: Callable[[DictConfig], None]) -> None:
    from concurrent.futures.process import BrokenProcessPool

    from encoderlab.runs.folders.sweep import WorkerKilledError

    sweep.begin_pass()
    try:
        with signals_passed_on("each job saves after its step") as before_workers:
            _with_hydra(sweep.command, arguments, job, lambda config: sweep.prepare(config, before_workers))
    except BrokenProcessPool:
        raise WorkerKilledError from None
