"""What a finished run says of examples: predictions, vectors of texts or tokens, and filled-in masks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from encoderlab.batch import Batch
from encoderlab.config.commands import VectorPooling
from encoderlab.data.examples import Example
from encoderlab.model.packing import FIRST_TOKENS
from encoderlab.model.pooling import ClsPool, MeanPool, pool_windows
from encoderlab.runs.assembly import Assembly
from encoderlab.runs.inputs import encoded_rows
from encoderlab.tasks.rows import ExampleRows
from encoderlab.tasks.sentence_rows import SentenceRows
from encoderlab.tasks.task import Answer
from encoderlab.training.batches import EVALUATION_SEED
from encoderlab.training.evaluation import predict_batches

POOLINGS = {VectorPooling.cls: ClsPool(), VectorPooling.mean: MeanPool()}
SHOWN, GUESSES = 6, 5  # masked rows, and predictions for each


def answers_of(assembly: Assembly, examples: Sequence[Example]) -> list[Answer]:
    """Return the model's predictions, one for each of the examples, in order. Raises DataError for an example it cannot
    read.
    """
    return answers_of_rows(assembly, encoded_rows(assembly, examples))


def answers_of_rows(assembly: Assembly, rows: ExampleRows) -> list[Answer]:
    """Return the same for encoded examples."""

    def predict(batch: Batch) -> list[Answer]:
        with torch.inference_mode():
            with assembly.compute.autocast():
                prediction = assembly.model(batch)
            return assembly.task.answers(prediction, batch)

    answers: dict[int, Answer] = {}
    for batch, of_rows in predict_batches(assembly.scoring_batches(rows), predict, assembly.compute):
        answers.update(zip(batch.rows.tolist(), of_rows, strict=True))
    return [answers[row] for row in range(len(rows))]


def vectors_of(
    assembly: Assembly, rows: ExampleRows, pooling: VectorPooling | None, *, normalize: bool = False
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each row with its vectors, [vectors, d_model], in the order of the batches.

    With `pooling` there is one per row; for a row in several windows, the mean of theirs. None gives one for each
    token, if no row has several windows.
    """
    selection = FIRST_TOKENS if pooling is VectorPooling.cls else None

    @torch.inference_mode()
    def encode(batch: Batch) -> np.ndarray:
        with assembly.compute.autocast():
            hidden = assembly.model.encoder.encode(
                batch.input_ids, batch.token_type_ids, batch.attention_mask, selection=selection
            )
        vectors = hidden.float() if pooling is None else _pooled(hidden.float(), batch, pooling)
        return (F.normalize(vectors, dim=-1) if normalize else vectors).cpu().numpy()

    for batch, vectors in predict_batches(assembly.scoring_batches(rows), encode, assembly.compute):
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


@dataclass(frozen=True, slots=True)
class Filled:
    """A masked row as `pieces`, with one mask at `place`, its true token as `answer` and the most probable
    predictions.
    """

    pieces: list[str]
    place: int
    answer: str
    guesses: list[tuple[str, float]]


def fill_masks(assembly: Assembly, rows: SentenceRows) -> list[Filled]:
    """Return predictions for the first mask in each of a few rows, spread evenly over `rows`; rows without a mask are
    skipped.
    """
    drawn = rows.epoch(EVALUATION_SEED, 0)
    shown = np.unique(np.linspace(0, len(rows) - 1, SHOWN).astype(np.int64))
    batches = (drawn.gather(np.array([row]), assembly.tokenizer.pad_id).to(assembly.compute.device) for row in shown)
    return [filled for batch in batches if (filled := _filled(assembly, drawn.prepare(batch))) is not None]


def _filled(assembly: Assembly, batch: Batch) -> Filled | None:
    masks = (batch.input_ids.flatten()[batch.target_positions] == assembly.tokenizer.mask_id).nonzero().flatten()
    if not len(masks):
        return None
    assert batch.token_labels is not None
    assembly.model.eval()
    with torch.inference_mode(), assembly.compute.autocast():
        logits = assembly.model(batch).token_logits[masks[0]]
    best = logits.float().softmax(-1).topk(min(GUESSES, len(logits)))
    pieces = assembly.tokenizer.pieces
    guesses = list(zip(pieces(best.indices.tolist()), best.values.tolist(), strict=True))
    answer = pieces([int(batch.token_labels[masks[0]])])[0]
    return Filled(pieces(batch.input_ids[0].tolist()), int(batch.target_positions[masks[0]]), answer, guesses)
