"""The rows of a pretraining run that reads its documents during training, one window after another.

A window holds the next documents of several shards and plays the part of an epoch: its pairs, their order and their
masks are drawn from the seed and the number of the window. Its documents depend only on the shards, the seed and the
settings, not on the number of processes that share the reading."""

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
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.tasks.config import SecondSentence
from encoderlab.tasks.rows import id_type
from encoderlab.tasks.sentence_rows import DocumentTask, SentenceEpoch, SentenceRows

MARKS_KEPT = 16  # of the latest windows: batches are prepared ahead of their steps, but never by this many windows
PASSES = 2  # over all shards without a single row, before giving up


@dataclass(frozen=True, slots=True)
class Share:
    """What one reader adds to a window: sentences, its place after them, and the damaged shards it has found so far."""

    block: SentenceBlock
    place: Place
    damaged: dict[str, str]


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a window begins: its number, the steps before it, the place of each reader, and the damaged shards found
    before.
    """

    number: int = 0
    first_step: int = 0
    places: tuple[Place, ...] = ()
    damaged: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of a window, and the places of the readers after it."""

    mark: Mark
    rows: SentenceRows
    places: tuple[Place, ...]
    damaged: dict[str, str]


class StreamedRows:
    """The rows of an endless stream. As `Rows`, they are those of its first window, which each process reads for itself
    at once.

    `seed` determines the order of the shards.
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
        """Return the rows of the first window, drawn for `epoch`."""
        return self.first.epoch(seed, epoch)

    def truncated_share(self) -> float:
        """Return the share of the first window's rows that were longer than the model reads."""
        return self.first.truncated_share()

    def share_with(self, processes: Processes) -> None:
        """Divide the reading of all further windows among the `processes`, each of which calls this."""
        self._processes, self._all_gather = processes, _all_gatherer(processes)

    def epochs(self, seed: int, batch_size: int, after: int) -> Iterator[tuple[int, SentenceEpoch, int]]:
        """Yield each window from step `after` + 1 on: its number, its rows, and how many of its steps are done."""
        window = self._window_of(after)
        while True:
            drawn = window.rows.epoch(seed, window.mark.number)
            yield window.mark.number, drawn, after - window.mark.first_step
            after = window.mark.first_step + -(-len(window.rows) // batch_size)
            window = self._read(Mark(window.mark.number + 1, after, window.places, window.damaged))
            self._current, self._marks = window, [*self._marks[1 - MARKS_KEPT :], window.mark]

    def position(self, step: int) -> dict[str, Any]:
        """Return where the window of step `step` begins, as plain values."""
        mark = self._mark_of(step)
        return asdict(mark) | {"places": [list(astuple(place)) for place in mark.places]}

    def resume(self, position: Mapping[str, Any]) -> None:
        """Continue from what `position` returned. Raises KeyError, TypeError or ValueError if it belongs to another
        stream.
        """
        places = tuple(Place(*place) for place in position["places"])
        if len(places) != self.shards.readers:
            raise ValueError(f"the checkpoint was reading {len(places)} shards at once")
        self._marks = [Mark(position["number"], position["first_step"], places, dict(position["damaged"]))]

    def note(self) -> str | None:
        """Return a note on damaged shards for the report; None if there are none."""
        damaged, total = self._current.damaged, len(self.shards.names)
        if not damaged:
            return None
        listed = "; ".join(f"{name} ({reason})" for name, reason in sorted(damaged.items())[:5])
        more = f"; and {len(damaged) - 5} more" if len(damaged) > 5 else ""
        counted = f"1 of {total:,} shards is" if len(damaged) == 1 else f"{len(damaged):,} of {total:,} shards are"
        return f"{counted} damaged, and the rest of {'it' if len(damaged) == 1 else 'each'} was skipped: {listed}{more}"

    def _mark_of(self, step: int) -> Mark:
        return next((mark for mark in reversed(self._marks) if mark.first_step <= step), self._marks[0])

    def _window_of(self, step: int) -> Window:
        mark = self._mark_of(step)
        if self._current.mark != mark:
            self._readers = {}
            self._current = self._read(mark)
        return self._current

    def _read(self, mark: Mark) -> Window:
        """Return the window at `mark`, skipping documents that give no rows. Raises DataError if none gives any."""
        places, damaged = mark.places, mark.damaged
        while True:
            shares = self._shares(places)
            places = tuple(share.place for share in shares)
            met = {name: reason for share in shares for name, reason in share.damaged.items() if name not in damaged}
            damaged = damaged | met
            for name, reason in met.items():
                print(f"encoderlab: the rest of shard {name} is skipped: {reason}", file=sys.stderr)
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
        """Return whether there are sentences, and other documents to take a negative from."""
        document = store["document"].values
        alone = self.task.config.paired is SecondSentence.next and len(document) and document[0] == document[-1]
        return len(store) > 1 and not alone

    def _shares(self, places: Sequence[Place]) -> list[Share]:
        """Return what each reader adds: the readers of this process read, and all processes exchange what they have
        read.
        """
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
    """Return rows to count facts in: all of them or, for a stream, those of its first window."""
    return rows.first if isinstance(rows, StreamedRows) else rows


def _all_gatherer(processes: Processes) -> Callable[[Any], list[Any]]:
    """Return a function that all processes call, and that returns what each of them passed to it, by rank.

    All processes create one. It has a process group of its own, so the thread that prepares batches may call it during
    a step.
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
    """Return the blocks as one, with documents and paragraphs numbered consecutively."""
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
    """Return the sentences of some blocks as a store in memory, with the columns of a prepared corpus."""
    whole = _one_block(blocks)
    places = np.arange(len(whole.lengths) + 1)
    columns = {
        "input_ids": Column(whole.input_ids.astype(ids), np.concatenate([[0], whole.lengths]).cumsum()),
        "document": Column(whole.document.astype(np.uint32), places),
        "paragraph": Column(whole.paragraph.astype(np.uint32), places),
    }
    return TokenStore(len(whole.lengths), columns)
