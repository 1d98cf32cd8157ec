"""The heads: from the encoder's vectors to logits for whole sequences, and for single tokens."""

import math

from jaxtyping import Bool, Float
from torch import Tensor, nn

from encoderlab.batch import Batch, Prediction
from encoderlab.model.attention import attendable
from encoderlab.model.config import ModelConfig, Pooling
from encoderlab.model.dropout import Dropout
from encoderlab.model.encoder import Encoder
from encoderlab.model.initialization import initialize


def cls_pool(
    hidden: Float[Tensor, "batch length d_model"], mask: Bool[Tensor, "batch places"] | None
) -> Float[Tensor, "batch d_model"]:
    """The vector of the first token (BERT, section 3)."""
    return hidden[:, 0]


def mean_pool(
    hidden: Float[Tensor, "batch length d_model"], mask: Bool[Tensor, "batch length"] | None
) -> Float[Tensor, "batch d_model"]:
    """The mean of the vectors of all real tokens."""
    if mask is None:
        return hidden.mean(dim=1)
    real = mask[:, :, None].to(hidden.dtype)
    return (hidden * real).sum(dim=1) / real.sum(dim=1)


def max_pool(
    hidden: Float[Tensor, "batch length d_model"], mask: Bool[Tensor, "batch length"] | None
) -> Float[Tensor, "batch d_model"]:
    """The largest value of each feature over all real tokens."""
    if mask is None:
        return hidden.amax(dim=1)
    return hidden.masked_fill(~mask[:, :, None], -math.inf).amax(dim=1)


POOLINGS = {Pooling.cls: cls_pool, Pooling.mean: mean_pool, Pooling.max: max_pool}


class EncoderWithHeads(nn.Module):
    """An encoder, and a head for each question it is asked.

    The sequence head is a linear map of the pooled vector, the token head one of each asked token's vector. Initial weights come
    from PyTorch's global generator.
    """

    def __init__(
        self, config: ModelConfig, vocabulary_size: int, pad_id: int, sequence_classes: int | None, token_classes: int | None
    ) -> None:
        super().__init__()
        self.encoder = Encoder(config, vocabulary_size, pad_id)
        self.pool = POOLINGS[config.pooling]
        self.dropout = Dropout(config.dropout)
        self.sequence_head = None if sequence_classes is None else nn.Linear(config.d_model, sequence_classes)
        self.token_head = None if token_classes is None else nn.Linear(config.d_model, token_classes)
        # where only the first token is asked, the last layer need not answer for the others
        self.first = 1 if config.pooling is Pooling.cls and token_classes is None else None
        initialize(self, config)

    def forward(self, batch: Batch) -> Prediction:
        """Logits for each sequence, and for the asked tokens (and no others: vocabularies are large)."""
        hidden = self.encoder(batch.input_ids, batch.token_type_ids, batch.attention_mask, self.first)
        sequence_logits, token_logits = None, None
        if self.sequence_head is not None:
            pooled = self.pool(hidden, attendable(batch.attention_mask))
            sequence_logits = self.sequence_head(self.dropout(pooled))
        if self.token_head is not None:
            asked = hidden.flatten(0, 1).index_select(0, batch.asked)
            token_logits = self.token_head(self.dropout(asked))
        return Prediction(sequence_logits, token_logits)

    @property
    def n_parameters(self) -> int:
        """How many numbers training changes."""
        return sum(self.parameters_by_part().values())

    def parameters_by_part(self) -> dict[str, int]:
        """How many numbers training changes in the embeddings, the layers (a final norm included) and the heads."""
        counts = {"embeddings": 0, "layers": 0, "heads": 0}
        for name, parameter in self.named_parameters():
            part = "embeddings" if ".embeddings." in name else "layers" if name.startswith("encoder.") else "heads"
            counts[part] += parameter.numel()
        return counts
