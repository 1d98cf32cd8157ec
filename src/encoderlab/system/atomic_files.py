"""Writes beside a path and renames: whoever reads finds the old, the new or nothing, never half of it."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_aside(final: Path) -> Iterator[Path]:
    """A free path beside `final` to make a file or a folder at; it becomes `final` at the end, or is removed on an error."""
    aside = final.with_name(f".tmp-{uuid.uuid4().hex[:8]}-{final.name}")
    try:
        yield aside
        aside.replace(final)
    finally:
        if aside.is_dir():
            shutil.rmtree(aside, ignore_errors=True)
        elif aside.exists():
            aside.unlink()


def write_text_aside(path: Path, text: str) -> None:
    """Write a file whole or not at all, over what may be there."""
    with written_aside(path) as aside:
        aside.write_text(text, encoding="utf-8")


def write_synced(path: Path, content: bytes | memoryview) -> None:
    """Write a file and wait until it is on the disk. Raises OSError."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
