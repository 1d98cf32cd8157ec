"""Promises of a save that is cut off at any of its calls: killed, without power, or on a disk that is full or failing."""

from __future__ import annotations

import errno
import shutil
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from faults import saving
from faults.host import Ended, Host, Job
from faults.power import LOSSES, lose
from faults.promise import Conditions, Trial
from faults.shim import Action, Call, Fault, calls_in

KILLS = [
    Fault(action, value=signal.SIGKILL) for action in (Action.signal_before, Action.signal_after, Action.signal_halfway)
]
REFUSALS = [
    Fault(Action.fail_from, value=errno.ENOSPC),
    Fault(Action.half_then_fail, value=errno.ENOSPC),
    Fault(Action.fail_from, value=errno.EROFS),
    Fault(Action.fail_from, value=errno.EIO),
    Fault(Action.fail_once, value=errno.EIO),
    Fault(Action.always_half),  # allowed by write(2): the rest must be written by further calls
]
ERROR_CODES = (3, 4)  # of DataError and TrainingError
HOW_TO_RESUME = "Progress saved. Resume with: "
WRITES_ONLY = (Action.signal_halfway, Action.half_then_fail)


def killed(conditions: Conditions, work: str = "save") -> Iterator[Trial]:
    """Kill (kill -9) before and after every call, and between the halves of every write."""
    for case, folder, ended, _ in _disturbed(conditions, KILLS, work):
        unharmed = "" if ended.code == -signal.SIGKILL else f"it was not killed: {ended.last_line}"
        yield Trial(case, unharmed or saving.lost(folder, allowed=due(ended)) or saving.stuck(folder))


def without_power(conditions: Conditions, work: str = "save") -> Iterator[Trial]:
    """Stop the machine before every call and lose whatever a disk may lose of what was not synced; see power.py."""
    share = None if conditions.trials is None else -(-conditions.trials // len(LOSSES))
    stop = Fault(Action.signal_before, value=signal.SIGKILL)
    for case, folder, ended, done in _disturbed(replace(conditions, trials=share), [stop], work):
        stopped = folder.rename(conditions.scratch / "stopped")
        for loss in LOSSES:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(stopped, folder)
            lose(loss, done[:-1], folder)  # the last call was recorded, but not done
            yield Trial(f"{loss} lost, {case}", saving.lost(folder, allowed=due(ended)) or saving.stuck(folder))
        shutil.rmtree(stopped)


def refused(conditions: Conditions, work: str = "save") -> Iterator[Trial]:
    """Try a disk that is full from a call on (even mid-write), read-only from a call on, or failing at one call or from
    it on.
    """
    for case, folder, ended, _ in _disturbed(conditions, REFUSALS, work):
        yield Trial(case, unclear(ended) or saving.lost(folder, allowed=due(ended)) or saving.stuck(folder))


def due(ended: Ended) -> tuple[int, ...]:
    """Return the steps that may be the newest: the save may or may not be done, but once it is reported, it is done."""
    return (saving.DISTURBED,) if saving.SAVED in ended.lines else (saving.BEFORE[-1], saving.DISTURBED)


def unclear(ended: Ended) -> str:
    """Return what is wrong with how a program that could not continue reported it: it owes its user one line and an
    exit code.
    """
    if ended.code == 0:
        return "" if ended.lines == [saving.SAVED] else f"it continued, and printed: {ended.output!r}"
    if ended.code not in ERROR_CODES:
        return f"exit code {ended.code}: {ended.last_line}"
    lines = [line for line in ended.lines if line != saving.SAVED and not line.startswith(HOW_TO_RESUME)]
    return "" if len(lines) == 1 else f"{len(lines)} lines: {ended.output!r}"


def _disturbed(
    conditions: Conditions, faults: Sequence[Fault], work: str
) -> Iterator[tuple[str, Path, Ended, list[Call]]]:
    """Yield, for each fault at each call of a save, the case, the folder afterwards, how the child ended and the calls
    it made.
    """
    good, trial, journal = (conditions.scratch / name for name in ("good", "trial", "journal"))
    saving.prepared(good)
    with saving.host() as host:
        with saving.copied(good, trial):
            calls = _run(host, work, trial, journal, Fault(Action.count))[1]
        for fault, call in conditions.of(_cases(faults, calls)):
            with saving.copied(good, trial):
                ended, done = _run(host, work, trial, journal, replace(fault, at=call.number))
                yield _in_words(fault, call, len(calls)), trial, ended, done


def _cases(faults: Sequence[Fault], calls: Sequence[Call]) -> list[tuple[Fault, Call]]:
    """Return each fault at each call; faults that halve a write only at writes, and one that halves all of them once."""
    return [
        (fault, call)
        for fault in faults
        for call in (calls[:1] if fault.action is Action.always_half else calls)
        if call.name == "write" or fault.action not in WRITES_ONLY
    ]


def _run(host: Host, work: str, folder: Path, journal: Path, fault: Fault) -> tuple[Ended, list[Call]]:
    journal.unlink(missing_ok=True)
    arguments = {"folder": str(folder), "step": saving.DISTURBED}
    ended = host.run(Job(f"faults.saving:{work}", arguments, str(folder), fault, str(journal)))
    return ended, calls_in(journal)


def _in_words(fault: Fault, call: Call, of: int) -> str:
    """Return the case in words, such as "fail_from ENOSPC, call 7 of 30: write state.pt"."""
    signalled = fault.action.name.startswith("signal")
    value = signal.Signals(fault.value).name if signalled else errno.errorcode.get(fault.value, "")
    action = fault.action.name.replace("_", " ")
    return f"{action} {value}, call {call.number} of {of}: {call.name} {Path(call.path).name}"
