"""Files that appear whole or not at all; and a folder's manifest of SHA-256 hashes, which notices damage."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import platform
import shutil
import uuid
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from encoderlab.errors import DataError, SettingError


@contextmanager
def atomic_write(final: Path) -> Iterator[Path]:
    """Yield a free path next to `final` for a file or folder, which becomes `final` unless an error occurs.

    What processes of this machine that are no longer there have left of the same file is removed.
    """
    for abandoned in _abandoned(final):
        _remove(abandoned)
    temporary = final.with_name(f".tmp-{_machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}-{final.name}")
    try:
        yield temporary
        temporary.replace(final)
    finally:
        _remove(temporary)


def _remove(path: Path) -> None:
    """Delete a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _abandoned(final: Path) -> list[Path]:
    """Return the unfinished versions of `final` whose processes of this machine have ended."""
    start = f".tmp-{_machine()}-"
    paths = final.parent.glob(f"{start}*-????????-{glob.escape(final.name)}")
    return [path for path in paths if not _is_running(path.name.removeprefix(start).partition("-")[0])]


def _machine() -> str:
    """Return eight characters that are the same on this machine and mostly differ on others that share a disk."""
    return f"{zlib.crc32(platform.node().encode()):08x}"


def _is_running(process: str) -> bool:
    """Return whether there is a process of this number; True if it is no number or cannot be known."""
    if not process.isdigit() or os.name != "posix":
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


@contextmanager
def written_whole(setting: str, path: Path) -> Iterator[Path]:
    """Yield a temporary path that becomes `path`, which a user's `setting` names, whole or not at all.

    Raises DataError if it cannot be written.
    """
    try:
        with atomic_write(path) as temporary:
            yield temporary
    except OSError as error:
        problem = f"{setting}={path} cannot be written: {error.strerror}"
        raise DataError(problem, remedy="Choose another folder") from None


def expanded(path: str | Path, setting: str) -> Path:
    """Return a path with ~ expanded. Raises SettingError if there is no such home folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError:  # neither HOME nor an entry in /etc/passwd, as in a container with a number for a user
        variable = " or ENCODERLAB_CACHE" if setting == "cache_dir" else ""
        problem = f"{setting}={path} is in a home folder that is not known"
        raise SettingError(problem, remedy=f"Set {setting}{variable} to a folder that can be written") from None


def atomic_write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all, replacing an existing one."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_synced(path: Path, content: bytes | memoryview) -> None:
    """Write a file and wait until it is on the disk. Raises OSError."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


MANIFEST = "manifest.json"
MOST_OF_A_MANIFEST = 10_000  # bytes


def write_manifest(folder: Path, names: Iterable[str], **facts: int) -> None:
    """Write manifest.json: the SHA-256 of each named file in `folder`, read back from it, and further `facts`."""
    hashes = {name: sha256_of(folder / name) for name in names}
    write_synced(folder / MANIFEST, json.dumps({**facts, "sha256": hashes}, indent=2).encode())


def differing_files(folder: Path, names: Collection[str] | None = None, **facts: int) -> list[str]:
    """Return the names of the files in `folder` that are missing, or differ from its manifest.

    It is manifest.json itself if that is unreadable, or has other `facts` or other `names` (None: any).
    """
    try:
        with (folder / MANIFEST).open("rb") as file:
            manifest = json.loads(file.read(MOST_OF_A_MANIFEST))
        hashes = manifest.pop("sha256")
        if manifest != facts or (names is not None and set(hashes) != set(names)):
            return [MANIFEST]
        if any(Path(name).is_absolute() or ".." in Path(name).parts for name in hashes):  # it leads out of the folder
            return [MANIFEST]
        # A pipe or a device instead of a file might never end.
        paths = {folder / name: stated for name, stated in hashes.items()}
        differing = [path for path, stated in paths.items() if not path.is_file() or sha256_of(path) != stated]
        return [path.relative_to(folder).as_posix() for path in differing]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return [MANIFEST]


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
