"""Documents in .txt files, a single file or a folder of them: a paragraph per line, blank lines between documents."""

from __future__ import annotations

import tempfile
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from encoderlab.data.files.encodings import AUTO, with_encodings
from encoderlab.data.files.text_files import place, plain_lines
from encoderlab.data.sources.columns import Rows
from encoderlab.errors import DataError

_SPLITS = ("train", "validation", "test")
_CHARACTERS_PER_BATCH = 4_000_000
_SCHEMA = pa.schema({"text": pa.large_string()})  # offsets of 64 bits, so that documents may have any length


def split_folders(path: Path) -> dict[str, Path]:
    """Return each split's folder: those named train, validation and test inside `path`, or `path` itself as the training split.

    Raises DataError if there is anything else next to a folder named train.
    """
    if not (path / "train").is_dir():
        return {"train": path}
    stranger = next((entry for entry in _visible(path) if entry.name not in _SPLITS), None)
    if stranger is not None:
        raise DataError(f"{stranger} is next to the training split", allowed=", ".join(_SPLITS), remedy="Move it elsewhere")
    return {name: path / name for name in _SPLITS if (path / name).exists()}


def text_files(folder: Path) -> list[Path]:
    """Return all .txt files (.txt.gz, .txt.zst) under `folder`, at any depth, by name; DataError if there are none, or others."""
    files = [path for entry in _visible(folder) for path in (text_files(entry) if entry.is_dir() else [entry])]
    wrong = next((file for file in files if not file.name.endswith((".txt", ".txt.gz", ".txt.zst"))), None)
    if wrong is not None:
        raise DataError(f"{wrong} is not a .txt file", allowed="a folder of .txt files", remedy="Rename it or remove it")
    if not files:
        raise DataError(f"{folder} has no .txt files", remedy="Choose a folder with some, or remove it")
    return files


def read_document_files(path: Path, files: list[Path], cache_dir: Path, encoding: str = AUTO) -> Rows:
    """Return the documents of `files`, one per row, with each paragraph on its own line; `path` is what the user calls them.

    `encoding` is auto or that of all files. The texts are kept in an unnamed file in `cache_dir`, memory-mapped and removed
    with its last reader. Raises DataError if there are none, or a file cannot be read.
    """
    lines, first_rows = array("q"), []

    def documents() -> Iterator[str]:
        for file, found in with_encodings(files, encoding):
            first_rows.append(len(lines))
            for line, text in _documents(file, found):
                lines.append(line)
                yield text

    column = _on_disk(documents(), cache_dir)
    if not len(column):
        raise DataError(f"{path} has no documents", allowed="a paragraph per line, a blank line between documents")
    return Rows({"text": column}, lambda row: place(files[bisect_right(first_rows, row) - 1], lines[row]))


def _documents(file: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Yield each document of a file, with the line it begins on."""
    begin, paragraphs = 0, []
    for number, line in plain_lines(file, encoding):
        if stripped := line.strip():
            begin = begin if paragraphs else number
            paragraphs.append(stripped)
        elif paragraphs:
            yield begin, "\n".join(paragraphs)
            paragraphs = []
    if paragraphs:
        yield begin, "\n".join(paragraphs)


def _on_disk(texts: Iterator[str], folder: Path) -> pa.ChunkedArray:
    with tempfile.NamedTemporaryFile(dir=folder, prefix="documents-", suffix=".arrow") as file:  # the mapping outlives the name
        with pa.ipc.new_file(file, _SCHEMA) as writer:
            for batch in _batches(texts):
                writer.write_batch(pa.record_batch([pa.array(batch, pa.large_string())], schema=_SCHEMA))
        file.flush()
        return pa.ipc.open_file(pa.memory_map(file.name)).read_all().column("text")


def _batches(texts: Iterator[str]) -> Iterator[list[str]]:
    batch, characters = [], 0
    for text in texts:
        batch.append(text)
        characters += len(text)
        if characters >= _CHARACTERS_PER_BATCH:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _visible(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
