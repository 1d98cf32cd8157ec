"""The command line of the trials: list and run."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from encoderlab.errors import DataError, SettingError, TrainingError, UserError, closest
from faults import machines, processes, saving, training
from faults.promise import Conditions, Promise, Trial, UnavailableError, upper_bound

PROMISES = {
    promise.name: promise
    for promise in (
        Promise(
            "killed_while_saving",
            "Killed (kill -9) before, after or during any call of a save, a run still has the checkpoint being saved or the one "
            "before, intact; once saved, it stays; the next save works.",
            saving.killed,
            quick=12,
        ),
        Promise(
            "power_lost_while_saving",
            "The same if the machine stops and everything that was not synced is lost (simulated: contents, halves of contents, "
            "names, renames).",
            saving.without_power,
            quick=12,
        ),
        Promise(
            "refused_while_saving",
            "A disk that becomes full, read-only or faulty at any call of a save never costs the last good checkpoint; once there "
            "is space, the next save works.",
            saving.refused,
            quick=12,
        ),
        Promise(
            "damage_noticed",
            "Damage to a checkpoint, manifest included, is noticed: bits flipped, files truncated, zeroed, missing or swapped. It "
            "is set aside with one line, and the previous one is used; if all are damaged, none is.",
            saving.damaged,
            quick=60,
            full=1000,
        ),
        Promise(
            "model_damage_noticed",
            "Damage to any file of a model folder is noticed before it is used: one line and exit code 3.",
            training.model_damaged,
            quick=2,
            full=100,
        ),
        Promise(
            "killed_while_running",
            "Killed up to three times at random moments and resumed, a run ends with the weights, report, predictions and log of "
            "an undisturbed one.",
            training.killed,
            quick=1,
            full=200,
        ),
        Promise(
            "resumed_equals",
            "Resumed from any step, within an epoch or at an evaluation, a run ends bit for bit as if it had never stopped: with "
            "dropout, masked tokens, micro-batches, early stopping, the best or the last checkpoint kept, any batching.",
            training.resumed,
            quick=2,
        ),
        Promise(
            "nothing_left_out",
            "Every piece of a checkpoint's state is needed for that: if one is reset to its first value, some run ends differently.",
            training.nothing_left_out,
            quick=1,
        ),
        Promise(
            "stopped_by_a_signal",
            "SIGTERM or Ctrl-C at any moment: exit code 143 or 130, no traceback, and a line that says how to resume; the resumed "
            "run ends as if never interrupted, even after a second signal.",
            training.signalled,
            quick=1,
            full=60,
        ),
        Promise(
            "refused_while_running",
            "A disk that becomes full, read-only or faulty at any call ends a run with one line; once there is space, the run "
            "resumes and ends as if nothing had happened.",
            training.refused,
            quick=1,
            full=60,
        ),
        Promise(
            "one_folder",
            "If two processes start or resume a run in one folder at once, one ends as if it were alone, and the other says that "
            "the folder is in use.",
            training.one_folder,
            quick=1,
            full=20,
        ),
        Promise(
            "stopped_under_torchrun",
            "SIGTERM or Ctrl-C to torchrun or to one of its two processes: one line that says why the run ended and one that says "
            "how to resume; the resumed run ends bit for bit like an undisturbed one, sharded or not.",
            processes.signalled,
            quick=0,
        ),
        Promise(
            "process_lost",
            "If one of two processes is killed, the run ends, and resumes from its last checkpoint.",
            processes.one_lost,
            quick=0,
            full=12,
        ),
        Promise(
            "processes_changed",
            "A run that changes from one process to two and back takes the same steps over the same rows, and ends with the same "
            "scores, except for the order in which sums are rounded.",
            processes.number_changed,
            quick=0,
            full=12,
        ),
        Promise(
            "machines_equal",
            "On two machines, with one or two processes each, sharded or not: losses equal those of one process up to rounding, "
            "eval's scores bit for bit, and a resumed run ends bit for bit like one that never stopped.",
            machines.equal,
            quick=0,
        ),
        Promise(
            "machine_lost",
            "If one of two machines loses power, freezes or is cut off, the other ends with an error within minutes, nothing saved "
            "is lost, and resume=auto ends bit for bit like an undisturbed run.",
            machines.lost,
            quick=0,
        ),
    )
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


def list_promises(options: argparse.Namespace) -> None:
    """Print every promise."""
    for promise in PROMISES.values():
        print(f"{promise.name:<24} {promise.sentence}")


def run(options: argparse.Namespace) -> None:
    """Try promises and report failures. Raises SettingError, DataError, TrainingError."""
    unknown = next((name for name in options.promises if name not in PROMISES), None)
    if unknown is not None:
        near = closest(unknown, PROMISES)
        remedy = f"Did you mean {near}?" if near else ""
        raise SettingError(f"There is no promise {unknown}", allowed=", ".join(PROMISES), remedy=remedy)
    outcomes = [_run_one(PROMISES[name], options) for name in options.promises or PROMISES]
    if "failed" in outcomes:
        raise TrainingError("Not every promise is kept", remedy="See the lines above")
    if "kept" not in outcomes:
        raise DataError("No promise could be tried", remedy="See the lines above")


def _run_one(promise: Promise, options: argparse.Namespace) -> str:
    """Try one promise, print its row of RELIABILITY.md, and return kept, failed or skipped."""
    if options.quick and not promise.quick:
        return "skipped"
    number = options.trials or (promise.quick if options.quick else promise.full)
    started = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory(prefix="faults-") as scratch:
            conditions = Conditions(number, options.seed, Path(scratch).resolve())
            trials = list(_shown(promise, promise.trials(conditions)))
    except UnavailableError as error:
        print(f"faults: {promise.name} is skipped: {error}", file=sys.stderr)
        return "skipped"
    failures = sum(bool(trial.failure) for trial in trials)
    bound = upper_bound(failures, len(trials))
    print(f"| {promise.sentence} | `{promise.name}` | {len(trials):,} | {failures} | {bound:.2%} |")
    print(f"faults: {promise.name} took {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return "failed" if failures else "kept"


def _shown(promise: Promise, trials: Iterable[Trial]) -> Iterable[Trial]:
    """Yield the trials; show a line for each failure."""
    for number, trial in enumerate(trials, start=1):
        if trial.failure:
            print(f"{promise.name} {number}, {trial.case}: {trial.failure}", file=sys.stderr)
        yield trial


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m faults", description="Try what encoderlab promises about its runs.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("list", help="list every promise").set_defaults(command=list_promises)
    one = commands.add_parser("run", help="try promises, and print the rows of RELIABILITY.md")
    one.set_defaults(command=run)
    one.add_argument("promises", nargs="*", metavar="PROMISE", help="which (default: all)")
    one.add_argument("--trials", type=int, help="number of trials of each (default: as the promise says)")
    one.add_argument("--seed", type=int, default=0, help="seed for drawing the trials (default: 0)")
    one.add_argument("--quick", action="store_true", help="a few trials of each, as in the test suite")
    return parser


if __name__ == "__main__":
    main()
