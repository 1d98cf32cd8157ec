"""Atomic writes, by renaming a temporary file: readers find the old file, the new one or none, never half of it."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(final: Path) -> Iterator[Path]:
    """Yield a free path next to `final` for a file or a folder; it becomes `final` at the end, or is removed on an
    error.
    """
    temporary = final.with_name(f".tmp-{uuid.uuid4().hex[:8]}-{final.name}")
    try:
        yield temporary
        temporary.replace(final)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        elif temporary.exists():
            temporary.unlink()


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
