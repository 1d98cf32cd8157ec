"""The rows a run reads: texts from a token store with their targets, gathered into batches by vectorised reads.

`rows.epoch(seed, epoch)` returns the rows of an epoch: their lengths, and batches of them, prepared on their device.
Those of examples are the same every epoch; those of documents are drawn (`tasks.sentence_rows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from encoderlab.batch import Batch, TeacherOutputs
from encoderlab.data.examples import Example
from encoderlab.data.token_store import Column, TokenStore, joined, lengths_of
from encoderlab.tasks.sequences import SequenceFormat
from encoderlab.training.batches import Rows

ROWS_AT_A_TIME = 10_000


@dataclass(frozen=True, slots=True)
class Targets:
    """The targets of rows: `of_rows`, a class id int64 or a number float32 for each, [rows]; or `of_parts`, the label
    ids of each row's words, or of the labels that it has.

    `known` says which rows have a target: bool [rows]. `n_labels` is how many labels a set is taken from (0: the
    targets are no sets).
    """

    known: np.ndarray
    of_rows: np.ndarray | None = None
    of_parts: Column | None = None
    n_labels: int = 0

    def tensor(self, rows: np.ndarray) -> torch.Tensor | None:
        """Return the targets of whole `rows` as a batch has them; None if any is unknown: it has all or none."""
        if not self.known[rows].all():
            return None
        if self.of_rows is not None:
            return torch.from_numpy(self.of_rows[rows])
        assert self.of_parts is not None
        ids, counts = self.of_parts.gather(rows)
        sets = np.zeros((len(rows), self.n_labels), np.float32)
        sets[np.repeat(np.arange(len(rows)), counts), ids] = 1
        return torch.from_numpy(sets)

    def followed_by(self, other: Targets) -> Targets:
        """Return these targets and then those of `other`."""
        of_rows = None
        of_parts = None
        if self.of_rows is not None and other.of_rows is not None:
            of_rows = np.concatenate([self.of_rows, other.of_rows])
        if self.of_parts is not None and other.of_parts is not None:
            offsets = [self.of_parts.offsets, other.of_parts.offsets[1:] + self.of_parts.offsets[-1]]
            values = np.concatenate([self.of_parts.values, other.of_parts.values])
            of_parts = Column(values, np.concatenate(offsets))
        return Targets(np.concatenate([self.known, other.known]), of_rows, of_parts, self.n_labels)


class ExampleRows:
    """Texts with their `targets` (None: none are known), as sequences of `format`: the same rows in every epoch.

    With `of_words`, the targets are the labels of words, predicted at each word's first token; a word beyond the
    sequence has no target. `weights` say what each row weighs in the loss, [rows] (None: 1). `examples` are what the
    rows were made of, for a model that reads more of a text than its tokens (None: not known).
    """

    examples: Iterable[Example] | None = None

    def __init__(
        self,
        store: TokenStore,
        format: SequenceFormat,
        targets: Targets | None = None,
        *,
        of_words: bool = False,
        weights: np.ndarray | None = None,
    ) -> None:
        self.store = store
        self.format = format
        self.targets = targets
        self.of_words = of_words
        self.weights = weights
        self.lengths = format.lengths(*lengths_of(store))

    def __len__(self) -> int:
        return len(self.store)

    def weighted(self, weights: np.ndarray) -> ExampleRows:
        """Return the same rows with these weights, scaled to a mean of 1: [rows]."""
        scaled = (weights / weights.mean()).astype(np.float32)
        return ExampleRows(self.store, self.format, self.targets, of_words=self.of_words, weights=scaled)

    def epoch(self, seed: int, epoch: int) -> ExampleRows:
        return self

    def truncated_share(self) -> float:
        return float(self.truncated().mean()) if len(self) else 0.0

    def truncated(self) -> np.ndarray:
        """Return which rows are longer than the model reads: bool [rows]."""
        return self.format.truncated(*lengths_of(self.store))

    def windows(self) -> np.ndarray:
        """Return in how many windows each row is read; 1 for a single sequence: [rows]."""
        return self.format.n_windows(*lengths_of(self.store))

    def token_ids(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self.store), ROWS_AT_A_TIME):
            yield self.format.gather(self.store, np.arange(start, min(start + ROWS_AT_A_TIME, len(self.store)))).ids

    def n_targets(self) -> np.ndarray:
        """Return how many predictions each row has: one, or one for each word that is read: [rows]."""
        if not self.of_words:
            return np.ones(len(self), np.int64)
        words = self.store["word_starts"]
        is_read = words.values < self.format.room(paired=False)
        return np.add.reduceat(np.append(is_read, 0), words.offsets[:-1], dtype=np.int64) * (words.lengths() > 0)

    def gather(self, rows: np.ndarray, pad_id: int) -> Batch:
        rows = np.asarray(rows, dtype=np.int64)
        sequences = self.format.gather(self.store, rows)
        input_ids, segments, mask = side_by_side(sequences.ids, sequences.lengths, sequences.first_lengths, pad_id)
        target_positions = np.empty(0, np.int64)
        token_labels = None
        labels = None
        if self.of_words:
            target_positions, token_labels = self._words(rows, input_ids.shape[1])
        elif self.targets is not None:
            labels = self.targets.tensor(rows)
        row_of_sequence = sequences.row_of_sequence
        return Batch(
            input_ids=input_ids,
            token_type_ids=segments,
            attention_mask=mask,
            rows=torch.from_numpy(rows),
            target_positions=torch.from_numpy(target_positions),
            labels=labels,
            token_labels=token_labels,
            n_tokens=int(sequences.lengths.sum()),
            row_of_sequence=None if row_of_sequence is None else torch.from_numpy(row_of_sequence),
            weights=None if self.weights is None else torch.from_numpy(self.weights[rows]),
        )

    def _words(self, rows: np.ndarray, length: int) -> tuple[np.ndarray, torch.Tensor | None]:
        """Return where the words that are read have their first tokens in a batch of this length, and their labels."""
        starts, counts = self.store["word_starts"].gather(rows)
        is_read = starts < self.format.room(paired=False)
        row_of_word = np.repeat(np.arange(len(rows)), counts)
        positions = row_of_word * length + starts + len(self.format.begin)
        if self.targets is None or not self.targets.known[rows].all():
            return positions[is_read], None
        assert self.targets.of_parts is not None
        labels, _ = self.targets.of_parts.gather(rows)
        return positions[is_read], torch.from_numpy(labels[is_read])

    def prepare(self, batch: Batch) -> Batch:
        return batch


def example_rows(rows: Rows) -> ExampleRows:
    """Return the rows of a task on labelled texts as what they are."""
    assert isinstance(rows, ExampleRows), "documents have no labelled rows"
    return rows


class PartOfRows(ExampleRows):
    """The labelled rows at some `positions` of others, renumbered."""

    def __init__(self, rows: ExampleRows, positions: np.ndarray) -> None:
        assert rows.targets is not None and rows.targets.of_rows is not None
        self.whole = rows
        self.positions = positions
        self.store = rows.store
        self.format = rows.format
        self.targets = Targets(rows.targets.known[positions], rows.targets.of_rows[positions])
        self.of_words = rows.of_words
        self.weights = None if rows.weights is None else rows.weights[positions]
        self.lengths = rows.lengths[positions]

    def __len__(self) -> int:
        return len(self.positions)

    def gather(self, rows: np.ndarray, pad_id: int) -> Batch:
        batch = self.whole.gather(self.positions[rows], pad_id)
        return replace(batch, rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)))


def side_by_side(
    flat: np.ndarray, lengths: np.ndarray, first_lengths: np.ndarray, pad_id: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Return the sequences that follow one another in `flat`, padded to the longest: ids, segments, mask or None.

    All are [sequences, longest]. A sequence's first `first_lengths` tokens are segment 0, the others 1.
    """
    positions = np.arange(max(int(lengths.max()), 1))
    real = positions < lengths[:, None]
    input_ids = np.full(real.shape, pad_id, dtype=np.int64)
    input_ids[real] = flat
    segments = ((positions >= first_lengths[:, None]) & real).astype(np.int64)
    return torch.from_numpy(input_ids), torch.from_numpy(segments), None if real.all() else torch.from_numpy(real)


def followed_by(rows: ExampleRows, more: ExampleRows) -> ExampleRows:
    """Return the labelled `rows` and then the labelled `more`, in memory; both have the same format."""
    assert rows.targets is not None and more.targets is not None
    targets = rows.targets.followed_by(more.targets)
    return ExampleRows(joined([rows.store, more.store]), rows.format, targets, of_words=rows.of_words)


class TaughtRows(ExampleRows):
    """Rows whose batches have their teacher's logits.

    `logits` has its outputs for each row, [outputs, classes], of which a batch takes as many as the row has targets.
    `temperature` softens both distributions; the teacher has the `weight` in the loss.
    """

    def __init__(self, rows: ExampleRows, logits: Sequence[np.ndarray], temperature: float, weight: float) -> None:
        super().__init__(rows.store, rows.format, rows.targets, of_words=rows.of_words)
        self.logits = logits
        self.temperature = temperature
        self.weight = weight

    def prepare(self, batch: Batch) -> Batch:
        """Add the teacher's logits to the batch."""
        rows = batch.rows.cpu().numpy()
        counts = np.ones(len(rows), dtype=np.int64)
        if self.of_words:
            row_of_target = (batch.target_positions // batch.input_ids.shape[1]).cpu().numpy()
            counts = np.bincount(row_of_target, minlength=len(rows))
        pairs = zip(rows.tolist(), counts.tolist(), strict=True)
        logits = torch.from_numpy(np.concatenate([self.logits[row][:n] for row, n in pairs])).to(batch.input_ids.device)
        outputs = TeacherOutputs(
            sequence_logits=None if self.of_words else logits,
            token_logits=logits if self.of_words else None,
            temperature=self.temperature,
            weight=self.weight,
        )
        return replace(batch, teacher=outputs)
