"""Predictions of a long file while they are made: a file beside the output, with which a stopped command continues.

The rows are predicted in chunks, and a chunk's predictions depend on nothing but its texts, the model and the settings.
The first line of `out.csv.partial` says what model and settings those are. Each further line is one chunk: a hash of
its texts, and its predictions. A command that is typed again takes the chunks that are there, predicts the others, and
writes the output from its first row on, so its bytes are those of a command that was never stopped. A line that was
torn by a sudden end is noticed by its checksum, and predicted again. Only a finished output removes the file.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, cast

from encoderlab.data.examples import Example, texts_of
from encoderlab.errors import DataError
from encoderlab.system.files import MANIFEST, sha256_of
from encoderlab.system.messages import say

_SUFFIX = ".partial"
_THREADS = "threads"
_MODEL_FILES = ("*.safetensors", "*.json", "*.onnx", "onnx/*.onnx")

Answers = dict[str, Any]  # of a chunk, as JSON holds it


def partial_of(output: str) -> Path:
    """Return the file that keeps the predictions for this output until it is finished."""
    return Path(f"{output}{_SUFFIX}")


def threads_of_partial(output: str | None) -> int | None:
    """Return how many threads the unfinished predictions for this output were made with; None: there are none.

    The last digits of a probability may depend on it.
    """
    if output is None:
        return None
    with suppress(OSError), partial_of(output).open("rb") as file:
        facts = _content(file.readline())
        return None if facts is None else facts.get(_THREADS)
    return None


def fingerprint_of_model(folder: Path) -> str:
    """Return a hash of the files of a model folder. Raises OSError."""
    manifest = folder / MANIFEST  # its hashes were compared when the model was opened
    files = [manifest] if manifest.is_file() else sorted({file for name in _MODEL_FILES for file in folder.glob(name)})
    return sha256("".join(map(sha256_of, files)).encode()).hexdigest()


class KeptAnswers:
    """The predictions that are known already, by chunk, and a place for further ones; see `kept_beside`."""

    def __init__(self, file: BinaryIO, places: list[tuple[str, int]], end: int) -> None:
        self._file = file
        self._places = places  # the hash of each chunk's texts, and where its line begins
        self._end = end
        self._next = 0
        self.n_rows = 0

    def of(self, examples: Sequence[Example]) -> Answers | None:
        """Return the predictions of the next chunk if they are known.

        If it has other texts than before, it and what followed are forgotten.
        """
        if self._next == len(self._places):
            return None
        key, place = self._places[self._next]
        if key != _key(examples):
            self._places = self._places[: self._next]
            self._end = place
            return None
        self._file.seek(place)
        content = _content(self._file.readline())
        assert content is not None
        self._next += 1
        self.n_rows += len(examples)
        return content["answers"]

    def add(self, examples: Sequence[Example], answers: Answers) -> None:
        """Keep the predictions of the next chunk, on the disk. Raises OSError."""
        key = _key(examples)
        line = _line({"texts": key, "answers": answers})
        self._file.seek(self._end)
        self._file.truncate()
        self._file.write(line)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._places.append((key, self._end))
        self._end += len(line)
        self._next += 1
        self.n_rows += len(examples)


@contextmanager
def kept_beside(output: str, facts: Mapping[str, Any], *, anew: bool) -> Iterator[KeptAnswers]:
    """Open the predictions that are kept for an output, made with the model and the settings in `facts`.

    They are removed at the end unless an error occurs, which says how to continue. Raises DataError if the file beside
    the output is of other facts (unless it is to be begun `anew`), is in use, or cannot be written.
    """
    path = partial_of(output)
    file = _opened(path)
    kept = None
    try:
        with file:
            kept = _read(file, path, facts, anew=anew)
            yield kept
        path.unlink()
    finally:
        if kept is not None and kept.n_rows and path.is_file():
            say(f"{kept.n_rows:,} rows are kept in {path}. Type the same line again to continue")
        elif path.is_file() and (kept is not None or not path.stat().st_size):
            path.unlink()


def _opened(path: Path) -> BinaryIO:
    """Open a file for this process alone, and create it if there is none. Raises DataError."""
    try:
        file = cast("BinaryIO", os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b"))
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}", remedy="Choose another folder") from None
    with suppress(ImportError):  # on Windows
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            problem = f"{path} is in use by another process that predicts"
            raise DataError(problem, remedy="Wait for it, or choose another output") from None
    return file


def _read(file: BinaryIO, path: Path, facts: Mapping[str, Any], *, anew: bool) -> KeptAnswers:
    """Return what is kept in a file up to the first line that is damaged."""
    first = file.readline()
    stated = _content(first)
    if stated is not None and stated != facts and not anew:
        differing = [name for name in facts if stated.get(name) != facts[name]]
        problem = f"{path} holds predictions that another line began (another {', '.join(differing)})"
        raise DataError(problem, remedy="Type that line again to continue it, or set overwrite=true to begin anew")
    places: list[tuple[str, int]] = []
    if stated == facts:
        end = len(first)
        for line in file:
            content = _content(line)
            if content is None:
                break
            places.append((content["texts"], end))
            end += len(line)
    else:
        line = _line(dict(facts))
        end = len(line)
        file.seek(0)
        file.truncate()
        file.write(line)
        file.flush()
    if places:
        say(f"continuing with what is kept in {path}")
    return KeptAnswers(file, places, end)


def _line(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _content(line: bytes) -> dict[str, Any] | None:
    """Return what a line holds; None if it is damaged."""
    checksum, _, text = line.removesuffix(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(text):
        return None
    return json.loads(text.decode("utf-8", "surrogatepass"))


def _key(examples: Sequence[Example]) -> str:
    """Return a hash of the texts of a chunk."""
    texts = json.dumps([texts_of(example) for example in examples])
    return sha256(texts.encode()).hexdigest()[:32]
