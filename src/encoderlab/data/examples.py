"""Examples as a data source returns them, and the splits that hold them.

A split knows where each row was read (`Split.where`), so that `encoderlab data` can name the line of an odd row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import numpy as np

from encoderlab.data.row_table import RowTable

if TYPE_CHECKING:
    import pyarrow as pa

    from encoderlab.batch import TargetKind


@dataclass(frozen=True, slots=True)
class TextExample:
    """One text, or a pair of texts, with its target: the id of its label, the ids of its labels, or a number.

    `label` is None if that is unknown.
    """

    text: str
    text_pair: str | None = None
    label: int | float | tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class WordsExample:
    """A sequence of words, and the id of each word's label (None if unknown)."""

    words: tuple[str, ...]
    labels: tuple[int, ...] | None = None


Example = TextExample | WordsExample


def are_texts(examples: Sequence[Example]) -> TypeGuard[Sequence[TextExample]]:
    """Return whether all are texts, or pairs of texts."""
    return all(isinstance(example, TextExample) for example in examples)


def are_words(examples: Sequence[Example]) -> TypeGuard[Sequence[WordsExample]]:
    """Return whether all are sequences of words."""
    return all(isinstance(example, WordsExample) for example in examples)


class Split:
    """The examples of one split, kept as an Arrow table, so that memory need not hold them all at once.

    The table has the columns `text`, `text_pair` (or none), `label`; or `words`, `labels`. Labels are ids, lists of
    them, or numbers; a row with an unknown target has label None. `where` returns where a row, given by its index, was
    read; without it, rows are numbered. `carried` are further columns of the same rows, such as an id: they are copied
    for the user, and tasks ignore them.
    """

    def __init__(
        self,
        table: pa.Table | RowTable,
        where: Callable[[int], str] | None = None,
        carried: pa.Table | RowTable | None = None,
    ) -> None:
        self.table = table if isinstance(table, RowTable) else RowTable(table)
        self.carried = carried if carried is None or isinstance(carried, RowTable) else RowTable(carried)
        self.where = where or _counted

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, row: int) -> Example:
        place = range(len(self))[row]  # counts from the end where row is negative
        return _example({name: values[0] for name, values in self.table[place : place + 1].items()})

    def __iter__(self) -> Iterator[Example]:
        for start in range(0, len(self.table), 1000):
            columns = self.table[start : start + 1000]
            names = list(columns)
            for values in zip(*columns.values(), strict=True):
                yield _example(dict(zip(names, values, strict=True)))

    def of_texts(self) -> Iterator[TextExample]:
        """Yield the examples of a split that holds texts."""
        return cast("Iterator[TextExample]", iter(self))

    def of_words(self) -> Iterator[WordsExample]:
        """Yield the examples of a split that holds sequences of words."""
        return cast("Iterator[WordsExample]", iter(self))

    def take(self, rows: Sequence[int]) -> Split:
        """Return the split with only `rows`, in that order."""
        places, where = np.asarray(rows, np.int64), self.where
        carried = None if self.carried is None else self.carried.select(places)
        return Split(self.table.select(places), lambda row: where(int(places[row])), carried)

    def texts(self) -> Iterator[str]:
        """Yield all texts in order, the two of a pair one after the other, words joined by blanks."""
        for example in self:
            if isinstance(example, WordsExample):
                yield " ".join(example.words)
            else:
                yield example.text
                if example.text_pair is not None:
                    yield example.text_pair

    @property
    def target(self) -> TargetKind:
        """Return the kind of target of a whole row."""
        import pyarrow as pa

        schema = self.table.schema
        kind = schema.field("label").type if "label" in schema.names else pa.int64()
        if pa.types.is_floating(kind):
            return "number"
        return "label_set" if pa.types.is_list(kind) or pa.types.is_large_list(kind) else "label"

    @property
    def labelled(self) -> bool:
        """Return whether any row has a known target."""
        names = self.table.schema.names
        column = "labels" if "words" in names else "label"
        return column in names and self.table.any_known(column)


@dataclass(frozen=True, slots=True)
class Folded:
    """The rows that were divided into folds, and the fold of each, from 1: int64 [rows]."""

    rows: Split
    folds: np.ndarray


@dataclass(frozen=True, slots=True)
class Splits:
    """All splits of a dataset by name (train, validation, test), and the names of its labels in the order of their ids.

    `origin` tells where the rows came from, as far as the source knows: name, revision, files. It is kept with the run.
    If `test` is a fold of the training rows, `folded` holds them all.
    """

    by_name: dict[str, Split]
    labels: list[str]
    origin: dict[str, Any] = field(default_factory=dict)
    folded: Folded | None = None


def _counted(row: int) -> str:
    return f"row {row + 1}"


def _example(row: dict[str, Any]) -> Example:
    if "words" in row:
        labels = row.get("labels")
        return WordsExample(tuple(row["words"]), None if labels is None else tuple(labels))
    label = row.get("label")
    return TextExample(row["text"], row.get("text_pair"), tuple(label) if isinstance(label, list) else label)
