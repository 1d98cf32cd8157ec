"""Data that travels between packages that do not import each other: a batch, a teacher's outputs, a prediction."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TeacherOutputs:
    """A teacher's outputs for a batch (Hinton et al. 2015), which a student learns to reproduce.

    They are either logits of the task's classes, for whole sequences or for the target tokens, softened by
    `temperature`; or vectors, for whole sequences and for the target tokens. None: no such output. They have the
    `weight` in the loss, and the labels, if there are any, the rest of 1; vectors have a further weight by their kind.
    """

    sequence_logits: Float[Tensor, "batch classes"] | None = None
    token_logits: Float[Tensor, "targets classes"] | None = None
    sequence_vectors: Float[Tensor, "batch d_teacher"] | None = None
    token_vectors: Float[Tensor, "targets d_teacher"] | None = None
    temperature: float = 1.0
    weight: float = 1.0
    sequence_vector_weight: float = 1.0
    token_vector_weight: float = 1.0

    def select(self, rows: slice, tokens: slice | Bool[Tensor, " targets"]) -> TeacherOutputs:
        """Return the outputs for some rows and for some target tokens."""
        where = {"sequence_logits": rows, "sequence_vectors": rows, "token_logits": tokens, "token_vectors": tokens}
        selected = {}
        for name, positions in where.items():
            output = getattr(self, name)
            selected[name] = None if output is None else output[positions]
        return TeacherOutputs(
            **selected,
            temperature=self.temperature,
            weight=self.weight,
            sequence_vector_weight=self.sequence_vector_weight,
            token_vector_weight=self.token_vector_weight,
        )


@dataclass(frozen=True, slots=True)
class Contrast:
    """How the rows of a micro-batch are compared with one another (Khosla et al. 2020, equation 2).

    `n_anchors` counts the rows with another row of their label in the micro-batch; `weight` is that of the loss.
    """

    n_anchors: int
    temperature: float
    weight: float

    @classmethod
    def of(cls, labels: Int[Tensor, " batch"], temperature: float, weight: float) -> Contrast:
        """Return how rows with these labels, -1 where it is unknown, are compared. Waits for the labels' device."""
        _, counts = labels[labels >= 0].unique(return_counts=True)
        return cls(int(counts[counts > 1].sum()), temperature, weight)


@dataclass(frozen=True, slots=True)
class Batch:
    """What a model computes at once: examples side by side, padded to the longest.

    To score, it is a batch. In training it is a micro-batch: the batch of an optimizer step, whose rows
    `training.batch_size` counts, is a list of them (see `training/batches.py`).

    `attention_mask` is True at real tokens; None means that there is no padding. `target_positions` lists the tokens
    that the token head predicts, as indices into the flattened (batch * length) tokens, in ascending order;
    `token_labels` holds their labels. `rows` gives the index of each example in its split; it is empty in a batch
    `without_rows`. `n_tokens` counts real tokens, and `n_targets` the target positions if they are still to be drawn
    (None: unknown). Both are plain numbers, so reading them never waits for a device. `teacher` holds the
    teacher's outputs, in distillation, and `weights` what each row weighs in the loss (None: 1). `contrast` says how
    rows are compared with one another (None: they are not); a part of a batch has none, because it lacks other rows.

    A row is one sequence unless a long text is read in several windows. `row_of_sequence` then gives the row of the
    batch that each sequence belongs to, in ascending order (None: every row is one sequence). Predictions have one row
    for each row of the batch.
    """

    input_ids: Int[Tensor, "sequences length"]
    token_type_ids: Int[Tensor, "sequences length"]
    attention_mask: Bool[Tensor, "sequences length"] | None
    rows: Int[Tensor, " batch"]
    target_positions: Int[Tensor, " targets"]
    labels: Int[Tensor, " batch"] | Float[Tensor, "batch labels"] | Float[Tensor, " batch"] | None
    token_labels: Int[Tensor, " targets"] | None
    n_tokens: int
    n_targets: int | None = None
    teacher: TeacherOutputs | None = None
    contrast: Contrast | None = None
    row_of_sequence: Int[Tensor, " sequences"] | None = None
    weights: Float[Tensor, " batch"] | None = None

    def __len__(self) -> int:
        """Return how many rows the model computes. `len(rows)`, how many count, is 0 in a batch `without_rows`."""
        return self.input_ids.shape[0] if self.row_of_sequence is None else len(self.rows)

    def without_rows(self) -> Batch:
        """Return the tokens without rows to predict: a process that has none computes this to take part in a step."""
        return replace(
            self.between(0, 0),
            input_ids=self.input_ids,
            token_type_ids=self.token_type_ids,
            attention_mask=self.attention_mask,
            n_targets=0,
            row_of_sequence=None,
        )

    def to(self, device: torch.device) -> Batch:
        """Return the batch on `device`. It is copied to a CUDA GPU from pinned memory, without making the host wait."""
        moved = {}
        for field in fields(self):
            value = getattr(self, field.name)
            moved[field.name] = _on(device, value) if isinstance(value, Tensor) else value
        return Batch(**moved)

    def halves(self) -> tuple[Batch, Batch]:
        """Return both halves of the rows, padded as before; the second gets an odd row. Waits for the device."""
        middle = len(self) // 2
        return self.between(0, middle), self.between(middle, len(self))

    def between(self, first: int, last: int) -> Batch:
        """Return the rows from `first` up to `last`, padded as before. Waits for the device."""
        length = self.input_ids.shape[1]
        begin = self._sequences_before(first)
        end = self._sequences_before(last)
        targets_here = (self.target_positions >= begin * length) & (self.target_positions < end * length)
        mask = None if self.attention_mask is None else self.attention_mask[begin:end]
        return Batch(
            input_ids=self.input_ids[begin:end],
            token_type_ids=self.token_type_ids[begin:end],
            attention_mask=mask,
            rows=self.rows[first:last],
            target_positions=self.target_positions[targets_here] - begin * length,
            labels=None if self.labels is None else self.labels[first:last],
            token_labels=None if self.token_labels is None else self.token_labels[targets_here],
            n_tokens=(end - begin) * length if mask is None else int(mask.sum()),
            teacher=None if self.teacher is None else self.teacher.select(slice(first, last), targets_here),
            row_of_sequence=None if self.row_of_sequence is None else self.row_of_sequence[begin:end] - first,
            weights=None if self.weights is None else self.weights[first:last],
        )

    def _sequences_before(self, row: int) -> int:
        return row if self.row_of_sequence is None else int((self.row_of_sequence < row).sum())


def _on(device: torch.device, tensor: Tensor) -> Tensor:
    """Move a tensor. PyTorch keeps pinned memory until the copy is done, so the caller need not keep it."""
    from_host_to_gpu = device.type == "cuda" and tensor.device.type == "cpu"
    return tensor.pin_memory().to(device, non_blocking=True) if from_host_to_gpu else tensor.to(device)


class Prediction(NamedTuple):
    """The output of the heads: logits for each row, and for each target position; or vectors like a teacher's.

    Beside logits, `sequence_vectors` are those that the head reads.

    In a tuple, PyTorch's FSDP2 finds the tensors that gradients come from.
    """

    sequence_logits: Float[Tensor, "batch classes"] | None = None
    token_logits: Float[Tensor, "targets vocabulary"] | None = None
    sequence_vectors: Float[Tensor, "batch d_teacher"] | None = None
    token_vectors: Float[Tensor, "targets d_teacher"] | None = None
