"""The command line of the trials."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from encoderlab.errors import DataError, SettingError, TrainingError, UserError, closest
from faults import exports, folders, labelling, machines, processes, saving, servers, soak, training
from faults.promise import Conditions, Promise, UnavailableError, upper_bound

PROMISES = {  # RELIABILITY.md states them
    "killed_while_saving": Promise(saving.killed, quick=12),
    "power_lost_while_saving": Promise(saving.without_power, quick=12),
    "refused_while_saving": Promise(saving.refused, quick=12),
    "damage_noticed": Promise(saving.damaged, quick=60, full=1000),
    "model_damage_noticed": Promise(training.model_damaged, quick=2, full=100),
    "killed_while_running": Promise(training.killed, quick=1, full=200),
    "resumed_equals": Promise(training.resumed, quick=2),
    "nothing_left_out": Promise(training.nothing_left_out, quick=1),
    "stopped_by_a_signal": Promise(training.signalled, quick=1, full=60),
    "refused_while_running": Promise(training.refused, quick=1, full=60),
    "one_folder": Promise(training.one_folder, quick=1, full=20),
    "killed_while_labelling": Promise(labelling.killed, quick=3, full=100),
    "journal_lost": Promise(labelling.journal_lost, quick=2, full=42),
    "folder_edited": Promise(folders.resumed, quick=4, full=100),
    "exports_read": Promise(exports.read, quick=28),
    "servers_lie": Promise(servers.read, quick=6),
    "process_lost": Promise(processes.disturbed, quick=0, full=24),
    "machines_equal": Promise(machines.equal, quick=0),
    "machine_lost": Promise(machines.lost, quick=0),
}


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


def run(options: argparse.Namespace) -> None:
    """Try promises and report failures. Raises SettingError, DataError, TrainingError."""
    unknown = next((name for name in options.promises if name not in PROMISES), None)
    if unknown is not None:
        near = closest(unknown, PROMISES)
        remedy = f"Did you mean {near}?" if near else ""
        raise SettingError(f"There is no promise {unknown}", allowed=", ".join(PROMISES), remedy=remedy)
    outcomes = [_run_one(name, options) for name in options.promises or PROMISES]
    if "failed" in outcomes:
        raise TrainingError("Not every promise is kept", remedy="See the lines above")
    if "kept" not in outcomes:
        raise DataError("No promise could be tried", remedy="See the lines above")


def soak_for(options: argparse.Namespace) -> None:
    """Run serve, label and a training run side by side, and report what each did. Raises TrainingError."""
    tallies = soak.soak(options.minutes, options.seed)
    for tally in tallies:
        print(tally.words, flush=True)
        for wrong in tally.wrong:
            print(f"faults: {tally.name}: {wrong}", file=sys.stderr)
    if any(tally.wrong for tally in tallies):
        raise TrainingError("The soak has found something wrong", remedy="See the lines above")


def _run_one(name: str, options: argparse.Namespace) -> str:
    """Try one promise, print the cells of its row in RELIABILITY.md, and return kept, failed or skipped."""
    promise = PROMISES[name]
    if options.quick and not promise.quick:
        return "skipped"
    number = options.trials or (promise.quick if options.quick else promise.full)
    started = time.perf_counter()
    count = 0
    failures = 0
    try:
        with tempfile.TemporaryDirectory(prefix="faults-") as scratch:
            for trial in promise.trials(Conditions(number, options.seed, Path(scratch).resolve())):
                count += 1
                failures += bool(trial.failure)
                if trial.failure:
                    print(f"{name} {count}, {trial.case}: {trial.failure}", file=sys.stderr)
    except UnavailableError as error:
        print(f"faults: {name} is skipped: {error}", file=sys.stderr)
        return "skipped"
    print(f"| `{name}` | {count:,} | {failures} | {upper_bound(failures, count):.2%} |", flush=True)
    print(f"faults: {name} took {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return "failed" if failures else "kept"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m faults", description="Try what encoderlab promises about its runs.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    sub = commands.add_parser("run", help="try promises, and print the rows of RELIABILITY.md")
    sub.set_defaults(command=run)
    sub.add_argument("promises", nargs="*", metavar="PROMISE", help="which (default: all)")
    sub.add_argument("--trials", type=int, help="number of trials of each (default: as the promise says)")
    sub.add_argument("--seed", type=int, default=0, help="seed for drawing the trials (default: 0)")
    sub.add_argument("--quick", action="store_true", help="a few trials of each, as in the test suite")
    sub = commands.add_parser("soak", help="serve, label and train side by side, killed at random moments")
    sub.set_defaults(command=soak_for)
    sub.add_argument("minutes", nargs="?", type=_minutes, default=60.0, help="how long, as minutes=60 (the default)")
    sub.add_argument("--seed", type=int, default=0, help="seed for drawing what happens when (default: 0)")
    return parser


def _minutes(word: str) -> float:
    return float(word.removeprefix("minutes="))


if __name__ == "__main__":
    main()
