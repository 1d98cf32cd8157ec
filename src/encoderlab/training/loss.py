"""The losses of whole sequences and target tokens, against labels and against a teacher's outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from encoderlab.batch import Batch, Prediction, TeacherOutputs
from encoderlab.errors import SettingError

# Of classes or, for sets of labels, of a label that a row has, relative to one that it lacks.
LabelWeights = Float[Tensor, " classes"]
LOSSES = ("sequence", "token", "teacher_sequence", "teacher_token", "contrast")  # every name a loss may have


@dataclass(frozen=True, slots=True)
class LossForm:
    """What is computed from logits and labels, besides the weights of labels.

    `label_smoothing` is the share of a target that all classes get alike (Szegedy et al. 2016, section 7). A target
    that is predicted with probability p counts (1 - p)^`focal_gamma` times (Lin et al. 2017, section 3.2). A function
    of one's `own` replaces both: from logits and targets to the loss of each target.
    """

    label_smoothing: float = 0.0
    focal_gamma: float = 0.0
    own: Callable[[Tensor, Tensor], Tensor] | None = None

    @property
    def is_plain(self) -> bool:
        """Return whether it is cross entropy or a squared error, and no more."""
        return self == PLAIN


PLAIN = LossForm()


def losses(
    prediction: Prediction, batch: Batch, label_weights: LabelWeights | None = None, form: LossForm = PLAIN
) -> dict[str, Float[Tensor, ""]]:
    """Return the losses of a batch by name, each *summed* over its targets.

    `sequence` is `sequence_loss`, `token` the cross entropy against the labels; `teacher_sequence` and `teacher_token`
    measure how far the student is from its teacher (`Batch.teacher`), `contrast` how near rows of one label are
    (`Batch.contrast`). They are sums, not means, so that micro-batches can be added up exactly before the division; see
    `count_targets`. A target with a weight still counts as one: but for `contrast`, the sum does not depend on what
    shares a micro-batch. In a batch without targets, a loss and its gradients are 0.
    """
    summed = {}
    teacher = batch.teacher
    share = 1.0 if teacher is None else 1.0 - teacher.weight  # of the labels
    if prediction.sequence_logits is not None and batch.labels is not None:
        logits = _counted_rows(prediction.sequence_logits, batch).float()
        summed["sequence"] = share * sequence_loss(logits, batch.labels, label_weights, batch.weights, form)
    if prediction.token_logits is not None and batch.token_labels is not None:
        logits = prediction.token_logits.float()
        summed["token"] = share * sequence_loss(logits, batch.token_labels, label_weights, form=form)
    if batch.contrast is not None and prediction.sequence_vectors is not None and batch.labels is not None:
        vectors = prediction.sequence_vectors
        contrast = contrastive_loss(vectors, batch.labels, batch.contrast.temperature, batch.weights)
        summed["contrast"] = batch.contrast.weight * contrast
    return summed if teacher is None else summed | dict(_teacher_losses(prediction, batch, teacher))


def sequence_loss(
    logits: Float[Tensor, "batch classes"],
    targets: Int[Tensor, " batch"] | Float[Tensor, "batch classes"] | Float[Tensor, " batch"],
    label_weights: LabelWeights | None = None,
    row_weights: Float[Tensor, " batch"] | None = None,
    form: LossForm = PLAIN,
) -> Float[Tensor, ""]:
    """Return the loss of whole sequences, or of tokens, summed over them; it depends on the kind of `targets`.

    Class ids: cross entropy. A 0 or 1 for each label: binary cross entropy, averaged over them. Numbers: squared error.
    """
    if row_weights is not None:
        return (_loss_of_each(logits, targets, label_weights, form) * row_weights).sum()
    if not form.is_plain:
        return _loss_of_each(logits, targets, label_weights, form).sum()
    if not targets.is_floating_point():
        return F.cross_entropy(logits, targets, label_weights, reduction="sum")
    if targets.ndim == 2:
        by_label = F.binary_cross_entropy_with_logits(logits, targets, pos_weight=label_weights, reduction="none")
        return by_label.sum() / targets.shape[1]
    return F.mse_loss(logits[:, 0], targets, reduction="sum")


def _loss_of_each(
    logits: Float[Tensor, "batch classes"],
    targets: Int[Tensor, " batch"] | Float[Tensor, "batch classes"] | Float[Tensor, " batch"],
    label_weights: LabelWeights | None,
    form: LossForm,
) -> Float[Tensor, " batch"]:
    """Return the loss of each sequence, as `sequence_loss` adds them up. Raises SettingError for a loss of one's own
    that is not one number for each.
    """
    if form.own is not None:
        return _own_losses(form.own, logits, targets)
    smoothing = form.label_smoothing
    if not targets.is_floating_point():
        by_row = F.cross_entropy(logits, targets, label_weights, reduction="none", label_smoothing=smoothing)
        if form.focal_gamma:
            chances = logits.softmax(-1).gather(1, targets[:, None].long())[:, 0]
            by_row = by_row * (1 - chances) ** form.focal_gamma
        return by_row
    if targets.ndim == 2:
        smoothed = targets * (1 - smoothing) + smoothing / 2 if smoothing else targets
        by_label = F.binary_cross_entropy_with_logits(logits, smoothed, pos_weight=label_weights, reduction="none")
        if form.focal_gamma:
            chances = torch.where(targets > 0, logits.sigmoid(), (-logits).sigmoid())
            by_label = by_label * (1 - chances) ** form.focal_gamma
        return by_label.mean(1)
    return F.mse_loss(logits[:, 0], targets, reduction="none")


def _own_losses(own: Callable[[Tensor, Tensor], Tensor], logits: Tensor, targets: Tensor) -> Float[Tensor, " batch"]:
    """Return what a function of one's own makes of logits and targets. Raises SettingError for another shape."""
    by_row: Any = own(logits, targets)
    if not isinstance(by_row, Tensor) or by_row.shape != targets.shape[:1]:
        shape = f"a tensor of {list(by_row.shape)}" if isinstance(by_row, Tensor) else type(by_row).__name__
        problem = f"task.loss returned {shape} for {len(targets)} targets"
        raise SettingError(problem, allowed="a tensor with the loss of each: do not take the mean or the sum")
    return by_row


def count_targets(batch: Batch) -> dict[str, int]:
    """Return how many targets each loss of `batch` sums over. Reads only shapes, so it never waits for a device."""
    counts = {"sequence": batch.labels, "token": batch.token_labels}
    teacher = batch.teacher
    if teacher is not None:
        logits = teacher.sequence_logits
        vectors = teacher.sequence_vectors
        counts["teacher_sequence"] = vectors if logits is None else logits
        counts["teacher_token"] = teacher.token_vectors if teacher.token_logits is None else teacher.token_logits
    n_targets = {name: len(labels) for name, labels in counts.items() if labels is not None}
    if batch.contrast is not None:
        n_targets["contrast"] = batch.contrast.n_anchors
    return n_targets


def _teacher_losses(prediction: Prediction, batch: Batch, teacher: TeacherOutputs) -> Iterator[tuple[str, Tensor]]:
    """Yield the names and losses (scalars) against the teacher's logits or, if it has none, against its vectors."""
    logits, vectors = (_counted_rows(x, batch) for x in (prediction.sequence_logits, prediction.sequence_vectors))
    sequences = (logits, teacher.sequence_logits, vectors, teacher.sequence_vectors)
    tokens = (prediction.token_logits, teacher.token_logits, prediction.token_vectors, teacher.token_vectors)
    weights = {"teacher_sequence": teacher.sequence_vector_weight, "teacher_token": teacher.token_vector_weight}
    for name, (logits, teacher_logits, vectors, others) in {
        "teacher_sequence": sequences,
        "teacher_token": tokens,
    }.items():
        if logits is not None and teacher_logits is not None:
            yield name, teacher.weight * soft_cross_entropy(logits, teacher_logits, teacher.temperature)
        elif vectors is not None and others is not None:
            yield name, teacher.weight * weights[name] * cosine_distance(vectors, others)


def soft_cross_entropy(
    logits: Float[Tensor, "targets classes"], targets: Float[Tensor, "targets classes"], temperature: float
) -> Float[Tensor, ""]:
    """Return the summed KL divergence of the softened distributions (Hinton et al. 2015, section 2).

    It is multiplied by the squared temperature, so that the size of the gradients does not depend on it.
    """
    student = F.log_softmax(logits.float() / temperature, dim=-1)
    teacher = F.log_softmax(targets.float() / temperature, dim=-1)
    return F.kl_div(student, teacher, reduction="sum", log_target=True) * temperature**2


def cosine_distance(
    vectors: Float[Tensor, "targets width"], targets: Float[Tensor, "targets width"]
) -> Float[Tensor, ""]:
    """Return one minus the cosine of each vector and its target, summed."""
    return (1 - F.cosine_similarity(vectors.float(), targets.float(), dim=-1)).sum()


FAR = -1e4  # instead of a row's similarity to itself: its exponential is zero, and a batch of one row stays finite


def contrastive_loss(
    vectors: Float[Tensor, "batch width"],
    labels: Int[Tensor, " batch"],
    temperature: float,
    row_weights: Float[Tensor, " batch"] | None = None,
) -> Float[Tensor, ""]:
    """Return the supervised contrastive loss (Khosla et al. 2020, equation 2, L_out), summed over its anchors.

    For each row: the mean, over the other rows of its label, of minus the logarithm of the softmax over all other rows
    of cosine / temperature. A row whose label no other row has, or whose label is unknown (below 0), is no anchor and
    adds 0, but the others are kept apart from it. `row_weights` weigh the anchors.
    """
    unit = F.normalize(vectors.float(), dim=-1)
    itself = torch.eye(len(unit), dtype=torch.bool, device=unit.device)
    similarity = (unit @ unit.T / temperature).masked_fill(itself, FAR)
    log_probability = similarity.log_softmax(dim=1)
    is_positive = (labels[:, None] == labels) & (labels >= 0) & ~itself
    n_positives = is_positive.sum(dim=1)
    by_anchor = -log_probability.masked_fill(~is_positive, 0.0).sum(dim=1) / n_positives.clamp(min=1)
    return by_anchor.sum() if row_weights is None else (by_anchor * row_weights).sum()


def _counted_rows(output: Tensor | None, batch: Batch) -> Any:
    """Return the predictions of the rows that count; none for a batch without rows."""
    return output if output is None or len(batch.rows) else output[:0]
