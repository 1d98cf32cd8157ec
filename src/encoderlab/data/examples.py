"""Examples, and the splits that hold them: thin wrappers around `datasets.Dataset` that know what a row means.

A split knows where each of its rows was read (`Split.where`), so that messages and reports can name the line of a file.
"""

from __future__ import annotations

import html
import mmap
import re
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np

from encoderlab.errors import DataError

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa

    from encoderlab.network.config import TargetKind

    Table = datasets.Dataset | pa.Table

IN_MEMORY = 64 * 2**20  # bytes of rows that stay in memory; more are kept in a mapped file
JOINT = " | "  # between the columns that make up a text


def joined(parts: Iterable[str]) -> str:
    """Return the text that several columns make up; "" if all of them are blank."""
    texts = list(parts)
    return JOINT.join(texts) if any(text.strip() for text in texts) else ""


_AT_A_TIME = 1000
Item = TypeVar("Item")
# HTML in texts: how it is recognised, and what of it is not shown.
MARKUP = re.compile("</?[a-zA-Z][^<>]*>|&(?:amp|lt|gt|quot|nbsp|#[0-9]+|#x[0-9a-fA-F]+);")
_NOT_SHOWN = re.compile(r"<!--.*?-->|<(script|style)\b[^<>]*>.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_WITHIN_WORDS = re.compile(
    r"</?(?:a|abbr|b|bdi|bdo|cite|code|dfn|em|font|i|kbd|mark|q|s|small|span|strong|sub|sup|u|var|wbr)\b[^<>]*>",
    re.IGNORECASE,
)
_TAG = re.compile(r"\s*(?:</?[a-zA-Z][^<>]*>\s*)+")


@dataclass(frozen=True, slots=True)
class TextExample:
    """One text, or a pair, with its target: the id of its label, the ids of its labels, or a number; None: unknown."""

    text: str
    text_pair: str | None = None
    label: int | float | tuple[int, ...] | None = None
    of_words: ClassVar[bool] = False

    @property
    def paired(self) -> bool:
        """Return whether it is two texts."""
        return self.text_pair is not None

    def without_html(self) -> TextExample:
        """Return the example with what a page with its texts shows."""
        pair = None if self.text_pair is None else without_html(self.text_pair)
        return TextExample(without_html(self.text), pair, self.label)


@dataclass(frozen=True, slots=True)
class WordsExample:
    """A sequence of words, and the id of each word's label (None if unknown)."""

    words: tuple[str, ...]
    labels: tuple[int, ...] | None = None
    of_words: ClassVar[bool] = True
    paired: ClassVar[bool] = False

    def without_html(self) -> WordsExample:
        """Return the example with what a page with its words shows, as many."""
        return WordsExample(tuple(map(without_html, self.words)), self.labels)


Example = TextExample | WordsExample


def without_html(text: str) -> str:
    """Return what a page with this text shows: no tags, comments and scripts, and characters instead of their names.

    Tags that begin a new line or block become a blank. A text without HTML is returned as it is.
    """
    if MARKUP.search(text) is None and "<!--" not in text:
        return text
    shown = _NOT_SHOWN.sub(" ", text)
    shown = _WITHIN_WORDS.sub("", shown)
    shown = _TAG.sub(" ", shown)
    return html.unescape(shown).replace("\xa0", " ").strip()


def texts_of(example: Example) -> tuple[str, ...]:
    """Return the text of an example, or both of a pair; words are joined by blanks."""
    if isinstance(example, WordsExample):
        return (" ".join(example.words),)
    return (example.text,) if example.text_pair is None else (example.text, example.text_pair)


def text_of(example: Example) -> str:
    """Return an example as one text for people: the two of a pair joined by a bar, words by blanks."""
    return " | ".join(texts_of(example))


def key_of(example: Example) -> int:
    """Return a number that equal texts share in this process, spaces and case aside."""
    return hash(" ".join(text_of(example).split()).casefold())


class Split:
    """The examples of one split.

    `table` is a `datasets.Dataset` with the columns `text`, `text_pair` (or none), `label`; or `words`, `labels`.
    Labels are ids, lists of them, or numbers; a row with an unknown target has label None. `where` returns where a row,
    given by its index, was read; without it, rows are numbered. `carried` are further columns of the same rows, such as
    an id: they are copied for the user, and tasks ignore them.
    """

    def __init__(self, table: Table, where: Callable[[int], str] | None = None, carried: Table | None = None) -> None:
        self.table = _as_dataset(table)
        self.carried = None if carried is None else _as_dataset(carried)
        self.where = where or (lambda row: f"row {row + 1}")

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, row: int) -> Example:
        columns = self.table[row]  # counts from the end where row is negative
        return _words_example(columns) if self.holds_words else _text_example(columns)

    def __iter__(self) -> Iterator[Example]:
        return self.of_words() if self.holds_words else self.of_texts()

    def batches(self, size: int) -> Iterator[pa.Table]:
        """Yield the rows in Arrow tables of `size` rows. Pages of a mapped file are given back after reading."""
        tables: Any = self.table.with_format("arrow").iter(size)
        for table in tables:
            yield table
            for mapping in _mappings:  # pages that were read count as memory of the process until they are given back
                mapping.madvise(mmap.MADV_DONTNEED)

    def of_texts(self) -> Iterator[TextExample]:
        """Yield the examples of a split that holds texts."""
        for batch in self.batches(_AT_A_TIME):
            yield from map(_text_example, batch.to_pylist())

    def of_words(self) -> Iterator[WordsExample]:
        """Yield the examples of a split that holds sequences of words."""
        for batch in self.batches(_AT_A_TIME):
            yield from map(_words_example, batch.to_pylist())

    def take(self, rows: Sequence[int] | np.ndarray) -> Split:
        """Return the split with only `rows`, in that order; nothing is copied."""
        indices = np.asarray(rows, np.int64)
        where = self.where
        carried = None if self.carried is None else self.carried.select(indices)
        return Split(self.table.select(indices), lambda row: where(int(indices[row])), carried)

    def evenly(self, most: int | None) -> Split:
        """Return the split with at most `most` of its rows (None: all), spread evenly over it."""
        total = len(self)
        return self.take(np.linspace(0, total - 1, min(total, most or total)).round().astype(np.int64))

    def texts(self) -> Iterator[str]:
        """Return all texts in order, the two of a pair one after the other, words joined by blanks."""
        return chain.from_iterable(map(texts_of, self))

    @property
    def holds_words(self) -> bool:
        """Return whether an example is a sequence of words."""
        return "words" in self.table.column_names

    @property
    def paired(self) -> bool:
        """Return whether an example is two texts."""
        return len(self) > 0 and self[0].paired

    def targets(self) -> Iterator[Any]:
        """Yield the target of each row: a label's id, a list of ids, a number, or the ids of its words' labels; None if
        it is unknown.
        """
        name = "labels" if self.holds_words else "label"
        if name not in self.table.column_names:
            yield from [None] * len(self)
            return
        for batch in Split(self.table.select_columns([name])).batches(_AT_A_TIME):
            yield from batch[name].to_pylist()

    @property
    def target(self) -> TargetKind | Literal["words"]:
        """Return the kind of target of a whole row, or that single words have one."""
        import pyarrow as pa

        if self.holds_words:
            return "words"
        if "label" not in self.table.column_names:
            return "label"
        kind = self.table.data.schema.field("label").type
        if pa.types.is_floating(kind):
            return "number"
        return "label_set" if pa.types.is_list(kind) or pa.types.is_large_list(kind) else "label"

    def known(self) -> np.ndarray:
        """Return which rows have a known target: bool [rows]."""
        name = "labels" if self.holds_words else "label"
        if name not in self.table.column_names:
            return np.zeros(len(self), bool)
        batches = Split(self.table.select_columns([name])).batches(10 * _AT_A_TIME)
        return np.concatenate([np.zeros(0, bool), *(batch[name].is_valid().to_numpy() for batch in batches)])


@dataclass(frozen=True, slots=True)
class Folded:
    """The `whole` that was divided into folds, and the fold of each row, from 1: int64 [rows]."""

    whole: Split
    folds: np.ndarray


def _as_dataset(table: Table) -> datasets.Dataset:
    import datasets
    from datasets.table import InMemoryTable

    if isinstance(table, datasets.Dataset):
        return table
    return datasets.Dataset(InMemoryTable(table), fingerprint="rows")  # its own fingerprint would hash every text


def _words_example(row: dict[str, Any]) -> WordsExample:
    labels = row.get("labels")
    return WordsExample(tuple(row["words"]), None if labels is None else tuple(labels))


def _text_example(row: dict[str, Any]) -> TextExample:
    label = row.get("label")
    return TextExample(row["text"], row.get("text_pair"), tuple(label) if isinstance(label, list) else label)


_mappings: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()  # of the files with many rows


def stored(batches: Iterable[pa.RecordBatch], folder: Path | None) -> pa.Table:
    """Return batches of one schema as a table: in memory up to `IN_MEMORY` bytes, beyond that in a mapped file.

    The file is in `folder` (None: everything stays in memory) and has no name, so it is gone when nothing reads it any
    more, even if the process is killed. Raises DataError if the folder cannot hold the rows, or if there are none.
    """
    import pyarrow as pa

    iterator = iter(batches)
    first = []
    n_bytes = 0
    for batch in iterator:
        first.append(batch)
        n_bytes += batch.nbytes
        if n_bytes > IN_MEMORY and folder is not None:
            break
    if n_bytes <= IN_MEMORY or folder is None:
        return pa.Table.from_batches(first)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            with pa.ipc.new_stream(file, first[0].schema) as stream:
                while first:
                    stream.write_batch(first.pop(0))
                for batch in iterator:
                    stream.write_batch(batch)
            file.flush()
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        problem = f"The cache folder {folder} cannot hold the rows: {error.strerror or error}"
        raise DataError(problem, remedy="Free some space there, or set cache_dir to another folder") from error
    _mappings.add(mapping)
    return pa.ipc.open_stream(pa.py_buffer(mapping)).read_all()


def in_lists(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    """Yield the items in lists of `most`, the last one shorter."""
    yield from grouped(items, lambda _: 1, most)


def grouped(
    items: Iterable[Item], size_of: Callable[[Item], int], largest: int, most: int | None = None
) -> Iterator[list[Item]]:
    """Yield the items in lists that end with the item that brings their size to `largest`, or with the `most`th."""
    group: list[Item] = []
    size = 0
    for item in items:
        group.append(item)
        size += size_of(item)
        if size >= largest or len(group) == most:
            yield group
            group = []
            size = 0
    if group:
        yield group
