"""Trials of checkpoints: a save that is cut off at any of its calls, and files that are damaged afterwards.

What a disk may lose when the power fails is whatever was not synced: a file's content is safe once the file was synced
after its last write; a name (a new file or folder, a rename) once the folder that contains it was synced afterwards.
How much of the rest survives is up to the file system, so several losses are tried. Source: Pillai et al. 2014, "All
file systems are not created equal" (OSDI).
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from encoderlab.errors import DataError, UserError
from encoderlab.training.checkpoint import (
    checkpoints,
    clear_unfinished,
    newest_verified,
    prune,
    read_state,
    read_weights,
    save_checkpoint,
    step_of,
)
from faults.host import Ended, Host, Job
from faults.promise import Conditions, Trial
from faults.shim import Action, Call, Fault, calls_in

KEPT = 2
BEFORE = (0, 10)  # the existing steps
DISTURBED = 20  # the one whose saving is disturbed
NEXT = 30
OLDER, NEWER = BEFORE
SAVED = "saved"  # once this is printed, the checkpoint must survive
CUTS = (Action.signal_before, Action.signal_after, Action.signal_halfway)
KILLS = [Fault(action, value=signal.SIGKILL) for action in CUTS]
REFUSALS = [
    Fault(Action.fail_from, value=errno.ENOSPC),
    Fault(Action.half_then_fail, value=errno.ENOSPC),
    Fault(Action.fail_from, value=errno.EROFS),
    Fault(Action.fail_from, value=errno.EIO),
    Fault(Action.fail_once, value=errno.EIO),
    Fault(Action.always_half),  # allowed by write(2): the rest must be written by further calls
]
WRITES_ONLY = (Action.signal_halfway, Action.half_then_fail)
LOSSES = ("content", "halves", "names", "renames")
ERROR_CODES = (DataError.exit_code, 4)


# What a child does


@cache
def content(step: int) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Return weights and state that differ for each step, of a size that takes several writes."""
    draw = torch.Generator().manual_seed(step)
    weights = {f"layer.{place}": torch.randn(64, 40, generator=draw) for place in range(4)}
    moments = {name: torch.randn(64, 40, generator=draw) for name in ("exp_avg", "exp_avg_sq")}
    optimizer = {"state": {0: moments}, "param_groups": [{"lr": 1e-3, "params": [0]}]}
    return weights, {"step": step, "optimizer": optimizer, "random_state": draw.get_state()}


def save(folder: str, step: int) -> None:
    """Save a checkpoint, say so, and delete those no longer needed, as a run does. Raises UserError."""
    clear_unfinished(Path(folder))
    try:
        save_checkpoint(Path(folder), step, *content(step))
    except OSError as error:  # a run turns it into such a line, too
        raise DataError(f"{folder} cannot be written: {error.strerror}") from None
    print(SAVED, flush=True)
    with contextlib.suppress(OSError):
        prune(Path(folder), newest=KEPT, keep=())


def delete_then_save(folder: str, step: int) -> None:
    """Save, unlike a run, to one place for all checkpoints, to show that these trials notice losses."""
    for path in checkpoints(Path(folder)):
        shutil.rmtree(path)
    save(folder, step)


def save_unsynced(folder: str, step: int) -> None:
    """Save, unlike a run, without fsync, to show that these trials notice losses."""
    os.fsync = lambda descriptor: None  # in a child that ends after this
    save(folder, step)


# The trials


def killed(conditions: Conditions, work: str = "save") -> Iterator[Trial]:
    """Kill (kill -9) before and after every call, and between the halves of every write."""
    for case, folder, ended, _ in _disturbed(conditions, KILLS, work):
        unharmed = "" if ended.code == -signal.SIGKILL else f"it was not killed: {ended.last_line}"
        yield Trial(case, unharmed or lost(folder, allowed=_due(ended)) or _stuck(folder))


def without_power(conditions: Conditions, work: str = "save") -> Iterator[Trial]:
    """Stop the machine before every call and lose whatever a disk may lose of what was not synced."""
    share = None if conditions.trials is None else -(-conditions.trials // len(LOSSES))
    stop = Fault(Action.signal_before, value=signal.SIGKILL)
    for case, folder, ended, done in _disturbed(replace(conditions, trials=share), [stop], work):
        stopped = folder.rename(conditions.scratch / "stopped")
        for loss in LOSSES:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(stopped, folder)
            lose(loss, done[:-1], folder)  # the last call was recorded, but not done
            yield Trial(f"{loss} lost, {case}", lost(folder, allowed=_due(ended)) or _stuck(folder))
        shutil.rmtree(stopped)


def refused(conditions: Conditions, work: str = "save") -> Iterator[Trial]:
    """Try a disk that is full (even mid-write) or read-only from a call on, or failing at one or from one on."""
    for case, folder, ended, _ in _disturbed(conditions, REFUSALS, work):
        yield Trial(case, _unclear(ended) or lost(folder, allowed=_due(ended)) or _stuck(folder))


def damaged(conditions: Conditions) -> Iterator[Trial]:
    """Damage the newest checkpoint: the one before must be used. In some trials damage all: none may be used."""
    draw = random.Random(conditions.seed)
    kinds = list(DAMAGES.items())
    good = prepare(conditions.scratch / "good")
    for number in range(conditions.trials or 0):
        name, damage = kinds[number % len(kinds)]
        with _copied(good, conditions.scratch / "trial") as folder:
            if number % 6 == 5 and name != "swapped":
                where = ", ".join(damage(path, draw) for path in checkpoints(folder))
                failure = _used(folder)
            else:
                where = damage(folder / f"step-{NEWER}", draw)
                failure = _unnoticed(folder, older_is_whole=name != "swapped")
            yield Trial(f"{name}: {where}", failure)


def _disturbed(
    conditions: Conditions, faults: Sequence[Fault], work: str
) -> Iterator[tuple[str, Path, Ended, list[Call]]]:
    """Yield, for each fault at each call of a save, the case, the folder, how the child ended and the calls it made."""
    good, trial, journal = (conditions.scratch / name for name in ("good", "trial", "journal"))
    prepare(good)
    with Host(("encoderlab.training.checkpoint", "faults.saving")) as host:
        with _copied(good, trial):
            calls = _run(host, work, trial, journal, Fault(Action.count))[1]
        for fault, call in conditions.select(_cases(faults, calls)):
            with _copied(good, trial):
                ended, done = _run(host, work, trial, journal, replace(fault, at=call.number))
                yield f"{fault.words}, call {call.number} of {len(calls)}: {call.words}", trial, ended, done


def _cases(faults: Sequence[Fault], calls: Sequence[Call]) -> list[tuple[Fault, Call]]:
    """Return each fault at each call: those that halve a write only at writes, and one that halves all once."""
    return [
        (fault, call)
        for fault in faults
        for call in (calls[:1] if fault.action is Action.always_half else calls)
        if call.name == "write" or fault.action not in WRITES_ONLY
    ]


def _run(host: Host, work: str, folder: Path, journal: Path, fault: Fault) -> tuple[Ended, list[Call]]:
    journal.unlink(missing_ok=True)
    arguments = {"folder": str(folder), "step": DISTURBED}
    ended = host.run(Job(f"faults.saving:{work}", arguments, str(folder), fault, str(journal)))
    return ended, calls_in(journal)


def prepare(folder: Path) -> Path:
    """Return the folder with the undisturbed checkpoints, creating it if necessary."""
    for step in () if folder.exists() else BEFORE:
        save_checkpoint(folder, step, *content(step))
    return folder


@contextlib.contextmanager
def _copied(folder: Path, to: Path) -> Iterator[Path]:
    """Yield a copy to disturb, deleted afterwards."""
    shutil.copytree(folder, to)
    try:
        yield to
    finally:
        shutil.rmtree(to)


# What is wrong afterwards


def _due(ended: Ended) -> tuple[int, ...]:
    """Return the steps that may be the newest: the save may or may not be done, but once it is reported, it is done."""
    return (DISTURBED,) if SAVED in ended.lines else (NEWER, DISTURBED)


def _unclear(ended: Ended) -> str:
    """Return what is wrong with how a failed save reported it: with one line and an exit code."""
    if ended.code == 0:
        return "" if ended.lines == [SAVED] else f"it continued, and printed: {ended.output!r}"
    if ended.code not in ERROR_CODES:
        return f"exit code {ended.code}: {ended.last_line}"
    return "" if len([line for line in ended.lines if line != SAVED]) == 1 else f"not one line: {ended.output!r}"


def lost(folder: Path, *, allowed: tuple[int, ...]) -> str:
    """Return what is wrong with the newest verified checkpoint, which must be of one of the `allowed` steps."""
    try:
        newest = newest_verified(folder)
        if newest is None:
            return "no checkpoint is left"
        if step_of(newest) not in allowed:
            return f"the newest verified checkpoint is step {step_of(newest)}"
        weights, state = content(step_of(newest))
        intact = same(read_weights(newest), weights) and same(read_state(newest), state)
    except UserError as error:
        return str(error)
    return "" if intact else f"{newest.name} contains something else"


def _stuck(folder: Path) -> str:
    """Return what is wrong with the next save; "" if it works as if nothing had happened."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            save(str(folder), NEXT)
    except (UserError, OSError) as error:
        return f"the next save failed: {error}"
    left = [path.name for path in folder.glob(".tmp-*")]
    return f"{', '.join(left)} is left" if left else lost(folder, allowed=(NEXT,))


def _unnoticed(folder: Path, *, older_is_whole: bool) -> str:
    """Return what went unnoticed of damage to the newest checkpoint; "" if nothing did."""
    with contextlib.suppress(UserError):
        read_weights(folder / f"step-{NEWER}")
        return "it was read as if it were whole"
    if not older_is_whole:
        return _used(folder)
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        newest_verified(folder)
    if len(errors.getvalue().splitlines()) != 1:
        return f"not one line: {errors.getvalue()!r}"
    if (folder / f"step-{NEWER}").exists() or not (folder / f"corrupt-step-{NEWER}").exists():
        return "it was not set aside"
    return lost(folder, allowed=(OLDER,))


def _used(folder: Path) -> str:
    """Return what is wrong with how checkpoints that are all damaged were treated; "" if nothing is."""
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            return f"{newest_verified(folder)} was used"
        except DataError as error:
            refusal = str(error)
    if len(errors.getvalue().splitlines()) != len(BEFORE) or "\n" in refusal:
        return f"not a line for each: {errors.getvalue()!r}, {refusal!r}"
    return "" if len(list(folder.glob("corrupt-step-*"))) == len(BEFORE) else "not all were set aside"


def same(one: Any, other: Any) -> bool:
    """Return whether two nested values are equal, tensors in every bit."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


# Lost power


def lose(loss: str, done: Sequence[Call], folder: Path) -> None:
    """Remove from `folder` what the calls that were `done` had not synced.

    `content`: such files are empty; `halves`: they end in the middle; `names`: they are missing; `renames`: they are
    empty, and renames have not happened.
    """
    contents, names, renames = _unsynced(done)
    for path in contents:
        if path.is_file():
            os.truncate(path, path.stat().st_size // 2 if loss == "halves" else 0)
    for path in names if loss == "names" else ():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for old, new in reversed(renames) if loss == "renames" else ():
        new.rename(old)


def _unsynced(done: Sequence[Call]) -> tuple[set[Path], set[Path], list[tuple[Path, Path]]]:
    """Return what would not survive: contents of files, names of files and folders, and renames, oldest first."""
    contents: set[Path] = set()
    names: set[Path] = set()
    renames: list[tuple[Path, Path]] = []
    for call in done:
        path = Path(call.path)
        other = Path(call.other)
        if call.name in ("create", "mkdir"):
            names.add(path)
        elif call.name in ("write", "truncate"):
            contents.add(path)
        elif call.name == "fsync":
            contents.discard(path)
            names = {name for name in names if name.parent != path}
            renames = [(old, new) for old, new in renames if path not in (old.parent, new.parent)]
        elif call.name == "rename":
            contents = {_moved(inside, path, other) for inside in contents}
            names = {_moved(inside, path, other) for inside in names}
            renames.append((path, other))
    return contents, names, renames


def _moved(path: Path, old: Path, new: Path) -> Path:
    return new / path.relative_to(old) if path.is_relative_to(old) else path


# Damage: each function damages a folder of files, and returns where


def _flip(folder: Path, draw: random.Random) -> str:
    file = draw.choice(_files(folder))
    data = bytearray(file.read_bytes())
    place = draw.randrange(len(data))
    bit = draw.randrange(8)
    data[place] ^= 1 << bit
    file.write_bytes(data)
    return f"bit {bit} of byte {place} of {file.name}"


def _cut_off(folder: Path, draw: random.Random) -> str:
    file = draw.choice(_files(folder))
    size = draw.randrange(file.stat().st_size)
    os.truncate(file, size)
    return f"{file.name} after {size} bytes"


def _zero(folder: Path, draw: random.Random) -> str:
    file = draw.choice(_files(folder))
    data = file.read_bytes()
    start = draw.randrange(max(place for place, byte in enumerate(data) if byte) + 1)
    file.write_bytes(data[:start] + bytes(len(data) - start))
    return f"{file.name} from byte {start} on"


def _remove(folder: Path, draw: random.Random) -> str:
    file = draw.choice(_files(folder))
    file.unlink()
    return file.name


def _swap(checkpoint: Path, draw: random.Random) -> str:
    """Swap a file with that of the older checkpoint."""
    file = draw.choice(_files(checkpoint))
    between = file.with_name("between")
    other = checkpoint.with_name(f"step-{OLDER}") / file.name
    for old, new in ((file, between), (other, file), (between, other)):
        shutil.move(old, new)
    return file.name


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())


Damage = Callable[[Path, random.Random], str]
IN_PLACE: dict[str, Damage] = {"flipped": _flip, "cut off": _cut_off, "zeroed": _zero, "missing": _remove}
DAMAGES = IN_PLACE | {"swapped": _swap}
