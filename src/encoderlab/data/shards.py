"""Shards: the files of a corpus that is too large to prepare as a whole. A few are read at a time, from any document
on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import count

import numpy as np

from encoderlab.errors import DataError, SettingError
from encoderlab.settings import setting

HELD_OUT_DOCUMENTS = 1000  # at most, of each scored split; they are among the first READ_TO_HOLD_OUT documents
READ_TO_HOLD_OUT = 100_000
_GOLDEN = (
    0x9E3779B97F4A7C15  # 2**64 over the golden ratio: its multiples are spread evenly (Knuth, volume 3, section 6.4)
)
_OTHER_SHARD = 0x2545F4914F6CDD1D


class OnDamaged(Enum):
    """What to do with a shard that cannot be read to its end."""

    error = "error"
    skip = "skip"


class UnreachableError(DataError):
    """A shard that cannot be reached at the moment, whatever it holds: it is never skipped."""


@dataclass
class StreamSettings:
    """How documents are read during training."""

    streaming: bool = setting(
        False,
        "For pretraining: read the documents during training and store nothing, for corpora larger than disk or memory.",
    )
    window: int = setting(
        16_000_000, "With streaming: characters held in memory at once; sentences are shuffled among them.", least=100
    )
    shards_at_once: int = setting(
        8, "With streaming: shards that are read at the same time, divided among the processes.", least=1
    )
    on_damaged: OnDamaged = setting(
        OnDamaged.error, "With streaming: whether a damaged or missing shard is an error, or the rest of it is skipped."
    )


@dataclass(frozen=True, slots=True)
class Fractions:
    """Which documents are held out, by their shard and their number in it: spread evenly, not at random."""

    validation: float
    test: float
    seed: int = 0

    def split_of(self, shard: int, number: int) -> str:
        """Return the split of a document: train, validation or test."""
        place = ((number + 1) * _GOLDEN + (shard + 1) * _OTHER_SHARD + self.seed * _GOLDEN * _GOLDEN) % 2**64 / 2**64
        if place < self.validation:
            return "validation"
        return "test" if place < self.validation + self.test else "train"

    def held_out(self) -> list[str]:
        """Return the splits that have held-out documents."""
        return [name for name in ("validation", "test") if getattr(self, name)]


@dataclass(frozen=True, slots=True)
class Shards:
    """The shards of a corpus, in order.

    `fingerprints` has a fingerprint of the content of each, by name. `read` yields the documents of a shard from a
    given number on, each as the list of its paragraphs; it raises DataError if the shard is damaged.
    """

    fingerprints: dict[str, str]
    read: Callable[[int, int], Iterator[list[str]]]
    fractions: Fractions
    window: int
    at_once: int
    on_damaged: OnDamaged

    @property
    def names(self) -> list[str]:
        """Return the names of the shards."""
        return list(self.fingerprints)

    @property
    def readers(self) -> int:
        """Return how many shards are read at the same time."""
        return min(self.at_once, len(self.fingerprints))

    def documents(self, shard: int, start: int, damaged: dict[str, str]) -> Iterator[tuple[int, list[str]]]:
        """Yield the documents of a shard from number `start` on, each with its number.

        Depending on `on_damaged`, a damaged shard ends at the damage, and its name and the reason are added to
        `damaged`; or DataError is raised.
        """
        try:
            yield from zip(count(start), self.read(shard, start), strict=False)
        except UnreachableError:
            raise
        except DataError as error:
            name = self.names[shard]
            if self.on_damaged is OnDamaged.error:
                raise DataError(
                    f"Shard {shard + 1:,} of {len(self.names):,} ({name}) is damaged: {error.wrong}",
                    allowed=error.allowed,
                    remedy="Restore it, or set dataset.on_damaged=skip to skip the rest of it",
                ) from error
            damaged[name] = error.wrong

    def split(self, name: str) -> Iterator[list[str]]:
        """Yield the documents of a split in the order of the shards: all for training, at most HELD_OUT_DOCUMENTS for
        others.
        """
        found = seen = 0
        for shard in range(len(self.names)):
            for number, document in self.documents(shard, 0, {}):
                seen += 1
                if self.fractions.split_of(shard, number) == name:
                    found += 1
                    yield document
                if name != "train" and (found == HELD_OUT_DOCUMENTS or seen == READ_TO_HOLD_OUT):
                    return


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a reader: its pass over the shards, which of its shards it is reading, and the next document
    there.
    """

    epoch: int = 0
    turn: int = 0
    document: int = 0


@dataclass(slots=True)
class ShardReader:
    """One of `Shards.readers`: reads its share of the training documents from `place` on, pass after pass.

    Each pass draws the order of all shards from `seed` and deals them out to the readers in turn. `damaged` collects
    the shards that it could not read to the end.
    """

    shards: Shards
    number: int
    seed: int
    place: Place
    damaged: dict[str, str] = field(default_factory=dict)
    _documents: Iterator[list[str] | None] | None = None

    def take(self) -> list[list[str]]:
        """Return the next documents: its share of a window, or what is left of its pass."""
        if self._documents is None:
            self._documents = self._read()
        taken, characters = [], 0
        for document in self._documents:
            if document is None:  # a window holds no document twice
                break
            taken.append(document)
            characters += sum(map(len, document))
            if characters * self.shards.readers >= self.shards.window:
                break
        return taken

    def _read(self) -> Iterator[list[str] | None]:
        """Yield the documents from `place` on without end, and None after each pass."""
        while True:
            epoch = self.place.epoch
            mine = _order(len(self.shards.names), self.seed, epoch)[self.number :: self.shards.readers]
            while self.place.turn < len(mine):
                yield from self._shard(mine[self.place.turn])
                self.place = Place(epoch, self.place.turn + 1)
            self.place = Place(epoch + 1)
            yield None

    def _shard(self, shard: int) -> Iterator[list[str]]:
        epoch, turn = self.place.epoch, self.place.turn
        for number, document in self.shards.documents(shard, self.place.document, self.damaged):
            self.place = Place(epoch, turn, number + 1)
            if self.shards.fractions.split_of(shard, number) == "train":
                yield document


def _order(shards: int, seed: int, epoch: int) -> list[int]:
    return np.random.default_rng([seed, epoch]).permutation(shards).tolist()


def refuse_stream(streaming: bool) -> None:
    """Raise DataError if rows are wanted from a stream."""
    if streaming:
        raise DataError(
            "dataset.streaming=true gives documents for pretraining, not rows", remedy="Set dataset.streaming=false"
        )


def refuse_limit(limit: int | None) -> None:
    """Raise SettingError if a stream has a limit."""
    if limit is not None:
        raise SettingError(
            f"dataset.limit={limit} does not apply to dataset.streaming=true, which has no end",
            remedy="Remove dataset.limit and set training.steps, or set dataset.streaming=false",
        )
