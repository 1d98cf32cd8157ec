"""The losses of whole sequences and target tokens, against labels and against a teacher's outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from encoderlab.batch import Batch, Prediction, Targets

LOSSES = ("sequence", "token", "teacher_sequence", "teacher_token")  # every name a loss may have
LEAST_ERROR = 1e-6  # of a probability in the focal loss, whose gradient would be infinite at 0 with an exponent below 1


@dataclass(frozen=True, slots=True)
class LabelLoss:
    """How the labels of a task count in its loss.

    `weights` are the weights of classes or, for sets of labels, of a label that a row has, relative to one that it
    lacks; None: all equal. `focal` is the exponent of the focal loss (Lin et al. 2017, equation 4): the loss of a
    target is multiplied by one minus its probability, to this power.
    """

    weights: Float[Tensor, " classes"] | None = None
    focal: float = 0.0

    def to(self, device: torch.device) -> LabelLoss:
        """Return the same on `device`."""
        return self if self.weights is None else replace(self, weights=self.weights.to(device))


PLAIN = LabelLoss()


def losses(prediction: Prediction, batch: Batch, labels: LabelLoss = PLAIN) -> dict[str, Float[Tensor, ""]]:
    """Return the losses of a batch by name, each *summed* over its targets.

    `sequence` is `sequence_loss`, `token` the cross entropy against the labels; `teacher_sequence` and `teacher_token`
    measure how far the student is from its teacher (`targets` of the batch). They are sums, not means, so that
    micro-batches can be added up exactly before the division; see `count_targets`. A target that `labels` weighs still
    counts as one, so that the sum does not depend on what shares a micro-batch. In a batch without targets, a loss is
    0, and so are its gradients.
    """
    summed = {}
    weights = _label_weights(batch.targets)
    if prediction.sequence_logits is not None and batch.labels is not None:
        summed["sequence"] = weights[0] * sequence_loss(
            _of_rows(prediction.sequence_logits, batch).float(), batch.labels, labels
        )
    if prediction.token_logits is not None and batch.token_labels is not None:
        summed["token"] = weights[1] * class_loss(prediction.token_logits.float(), batch.token_labels, labels)
    return summed if batch.targets is None else summed | _teacher_losses(prediction, batch, batch.targets)


def sequence_loss(
    logits: Float[Tensor, "batch classes"],
    targets: Int[Tensor, " batch"] | Float[Tensor, "batch classes"] | Float[Tensor, " batch"],
    labels: LabelLoss = PLAIN,
) -> Float[Tensor, ""]:
    """Return the loss of whole sequences, summed over them; it depends on the kind of `targets` (`batch.TargetKind`).

    Class ids: cross entropy. A 0 or 1 for each label: binary cross entropy, averaged over the labels. Numbers: squared
    error.
    """
    if not targets.is_floating_point():
        return class_loss(logits, targets, labels)
    if targets.ndim == 2:
        by_label = F.binary_cross_entropy_with_logits(logits, targets, pos_weight=labels.weights, reduction="none")
        if labels.focal:
            by_label = by_label * (labels.focal * F.logsigmoid(logits * (1 - 2 * targets))).exp()
        return by_label.sum() / targets.shape[1]
    return F.mse_loss(logits[:, 0], targets, reduction="sum")


def class_loss(
    logits: Float[Tensor, "targets classes"], targets: Int[Tensor, " targets"], labels: LabelLoss
) -> Float[Tensor, ""]:
    """Return the summed cross entropy of class ids."""
    if not labels.focal:
        return F.cross_entropy(logits, targets, labels.weights, reduction="sum")
    by_target = F.cross_entropy(logits, targets, labels.weights, reduction="none")
    right = logits.softmax(-1).gather(1, targets[:, None])[:, 0]
    return (by_target * (1 - right).clamp(min=LEAST_ERROR) ** labels.focal).sum()


def count_targets(batch: Batch) -> dict[str, int]:
    """Return how many targets each loss of `batch` sums over. Reads only shapes, so it never waits for a device."""
    counts = {"sequence": batch.labels, "token": batch.token_labels}
    if (targets := batch.targets) is not None:
        counts["teacher_sequence"] = (
            targets.sequence_vectors if targets.sequence_logits is None else targets.sequence_logits
        )
        counts["teacher_token"] = targets.token_vectors if targets.token_logits is None else targets.token_logits
    return {name: len(labels) for name, labels in counts.items() if labels is not None}


def _label_weights(targets: Targets | None) -> tuple[float, float]:
    """Return the weight of the labels of sequences and of tokens when there is a teacher's logits too."""
    if targets is None:
        return 1.0, 1.0
    return (
        1.0 if targets.sequence_logits is None else 1.0 - targets.sequence_weight,
        1.0 if targets.token_logits is None else 1.0 - targets.token_weight,
    )


def _teacher_losses(prediction: Prediction, batch: Batch, targets: Targets) -> dict[str, Float[Tensor, ""]]:
    """Return the losses against the teacher's logits or, if it has none, against its vectors."""

    def loss(logits: Tensor | None, of_teacher: Tensor | None, vectors: Tensor | None, others: Tensor | None) -> Any:
        if logits is not None and of_teacher is not None:
            return soft_cross_entropy(logits, of_teacher, targets.temperature)
        return None if vectors is None or others is None else cosine_distance(vectors, others)

    of_rows = [_of_rows(output, batch) for output in (prediction.sequence_logits, prediction.sequence_vectors)]
    sequence = loss(of_rows[0], targets.sequence_logits, of_rows[1], targets.sequence_vectors)
    token = loss(prediction.token_logits, targets.token_logits, prediction.token_vectors, targets.token_vectors)
    weighted = {"teacher_sequence": (targets.sequence_weight, sequence), "teacher_token": (targets.token_weight, token)}
    return {name: weight * value for name, (weight, value) in weighted.items() if value is not None}


def soft_cross_entropy(
    logits: Float[Tensor, "targets classes"], targets: Float[Tensor, "targets classes"], temperature: float
) -> Float[Tensor, ""]:
    """Return the summed KL divergence of the softened distributions, times the squared temperature (Hinton et al. 2015,
    section 2).

    The factor keeps the size of the gradients independent of the temperature.
    """
    student, teacher = (F.log_softmax(some.float() / temperature, dim=-1) for some in (logits, targets))
    return F.kl_div(student, teacher, reduction="sum", log_target=True) * temperature**2


def cosine_distance(
    vectors: Float[Tensor, "targets width"], targets: Float[Tensor, "targets width"]
) -> Float[Tensor, ""]:
    """Return one minus the cosine of each vector and its target, summed."""
    return (1 - F.cosine_similarity(vectors.float(), targets.float(), dim=-1)).sum()


def _of_rows(output: Tensor | None, batch: Batch) -> Any:
    """Return the predictions of the rows that count; none for a batch without rows."""
    return output if output is None or len(batch.rows) else output[:0]
