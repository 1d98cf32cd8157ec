"""The rows a run reads: examples are encoded into a token store once, and gathered into batches by vectorised reads.

`rows.epoch(seed, epoch)` returns the rows of an epoch: their lengths, and batches of them, prepared on their device.
Those of examples are the same every epoch; those of documents are drawn (`tasks.sentence_rows`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from encoderlab.batch import Batch, Encoded, HeadSizes, TeacherOutputs
from encoderlab.data.token_store import Block, TokenStore, as_blocks, id_type, memory_store

UNKNOWN = -1  # how the store writes an unknown target; for numbers it is NaN
LABEL_TYPES = {"label": "int32", "label_set": "int8", "number": "float32"}


def hold_encoded(encoded: Iterable[Encoded], vocabulary_size: int, heads: HeadSizes) -> ExampleRows:
    """Return the rows of encoded examples, in memory."""
    return ExampleRows(memory_store(*in_columns(encoded, vocabulary_size, heads)))


def concatenated(parts: Sequence[ExampleRows]) -> ExampleRows:
    """Return the rows of all parts, one part after another, in memory."""
    types = {name: column.values.dtype.str for name, column in parts[0].store.columns.items()}
    blocks = [{name: (one.values, one.lengths()) for name, one in part.store.columns.items()} for part in parts]
    return ExampleRows(memory_store(types, blocks))


def in_columns(
    encoded: Iterable[Encoded], vocabulary_size: int, heads: HeadSizes
) -> tuple[dict[str, str], Iterator[Block]]:
    """Return encoded examples, with the targets of `heads`, as a store's columns (name: dtype) and their numbers."""
    types = {"input_ids": id_type(vocabulary_size), "first_length": "uint32", "truncated": "uint8"}
    if heads.predicts_tokens:
        types |= {"target_positions": "uint32", "token_labels": "int32"}
    else:
        types |= {"label": LABEL_TYPES[heads.sequence_target]}
        types |= {} if heads.window_pooling is None else {"windows": "uint32"}
    unknown = math.nan if heads.sequence_target == "number" else UNKNOWN

    def columns(example: Encoded) -> Mapping[str, Sequence[float]]:
        label, tokens = unknown if example.label is None else example.label, example.token_labels or {}
        return {
            "input_ids": example.input_ids,
            "first_length": (example.token_type_ids.count(0),),
            "truncated": (example.truncated,),
            "windows": (len(example.window_starts) or 1,),
            "label": label if isinstance(label, tuple) else (label,),
            "target_positions": list(tokens),
            "token_labels": [UNKNOWN if label is None else label for label in tokens.values()],
        }

    return types, as_blocks(map(columns, encoded), types)


class ExampleRows:
    """Encoded examples: the same rows in every epoch."""

    def __init__(self, store: TokenStore) -> None:
        self.store = store
        self.lengths = store["input_ids"].lengths()

    def __len__(self) -> int:
        return len(self.store)

    def epoch(self, seed: int, epoch: int) -> ExampleRows:
        return self

    def truncated_share(self) -> float:
        return float(self.truncated().mean()) if len(self) else 0.0

    def truncated(self) -> np.ndarray:
        """Return 1 for each row longer than the model reads, otherwise 0: [rows]."""
        return self.store["truncated"].gather(np.arange(len(self)))[0]

    def windows(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Return in how many windows each of `rows` (None: of all) is read; 1 for a single sequence."""
        rows = np.arange(len(self)) if rows is None else rows
        return self.store["windows"].gather(rows)[0] if "windows" in self.store else np.ones(len(rows), np.int64)

    def gather(self, rows: np.ndarray, pad_id: int) -> Batch:
        flat, lengths = self.store["input_ids"].gather(rows)
        first_lengths, _ = self.store["first_length"].gather(rows)
        windows, row_of_sequence = self.windows(rows), None
        if (windows > 1).any():
            row_of_sequence = torch.from_numpy(np.repeat(np.arange(len(rows)), windows))
            lengths, first_lengths = (np.repeat(some // windows, windows) for some in (lengths, first_lengths))
        input_ids, segments, mask = side_by_side(flat, lengths, first_lengths, pad_id)
        target_positions, token_labels = np.empty(0, np.int64), None
        if "target_positions" in self.store:
            positions, counts = self.store["target_positions"].gather(rows)
            target_positions = positions + np.repeat(np.arange(len(rows)) * input_ids.shape[1], counts)
            token_labels = self.store["token_labels"].gather(rows)[0]
        labels = self.store["label"].gather(rows)[0] if "label" in self.store else None
        is_set = labels is not None and self.store["label"].values.dtype == LABEL_TYPES["label_set"]
        return Batch(
            input_ids=input_ids,
            token_type_ids=segments,
            attention_mask=mask,
            rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)),
            target_positions=torch.from_numpy(target_positions),
            labels=_known(labels, len(rows) if is_set else None),
            token_labels=_known(token_labels),
            n_tokens=int(lengths.sum()),
            row_of_sequence=row_of_sequence,
        )

    def prepare(self, batch: Batch) -> Batch:
        return batch


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


def _known(targets: np.ndarray | None, sets: int | None = None) -> torch.Tensor | None:
    """Return the targets, or None if any is unknown: a batch has all its targets or none.

    If they are `sets` of that many labels, return a row of zeros and ones for each.
    """
    if targets is None or (np.isnan(targets) if targets.dtype.kind == "f" else targets == UNKNOWN).any():
        return None
    return torch.from_numpy(targets if sets is None else targets.reshape(sets, -1).astype(np.float32))


class TaughtRows(ExampleRows):
    """Rows whose batches have their teacher's logits.

    `logits` has its outputs for each row, [outputs, classes], of which a batch takes as many as the row has targets.
    `temperature` softens both distributions; the teacher has the `weight` in the loss.
    """

    def __init__(self, rows: ExampleRows, logits: Sequence[np.ndarray], temperature: float, weight: float) -> None:
        super().__init__(rows.store)
        self.logits, self.temperature, self.weight = logits, temperature, weight

    def prepare(self, batch: Batch) -> Batch:
        """Add the teacher's logits to the batch."""
        rows = batch.rows.cpu().numpy()
        tagging = batch.labels is None and batch.token_labels is not None
        counts = np.ones(len(rows), dtype=np.int64)
        if tagging:
            row_of_target = (batch.target_positions // batch.input_ids.shape[1]).cpu().numpy()
            counts = np.bincount(row_of_target, minlength=len(rows))
        pairs = zip(rows.tolist(), counts.tolist(), strict=True)
        logits = torch.from_numpy(np.concatenate([self.logits[row][:n] for row, n in pairs])).to(batch.input_ids.device)
        name = "token_logits" if tagging else "sequence_logits"
        outputs = TeacherOutputs(**{name: logits}, temperature=self.temperature, weight=self.weight)
        return replace(batch, teacher=outputs)
