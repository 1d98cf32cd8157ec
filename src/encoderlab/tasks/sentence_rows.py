"""The rows of a pretraining run, drawn every epoch: neighbouring sentences cut in two, half of the pairs negative."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from encoderlab.batch import Batch
from encoderlab.data.dataset import Pack
from encoderlab.data.token_store import TokenStore, indices_of
from encoderlab.tasks.rows import side_by_side
from encoderlab.tasks.sequences import longest_first
from encoderlab.tasks.vectors import DocumentTask

TOKENS_AT_A_TIME = 1_000_000

Places = np.ndarray  # indices of sentences in the store: int32 if that is enough, otherwise int64


class Sentences:
    """Where the sentences' tokens begin in a store, `offsets` [sentences + 1], and the numbers of their `document` and
    `paragraph`, [sentences] each; nothing is copied from the store.
    """

    def __init__(self, store: TokenStore) -> None:
        self.offsets = store["input_ids"].offsets
        self.document = store["document"].values
        self.paragraph = store["paragraph"].values

    def tokens(self, start: Places, stop: Places) -> np.ndarray:
        """Return how many tokens the sentences from `start` up to `stop` have."""
        return self.offsets[stop] - self.offsets[start]

    def filled(self, start: Places, room: np.ndarray, end: Places) -> Places:
        """Return where runs from `start` of at most `room` tokens stop: whole sentences, at least one, before `end`."""
        stop = np.searchsorted(self.offsets, self.offsets[start] + room, side="right") - 1
        return np.minimum(np.maximum(stop, start + 1), end)


@dataclass(frozen=True, slots=True)
class Passages:
    """Runs of sentences of one document: [passages] each. `end` is where the passage's document ends."""

    start: Places
    stop: Places
    end: Places
    document: np.ndarray


@dataclass(frozen=True, slots=True)
class SentencePairs:
    """First and second texts as runs of sentences, and whether a pair is negative (1): [pairs] each."""

    first_start: Places
    first_stop: Places
    second_start: Places
    second_stop: Places
    labels: np.ndarray


def passages_of(sentences: Sentences, pack: Pack, room: int, *, paired: bool) -> Passages:
    """Return all passages of a store.

    `sentences`: every two neighbours of a paragraph (single sentences unless `paired`). `segments`: each document cut
    into runs of whole sentences of at most `room` tokens, with at least two sentences if they are to be paired.
    """
    document = np.asarray(sentences.document)
    borders = np.flatnonzero(np.diff(document)) + 1
    begins = np.concatenate([[0], borders])
    ends = np.concatenate([borders, [len(document)]])
    if pack is Pack.sentences:
        start = np.arange(len(document) - paired)
        if paired:
            start = start[sentences.paragraph[start] == sentences.paragraph[start + 1]]
        stop = start + 1 + paired
    else:
        start, stop = _segments(sentences, begins, ends, room, n_sentences=1 + paired)
    end = ends[np.searchsorted(ends, start, side="right")]
    # A corpus has very many passages: this halves their memory.
    positions = np.int32 if len(document) < 2**31 else np.int64
    return Passages(start.astype(positions), stop.astype(positions), end.astype(positions), document[start])


def _segments(sentences: Sentences, begins: Places, ends: Places, room: int, n_sentences: int) -> tuple[Places, Places]:
    """Return runs of at least `n_sentences`, as long as fit, one after another; those of all documents at once."""
    starts = []
    stops = []
    while len(begins):
        kept = ends - begins >= n_sentences
        begins = begins[kept]
        ends = ends[kept]
        stop = np.maximum(sentences.filled(begins, np.full(len(begins), room), ends), begins + n_sentences)
        starts.append(begins)
        stops.append(stop)
        begins = stop
    start = np.concatenate([*starts, []]).astype(np.int64)
    stop = np.concatenate([*stops, []]).astype(np.int64)
    order = np.argsort(start)
    return start[order], stop[order]


def draw_pairs(
    passages: Passages, sentences: Sentences, pack: Pack, room: int, seed: list[int], *, paired: bool
) -> SentencePairs:
    """Cut every passage in two, and make half of the pairs (to within one) negative; do neither unless `paired`.

    A negative second text begins where the second text of another *document*'s passage does, so that neither its
    position nor its length gives it away, and continues as long as there is room.
    """
    draw = np.random.default_rng(seed)
    start = passages.start
    stop = passages.stop
    if not paired:
        return SentencePairs(start, stop, stop, stop, np.zeros(len(start), np.int8))
    middle = start + 1 + (draw.random(len(start)) * (stop - start - 1)).astype(start.dtype)
    labels = (draw.permutation(len(start)) % 2).astype(np.int8)
    negative = np.flatnonzero(labels)
    # All passages of other documents are equally likely; their numbers ascend.
    begin, end = (np.searchsorted(passages.document, passages.document[negative], side) for side in ("left", "right"))
    other = (draw.random(len(negative)) * (len(start) - (end - begin))).astype(np.int64)
    other += np.where(other >= begin, end - begin, 0)
    second_start = middle.copy()
    second_stop = stop.copy()
    second_start[negative] = middle[other]
    if pack is Pack.sentences:
        second_stop[negative] = middle[other] + 1
    else:
        left = room - sentences.tokens(start[negative], middle[negative])
        second_stop[negative] = sentences.filled(middle[other], left, passages.end[other])
    return SentencePairs(start, middle, second_start, second_stop, labels)


class SentenceRows:
    """Pairs of runs of sentences, or single runs: equally many each epoch, drawn again each time.

    `store` has a row for each sentence: `input_ids`, and the numbers of its `document` and `paragraph`.
    """

    def __init__(self, store: TokenStore, task: DocumentTask, pack: Pack) -> None:
        self.store = store
        self.task = task
        self.pack = pack
        self.paired = bool(task.labels)
        length = min(task.config.row_length or task.max_length, task.max_length)
        self.room = length - (3 if self.paired else 2)  # besides [CLS] and each [SEP]
        self.sentences = Sentences(store)
        self.passages = passages_of(self.sentences, pack, self.room, paired=self.paired)

    def __len__(self) -> int:
        return len(self.passages.start)

    def epoch(self, seed: int, epoch: int) -> SentenceEpoch:
        pairs = draw_pairs(self.passages, self.sentences, self.pack, self.room, [seed, epoch], paired=self.paired)
        key = int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0])
        return SentenceEpoch(self, pairs, key)

    @property
    def sample(self) -> SentenceRows:
        """Return the rows to count facts in: all."""
        return self

    def truncated_share(self) -> float:
        """Return the share of one epoch's rows that were longer than the model reads."""
        first, second = self.epoch(0, 0).tokens(slice(None))
        return float((first + second > self.room).mean()) if len(self) else 0.0

    def token_ids(self) -> Iterator[np.ndarray]:
        ids = self.store["input_ids"].values
        for start in range(0, len(ids), TOKENS_AT_A_TIME):
            yield ids[start : start + TOKENS_AT_A_TIME]


class SentenceEpoch:
    """The rows of one epoch (a `training.batches.Epoch`): pairs of sentences, or single runs, as drawn for it."""

    def __init__(self, rows: SentenceRows, pairs: SentencePairs, key: int) -> None:
        self.rows = rows
        self.pairs = pairs
        self.key = key
        self.paired = rows.paired
        first, second = self.tokens(slice(None))
        self.lengths = (np.minimum(first + second, rows.room) + (3 if self.paired else 2)).astype(np.int32)

    def tokens(self, rows: np.ndarray | slice) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of tokens of both texts of each of `rows` before truncation, without special tokens."""
        sentences = self.rows.sentences
        pairs = self.pairs
        first = sentences.tokens(pairs.first_start[rows], pairs.first_stop[rows])
        return first, sentences.tokens(pairs.second_start[rows], pairs.second_stop[rows])

    def gather(self, rows: np.ndarray, pad_id: int) -> Batch:
        """Return rows as [CLS] a [SEP] b [SEP], truncating the longer text first, or as [CLS] a [SEP]."""
        column = self.rows.store["input_ids"]
        offsets = self.rows.sentences.offsets
        tokenizer = self.rows.task.tokenizer
        # How long each sequence is: [CLS] and [SEP] around the first text, and a [SEP] after the second.
        first, second = longest_first(*self.tokens(rows), self.rows.room)
        first_lengths = first + 2
        lengths = first_lengths + second + self.paired

        # All sequences one after another: special tokens first, then both texts from the store.
        begins = np.cumsum(lengths) - lengths
        flat = np.full(int(lengths.sum()), tokenizer.sep_id, dtype=np.int64)
        flat[begins] = tokenizer.cls_id
        first_starts = offsets[self.pairs.first_start[rows]]
        second_starts = offsets[self.pairs.second_start[rows]]
        flat[indices_of(begins + 1, first)] = column.stretches(first_starts, first)
        flat[indices_of(begins + first_lengths, second)] = column.stretches(second_starts, second)
        input_ids, segments, mask = side_by_side(flat, lengths, first_lengths, pad_id)
        return Batch(
            input_ids=input_ids,
            token_type_ids=segments,
            attention_mask=mask,
            rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)),
            target_positions=torch.empty(0, dtype=torch.int64),
            labels=torch.from_numpy(self.pairs.labels[rows].astype(np.int64)) if self.paired else None,
            token_labels=None,
            n_tokens=int(lengths.sum()),
            n_targets=self.rows.task.count_targets(flat, lengths),
        )

    def prepare(self, batch: Batch) -> Batch:
        """Mask the batch, or let the teacher compute its outputs."""
        return self.rows.task.with_targets(batch, self.key)
