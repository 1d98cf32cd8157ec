"""The promise of a disk that is really full: file systems in memory, from no free space to enough."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from encoderlab.runs.folder import RunFolder
from faults import saving
from faults.host import Job
from faults.promise import Conditions, Trial, UnavailableError
from faults.while_saving import due, unclear

PAGE = 4096  # bytes that a file system in memory allocates at a time


def small_disk(conditions: Conditions) -> Iterator[Trial]:
    """Save with space for the existing checkpoints and, page by page, for one more."""
    good = saving.prepared(conditions.scratch / "good")
    pages = _pages(good)
    sizes = range(pages, pages + pages // len(saving.BEFORE) + 8)
    with saving.host() as host:
        for size in conditions.of(sizes):
            with _mounted(conditions.scratch / "disk", size) as disk:
                folder = Path(shutil.copytree(good, disk / "run"))
                ended = host.run(Job("faults.saving:save", {"folder": str(folder), "step": saving.DISTURBED}))
                failure = unclear(ended) or saving.lost(folder, allowed=due(ended)) or _leftovers(folder)
                yield Trial(f"a disk of {size} pages, {pages} of them taken", failure)


def _leftovers(folder: Path) -> str:
    """Return what a failed save left on the full disk; "" if nothing."""
    left = [path.name for path in RunFolder(folder).checkpoints.iterdir() if not path.name.startswith("step-")]
    return f"{', '.join(left)} is left" if left else ""


def _pages(folder: Path) -> int:
    """Return the pages that a copy of the folder takes: those of its files, and one for each file and folder."""
    paths = [folder, *folder.rglob("*")]
    return sum(1 + (-(-path.stat().st_size // PAGE) if path.is_file() else 0) for path in paths)


@contextmanager
def _mounted(at: Path, pages: int) -> Iterator[Path]:
    at.mkdir()
    try:
        command = ["mount", "-t", "tmpfs", "-o", f"size={pages * PAGE}", "faults", str(at)]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UnavailableError("there is no mount") from None
    if found.returncode:
        raise UnavailableError(f"a file system in memory cannot be mounted here: {found.stderr.strip()}")
    try:
        yield at
    finally:
        subprocess.run(["umount", str(at)], check=True)
        at.rmdir()
