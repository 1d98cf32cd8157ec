"""Rows held out from training: drawn by seed, in every label's proportion, equal texts always together."""

from __future__ import annotations

import numpy as np

from encoderlab.data.examples import Split
from encoderlab.data.survey import Hashes, hashed
from encoderlab.errors import DataError

_UNLABELLED = -1
_FIFTHS = (0.2, 0.4, 0.6, 0.8)


def hold_out(split: Split, fractions: dict[str, float], seed: int) -> dict[str, Split]:
    """`split` divided into a part for each name in `fractions` and what remains, named train.

    Rows keep their order. Rows with equal text (and pair, or words) stay on one side. Of each label every part gets its fraction,
    to the nearest group of equal texts, at least one group where there are enough, and training is never left without a label
    that another part has; sentences of words are drawn without regard to labels. A row with several labels counts for the rarest,
    and numbers are drawn from each fifth of their range alike. Raises DataError where a part would be empty.
    """
    hashes = hashed(split)
    _, groups = np.unique(hashes.texts, return_inverse=True)
    labels = _strata(split, hashes)
    part = np.zeros(len(split), np.int8)  # 0: training
    generator = np.random.default_rng(seed)
    for number, (name, fraction) in enumerate(fractions.items(), start=1):
        free = np.flatnonzero(part == 0)
        share = fraction * len(split) / len(free)
        taken = free[_drawn(groups[free], labels[free], share, generator)]
        if not len(taken):
            raise DataError(
                f"{len(split)} rows with {groups.max(initial=-1) + 1} different texts are too few to take {name} rows from",
                remedy=f"Add rows, or give {name} rows of their own: dataset.train=FILE dataset.{name}=FILE",
            )
        part[taken] = number
    names = ["train", *fractions]
    return {name: split.take(np.flatnonzero(part == number).tolist()) for number, name in enumerate(names)} if fractions else {}


def _strata(split: Split, hashes: Hashes) -> np.ndarray:
    """What each row is drawn for, int64 [rows]: its label, the rarest of its labels, the fifth that its number lies in."""
    if hashes.of_words:
        return np.full(len(split), _UNLABELLED)
    if hashes.target == "number":
        edges = np.nanquantile(hashes.numbers, _FIFTHS) if (hashes.labels != _UNLABELLED).any() else _FIFTHS
        return np.searchsorted(edges, hashes.numbers)
    if hashes.target == "label_set":
        counts = hashes.places.tolist()
        sets = (example.label for example in split.of_texts())
        return np.array([min(ids, key=counts.__getitem__) if isinstance(ids, tuple) and ids else _UNLABELLED for ids in sets])
    return hashes.labels


def _drawn(groups: np.ndarray, labels: np.ndarray, fraction: float, generator: np.random.Generator) -> np.ndarray:
    """Which rows to take, as a mask: whole groups, of each label about `fraction` of its rows."""
    _, groups, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    label_of_group = _rarest_labels(groups, labels, len(sizes))
    taken = np.zeros(len(sizes), bool)
    for label in np.unique(label_of_group):
        members = np.flatnonzero(label_of_group == label)
        wanted = fraction * sizes[members].sum()
        # A text repeated more often than rows are wanted stays in training, unless all are.
        small = members[sizes[members] <= max(wanted, sizes[members].min())]
        drawn = generator.permutation(small)
        nearest = int(np.abs(np.cumsum(sizes[drawn]) - wanted).argmin()) + 1
        taken[drawn[: min(nearest, len(members) - 1)]] = True
    only_taken = np.setdiff1d(labels[taken[groups]], labels[~taken[groups]])
    taken[groups[np.isin(labels, only_taken)]] = False
    return taken[groups]


def _rarest_labels(groups: np.ndarray, labels: np.ndarray, n_groups: int) -> np.ndarray:
    """The label each group counts for: the rarest among its rows, so that rare labels are the first to reach every part."""
    values, places, counts = np.unique(labels, return_inverse=True, return_counts=True)
    rarity = counts[places] * len(values) + places  # ties go by label
    rarest = np.full(n_groups, np.iinfo(np.int64).max)
    np.minimum.at(rarest, groups, rarity)
    return values[rarest % len(values)]
