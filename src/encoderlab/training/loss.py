"""The losses of a batch: one for the whole sequences, one for the asked tokens."""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from encoderlab.batch import Batch, Prediction


def losses(prediction: Prediction, batch: Batch) -> dict[str, Float[Tensor, ""]]:
    """Cross entropy *summed* over the answers, by the name of the question: `sequence`, `token`.

    Sums, not means, so that parts of a batch can be added up exactly before the division; see `answers`. Where the batch has no
    answers, a loss is 0, and so are its gradients.
    """
    parts = {}
    if prediction.sequence_logits is not None and batch.labels is not None:
        answered = prediction.sequence_logits if len(batch.rows) else prediction.sequence_logits[:0]
        parts["sequence"] = F.cross_entropy(answered.float(), batch.labels, reduction="sum")
    if prediction.token_logits is not None and batch.token_labels is not None:
        parts["token"] = F.cross_entropy(prediction.token_logits.float(), batch.token_labels, reduction="sum")
    return parts


def answers(batch: Batch) -> dict[str, int]:
    """How many answers each loss of `batch` is a sum over. Shapes only: no device is waited for."""
    counts = {"sequence": batch.labels, "token": batch.token_labels}
    return {name: labels.numel() for name, labels in counts.items() if labels is not None}
