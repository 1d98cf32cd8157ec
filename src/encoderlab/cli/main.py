"""The command line: finds and runs one command; a user's mistake is one line and an exit code."""

from __future__ import annotations

import atexit
import codecs
import gc
import io
import logging
import os
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from encoderlab.cli.table import COMMANDS, SUMMARIES
from encoderlab.config import TRAINING_COMMANDS, config_folder
from encoderlab.errors import SettingError, UserError, closest
from encoderlab.system.processes import (
    SINGLE_PROCESS,
    Interrupted,
    Processes,
    connect,
    deferred,
    only_main_prints,
    processes_of_torchrun,
    signals_handled,
    stop_if_interrupted,
)

if TYPE_CHECKING:
    from encoderlab.config.composing import CommandLine

OVERVIEW = """encoderlab {version}: train transformer encoders for text

usage: encoderlab COMMAND [name=value ...]

{commands}

  encoderlab train                                   the built-in task: no download, no GPU
  encoderlab train task=sst2 model.n_layers=2        another task and a smaller model
  encoderlab train -m seed=1,2,3                     several runs, and a table to compare them
  encoderlab compare outputs/train/sst2/*            compare finished runs
  encoderlab COMMAND --help                          every setting of a command, one line each"""
COMPLETION_FLAGS = {"-sc", "--shell-completion"}
COMPLETED_LINE = "COMP_LINE"  # the variable in which a shell, by Hydra's functions, hands over what is typed
PROGRAM = "encoderlab"
ACROSS_PROCESSES = (*TRAINING_COMMANDS, "eval")
TORCHRUN_ENDS_SECONDS = 5  # longer than it takes to end the other processes after one has failed
# Objects; with Python's 700, collection took a third of the time that prediction spends outside the model.
GARBAGE_EVERY = 50_000


def main() -> None:
    """Run the command that `sys.argv` names, and exit with its code."""
    gc.set_threshold(GARBAGE_EVERY)
    gc.disable()  # while the command's modules are loaded, see `_call_command`
    atexit.register(gc.freeze)  # the last collections would visit every object of the process: 0.5 s after training
    warnings.filterwarnings("ignore", module=r"sklearn(\.|$)")  # about fits and undefined scores: reports explain these
    logging.raiseExceptions = False  # or Hydra's --info would print a traceback for each line that `head` does not read

    _prepare_streams()

    # The command, in all processes; what ends it is one line and an exit code.
    processes = SINGLE_PROCESS
    exit_code = 0
    try:
        processes = processes_of_torchrun()
        with signals_handled(), only_main_prints(processes):
            with deferred("stopping once all processes have started"):  # the others would wait for one that ends first
                processes = connect(processes)
                stop_if_interrupted(processes)
            run(sys.argv[1:], processes)
            processes.leave()
            sys.stdout.flush()  # here a closed pipe is handled
    except UserError as error:
        if not processes.is_main:  # if the main process fails too, it tells the user, and torchrun ends this one
            time.sleep(TORCHRUN_ENDS_SECONDS)
        from encoderlab.system.messages import as_named

        print(f"encoderlab: {as_named(str(error))}", file=sys.stderr)
        exit_code = error.exit_code
    except Interrupted as interrupted:
        exit_code = interrupted.exit_code
        if processes.is_main:
            print(f"encoderlab: stopped by {interrupted.name}", file=sys.stderr)
    except BrokenPipeError:  # the reader of standard output is gone, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        exit_code = 141
    processes.end(exit_code)


def _prepare_streams() -> None:
    """Open the standard streams that are closed, and let those that are not UTF-8 show any text.

    What is typed is read as UTF-8, whatever the terminal calls itself.
    """
    if sys.stdin is None:  # closed, as with <&-: nothing to read, but files must not get its number
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    if sys.stdout is None:  # closed, as with >&-: files must not get its number, and what is printed goes nowhere
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stderr is None:  # closed, as with 2>&-: files must not get its number, nor standard output its lines
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
            stream.reconfigure(errors="replace")
    sys.argv = [os.fsencode(word).decode("utf-8", "replace") for word in sys.argv]


def run(arguments: list[str], processes: Processes = SINGLE_PROCESS) -> None:
    """Run one command as one of several `processes`. Raises UserError for anything the user can fix."""
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        lines = "\n".join(f"  {name:<12}{line}" for name, line in SUMMARIES.items())
        print(OVERVIEW.format(version=version("encoderlab"), commands=lines))
    elif arguments[0] == "--version":
        print(version("encoderlab"))
    elif COMPLETION_FLAGS & set(arguments):
        _complete(arguments)
    elif arguments[0] not in SUMMARIES:
        near = closest(arguments[0], SUMMARIES)
        remedy = f"Did you mean encoderlab {near}?" if near else "See encoderlab --help"
        raise SettingError(f"Unknown command {arguments[0]}", allowed=", ".join(SUMMARIES), remedy=remedy)
    elif arguments[0] == "list":
        import_module("encoderlab.commands.list").list_configs(config_folder(), arguments[1:])
    elif {"--help", "-h"} & set(arguments):
        print_help = import_module("encoderlab.cli.help").print_help
        print_help(COMMANDS[arguments[0]], config_folder(), arguments[1:])
    else:
        command, *settings = arguments
        if processes.size > 1 and (command not in ACROSS_PROCESSES or {"-m", "--multirun"} & {*settings}):
            problem = f"torchrun starts {processes.size} processes of one run, which this line is not"
            allowed = f"one of {', '.join(ACROSS_PROCESSES)}, without -m"
            raise SettingError(problem, allowed=allowed, remedy="Start it without torchrun")
        resumes = any(argument.startswith("resume=") for argument in settings)
        if processes.restarted and command in TRAINING_COMMANDS and not resumes:
            settings.append("resume=auto")
        _run_with_hydra(command, settings, processes)


def _complete(arguments: Sequence[str]) -> None:
    """Print the functions that a shell installs, or what TAB completes: a command, and then, by Hydra, its settings.

    A shell installs them with eval "$(encoderlab -sc install=bash)".

    `arguments` have a flag of COMPLETION_FLAGS. Raises SettingError unless they say what to do.
    """
    from encoderlab.config.composing import parse_command_line, run_hydra

    wishes = [word for word in arguments if word.partition("=")[0] in ("install", "uninstall", "query")]
    if len(wishes) != 1:
        problem = f"{' '.join(arguments)} does not say what to complete"
        raise SettingError(problem, allowed=f"{PROGRAM} -sc install=bash, or uninstall=bash")
    command = "train"  # any: the functions are the same for all
    if wishes[0].startswith("query="):
        typed = os.environ.get(COMPLETED_LINE, "").split(" ")[1:]
        if len(typed) < 2:
            print(*[name for name in SUMMARIES if name.startswith("".join(typed))])
            return
        command, *settings = typed
        if command not in COMMANDS:  # `list`, or none
            return
        os.environ[COMPLETED_LINE] = " ".join([PROGRAM, *settings])
    sys.argv[0] = PROGRAM  # as Hydra's functions for shells call it
    run_hydra(parse_command_line(COMMANDS[command].schema(), ["-sc", *wishes]), lambda _: None)


def _run_with_hydra(command: str, arguments: list[str], processes: Processes) -> None:
    from encoderlab.config.composing import composed, parse_command_line, run_hydra
    from encoderlab.settings import MissingSettingError

    line = parse_command_line(COMMANDS[command].schema(), arguments)
    if command == "finetune" and not line.shows and not line.names_data():
        if line.sweep is None:  # one set of values can be composed
            composed(line)  # any other mistake comes first
        allowed = "a file (encoderlab finetune reviews.csv), task=sst2, or dataset=hub dataset.path=OWNER/NAME"
        remedy = "task=intents is the built-in task; encoderlab list task describes each"
        raise MissingSettingError("encoderlab finetune needs labelled texts", allowed=allowed, remedy=remedy)
    call = partial(_call_command, line, processes)
    if line.shows:
        with suppress(MissingSettingError):
            composed(line)  # Hydra would print what is refused when it runs
        run_hydra(line, lambda _: None)
    elif line.sweep is not None:
        import_module("encoderlab.apps.comparing.sweep").sweep(line, call)
    else:
        call(composed(line), line.overrides)


def _call_command(line: CommandLine, processes: Processes, settings: Any, overrides: Sequence[str]) -> None:
    """Run a command with its settings, and with the `overrides` of a `line` that gave them: only here is it known what
    was typed.
    """
    shared = {"processes": processes} if line.command in ACROSS_PROCESSES else {}
    with processes.connection_watched():
        settings = replace(settings, overrides=line.typed(overrides), inherited=line.inherited)
        run_command = COMMANDS[line.command].function()
        if not gc.isenabled():  # what the modules hold is no garbage: a collection that visits it all takes 0.1 s
            gc.freeze()
            gc.enable()
        run_command(settings, **shared)
