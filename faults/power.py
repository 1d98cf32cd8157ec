"""What a disk may lose when the power fails: whatever was not synced, of files and of the folders that name them.

A file's content is safe once the file was synced after its last write; a name (a new file or folder, a rename) once the
folder that contains it was synced afterwards. How much of the rest survives is up to the file system, so several losses
are tried. Source: Pillai et al. 2014, "All file systems are not created equal" (OSDI), whose persistence properties
these are.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from faults.shim import Call

LOSSES = ("content", "halves", "names", "renames")


@dataclass(slots=True)
class Unsynced:
    """What would not survive: contents of files, names of files and folders, and renames, oldest first."""

    content: set[Path] = field(default_factory=set)
    names: set[Path] = field(default_factory=set)
    renames: list[tuple[Path, Path]] = field(default_factory=list)

    def take(self, call: Call) -> None:
        """Account for one call."""
        path = Path(call.path)
        if call.name in ("create", "mkdir"):
            self.names.add(path)
        elif call.name in ("write", "truncate"):
            self.content.add(path)
        elif call.name == "fsync":
            self._synced(path)
        elif call.name == "rename":
            self._renamed(path, Path(call.other))

    def _synced(self, path: Path) -> None:
        self.content.discard(path)
        self.names = {name for name in self.names if name.parent != path}
        self.renames = [(old, new) for old, new in self.renames if path not in (old.parent, new.parent)]

    def _renamed(self, old: Path, new: Path) -> None:
        self.content = {_moved(path, old, new) for path in self.content}
        self.names = {_moved(path, old, new) for path in self.names}
        self.renames.append((old, new))


def lose(loss: str, done: Sequence[Call], folder: Path) -> None:
    """Remove from `folder` what the calls that were `done` had not synced.

    `content`: such files are empty; `halves`: they end in the middle; `names`: they are missing; `renames`: they are
    empty, and renames have not happened.
    """
    unsynced = Unsynced()
    for call in done:
        unsynced.take(call)
    for path in unsynced.content:
        if path.is_file():
            _cut(path, path.stat().st_size // 2 if loss == "halves" else 0)
    if loss == "names":
        for path in unsynced.names:
            _deleted(path)
    if loss == "renames":
        for old, new in reversed(unsynced.renames):
            new.rename(old)


def _moved(path: Path, old: Path, new: Path) -> Path:
    return new / path.relative_to(old) if path.is_relative_to(old) else path


def _cut(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


def _deleted(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
