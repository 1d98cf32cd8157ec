"""The rows of a pretraining run: pairs of sentences assembled from the store of sentences, and masked.

Rows are drawn every epoch: a window of neighbouring sentences is cut in two, and half of the pairs get a second text
that starts where the second text of another document does."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np
import torch

from encoderlab.batch import Batch
from encoderlab.data.dataset import Pack
from encoderlab.data.token_store import TokenStore
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.tasks.config import DocumentTaskConfig, SecondSentence
from encoderlab.tasks.pairs import Pairs, Sentences, draw_pairs, windows
from encoderlab.tasks.rows import side_by_side
from encoderlab.tasks.sequences import longest_first_of_many


class DocumentTask(Protocol):
    """What rows of sentences need from the task they are read for."""

    tokenizer: Tokenizer
    labels: list[str]
    max_length: int

    @property
    def config(self) -> DocumentTaskConfig:
        """Return the settings of the task."""
        ...

    @property
    def is_ordinary(self) -> np.ndarray:
        """Return whether each id is an ordinary token: [vocabulary]."""
        ...

    def count_targets(self, flat: np.ndarray, lengths: np.ndarray) -> int | None:
        """Return how many tokens will be predicted in the sequences that follow one another in `flat`;
        None: unknown.
        """
        ...

    def ask(self, batch: Batch, key: int) -> Batch:
        """Return the batch with its targets; draws are a function of `key`, row and position."""
        ...


class SentenceRows:
    """Pairs of runs of sentences, or single runs: equally many each epoch, drawn again each time.

    `store` has a row for each sentence: `input_ids`, and the numbers of its `document` and `paragraph`.
    """

    def __init__(self, store: TokenStore, task: DocumentTask, pack: Pack) -> None:
        self.store, self.task, self.pack = store, task, pack
        self.second = task.config.paired
        self.paired = self.second is not SecondSentence.none
        length = min(task.config.row_length or task.max_length, task.max_length)
        self.room = length - (3 if self.paired else 2)  # besides [CLS] and each [SEP]
        self.sentences = Sentences.of(store)
        self.windows = windows(self.sentences, pack, self.room, paired=self.paired)

    def __len__(self) -> int:
        return len(self.windows.start)

    def epoch(self, seed: int, epoch: int) -> SentenceEpoch:
        pairs = draw_pairs(self.windows, self.sentences, self.second, self.pack, self.room, [seed, epoch])
        key = int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0])
        return SentenceEpoch(self, pairs, key)

    def truncated_share(self) -> float:
        """Return the share of one epoch's rows that were longer than the model reads."""
        first, second = self.epoch(0, 0).tokens(slice(None))
        return float((first + second > self.room).mean()) if len(self) else 0.0


class SentenceEpoch:
    """The rows of one epoch (a `training.batches.Epoch`): pairs of sentences, or single runs, as drawn for it."""

    def __init__(self, rows: SentenceRows, pairs: Pairs, key: int) -> None:
        self.rows, self.pairs, self.key = rows, pairs, key
        self.paired = rows.paired

    def tokens(self, rows: np.ndarray | slice) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of tokens of both texts of each of `rows` before truncation, without special tokens."""
        sentences, pairs = self.rows.sentences, self.pairs
        first = sentences.tokens(pairs.first_start[rows], pairs.first_stop[rows])
        return first, sentences.tokens(pairs.second_start[rows], pairs.second_stop[rows])

    @property
    def lengths(self) -> np.ndarray:
        return self._lengths

    @cached_property
    def _lengths(self) -> np.ndarray:
        first, second = self.tokens(slice(None))
        return (np.minimum(first + second, self.rows.room) + (3 if self.paired else 2)).astype(np.int32)

    def gather(self, rows: np.ndarray, pad_id: int) -> Batch:
        """Return rows as [CLS] a [SEP] b [SEP], truncating the longer text first, or as [CLS] a [SEP]."""
        flat, lengths, first_lengths = self._sequences(rows)
        input_ids, segments, mask = side_by_side(flat, lengths, first_lengths, pad_id)
        return Batch(
            input_ids=torch.from_numpy(input_ids),
            token_type_ids=torch.from_numpy(segments),
            attention_mask=None if mask is None else torch.from_numpy(mask),
            rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)),
            target_positions=torch.empty(0, dtype=torch.int64),
            labels=torch.from_numpy(self.pairs.labels[rows].astype(np.int64)) if self.paired else None,
            token_labels=None,
            n_tokens=int(lengths.sum()),
            n_targets=self.rows.task.count_targets(flat, lengths),
        )

    def prepare(self, batch: Batch) -> Batch:
        """Mask the batch, or let the teacher compute its targets."""
        return self.rows.task.ask(batch, self.key)

    def texts(self, rows: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the ids of both texts of each row, not truncated."""
        ids, offsets, pairs = self.rows.store["input_ids"].values, self.rows.sentences.offsets, self.pairs
        return [
            (
                ids[offsets[pairs.first_start[row]] : offsets[pairs.first_stop[row]]],
                ids[offsets[pairs.second_start[row]] : offsets[pairs.second_stop[row]]],
            )
            for row in rows
        ]

    def _sequences(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the sequences of `rows` one after the other, their lengths, and the lengths of their first texts'
        segments.
        """
        column, offsets = self.rows.store["input_ids"], self.rows.sentences.offsets
        tokenizer = self.rows.task.tokenizer
        first, second = longest_first_of_many(*self.tokens(rows), self.rows.room)
        first_lengths, second_lengths = first + 2, second + self.paired
        lengths = first_lengths + second_lengths
        begins = np.cumsum(lengths) - lengths
        flat = np.full(int(lengths.sum()), tokenizer.sep_id, dtype=np.int64)
        flat[begins] = tokenizer.cls_id
        flat[_places(begins + 1, first)] = column.stretches(offsets[self.pairs.first_start[rows]], first)
        flat[_places(begins + first_lengths, second)] = column.stretches(offsets[self.pairs.second_start[rows]], second)
        return flat, lengths, first_lengths


def _places(begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return begins[0], begins[0] + 1, ... (lengths[0] numbers), then the numbers of the next."""
    done = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(begins - done, lengths)
