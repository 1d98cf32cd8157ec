"""Sentence pairs: windows of neighbouring sentences, cut in two at random each epoch; half of the pairs are made
negative.

All of it is arithmetic on indices into the token store: no sentence is copied before a batch needs it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from encoderlab.data.dataset import Pack
from encoderlab.data.token_store import TokenStore
from encoderlab.tasks.config import SecondSentence

Places = np.ndarray  # indices of sentences in the store: int32 if that is enough, otherwise int64


@dataclass(frozen=True, slots=True)
class Sentences:
    """Where the sentences of a store begin, and their documents and paragraphs.

    `offsets` [sentences + 1] is where each one's tokens begin; `document` and `paragraph` [sentences] are their
    numbers.
    """

    offsets: np.ndarray
    document: np.ndarray
    paragraph: np.ndarray

    @classmethod
    def of(cls, store: TokenStore) -> Sentences:
        """Read it from the store, which stays memory-mapped."""
        return cls(store["input_ids"].offsets, store["document"].values, store["paragraph"].values)

    def tokens(self, start: Places, stop: Places) -> np.ndarray:
        """Return how many tokens the sentences from `start` up to `stop` have."""
        return self.offsets[stop] - self.offsets[start]

    def filled(self, start: Places, room: np.ndarray, end: Places) -> Places:
        """Return where a run from `start` of at most `room` tokens stops: whole sentences, at least one, none beyond
        `end`.
        """
        stop = np.searchsorted(self.offsets, self.offsets[start] + room, side="right") - 1
        return np.minimum(np.maximum(stop, start + 1), end)


@dataclass(frozen=True, slots=True)
class Windows:
    """Runs of sentences of one document: [windows] each. `end` is where the window's document ends."""

    start: Places
    stop: Places
    end: Places
    document: np.ndarray


@dataclass(frozen=True, slots=True)
class Pairs:
    """First and second texts as runs of sentences, and whether a pair is negative (1): [pairs] each."""

    first_start: Places
    first_stop: Places
    second_start: Places
    second_stop: Places
    labels: np.ndarray


def windows(sentences: Sentences, pack: Pack, room: int, *, paired: bool) -> Windows:
    """Return all windows of a store.

    `sentences`: every two neighbours of a paragraph (single sentences unless `paired`). `segments`: each document cut
    into runs of whole sentences of at most `room` tokens, with at least two sentences if they are to be paired.
    """
    document = np.asarray(sentences.document)
    borders = np.flatnonzero(np.diff(document)) + 1
    begins, ends = np.concatenate([[0], borders]), np.concatenate([borders, [len(document)]])
    if pack is Pack.sentences:
        start = np.arange(len(document) - paired)
        if paired:
            start = start[sentences.paragraph[start] == sentences.paragraph[start + 1]]
        stop = start + 1 + paired
    else:
        start, stop = _segments(sentences, begins, ends, room, least=1 + paired)
    end = ends[np.searchsorted(ends, start, side="right")]
    positions = (
        np.int32 if len(document) < 2**31 else np.int64
    )  # halves the memory, because a corpus has very many windows
    return Windows(start.astype(positions), stop.astype(positions), end.astype(positions), document[start])


def _segments(sentences: Sentences, begins: Places, ends: Places, room: int, least: int) -> tuple[Places, Places]:
    """Return runs as long as fit, one after the other; the next runs of all documents are found at once."""
    starts, stops = [], []
    while len(begins):
        kept = ends - begins >= least
        begins, ends = begins[kept], ends[kept]
        stop = np.maximum(sentences.filled(begins, np.full(len(begins), room), ends), begins + least)
        starts.append(begins)
        stops.append(stop)
        begins = stop
    start, stop = np.concatenate([*starts, []]).astype(np.int64), np.concatenate([*stops, []]).astype(np.int64)
    order = np.argsort(start)
    return start[order], stop[order]


def draw_pairs(
    found: Windows, sentences: Sentences, second: SecondSentence, pack: Pack, room: int, seed: list[int]
) -> Pairs:
    """Cut every window in two, and make half of the pairs (to within one) negative.

    `next`: a negative second text begins where the second text of another *document*'s window does, so that neither its
    position nor its length gives it away, and continues as long as there is room. `swapped`: the two texts change
    places (Lan et al. 2020, section 3.1). If the windows are single texts (`none`), the second one is empty.
    """
    draw = np.random.default_rng(seed)
    start, stop = found.start, found.stop
    if second is SecondSentence.none:
        return Pairs(start, stop, stop, stop, np.zeros(len(start), np.int8))
    middle = start + 1 + (draw.random(len(start)) * (stop - start - 1)).astype(start.dtype)
    labels = (draw.permutation(len(start)) % 2).astype(np.int8)
    pairs = Pairs(start, middle, middle, stop, labels)
    negative = np.flatnonzero(labels)
    if second is SecondSentence.swapped:
        return _swapped(pairs, labels.astype(bool))
    other = _elsewhere(found.document, negative, draw)
    second_start, second_stop = pairs.second_start.copy(), pairs.second_stop.copy()
    second_start[negative] = middle[other]
    if pack is Pack.sentences:
        second_stop[negative] = middle[other] + 1
    else:
        left = room - sentences.tokens(start[negative], middle[negative])
        second_stop[negative] = sentences.filled(middle[other], left, found.end[other])
    return replace(pairs, second_start=second_start, second_stop=second_stop)


def _swapped(pairs: Pairs, where: np.ndarray) -> Pairs:
    return Pairs(
        first_start=np.where(where, pairs.second_start, pairs.first_start),
        first_stop=np.where(where, pairs.second_stop, pairs.first_stop),
        second_start=np.where(where, pairs.first_start, pairs.second_start),
        second_stop=np.where(where, pairs.first_stop, pairs.second_stop),
        labels=pairs.labels,
    )


def _elsewhere(document: np.ndarray, rows: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return for each of `rows` the row of another document, all equally likely; `document` [all rows] is ascending."""
    begin, end = np.searchsorted(document, document[rows], "left"), np.searchsorted(document, document[rows], "right")
    others = len(document) - (end - begin)
    drawn = (draw.random(len(rows)) * others).astype(np.int64)
    return np.where(drawn >= begin, drawn + (end - begin), drawn)
