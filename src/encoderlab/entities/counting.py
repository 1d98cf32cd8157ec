"""Entities found and counted as conlleval does, the scorer of CoNLL's shared tasks (Tjong Kim Sang and De Meulder
2003).

An entity is right if its first word, its last and its type are. If labels are not a valid sequence, I or E without
anything before it that it could continue begins an entity. E and S are read as in seqeval, which extends conlleval's
rules to S.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from encoderlab.entities.scheme import EntityLabels


@dataclass(frozen=True, slots=True)
class Spans:
    """The entities of consecutive sentences, one at each word that begins one.

    All are [words]: `begins` tells whether a word begins one, `end` is the word after the entity that contains it
    (undefined outside), `kind` is the index of the type in `EntityLabels.types`, -1 outside.
    """

    begins: np.ndarray
    end: np.ndarray
    kind: np.ndarray


def spans_of(labels: EntityLabels, ids: np.ndarray, lengths: np.ndarray) -> Spans:
    """Return the entities of sentences of `lengths` words with the label ids `ids`, [words]; -1, no prediction, counts
    as O.
    """
    prefixes = np.array([*labels.prefixes, "O"])[ids]
    kinds = np.array([-1 if one is None else labels.types.index(one) for one in labels.types_of] + [-1])[ids]
    firsts = np.zeros(len(ids) + 1, bool)
    firsts[np.cumsum(lengths) - lengths] = True
    firsts = firsts[:-1]
    before = np.where(firsts, "O", np.roll(prefixes, 1))
    kinds_before = np.where(firsts, -1, np.roll(kinds, 1))
    begins = np.isin(prefixes, ("B", "S")) | np.isin(before, ("O", "E", "S")) | (kinds != kinds_before)
    begins &= prefixes != "O"
    boundaries = np.append(np.flatnonzero(begins | firsts | (prefixes == "O")), len(ids))
    end = boundaries[np.searchsorted(boundaries, np.arange(len(ids)), side="right")] if len(ids) else boundaries[:0]
    return Spans(begins, end, kinds)


def entity_counts(labels: EntityLabels, right: Sequence[np.ndarray], predicted: Sequence[np.ndarray]) -> np.ndarray:
    """Return how many entities of each type each sentence has: correctly predicted, predicted, true. [sentences, 3,
    types].
    """
    lengths = np.array([len(sentence) for sentence in right], np.int64)
    sides = [np.concatenate([np.empty(0, np.int64), *side]) for side in (predicted, right)]
    found, gold = (spans_of(labels, side, lengths) for side in sides)
    correct = found.begins & gold.begins & (found.end == gold.end) & (found.kind == gold.kind)
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    size = len(lengths) * len(labels.types)

    def counted(where: np.ndarray, kind: np.ndarray) -> np.ndarray:
        return np.bincount(sentence[where] * len(labels.types) + kind[where], minlength=size)

    counts = [counted(correct, gold.kind), counted(found.begins, found.kind), counted(gold.begins, gold.kind)]
    return np.stack([column.reshape(len(lengths), len(labels.types)) for column in counts], axis=1)


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return part / np.maximum(whole, 1)


# From the numbers of entities rightly predicted, predicted and in truth, [..., 3], to scores; 0 if there is nothing to
# divide by
ENTITY_SCORES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "entity_precision": lambda counts: _share(counts[..., 0], counts[..., 1]),
    "entity_recall": lambda counts: _share(counts[..., 0], counts[..., 2]),
    "entity_f1": lambda counts: _share(2 * counts[..., 0], counts[..., 1] + counts[..., 2]),
}
