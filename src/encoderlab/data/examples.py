"""Examples, and the splits that hold them: thin wrappers around `datasets.Dataset` that know what a row means.

A split knows where each of its rows was read (`Split.where`), so that messages and reports can name the line of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from encoderlab.tables.batches import release_pages
from encoderlab.tables.markup import without_html

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa

    from encoderlab.network.config import TargetKind

    Table = datasets.Dataset | pa.Table

_AT_A_TIME = 1000


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
            release_pages()

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
