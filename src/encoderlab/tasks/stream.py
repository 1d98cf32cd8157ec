"""The rows of a pretraining run that reads its documents during training, one window after another.

A window holds the next documents of several shards and plays the part of an epoch: its pairs, their order and their
masks are drawn from the seed and the number of the window. Its documents depend only on the shards, the seed and the
settings, not on the number of processes that share the reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch.distributed

from encoderlab.data.dataset import Pack
from encoderlab.data.documents import DocumentStream, StreamReader
from encoderlab.data.sentences import Prepare, SentenceBlock, by_size, in_columns
from encoderlab.data.token_store import memory_store
from encoderlab.errors import DataError
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.tasks.sentence_rows import SentenceEpoch, SentenceRows
from encoderlab.tasks.vectors import DocumentTask

MARKS_KEPT = 16  # of the latest windows: batches are prepared ahead of their steps, but never by this many windows

Position = dict[str, Any] | None  # of a reader; None before its first document
Mark = dict[str, Any]  # where a window begins: its `number`, the steps before it (`first_step`), all `positions`


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of a window, and the positions of the readers after it."""

    mark: Mark
    rows: SentenceRows
    positions: list[Position]


class StreamedRows:
    """The rows of an endless stream, in an order of shards given by `seed`; as `Rows`, those of its first window."""

    def __init__(self, stream: DocumentStream, prepare: Prepare, task: DocumentTask, pack: Pack, seed: int) -> None:
        self.stream = stream
        self.prepare = prepare
        self.task = task
        self.pack = pack
        self.seed = seed
        self._readers: dict[int, StreamReader] = {}
        self._processes = SINGLE_PROCESS
        self._group = None
        self._current = self._read({"number": 0, "first_step": 0, "positions": [None] * stream.readers})
        self._marks = [self._current.mark]
        self.sample = self._current.rows  # of the first window, which each process has read for itself

    def __len__(self) -> int:
        return len(self.sample)

    def epoch(self, seed: int, epoch: int) -> SentenceEpoch:
        """Return the rows of the first window, drawn for `epoch`."""
        return self.sample.epoch(seed, epoch)

    def truncated_share(self) -> float:
        return self.sample.truncated_share()

    def token_ids(self) -> Iterator[np.ndarray]:
        return self.sample.token_ids()

    def share_with(self, processes: Processes) -> None:
        """Divide the reading of all further windows among the `processes`, each of which calls this."""
        self._processes = processes
        if processes.size > 1:
            # a process group of its own: the thread that prepares batches may exchange documents during a step
            self._group = torch.distributed.new_group(backend="gloo")

    def epochs(self, seed: int, batch_size: int, after: int) -> Iterator[tuple[int, SentenceEpoch, int]]:
        """Yield each window from step `after` + 1 on: its number, its rows, and how many of its steps are done."""
        mark = self.position(after)
        if self._current.mark != mark:
            self._readers = {}
            self._current = self._read(mark)
        window = self._current
        while True:
            number = window.mark["number"]
            first_step = window.mark["first_step"]
            yield number, window.rows.epoch(seed, number), after - first_step
            after = first_step + -(-len(window.rows) // batch_size)
            window = self._read({"number": number + 1, "first_step": after, "positions": window.positions})
            self._current = window
            self._marks = [*self._marks[1 - MARKS_KEPT :], window.mark]

    def position(self, step: int) -> Mark:
        """Return where the window of step `step` begins, as plain values."""
        return next((mark for mark in reversed(self._marks) if mark["first_step"] <= step), self._marks[0])

    def resume(self, position: Mark) -> None:
        """Continue from what `position` returned. Raises KeyError, TypeError or ValueError for another stream's."""
        if len(position["positions"]) != self.stream.readers:
            raise ValueError(f"the checkpoint was reading {len(position['positions'])} shards at once")
        self._marks = [position]

    def _read(self, mark: Mark) -> Window:
        """Return the window at `mark`, skipping documents that give no rows. Raises DataError if a pass gives none."""
        size = self.task.tokenizer.vocabulary_size
        positions = mark["positions"]
        while True:
            blocks, positions = self._shares(positions)
            store = memory_store(*in_columns(blocks, size))
            document = store["document"].values
            # a negative second text is taken from another document
            alone = self.task.labels and len(document) and document[0] == document[-1]
            if len(store) > 1 and not alone:
                rows = SentenceRows(store, self.task, self.pack)
                if len(rows):
                    return Window(mark, rows, positions)
            begun = [0 if position is None else position["passes"] for position in mark["positions"]]
            if all(now is not None and now["passes"] > old + 1 for now, old in zip(positions, begun, strict=True)):
                problem = f"None of the {len(self.stream.shards):,} shards has two documents to train on"
                raise DataError(problem, remedy="Check dataset.text, task.min_characters and task.min_sentences")

    def _shares(self, positions: Sequence[Position]) -> tuple[list[SentenceBlock], list[Position]]:
        """Return what each reader adds, and its position afterwards, as all processes exchange what theirs read."""
        mine = range(self._processes.rank, len(positions), self._processes.size)
        read: dict[int, tuple[list[SentenceBlock], Position]] | DataError
        try:
            read = {number: self._share(number, positions[number]) for number in mine}
        except DataError as error:  # all are to raise it, instead of waiting for this one
            read = error
        everywhere: list[Any] = [read] * self._processes.size
        if self._processes.size > 1:
            torch.distributed.all_gather_object(everywhere, read, self._group)
        shares: dict[int, tuple[list[SentenceBlock], Position]] = {}
        for process_shares in everywhere:
            if isinstance(process_shares, DataError):
                raise process_shares
            shares |= process_shares
        in_order = [shares[number] for number in sorted(shares)]
        return [block for blocks, _ in in_order for block in blocks], [position for _, position in in_order]

    def _share(self, number: int, position: Position) -> tuple[list[SentenceBlock], Position]:
        reader = self._readers.get(number)
        if reader is None or reader.position != position:
            reader = self._readers[number] = StreamReader(self.stream, number, self.seed, position)
        return [self.prepare(documents) for documents in by_size(reader.take())], reader.position


DocumentRows = SentenceRows | StreamedRows
