"""The likeliest label sequence that is valid BIO or BIOES: Viterbi's algorithm (Viterbi 1967) over the allowed
transitions.

All allowed transitions weigh the same, so the best sequence is the valid one with the largest product of its words'
probabilities.
"""

from __future__ import annotations

import torch
from torch import Tensor

from encoderlab.entities.scheme import EntityLabels

FORBIDDEN = (
    -1e4
)  # added to log-probabilities; finite, so that labels without any valid sequence still get the least invalid one


class ValidDecoder:
    """Decodes the sentences of a batch together."""

    def __init__(self, labels: EntityLabels) -> None:
        ids = range(len(labels.names))
        self.begin = _penalties([labels.may_begin(label) for label in ids])
        self.end = _penalties([labels.may_end(label) for label in ids])
        self.transitions = _penalties([[labels.may_follow(label, following) for following in ids] for label in ids])

    def decode(self, logits: Tensor, row: Tensor, n_rows: int, longest: int) -> Tensor:
        """Return the id of each word's label, int64 [words], from `logits` [words, labels].

        `row`, [words] and rising, says which of the `n_rows` sentences a word belongs to; none has more words than
        `longest`. On a GPU, nothing here waits for it.
        """
        place = torch.arange(len(row), device=row.device) - torch.searchsorted(row, row)
        counts = torch.zeros(n_rows, dtype=torch.long, device=row.device).index_add_(0, row, torch.ones_like(row))
        scores = logits.new_zeros(n_rows, longest, logits.shape[1])
        scores[row, place] = logits.log_softmax(-1)
        return self._best_paths(scores, counts)[row, place]

    def _best_paths(self, scores: Tensor, counts: Tensor) -> Tensor:
        """Return the best labels of sentences of `counts` words, padded: [rows, longest, labels] -> [rows, longest]."""
        begin, end, transitions = (part.to(scores) for part in (self.begin, self.end, self.transitions))
        unchanged = torch.arange(scores.shape[2], device=scores.device).expand(len(scores), -1)
        best, came_from = scores[:, 0] + begin, []
        for step in range(1, scores.shape[1]):
            reached, previous = (best[:, :, None] + transitions).max(1)
            continues = (step < counts)[:, None]
            best = torch.where(continues, reached + scores[:, step], best)
            came_from.append(torch.where(continues, previous, unchanged))
        label = (best + end).argmax(-1, keepdim=True)
        path = [label]
        for previous in reversed(came_from):
            label = previous.gather(1, label)
            path.append(label)
        return torch.cat(path[::-1], 1)


def _penalties(allowed: list[bool] | list[list[bool]]) -> Tensor:
    return torch.where(torch.tensor(allowed), 0.0, FORBIDDEN)
