"""The encoder's vectors of examples, or of their tokens."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from encoderlab.batch import Batch
from encoderlab.config.commands import VectorPooling
from encoderlab.model.packing import FIRST_TOKENS
from encoderlab.model.pooling import ClsPool, MeanPool, pool_windows
from encoderlab.runs.assembly import Assembly
from encoderlab.tasks.rows import ExampleRows
from encoderlab.training.evaluation import predict_batches

POOLINGS = {VectorPooling.cls: ClsPool(), VectorPooling.mean: MeanPool()}


def vectors_of(
    assembly: Assembly, rows: ExampleRows, pooling: VectorPooling | None, *, normalize: bool = False
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each row with its vectors, [vectors, d_model], in the order of the batches.

    With `pooling` there is one per row; for a row in several windows, the mean of theirs. None gives one for each
    token, if no row has several windows.
    """
    selection = FIRST_TOKENS if pooling is VectorPooling.cls else None

    @torch.inference_mode()
    def found(batch: Batch) -> np.ndarray:
        with assembly.compute.autocast():
            hidden = assembly.model.encoder.encode(
                batch.input_ids, batch.token_type_ids, batch.attention_mask, selection=selection
            )
        vectors = hidden.float() if pooling is None else _pooled(hidden.float(), batch, pooling)
        return (F.normalize(vectors, dim=-1) if normalize else vectors).cpu().numpy()

    for batch, vectors in predict_batches(assembly.scoring_batches(rows), found, assembly.compute):
        lengths = [1] * len(batch) if pooling is not None else rows.lengths[batch.rows.cpu().numpy()].tolist()
        for row, length, of_row in zip(batch.rows.tolist(), lengths, vectors, strict=True):
            yield row, of_row[:length]


def _pooled(hidden: Tensor, batch: Batch, pooling: VectorPooling) -> Tensor:
    """Return the one vector of each row, [rows, 1, d_model]; zero for a row without tokens, such as an empty text."""
    vectors = POOLINGS[pooling](hidden, batch.attention_mask)
    if batch.attention_mask is not None:
        vectors = vectors.where(batch.attention_mask.any(dim=1, keepdim=True), 0.0)
    if batch.row_of_sequence is not None:
        vectors = pool_windows(vectors, batch.row_of_sequence, len(batch), "mean")
    return vectors[:, None]
