"""Rows of an Arrow table, all or some of them, of which only what is read becomes Python objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.data.spool import count_read

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH = 1000
_MAPPED_TOGETHER = 2**16  # bytes; Linux maps so many around each that is read


class RowTable:
    """The rows of `table` at `places`, in that order; None: all rows.

    The table may be mapped from a file and larger than memory: choosing rows copies none, and reading copies those that
    are read.
    """

    def __init__(self, table: pa.Table, places: np.ndarray | None = None) -> None:
        self._table, self._places = table, places

    def __len__(self) -> int:
        return len(self._table) if self._places is None else len(self._places)

    def __getitem__(self, rows: slice) -> dict[str, list[Any]]:
        """Return the columns of consecutive rows by name."""
        start, stop, _ = rows.indices(len(self))
        return self.arrow(start, stop).to_pydict()

    @property
    def schema(self) -> pa.Schema:
        """Return the names and types of the columns."""
        return self._table.schema

    def arrow(self, start: int, stop: int) -> pa.Table:
        """Return the rows from `start` up to `stop`, as Arrow has them."""
        return (
            self._slice(start, max(stop - start, 0))
            if self._places is None
            else self._gathered(self._places[start:stop])
        )

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the values of each row by column."""
        for start in range(0, len(self), _BATCH):
            yield from self.arrow(start, start + _BATCH).to_pylist()

    def select(self, rows: Sequence[int] | np.ndarray) -> RowTable:
        """Return only these rows, in this order."""
        chosen = np.asarray(rows, np.int64)
        return RowTable(self._table, chosen if self._places is None else self._places[chosen])

    def any_known(self, column: str) -> bool:
        """Return whether any row has a value in `column`."""
        parts = (self.arrow(start, start + _BATCH)[column] for start in range(0, len(self), _BATCH))
        return any(part.null_count < len(part) for part in parts)

    def _gathered(self, places: np.ndarray) -> pa.Table:
        """Return any rows. `Table.take` would first concatenate all chunks of a column, even to take only a few rows."""
        import pyarrow as pa

        if not len(places) or (np.diff(places) == 1).all():
            return self._slice(int(places[0]) if len(places) else 0, len(places))
        batches, starts = self._batches
        order = np.argsort(places, kind="stable")
        rising = places[order]
        numbers = np.searchsorted(starts, rising, side="right") - 1
        parts = []
        for number in np.unique(numbers):
            batch, chosen = batches[number], rising[numbers == number] - starts[number]
            parts.append(batch.take(pa.array(chosen)))
            count_read(min(batch.nbytes, len(chosen) * _MAPPED_TOGETHER))
        return pa.Table.from_batches(parts).take(np.argsort(order))

    def _slice(self, start: int, length: int) -> pa.Table:
        found = self._table.slice(start, length)
        count_read(found.nbytes)
        return found

    @cached_property
    def _batches(self) -> tuple[list[pa.RecordBatch], np.ndarray]:
        """Return the parts that the table lies in, and the row that each starts with."""
        batches = [batch for batch in self._table.to_batches() if len(batch)]
        lengths = np.array([len(batch) for batch in batches], np.int64)
        return batches, np.cumsum(lengths) - lengths
