"""Promises of checkpoints damaged after saving: the damage is noticed, they are set aside, and an older one is used."""

from __future__ import annotations

import contextlib
import io
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from encoderlab.errors import DataError, UserError
from encoderlab.runs.folder import RunFolder
from encoderlab.training.checkpoint import checkpoints, newest_verified, read_weights
from faults import saving
from faults.promise import Conditions, Trial

Draw = random.Random
OLDER, NEWER = saving.BEFORE


def noticed(conditions: Conditions) -> Iterator[Trial]:
    """Try flipped bits, truncated and zeroed files, and swapped files or checkpoints; the older checkpoint must be
    used.
    """
    draw, kinds = Draw(conditions.seed), list(KINDS.items())
    good = saving.prepared(conditions.scratch / "good")
    for number in range(conditions.trials or 0):
        name, damage = kinds[number % len(kinds)]
        with saving.copied(good, conditions.scratch / "trial") as folder:
            where = damage(RunFolder(folder).checkpoints / f"step-{NEWER}", draw)
            older_is_whole = damage not in (_exchanged_file, _exchanged_checkpoint)
            yield Trial(f"{name}: {where}", _unnoticed(folder, older_is_whole))


def nothing_left(conditions: Conditions) -> Iterator[Trial]:
    """Damage all checkpoints: none may be used, and each must be reported in a line and set aside."""
    draw, kinds = Draw(conditions.seed), [kind for kind in KINDS.items() if "exchanged" not in kind[0]]
    good = saving.prepared(conditions.scratch / "good")
    for number in range(conditions.trials or 0):
        name, damage = kinds[number % len(kinds)]
        with saving.copied(good, conditions.scratch / "trial") as folder:
            where = [damage(path, draw) for path in checkpoints(RunFolder(folder).checkpoints)]
            yield Trial(f"{name}: {', '.join(where)}", _used(folder))


def _unnoticed(run: Path, older_is_whole: bool) -> str:
    """Return what went unnoticed of damage to the newest checkpoint; "" if nothing did."""
    folder = RunFolder(run).checkpoints
    with contextlib.suppress(UserError):
        read_weights(folder / f"step-{NEWER}")
        return "it was read as if it were whole"
    if not older_is_whole:
        return _used(run)
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        newest_verified(folder)
    if len(errors.getvalue().splitlines()) != 1:
        return f"not one line was errors: {errors.getvalue()!r}"
    if (folder / f"step-{NEWER}").exists() or not (folder / f"corrupt-step-{NEWER}").exists():
        return "it was not set aside"
    return saving.lost(run, allowed=(OLDER,))


def _used(run: Path) -> str:
    """Return what is wrong with how checkpoints that are all damaged were treated; "" if nothing is."""
    folder = RunFolder(run).checkpoints
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            return f"{newest_verified(folder)} was used"
        except DataError as error:
            refusal = str(error)
    if len(errors.getvalue().splitlines()) != len(saving.BEFORE) or "\n" in refusal:
        return f"not a line for each was errors: {errors.getvalue()!r}, {refusal!r}"
    return "" if len(list(folder.glob("corrupt-step-*"))) == len(saving.BEFORE) else "not all were set aside"


def _flipped(checkpoint: Path, draw: Draw) -> str:
    file, content = _drawn(checkpoint, draw)
    place, bit = draw.randrange(len(content)), draw.randrange(8)
    content[place] ^= 1 << bit
    file.write_bytes(content)
    return f"bit {bit} of byte {place} of {file.name}"


def _cut_off(checkpoint: Path, draw: Draw) -> str:
    file, content = _drawn(checkpoint, draw)
    size = draw.randrange(len(content))
    file.write_bytes(content[:size])
    return f"{file.name} after {size} bytes"


def _zeroed(checkpoint: Path, draw: Draw) -> str:
    file, content = _drawn(checkpoint, draw)
    last = max(place for place, byte in enumerate(content) if byte)
    start = draw.randrange(last + 1)
    file.write_bytes(content[:start] + bytes(len(content) - start))
    return f"{file.name} from byte {start} on"


def _missing(checkpoint: Path, draw: Draw) -> str:
    file, _ = _drawn(checkpoint, draw)
    file.unlink()
    return file.name


def _exchanged_file(checkpoint: Path, draw: Draw) -> str:
    file, _ = _drawn(checkpoint, draw)
    return _exchanged(file, checkpoint.with_name(f"step-{OLDER}") / file.name)


def _exchanged_checkpoint(checkpoint: Path, draw: Draw) -> str:
    return _exchanged(checkpoint, checkpoint.with_name(f"step-{OLDER}"))


def _exchanged(one: Path, other: Path) -> str:
    between = one.with_name("between")
    for old, new in ((one, between), (other, one), (between, other)):
        shutil.move(old, new)
    return one.name


def _drawn(checkpoint: Path, draw: Draw) -> tuple[Path, bytearray]:
    file = draw.choice(sorted(checkpoint.iterdir()))
    return file, bytearray(file.read_bytes())


KINDS: dict[str, Callable[[Path, Draw], str]] = {
    "a flipped bit": _flipped,
    "a file cut off": _cut_off,
    "an end of zeros": _zeroed,
    "a missing file": _missing,
    "exchanged files": _exchanged_file,
    "exchanged checkpoints": _exchanged_checkpoint,
}
