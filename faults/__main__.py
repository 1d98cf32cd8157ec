"""The command line of the faults: list, run, table."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from encoderlab.errors import DataError, SettingError, TrainingError, UserError, closest
from faults import page
from faults.promise import Conditions, Promise, Trial, UnavailableError
from faults.promises import ALL, GROUPS, PROMISES


def main() -> None:
    """Run the typed command and exit with its code; a user's mistake is one line."""
    options = _parser().parse_args()
    try:
        options.command(options)
    except UserError as error:
        print(f"faults: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("faults: stopped", file=sys.stderr)
        sys.exit(130)


def list_promises(options: argparse.Namespace) -> None:
    """Print every promise."""
    for promise in ALL:
        print(f"{promise.name:<26} {promise.sentence}")


def run(options: argparse.Namespace) -> None:
    """Try promises, report failures, and save the figures. Raises SettingError, DataError, TrainingError."""
    outcomes = [_tried(promise, options) for promise in _chosen(options.promises)]
    if "failed" in outcomes:
        raise TrainingError("Not every promise is kept", remedy="See the lines above")
    if "done" not in outcomes:
        raise DataError("No promise could be tried", remedy="See the lines above")


def table(options: argparse.Namespace) -> None:
    """Rewrite the table of RELIABILITY.md. Raises DataError if it has no place there."""
    page.rewrite(ALL)
    print(f"Written: {page.PAGE.name}")


def _tried(promise: Promise, options: argparse.Namespace) -> str:
    """Try one promise and return done, failed or skipped."""
    if options.quick and not promise.quick:
        return "skipped"
    count = options.trials or (promise.quick if options.quick else promise.full)
    started = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory(prefix="faults-") as scratch:
            trials = list(_shown(promise, promise.tried(Conditions(count, options.seed, Path(scratch).resolve()))))
    except UnavailableError as error:
        print(f"faults: {promise.name} is skipped: {error}", file=sys.stderr)
        return "skipped"
    found = page.result(promise, trials, options.seed, time.perf_counter() - started, _command(promise, options))
    print(f"{promise.name}: {found['trials']} trials, {found['failures']} failures, below {found['upper_bound']:.2%}")
    if not options.quick:
        page.keep(promise.name, found)
        page.rewrite(ALL)
    return "failed" if found["failures"] else "done"


def _shown(promise: Promise, trials: Iterable[Trial]) -> Iterable[Trial]:
    """Yield the trials; on a terminal, show their count and a line for each failure."""
    for number, trial in enumerate(trials, start=1):
        if sys.stderr.isatty():
            print(f"\r{promise.name}: {number}", end="", file=sys.stderr)
        if trial.failure:
            print(f"\n{promise.name}, {trial.case}: {trial.failure}", file=sys.stderr)
        yield trial
    if sys.stderr.isatty():
        print(file=sys.stderr)


def _command(promise: Promise, options: argparse.Namespace) -> str:
    trials = f" --trials {options.trials}" if options.trials else ""
    return f"{promise.command}{trials}{f' --seed {options.seed}' if options.seed else ''}"


def _chosen(typed: list[str]) -> list[Promise]:
    """Return the promises of these names, or all; a group's name, such as machines, stands for all of its promises.

    Raises SettingError for an unknown name.
    """
    known = {**PROMISES, **GROUPS}
    for name in typed:
        if name not in known:
            near = closest(name, known)
            remedy = f"Did you mean {near}?" if near else ""
            raise SettingError(f"There is no promise {name}", allowed=", ".join(known), remedy=remedy)
    return [promise for name in typed for promise in GROUPS.get(name, (PROMISES.get(name),)) if promise] or list(ALL)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m faults", description="Try what encoderlab promises about its runs.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, does, command in (
        ("list", "list every promise", list_promises),
        ("run", "try promises and save the figures", run),
        ("table", "rewrite the table of RELIABILITY.md from results/*.json", table),
    ):
        one = commands.add_parser(name, help=does, description=does)
        one.set_defaults(command=command)
        if command is run:
            one.add_argument(
                "promises", nargs="*", metavar="PROMISE", help="promises, or groups such as machines (default: all)"
            )
            one.add_argument(
                "--trials", type=_at_least_one, help="number of trials of each (default: as the promise says)"
            )
            one.add_argument("--seed", type=int, default=0, help="seed for drawing the trials (default: 0)")
            one.add_argument(
                "--quick", action="store_true", help="only as many trials as in the test suite; nothing is saved"
            )
    return parser


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return int(text)


if __name__ == "__main__":
    main()
