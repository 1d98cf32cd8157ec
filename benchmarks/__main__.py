"""The command line of the benchmarks: list, run, table, growth, gpu, suite."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import growth, page
from benchmarks.comparison import Settings, compare, missing
from benchmarks.gpu.measure import gpu_name, measure, what_is_wrong
from benchmarks.gpu.speeds import SCALES
from benchmarks.gpu.table import gpu_table
from benchmarks.jobs import JOBS
from benchmarks.machine import cores
from benchmarks.processes import ROOT
from benchmarks.suite.command import suite
from benchmarks.suite.kinds import KINDS
from benchmarks.suite.sets import SETS
from benchmarks.tables import job_table
from encoderlab.errors import DataError, SettingError, TrainingError, UserError, closest

SMALL = "only a few small steps, to check that everything works; nothing is saved"


def main() -> None:
    """Run the typed command and exit with its code; a user's mistake is one line."""
    options = _parser().parse_args()
    try:
        options.command(options)
    except UserError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("benchmarks: stopped", file=sys.stderr)
        sys.exit(130)


def list_jobs(options: argparse.Namespace) -> None:
    """Print every job with the sides it compares."""
    for name, job in JOBS.items():
        print(f"{name:<18} {job.what}\n{'':<18} {' | '.join(side.name for side in job.sides)}")


def run(options: argparse.Namespace) -> None:
    """Run jobs, print and save the result of each. Raises SettingError, DataError, TrainingError."""
    names = _chosen("job", options.jobs, JOBS)
    settings = Settings(options.rounds, options.threads, options.shared.expanduser().resolve(), options.small)
    outcomes = [_run_one(name, settings) for name in names]
    if "failed" in outcomes:
        raise TrainingError("Not every job could be finished", remedy="See the lines above")
    if "done" not in outcomes:
        raise DataError("No job could be run", remedy="See the lines above")


def _run_one(name: str, settings: Settings) -> str:
    """Run one job and return skipped, failed or done. A reason not to run it, or a failure, is printed in one line."""
    if reason := missing(JOBS[name], settings):
        print(f"benchmarks: {name} is skipped: {reason}", file=sys.stderr)
        return "skipped"
    print(f"{name}: {JOBS[name].what}", file=sys.stderr)
    try:
        result = compare(JOBS[name], settings)
    except TrainingError as error:
        print(f"benchmarks: {name}: {error}", file=sys.stderr)
        return "failed"
    _present(name, result, job_table(name, result), small=settings.small)
    return "done"


def grow(options: argparse.Namespace) -> None:
    """Measure how cost grows. Raises SettingError, TrainingError."""
    for axis in _chosen("axis", options.axes, growth.AXES):
        result = growth.grow(axis, options.threads, small=options.small)
        _present(f"growth_{axis}", result, growth.growth_table(result), small=options.small)


def measure_gpu(options: argparse.Namespace) -> None:
    """Measure on a CUDA GPU, or say that there is none. Raises SettingError, TrainingError."""
    names = _chosen("scale", options.scales, SCALES)
    if options.device == "cpu" and not options.small:
        raise SettingError("--device cpu only serves to try out the script", remedy="Add --small")
    if options.device == "cuda" and gpu_name() is None:
        print("There is no CUDA GPU on this machine: nothing is measured")
        return
    result = measure(names, options.device, options.minutes, small=options.small)
    _present("gpu", result, gpu_table(result), small=options.small)
    if wrong := what_is_wrong(result):
        raise TrainingError(f"Failed rows or checks: {'; '.join(wrong)}", remedy="See the tables above")


def render(options: argparse.Namespace) -> None:
    """Rewrite the tables of RESULTS.md. Raises DataError if one has no place there."""
    tables = {name: _table(name, result) for name, result in page.kept().items()}
    page.rewrite(tables)
    print(f"Tables written to {page.PAGE.relative_to(ROOT)}: {len(tables)}")


def run_suite(options: argparse.Namespace) -> None:
    """Run the development suite, or rewrite its page. Raises SettingError, DataError, TrainingError."""
    suite(options.words)


def _table(name: str, result: dict[str, Any]) -> str:
    if name in JOBS:
        return job_table(name, result)
    return gpu_table(result) if name == "gpu" else growth.growth_table(result)


def _present(name: str, result: dict[str, Any], table: str, *, small: bool) -> None:
    if not small:  # saved first: printing may fail, as with `| head`
        page.keep(name, result)
        page.rewrite({name: table})
    print(f"\n## {name}\n\n{table}\n")


def _chosen(what: str, typed: list[str], known: Iterable[str]) -> list[str]:
    """Return the typed names, or all. Raises SettingError for an unknown name."""
    for name in typed:
        if name not in known:
            near = closest(name, known)
            remedy = f"Did you mean {near}?" if near else ""
            raise SettingError(f"There is no {what} {name}", allowed=", ".join(known), remedy=remedy)
    return typed or list(known)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks", description="Measure encoderlab against the alternatives.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, does: str, command: Callable[[argparse.Namespace], None], *options: str) -> None:
        one = commands.add_parser(name, help=does, description=does)
        one.set_defaults(command=command)
        for option in options:
            one.add_argument(option, **OPTIONS[option])

    add("list", "list every job and what it compares", list_jobs)
    add("run", "run jobs, ours and the peers in turn", run, "jobs", "--rounds", "--threads", "--shared", "--small")
    add("table", "rewrite the tables of RESULTS.md from results/*.json", render)
    add("growth", "measure how our cost grows with the work", grow, "axes", "--threads", "--small")
    add("suite", "compare ways to get a model on the development suite", run_suite, "words")
    add("gpu", "check and measure pretraining on a CUDA GPU", measure_gpu, "scales", "--minutes", "--device", "--small")
    return parser


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return int(text)


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < 24 * 60:
        raise argparse.ArgumentTypeError(f"{text} is not a number of minutes")
    return minutes


_shared = Path(os.environ.get("ENCODERLAB_SHARED", ROOT.parent / "shared"))
OPTIONS: Mapping[str, dict[str, Any]] = {
    "jobs": {"nargs": "*", "metavar": "JOB", "help": f"jobs to run (default: all): {', '.join(JOBS)}"},
    "axes": {"nargs": "*", "metavar": "AXIS", "help": f"what grows (default: all): {', '.join(growth.AXES)}"},
    "scales": {"nargs": "*", "metavar": "SCALE", "help": f"model and length (default: all): {', '.join(SCALES)}"},
    "words": {
        "nargs": "*",
        "metavar": "NAME=VALUE",
        "help": f"sets={','.join(SETS)} kinds={','.join(KINDS)} seeds=0,1,2 suite=FOLDER (of the data; default: $ENCODERLAB_SUITE, "
        "or ../shared/suite) output=FOLDER (of the runs; default: outputs/suite) page=FOLDER (of SUITE.md; default: benchmarks) "
        "timed=false (if other work runs at the same time: seconds and memory are not reported); "
        "names with a dot, such as training.precision=fp32, are added to every run; `table` alone rewrites SUITE.md",
    },
    "--rounds": {"type": _at_least_one, "default": 5, "help": "how many times each side is run (default: 5)"},
    "--threads": {
        "type": _at_least_one,
        "default": cores(),
        "help": "CPU threads of each side (default: all, here %(default)s)",
    },
    "--shared": {
        "type": Path,
        "default": _shared,
        "help": "folder of the peers' scripts (default: $ENCODERLAB_SHARED, or ../shared)",
    },
    "--minutes": {
        "type": _minutes,
        "default": 8.0,
        "help": "time for everything; rows that do not fit are dropped (default: 8)",
    },
    "--device": {"choices": ("cuda", "cpu"), "default": "cuda", "help": "cuda, or with --small cpu (default: cuda)"},
    "--small": {"action": "store_true", "help": SMALL},
}

if __name__ == "__main__":
    main()
