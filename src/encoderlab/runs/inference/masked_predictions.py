"""A few masked tokens in held-out text, with the encoder's predictions for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from encoderlab.batch import Batch
from encoderlab.runs.assembly import Assembly
from encoderlab.tasks.sentence_rows import SentenceRows
from encoderlab.training.batches import EVALUATION_SEED

SHOWN, GUESSES = 6, 5


@dataclass(frozen=True, slots=True)
class Filled:
    """A masked row as `pieces`, with one mask at `place`, its true token as `answer` and the most probable predictions."""

    pieces: list[str]
    place: int
    answer: str
    guesses: list[tuple[str, float]]


def fill_masks(assembly: Assembly, rows: SentenceRows) -> list[Filled]:
    """Return predictions for the first mask in each of a few rows, spread evenly over `rows`; rows without a mask are
    skipped.
    """
    drawn = rows.epoch(EVALUATION_SEED, 0)
    chosen = np.unique(np.linspace(0, len(rows) - 1, SHOWN).astype(np.int64))
    batches = (drawn.gather(np.array([row]), assembly.tokenizer.pad_id).to(assembly.compute.device) for row in chosen)
    return [filled for batch in batches if (filled := _filled(assembly, drawn.prepare(batch))) is not None]


def _filled(assembly: Assembly, batch: Batch) -> Filled | None:
    shown = (batch.input_ids.flatten()[batch.target_positions] == assembly.tokenizer.mask_id).nonzero().flatten()
    if not len(shown):
        return None
    assert batch.token_labels is not None
    assembly.model.eval()
    with torch.inference_mode(), assembly.compute.autocast():
        logits = assembly.model(batch).token_logits[shown[0]]
    best = logits.float().softmax(-1).topk(min(GUESSES, len(logits)))
    pieces = assembly.tokenizer.pieces
    guesses = list(zip(pieces(best.indices.tolist()), best.values.tolist(), strict=True))
    answer = pieces([int(batch.token_labels[shown[0]])])[0]
    return Filled(pieces(batch.input_ids[0].tolist()), int(batch.target_positions[shown[0]]), answer, guesses)
