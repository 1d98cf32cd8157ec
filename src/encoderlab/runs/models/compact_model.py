"""How much compact storage changes a model: its predictions and vectors before and after, on a few sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from encoderlab.batch import Batch, TargetKind
from encoderlab.exchange.compact_weights import compacted, expanded
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.runs.models.saved_model import SavedModel
from encoderlab.tasks.sequences import join

SENTENCES = (
    "The film is warm, funny and a little too long.",
    "Shipping took three weeks, and the box was empty when it came!",
    "Could you book a table for four at seven o'clock this evening?",
    "Shares of the company fell by 12% after it lowered its forecast for the year.",
    "The committee will publish its report on water quality in March 2021.",
    "I don't know why, but my phone won't charge any more :(",
    "In 1869 the first railway across the continent was completed in Utah.",
    "Patients with high blood pressure should be seen by a doctor twice a year.",
)


@dataclass(frozen=True, slots=True)
class Change:
    """The largest change on `SENTENCES`: of a sentence's vector, relative to its length, and of a probability (None: no
    head).
    """

    vector: float
    probability: float | None


def in_compact_storage(saved: SavedModel) -> tuple[SavedModel, Change]:
    """Return the model with its weights as stored compactly, and how much that changes."""
    stored = compacted(saved.weights)
    return replace(saved, weights=stored), _change(saved, replace(saved, weights=expanded(stored)))


@torch.inference_mode()
def _change(before: SavedModel, after: SavedModel) -> Change:
    models, target = [saved.model() for saved in (before, after)], before.task().heads.sequence_target
    vectors, probabilities = [], []
    for batch in _batches(before):
        one, other = (model.encoder(batch.input_ids, batch.token_type_ids, None)[0].mean(dim=0) for model in models)
        vectors.append((one - other).norm() / one.norm())
        answers = (_probabilities(model, batch, target) for model in models)
        probabilities += [(mine - its).abs().max() for mine, its in zip(*answers, strict=True)]
    return Change(_largest(vectors), _largest(probabilities) if probabilities else None)


def _largest(numbers: Sequence[Tensor]) -> float:
    """Return the largest number; NaN if there is one, which max() would pass over."""
    return float(torch.stack(list(numbers)).max())


def _batches(saved: SavedModel) -> Iterator[Batch]:
    """Yield each sentence as a batch of its own, with every token as a target."""
    for pieces in saved.tokenizer.encode(SENTENCES):
        encoded = join(saved.tokenizer, pieces, None, saved.config.model.reach)
        ids = torch.tensor([encoded.input_ids])
        places = torch.arange(ids.shape[1])
        yield Batch(
            ids, torch.zeros_like(ids), None, torch.zeros(1, dtype=torch.int64), places, None, None, ids.shape[1]
        )


def _probabilities(model: EncoderWithHeads, batch: Batch, target: TargetKind) -> list[Tensor]:
    """Return the probabilities of each head for a batch; a number has none."""
    prediction = model(batch)
    if target != "label":
        assert prediction.sequence_logits is not None
        return [prediction.sequence_logits.sigmoid()] if target == "label_set" else []
    return [
        logits.softmax(dim=-1) for logits in (prediction.sequence_logits, prediction.token_logits) if logits is not None
    ]
