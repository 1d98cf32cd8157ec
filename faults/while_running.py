"""Promises of a run that is killed, stopped, or left without a disk at any moment, and of several that want one folder."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle, islice, product
from pathlib import Path

from encoderlab.runs.folder import RunFolder
from faults.host import TIMEOUT, Ended, Job, Sent
from faults.promise import Conditions, Trial
from faults.running import SETTINGS, Bed, shared_folder, shared_host
from faults.shim import Action, Fault
from faults.while_saving import ERROR_CODES, HOW_TO_RESUME

STARTS = 6  # of one run, the last ones undisturbed: more than enough to end
MOST_KILLS = 3
BEGINNING = 20  # calls: the folder, its records, and the first checkpoint
LOADING = 3.0  # seconds that a program takes to get to where a forked child begins
NAMES = (signal.SIGTERM, signal.SIGINT)
Moment = tuple[Fault | None, tuple[Sent, ...]]


def killed(conditions: Conditions) -> Iterator[Trial]:
    """Kill a run (kill -9) up to three times, at a random time or call, and resume it each time."""
    bed, draw = Bed(), random.Random(conditions.seed)
    for _ in range(conditions.trials or 0):
        moments: list[str] = []
        for start in range(STARTS):
            disturbed = start == 0 or (start < MOST_KILLS and draw.random() < 0.5)
            fault, signals = _moment(bed, draw, signal.SIGKILL) if disturbed else (None, ())
            ended = bed.resume(fault=fault, signals=signals)
            moments.append(_in_words(fault, signals))
            if bed.finished or ended.code not in (0, -signal.SIGKILL):
                break
        failure = "" if ended.code in (0, -signal.SIGKILL) else f"exit code {ended.code}: {ended.last_line}"
        yield Trial(f"killed {', then '.join(moments)}", failure or bed.differs())
        bed.clear()


def signalled(conditions: Conditions) -> Iterator[Trial]:
    """Send SIGTERM and SIGINT, to the process and to its group, at random times and calls; every fifth one twice."""
    bed, draw = Bed(), random.Random(conditions.seed)
    for place, (number, group) in enumerate(islice(cycle(product(NAMES, (False, True))), conditions.trials or 0)):
        fault, signals = _moment(bed, draw, number, group=group)
        if place % 5 == 4:
            first = signals[0].after if signals else draw.uniform(0, bed.seconds)
            fault, signals = None, (Sent(first, number, group), Sent(first + 0.02, number, group))
        ended = bed.start(fault=fault, signals=signals)
        case = f"{signal.Signals(number).name} to the {'group' if group else 'process'}, {_in_words(fault, signals)}"
        yield Trial(case, _badly_stopped(bed, ended, number, twice=len(signals) == 2) or _goes_on(bed))
        bed.clear()


def signalled_process(conditions: Conditions) -> Iterator[Trial]:
    """Send signals to a separate program, including Python's start, from when it handles them."""
    bed, draw = Bed(), random.Random(conditions.seed)
    for number in islice(cycle(NAMES), conditions.trials or 0):
        after = draw.uniform(0, bed.seconds + LOADING)
        ended = _process(bed, number, after)
        case = f"{signal.Signals(number).name} after {after:.2f} s"
        yield Trial(case, _badly_stopped(bed, ended, number, twice=False) or _goes_on(bed))
        bed.clear()


def refused(conditions: Conditions) -> Iterator[Trial]:
    """Try a disk that is full, read-only or failing from a call of a run on."""
    bed, draw = Bed(), random.Random(conditions.seed)
    for number in islice(cycle((errno.ENOSPC, errno.EROFS, errno.EIO)), conditions.trials or 0):
        fault = Fault(Action.fail_from, draw.randrange(1, len(bed.calls) + 1), number)
        ended = bed.start(fault=fault)
        case = f"{errno.errorcode[number]} from call {fault.at} of {len(bed.calls)} on"
        yield Trial(case, "" if bed.finished else _badly_refused(ended) or _goes_on(bed))
        bed.clear()


def one_folder(conditions: Conditions) -> Iterator[Trial]:
    """Start two runs at once in one folder; in every other trial it contains a run that both want to resume."""
    bed, draw = Bed(), random.Random(conditions.seed)
    command = [*bed.settings, bed.cache, f"run_dir={bed.trial}"]
    for place in range(conditions.trials or 0):
        if place % 2:
            fault, signals = _moment(bed, draw, signal.SIGKILL)
            bed.start(fault=fault, signals=signals)
        begun = RunFolder(bed.trial).config.exists() and not bed.finished
        both = [bed.settings[0], bed.cache, f"resume={bed.trial}"] if begun else command
        if not bed.finished:
            ended = _race([both, both], bed.folder)
            yield Trial(f"both {'go on' if begun else 'begin'}", _not_one_of(ended) or bed.differs())
        bed.clear()


def sweep(conditions: Conditions) -> Iterator[Trial]:
    """Start eight runs of one task at once without names: each must get its own folder."""
    settings = [one for one in SETTINGS if not one.startswith("seed=")]
    for _ in range(conditions.trials or 0):
        with tempfile.TemporaryDirectory(dir=shared_folder()) as folder:
            cache = f"cache_dir={shared_folder() / 'cache'}"
            ended = _race([[*settings, cache, "training.steps=3", f"seed={seed}"] for seed in range(8)], Path(folder))
            found = [path for path in Path(folder).glob("outputs/train/reverse/*") if RunFolder(path).finished]
            failed = next((one.last_line for one in ended if one.code), "")
            yield Trial("eight at once", failed or ("" if len(found) == len(ended) else f"{len(found)} folders"))


def answers(process: int, number: int) -> bool:
    """Return whether a process handles the signal by itself: from the start, Python does so for SIGINT but not for
    SIGTERM.
    """
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    caught = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt:"))
    return all(caught >> one - 1 & 1 for one in (number, signal.SIGTERM))


def _moment(bed: Bed, draw: random.Random, number: int, *, group: bool = False) -> Moment:
    """Return a random moment of a run: half of them by the clock, a quarter at any call, a quarter at one of the first
    calls.
    """
    if draw.random() < 0.5:
        return None, (Sent(draw.uniform(0, bed.seconds), number, group),)
    action = draw.choice((Action.signal_before, Action.signal_after, Action.signal_halfway))
    calls = draw.choice((len(bed.calls), BEGINNING))
    return Fault(action, draw.randrange(1, calls + 1), number, group), ()


def _process(bed: Bed, number: int, after: float) -> Ended:
    """Run the command as a process that gets a signal `after` seconds from when it handles it (proc_pid_status(5):
    SigCgt).
    """
    command = [sys.executable, "-m", "encoderlab", *bed.settings, bed.cache, f"run_dir={bed.trial}"]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        child = subprocess.Popen(command, cwd=bed.folder, env=one_thread, stdout=output, stderr=output)
        while child.poll() is None and not answers(child.pid, number):
            time.sleep(0.001)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(after)
        child.send_signal(number)
        code = child.wait(TIMEOUT)
        output.seek(0)
        return Ended(code, output.read(), after)


def _in_words(fault: Fault | None, signals: tuple[Sent, ...]) -> str:
    if fault is not None:
        return f"{fault.action.name.replace('signal_', '')} call {fault.at}"
    return " and ".join(f"after {sent.after:.3f} s" for sent in signals) or "no more"


def _badly_stopped(bed: Bed, ended: Ended, number: int, *, twice: bool) -> str:
    """Return what is wrong with how a run ended on a signal; "" if nothing is."""
    if ended.code == 0:
        return "" if bed.finished else "exit code 0 without a report"
    if (
        bed.finished and ended.code == -number
    ):  # everything was done, and the program was exiting; a shell gets the same number
        return ""
    if ended.code != 128 + number:
        return f"exit code {ended.code}: {ended.last_line}"
    if "Traceback" in ended.output:
        return f"a traceback, ending in {ended.last_line}"
    if twice:  # the second signal ends the process in the middle of anything
        return ""
    if not ended.last_line.startswith("encoderlab: stopped by"):
        return f"it did not say why it ended: {ended.last_line}"
    says_how = any(line.startswith(HOW_TO_RESUME) for line in ended.lines)
    continuable = RunFolder(bed.trial).worth_continuing and not bed.finished
    return "" if says_how or not continuable else "it did not say how to resume"


def _badly_refused(ended: Ended) -> str:
    if ended.code not in ERROR_CODES:
        return f"exit code {ended.code}: {ended.last_line}"
    lines = [line for line in ended.lines if line.startswith("encoderlab:")]
    return "" if len(lines) == 1 and "Traceback" not in ended.output else f"not one line: {ended.output[-500:]!r}"


def _goes_on(bed: Bed) -> str:
    """Return what is wrong with the resumed run; "" if it ends as if nothing had happened."""
    if not bed.finished:
        ended = bed.resume()
        if ended.code:
            return f"resuming ended with exit code {ended.code}: {ended.last_line}"
    return bed.differs()


def _race(commands: list[list[str]], folder: Path) -> list[Ended]:
    ended = shared_host().run(Job("faults.racing:race", {"commands": commands, "folder": str(folder)}))
    return [Ended(**json.loads(line)) for line in ended.lines if line.startswith("{")]


def _not_one_of(ended: list[Ended]) -> str:
    """Return what is wrong if two wanted one folder: one must succeed, and the other say that it is in use."""
    codes = sorted(one.code for one in ended)
    if codes != [0, 2]:
        return f"exit codes {codes}: {'; '.join(one.last_line for one in ended)}"
    loser = next(one for one in ended if one.code)
    taken = ("Another process is using", "already holds", "is finished")
    return "" if any(words in loser.last_line for words in taken) else f"the other said: {loser.last_line}"
