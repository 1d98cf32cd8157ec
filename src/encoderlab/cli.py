"""The command line: one command, one function; a user's mistake is one line and an exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from encoderlab.errors import SettingError, UserError, closest
from encoderlab.interruption import Interrupted, signals_handled
from encoderlab.world import ALONE, FailedElsewhereError, World, join, speaking_for_all

if TYPE_CHECKING:
    from omegaconf import DictConfig

COMMANDS = {
    "train": "Train an encoder and report how good it is.",
    "pretrain": "Pretrain an encoder on documents: masked tokens, and what follows what.",
    "finetune": "Train a task from a pretrained encoder, and report how good it is.",
    "eval": "Score a finished run on a split, or on other data.",
    "predict": "Answer for new texts.",
    "embed": "Write the vectors of texts, or of their tokens, to a file.",
    "attention": "Draw where each token looks.",
    "explain": "Show which words speak for an answer, and which against it.",
    "export": "Write a run's model in a form that other tools open.",
    "verify": "Look a run over: hashes, finite numbers, whether config, data and weights fit together.",
    "data": "Look at a dataset: rows, classes, lengths, duplicates, odd rows, pieces.",
    "baseline": "Score what needs no encoder on the same rows.",
    "tokenizer": "Train a tokenizer, see how it cuts a text, compare vocabularies.",
    "list": "Show every task, dataset, tokenizer, model, training preset and experiment.",
}
ACROSS_PROCESSES = ("train", "pretrain", "finetune", "eval")
GO_ON = "Start all of them again, training with resume=auto to go on from its last checkpoint"
GARBAGE_EVERY = 50_000  # objects; with Python's 700, a third of a prediction's time beside the model was the search for cycles
OVERVIEW = """encoderlab {version}: train transformer encoders from scratch

usage: encoderlab COMMAND [name=value ...]

{commands}

  encoderlab train                                   the built-in task: no download, no GPU
  encoderlab train task=sst2 model.n_layers=2        another task and a smaller model
  encoderlab train -m seed=1,2,3                     several runs
  encoderlab COMMAND --help                          every setting of a command, with a line each"""


def main() -> None:
    """Run the command that `sys.argv` names, and exit with its code."""
    gc.set_threshold(GARBAGE_EVERY)
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # huge pages where there are any; PyTorch reads it at its first allocation
    world = ALONE
    try:
        with signals_handled():
            world = join()
            with speaking_for_all(world):
                run(sys.argv[1:], world)
            world.leave()
    except UserError as error:
        if world.announce(error, error.exit_code):
            print(f"encoderlab: {'' if world.is_first else f'process {world.rank}: '}{error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except FailedElsewhereError as error:
        sys.exit(error.exit_code)
    except Interrupted as interrupted:
        world.announce(interrupted, interrupted.exit_code)
        if world.is_first:
            print(f"encoderlab: stopped by {interrupted.name}", file=sys.stderr)
        sys.exit(interrupted.exit_code)
    except BrokenPipeError:  # the reader of our standard output has gone, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def run(arguments: list[str], world: World = ALONE) -> None:
    """Run one command, this process being one of a `world`. Raises UserError for whatever the user can mend."""
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        lines = "\n".join(f"  {name:<12}{line}" for name, line in COMMANDS.items())
        print(OVERVIEW.format(version=version("encoderlab"), commands=lines))
    elif arguments[0] == "--version":
        print(version("encoderlab"))
    elif arguments[0] not in COMMANDS:
        near = closest(arguments[0], COMMANDS)
        raise SettingError(
            f"There is no command {arguments[0]}",
            allowed=", ".join(COMMANDS),
            remedy=f"Did you mean encoderlab {near}?" if near else "See encoderlab --help",
        )
    elif arguments[0] == "list":
        groups = [argument for argument in arguments[1:] if argument not in ("--help", "-h")]
        import_module("encoderlab.commands.list").list_configs(config_folder(), groups)
    elif {"--help", "-h"} & set(arguments):
        import_module("encoderlab.command_help").print_help(arguments[0], COMMANDS[arguments[0]], config_folder())
    else:
        _check_world(world, *arguments)
        _run_with_hydra(arguments[0], arguments[1:], world)


def config_folder() -> Path:
    """The shipped configs: beside the package in a wheel, at the top of the repository in a checkout."""
    package = Path(__file__).resolve().parent
    inside = package / "configs"
    return inside if inside.is_dir() else package.parents[1] / "configs"


def _check_world(world: World, command: str, *arguments: str) -> None:
    """Refuse what several processes cannot share. Raises SettingError."""
    if world.size == 1:
        return
    if command not in ACROSS_PROCESSES:
        raise SettingError(
            f"encoderlab {command} does not run across {world.size} processes",
            allowed=f"one process, or one of {', '.join(ACROSS_PROCESSES)}",
            remedy="Start it without torchrun",
        )
    if {"-m", "--multirun"} & set(arguments):
        raise SettingError(
            f"-m starts several runs, and torchrun {world.size} processes of one run",
            allowed="one of the two",
            remedy="Start each run with a torchrun of its own, or leave torchrun out",
        )


def _run_with_hydra(command: str, arguments: list[str], world: World) -> None:
    import hydra

    from encoderlab.composing import checked_configs, checked_flags
    from encoderlab.config import COMMAND_CONFIGS, check_shown, register_schemas
    from encoderlab.config_errors import explained, refuse_what_hydra_cannot
    from encoderlab.overrides import quoted_arguments

    refuse_what_hydra_cannot(command, arguments)
    register_schemas()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises what went wrong instead of printing its own account and exiting
    begun: list[str] = []
    refused: list[UserError | FailedElsewhereError] = []
    with explained(command, begun):
        typed_flags = checked_flags(command, arguments)
        shown = COMMAND_CONFIGS[command] if typed_flags.cfg else None
        sys.argv = [f"encoderlab {command}", *quoted_arguments(arguments)]
        with checked_configs(lambda config: check_shown(config, shown)):
            job = _job(command, begun, refused, world)
            hydra.main(config_path=str(config_folder()), config_name=command, version_base="1.3")(job)()
    if refused:
        raise refused[0]


def _job(
    command: str, begun: list[str], refused: list[UserError | FailedElsewhereError], world: World
) -> Callable[[DictConfig], None]:
    """What Hydra calls with each composed config; each that begins is `begun`.

    A single job's mistake goes to `refused`: Hydra would add a line of its own.
    """
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from encoderlab.config import COMMAND_CONFIGS, typed
    from encoderlab.config_errors import explained

    def job(config: DictConfig) -> None:
        sweep = HydraConfig.get().mode is RunMode.MULTIRUN
        name = f"job {HydraConfig.get().job.num}" if sweep else ""
        if sweep:
            print(f"{name}: {HydraConfig.get().job.override_dirname}", file=sys.stderr)
        try:
            with explained(command):
                settings = typed(config, COMMAND_CONFIGS[command])
            begun.append(name)
            said = {argument.partition("=")[0].lstrip("+~") for argument in HydraConfig.get().overrides.task}
            continuable = {"said": said} if hasattr(settings, "resume") else {}
            shared = {"world": world} if command in ACROSS_PROCESSES else {}
            with world.watched(GO_ON):
                getattr(import_module(f"encoderlab.commands.{command}"), command)(settings, **continuable, **shared)
        except FailedElsewhereError as error:
            refused.append(error)
        except UserError as error:
            if sweep:
                print(f"encoderlab: {name} failed: {error}", file=sys.stderr)
                raise
            refused.append(error)

    return job
