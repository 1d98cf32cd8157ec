"""An entry into the model above its table of token embeddings, for gradients with respect to single tokens of a text.

No hook is needed: a table with a row for each position replaces the embeddings, and its gradient is theirs.
"""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from encoderlab.batch import Batch, Prediction
from encoderlab.model.heads import EncoderWithHeads


def predict_from_embeddings(
    model: EncoderWithHeads, batch: Batch
) -> tuple[Prediction, Float[Tensor, "batch length d_model"]]:
    """Return the prediction of `model`, and the token embeddings it is computed from: a leaf that can have gradients.

    For this call, a table with a row for each position of the batch replaces the model's, and the ids are those of its
    rows, so that a token that occurs twice has two gradients, and nothing else in the model changes. A
    `MaskedTokenHead` that is tied to the embeddings would read the same table, so this is for models without one.
    """
    assert model.masked_token_head is None
    table = model.encoder.embeddings.token
    embedded = table.weight.detach()[batch.input_ids].requires_grad_()
    assert table.padding_idx is not None
    before = table.padding_idx + 1  # the padding's row gets no gradient
    rows = torch.cat([table.weight.new_zeros(before, table.embedding_dim), embedded.flatten(0, 1)])
    ids = torch.arange(before, len(rows), device=batch.input_ids.device).view_as(batch.input_ids)
    changed = {"encoder.embeddings.token.weight": rows}
    return torch.func.functional_call(model, changed, (replace(batch, input_ids=ids),)), embedded
