"""Rows for contrastive learning, and which of them meet in a micro-batch.

Each micro-batch is drawn from one set, so that only labels of the same kind are compared: equally many rows of some
labels, which half of the time lie near each other. Texts without a label have a micro-batch of their own in each step.
All draws of a step are a function of the seed and its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Protocol

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812

from encoderlab.batch import Batch, Contrast
from encoderlab.data.token_store import Column, TokenStore
from encoderlab.errors import DataError
from encoderlab.tasks.rows import ExampleRows, Targets
from encoderlab.tasks.sequences import SequenceFormat

MOST_OF_A_SET = 20_000  # rows by which the share of a set grows
ROWS_OF_A_MEAN = 12  # of a label: enough to know which labels are near it
MEANS_SEED = 7
ROWS_AT_A_TIME = 256
SHORTEST_LENGTHS = 32  # tokens: texts up to this length share micro-batches, then those up to twice as much, and so on


class ComparisonSettings(Protocol):
    """The settings of `ContrastiveConfig` that say how rows are read and compared."""

    temperature: float
    contrast_weight: float
    compared_rows: int
    compared_labels: int
    related_share: float
    labelled_length: int
    unlabelled_tokens: int


@dataclass(slots=True)
class LabelledSet:
    """The rows of a set by its labels, and for each label all in the order of their nearness (None: unknown yet)."""

    name: str
    rows: list[np.ndarray]
    nearest: np.ndarray | None = None

    def drawn(self, draw: np.random.Generator, n_rows: int, n_labels: int, related_share: float) -> np.ndarray:
        """Return `n_rows` rows, or all if there are fewer: equally many of `n_labels` labels, of more if these have too
        few, and then any others of these labels.
        """
        order = draw.permutation(len(self.rows))
        if self.nearest is not None and draw.random() < related_share:
            order = self.nearest[order[0]]
        each = max(n_rows // min(len(order), n_labels), 1)
        chosen: list[np.ndarray] = []
        missing = n_rows
        for label in order:
            label_rows = draw.permutation(self.rows[label])
            chosen.append(label_rows[: min(each, missing)])
            missing -= len(chosen[-1])
            if not missing:
                break
        rows = np.concatenate(chosen)
        if missing:
            rest = np.setdiff1d(np.concatenate(self.rows), rows)
            rows = np.append(rows, draw.permutation(rest)[:missing])
        return rows

    @property
    def n_rows(self) -> int:
        return sum(map(len, self.rows))


class ContrastiveRows(ExampleRows):
    """Texts of one or several sets with the ids of their labels, int64 [rows], -1 for a text without one.

    `sets` names the set of each row. The classes of rows are pairs of set and label, as the same label may mean
    different things in two sets: label i of set s, of `n_labels` labels in all, is s * n_labels + i. `with_vectors`
    adds the starting encoder's vectors to a batch.
    """

    def __init__(
        self,
        store: TokenStore,
        format: SequenceFormat,
        labels: np.ndarray,
        sets: Sequence[str],
        n_labels: int,
        comparison: ComparisonSettings,
        with_vectors: Callable[[Batch], Batch],
    ) -> None:
        self.comparison = comparison
        self.with_vectors = with_vectors
        self.whole_lengths = store["first"].lengths()
        longest = format.room(paired=False)
        n_special = format.max_length - longest
        cut = min(comparison.labelled_length, format.max_length) - n_special
        self.room = np.where(labels >= 0, cut, longest)
        names, set_of_row = np.unique(np.array(sets), return_inverse=True)
        classes = np.where(labels < 0, -1, set_of_row * n_labels + labels)
        super().__init__(_cut(store, self.room), format, Targets(labels >= 0, of_rows=classes))
        self.classes = classes
        self.unlabelled = np.flatnonzero(labels < 0)
        self.by_length = self._by_length()
        self.sets = []
        for number, name in enumerate(names):
            set_rows = np.flatnonzero((set_of_row == number) & (labels >= 0))
            if len(set_rows):
                by_label = [set_rows[labels[set_rows] == label] for label in np.unique(labels[set_rows])]
                self.sets.append(LabelledSet(str(name), by_label))

    def truncated(self) -> np.ndarray:
        return self.whole_lengths > self.room

    def refuse_lone_labels(self) -> None:
        """Raise DataError for a set with only one label, from which nothing can be kept apart."""
        for labelled_set in self.sets:
            if len(labelled_set.rows) < 2:
                problem = f"All training rows with a label have the same one in the set {labelled_set.name!r}"
                raise DataError(problem, allowed="at least two labels in each set", remedy="Check task.set_column")

    def relate(self, vectors: Callable[[Batch], torch.Tensor], pad_id: int, device: torch.device) -> None:
        """Find out which labels lie near each other in sets that have more labels than a micro-batch.

        `vectors` returns the starting encoder's vectors of a batch, [rows, d_model].
        """
        draw = np.random.default_rng(MEANS_SEED)
        for labelled_set in self.sets:
            if len(labelled_set.rows) <= self.comparison.compared_labels:
                continue
            samples = [draw.permutation(label_rows)[:ROWS_OF_A_MEAN] for label_rows in labelled_set.rows]
            label = np.repeat(np.arange(len(samples)), [len(sample) for sample in samples])
            unit = self._unit_vectors(np.concatenate(samples), vectors, pad_id, device)
            sums = unit.new_zeros(len(samples), unit.shape[1]).index_add(0, torch.from_numpy(label), unit)
            means = F.normalize(sums, dim=1)
            nearest = (means @ means.T).argsort(dim=1, descending=True, stable=True)
            labelled_set.nearest = nearest.numpy()

    def _unit_vectors(
        self, rows: np.ndarray, vectors: Callable[[Batch], torch.Tensor], pad_id: int, device: torch.device
    ) -> torch.Tensor:
        """Return the starting encoder's vectors of some rows, of length 1: float32 [rows, d_model], on the CPU."""
        order = np.argsort(self.lengths[rows], kind="stable")
        in_order = []
        for places in np.array_split(order, max(len(rows) // ROWS_AT_A_TIME, 1)):
            batch = self.gather(rows[places], pad_id).to(device)
            in_order.append(F.normalize(vectors(batch).float(), dim=1).cpu())
        return torch.cat(in_order)[torch.from_numpy(np.argsort(order))]

    def steps(self, n_micro_batches: int, seed: int, after: int) -> Iterator[list[np.ndarray]]:
        """Yield the rows of each micro-batch of step `after` + 1, + 2, and so on: each of a set, drawn by the square
        root of its rows, and one more of texts without a label.
        """
        comparison = self.comparison
        weights = np.array([min(labelled_set.n_rows, MOST_OF_A_SET) ** 0.5 for labelled_set in self.sets])
        for step in count(after):
            draw = np.random.default_rng([seed, step])
            micro_batches = []
            for chosen in draw.choice(len(self.sets), n_micro_batches, p=weights / weights.sum()):
                rows = self.sets[chosen].drawn(
                    draw, comparison.compared_rows, comparison.compared_labels, comparison.related_share
                )
                micro_batches.append(rows)
            if len(self.unlabelled):
                micro_batches.append(self._drawn_unlabelled(draw))
            yield micro_batches

    def _by_length(self) -> list[np.ndarray]:
        """Return the texts without a label in groups of similar length."""
        lengths = self.lengths[self.unlabelled]
        doublings = np.ceil(np.log2(np.maximum(lengths, SHORTEST_LENGTHS) / SHORTEST_LENGTHS))
        return [self.unlabelled[doublings == number] for number in np.unique(doublings)]

    def _drawn_unlabelled(self, draw: np.random.Generator) -> np.ndarray:
        """Return as many texts of similar length as have `unlabelled_tokens`; longer ones are drawn more often."""
        longest = np.array([self.lengths[rows].max() for rows in self.by_length])
        weights = np.array([len(rows) for rows in self.by_length]) * longest**0.5
        group = draw.choice(len(self.by_length), p=weights / weights.sum())
        rows = self.by_length[group]
        number = max(self.comparison.unlabelled_tokens // int(longest[group]), 1)
        return draw.choice(rows, min(number, len(rows)), replace=False)

    def gather(self, rows: np.ndarray, pad_id: int) -> Batch:
        """Return the batch of some rows, with their classes as labels; its target positions are the tokens whose old
        vectors are kept: all but the first of texts without a label or, if there are none, of any text.
        """
        batch = super().gather(rows, pad_id)
        classes = torch.from_numpy(self.classes[batch.rows.numpy()])
        positions = np.arange(batch.input_ids.shape[1])
        is_kept = (positions > 0) & (positions < self.lengths[batch.rows.numpy(), None])
        if len(self.unlabelled):
            is_kept &= classes[:, None].numpy() < 0
        return replace(
            batch,
            labels=classes,
            target_positions=torch.from_numpy(np.flatnonzero(is_kept)),
            contrast=self._contrast(classes),
        )

    def _contrast(self, classes: torch.Tensor) -> Contrast | None:
        """Return how rows of these classes are compared; None without a label."""
        comparison = self.comparison
        if not (classes >= 0).any() or not comparison.contrast_weight:
            return None
        return Contrast.of(classes, comparison.temperature, comparison.contrast_weight)

    def prepare(self, batch: Batch) -> Batch:
        return self.with_vectors(batch)


def _cut(store: TokenStore, room: np.ndarray) -> TokenStore:
    """Return the texts with at most as many tokens as each has `room` for."""
    first = store["first"]
    kept = np.minimum(first.lengths(), room)
    offsets = np.concatenate([np.zeros(1, np.int64), kept.cumsum()])
    values = first.stretches(first.offsets[:-1], kept).astype(first.values.dtype)
    return TokenStore({"first": Column(values, offsets)})
