"""The rows of a pretraining run that reads its documents while it trains: those of one window after the other.

A window holds the next documents of several shards, and is to the run what an epoch is elsewhere: its pairs, their order and their
masks are drawn from the seed and the number of the window. Which documents it holds depends on the shards, the seed and the
settings alone, and not on how many processes share the reading.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

import numpy as np

from encoderlab.data.sentences.blocks import Preparation, SentenceBlock, by_size
from encoderlab.data.shards import Place, ShardReader, Shards
from encoderlab.data.sources.dataset import Pack
from encoderlab.data.token_store import Column, TokenStore
from encoderlab.errors import DataError
from encoderlab.system.distributed import SINGLE_PROCESS, Processes
from encoderlab.tasks.config import SecondSentence
from encoderlab.tasks.pretraining.sentence_rows import DocumentTask, SentenceEpoch, SentenceRows
from encoderlab.tasks.rows import id_type

MARKS_KEPT = 16  # of windows: batches are made ahead of their steps, by fewer windows than that
PASSES = 2  # over all shards without a row, after which there is none


@dataclass(frozen=True, slots=True)
class Share:
    """What one reader adds to a window: sentences, its place behind them, and the damaged shards it has met so far."""

    block: SentenceBlock
    place: Place
    damaged: dict[str, str]


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a window begins: its number, the steps before it, the place of each reader, and the damaged shards met before it."""

    number: int = 0
    first_step: int = 0
    places: tuple[Place, ...] = ()
    damaged: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of a window, and the places of the readers behind it."""

    mark: Mark
    rows: SentenceRows
    places: tuple[Place, ...]
    damaged: dict[str, str]


class StreamedRows:
    """The rows of a stream without end. As `Rows` it is its first window, which is read at once, by each process for itself.

    `seed` draws the order of the shards.
    """

    def __init__(self, shards: Shards, prepare: Preparation, task: DocumentTask, pack: Pack, seed: int) -> None:
        self.shards, self.prepare, self.task, self.pack, self.seed = shards, prepare, task, pack, seed
        self._readers: dict[int, ShardReader] = {}
        self._processes, self._all_gather = SINGLE_PROCESS, _all_gatherer(SINGLE_PROCESS)
        self._current = self._read(Mark(places=(Place(),) * shards.readers))
        self._marks = [self._current.mark]
        self.first = self._current.rows

    def __len__(self) -> int:
        return len(self.first)

    def epoch(self, seed: int, epoch: int) -> SentenceEpoch:
        """The rows of the first window, drawn for `epoch`."""
        return self.first.epoch(seed, epoch)

    def truncated_share(self) -> float:
        """See `Rows.truncated_share`: of the first window."""
        return self.first.truncated_share()

    def share_with(self, processes: Processes) -> None:
        """Share the reading of all further windows out to the `processes`, each of which calls this."""
        self._processes, self._all_gather = processes, _all_gatherer(processes)

    def windows(self, seed: int, batch_size: int, after: int) -> Iterator[tuple[int, SentenceEpoch, int]]:
        """Each window from the one of step `after` + 1 on: its number, its rows, and how many of its steps have been taken."""
        window = self._window_of(after)
        while True:
            drawn = window.rows.epoch(seed, window.mark.number)
            yield window.mark.number, drawn, after - window.mark.first_step
            after = window.mark.first_step + -(-len(window.rows) // batch_size)
            window = self._read(Mark(window.mark.number + 1, after, window.places, window.damaged))
            self._current, self._marks = window, [*self._marks[1 - MARKS_KEPT :], window.mark]

    def position(self, step: int) -> dict[str, Any]:
        """Where the window of the last of so many steps begins, as plain values."""
        mark = self._mark_of(step)
        return asdict(mark) | {"places": [list(astuple(place)) for place in mark.places]}

    def resume(self, position: Mapping[str, Any]) -> None:
        """Continue from what `position` gave. Raises KeyError, TypeError or ValueError where it is of another stream."""
        places = tuple(Place(*place) for place in position["places"])
        if len(places) != self.shards.readers:
            raise ValueError(f"it was read from {len(places)} shards at once")
        self._marks = [Mark(position["number"], position["first_step"], places, dict(position["damaged"]))]

    def note(self) -> str | None:
        """What a report says of damaged shards; None where there was none."""
        damaged, total = self._current.damaged, len(self.shards.names)
        if not damaged:
            return None
        listed = "; ".join(f"{name} ({reason})" for name, reason in sorted(damaged.items())[:5])
        more = f"; and {len(damaged) - 5} more" if len(damaged) > 5 else ""
        counted = f"1 of {total:,} shards is" if len(damaged) == 1 else f"{len(damaged):,} of {total:,} shards are"
        return f"{counted} damaged and not read to the end: {listed}{more}"

    def _mark_of(self, step: int) -> Mark:
        return next((mark for mark in reversed(self._marks) if mark.first_step <= step), self._marks[0])

    def _window_of(self, step: int) -> Window:
        mark = self._mark_of(step)
        if self._current.mark != mark:
            self._readers = {}
            self._current = self._read(mark)
        return self._current

    def _read(self, mark: Mark) -> Window:
        """The window at `mark`; documents that give no row are read over. Raises DataError where none gives one."""
        places, damaged = mark.places, mark.damaged
        while True:
            shares = self._shares(places)
            places = tuple(share.place for share in shares)
            met = {name: reason for share in shares for name, reason in share.damaged.items() if name not in damaged}
            damaged = damaged | met
            for name, reason in met.items():
                print(f"encoderlab: the rest of shard {name} is left out: {reason}", file=sys.stderr)
            store = _store([share.block for share in shares], id_type(self.task.tokenizer.vocabulary_size))
            if self._is_usable(store):
                rows = SentenceRows(store, self.task, self.pack)
                if len(rows):
                    return Window(mark, rows, places, damaged)
            if all(place.epoch >= before.epoch + PASSES for place, before in zip(places, mark.places, strict=True)):
                raise DataError(
                    f"None of the {len(self.shards.names):,} shards has two documents to train on"
                    if not damaged
                    else f"All {len(damaged):,} shards are damaged: {next(iter(damaged.values()))}",
                    remedy="Check dataset.path, dataset.text, task.min_characters and task.min_sentences",
                )

    def _is_usable(self, store: TokenStore) -> bool:
        """Whether there are sentences, and other documents to take a negative from."""
        document = store["document"].values
        alone = self.task.config.paired is SecondSentence.next and len(document) and document[0] == document[-1]
        return len(store) > 1 and not alone

    def _shares(self, places: Sequence[Place]) -> list[Share]:
        """What each reader adds; those of this process read, and all processes exchange what they have read."""
        mine = range(self._processes.rank, len(places), self._processes.size)
        try:
            read: dict[int, Share] | DataError = {number: self._share(number, places[number]) for number in mine}
        except DataError as error:
            read = error
        found = self._all_gather(read)
        failed = next((one for one in found if isinstance(one, DataError)), None)
        if failed is not None:
            raise failed
        by_number = {number: share for one in found for number, share in one.items()}
        return [by_number[number] for number in range(len(places))]

    def _share(self, number: int, place: Place) -> Share:
        reader = self._readers.get(number)
        if reader is None or reader.place != place:
            reader = self._readers[number] = ShardReader(self.shards, number, self.seed, place)
        blocks = [self.prepare(some) for some in by_size(reader.take())]
        return Share(_one_block(blocks), reader.place, dict(reader.damaged))


def sample_of(rows: SentenceRows | StreamedRows) -> SentenceRows:
    """Rows that facts can be counted in: all of them, or of a stream its first window."""
    return rows.first if isinstance(rows, StreamedRows) else rows


def _all_gatherer(processes: Processes) -> Callable[[Any], list[Any]]:
    """A function that gives each process what all of them hand in, by rank; all processes make one, and all call it.

    It talks beside the steps of training, so that the thread that makes batches may call it.
    """
    if processes.size == 1:
        return lambda mine: [mine]
    import torch.distributed

    group = torch.distributed.new_group(backend="gloo")

    def all_gather(mine: Any) -> list[Any]:
        found = [mine] * processes.size
        torch.distributed.all_gather_object(found, mine, group)
        return found

    return all_gather


def _one_block(blocks: Sequence[SentenceBlock]) -> SentenceBlock:
    """One block behind another, documents and paragraphs numbered on."""
    documents = np.cumsum([0, *(block.documents for block in blocks)])
    paragraphs = np.cumsum([0, *(block.paragraphs for block in blocks)])
    nothing = np.empty(0, np.int64)
    return SentenceBlock(
        np.concatenate([nothing, *(block.input_ids for block in blocks)], dtype=np.uint32, casting="unsafe"),
        np.concatenate([nothing, *(block.lengths for block in blocks)]),
        np.concatenate([nothing, *(block.document + begin for block, begin in zip(blocks, documents, strict=False))]),
        np.concatenate([nothing, *(block.paragraph + begin for block, begin in zip(blocks, paragraphs, strict=False))]),
        int(documents[-1]),
        int(paragraphs[-1]),
    )


def _store(blocks: Sequence[SentenceBlock], ids: str) -> TokenStore:
    """The sentences of some blocks as a store in memory, with the columns of that of a whole corpus."""
    whole = _one_block(blocks)
    places = np.arange(len(whole.lengths) + 1)
    columns = {
        "input_ids": Column(whole.input_ids.astype(ids), np.concatenate([[0], whole.lengths]).cumsum()),
        "document": Column(whole.document.astype(np.uint32), places),
        "paragraph": Column(whole.paragraph.astype(np.uint32), places),
    }
    return TokenStore(len(whole.lengths), columns)
