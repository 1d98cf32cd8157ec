"""A model in training: what it learns from, and how its steps are computed."""

from __future__ import annotations

from dataclasses import dataclass

from encoderlab.models.model import Model
from encoderlab.training.batches import WHOLE_BATCHES, MicroBatchCount, Rows
from encoderlab.training.loss import LabelWeights


@dataclass(slots=True)
class Training:
    """A `model` that is trained on `rows`, and by those of `validation` chosen and stopped, if there are any.

    `label_weights` weigh the labels in the loss, `micro_batches` says how its batches are divided. In words,
    `compilation` says whether the encoder is compiled, and `token_rows` which rows of its token table are trained.
    """

    model: Model
    rows: Rows
    validation: Rows | None = None
    label_weights: LabelWeights | None = None
    micro_batches: MicroBatchCount = WHOLE_BATCHES
    compilation: str | None = None
    token_rows: str | None = None

    @property
    def choices(self) -> list[str]:
        """Return what was chosen for speed, in lines."""
        lines = self.model.choices
        if self.compilation is not None:
            lines[-1] += f", {self.compilation}"
        if self.token_rows is not None:
            lines.append(self.token_rows)
        return [*lines, str(self.micro_batches)]
