"""Rows divided into training, validation and test: held out by seed, into folds, or a share of them.

Divisions are stratified by label, and keep equal texts and the rows of a group together. scikit-learn's splitters hold
out a part with either, but not both. Its StratifiedGroupKFold has both, but takes 11 s for 100,000 rows in five folds,
where `assign_folds` takes 0.1 s, and its folds differ in size by up to eight rows where these have equal ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from encoderlab.data.examples import Split, text_of
from encoderlab.data.survey import UNLABELLED, Hashes, hashed
from encoderlab.errors import DataError, SettingError

_FIFTHS = (0.2, 0.4, 0.6, 0.8)
_ROWS_COMPARED = 1000  # to say what is wrong with texts


def held_out_parts(
    split: Split, fractions: dict[str, float], seed: int, kept_together: Sequence[Any] | None = None
) -> np.ndarray:
    """Return the part of each row: 0 for training, or the number, from 1, of the name in `fractions` that it is for.

    Rows with equal text (and pair, or words) stay together, and so do rows with an equal value
    in `kept_together` (None: with no other). Every part gets its fraction of the rows, to the nearest group, and the
    same fraction of each label; sentences of words are drawn without regard to labels. A row with several labels counts
    for the rarest, and numbers are drawn equally from each fifth of their range. Training keeps every label that
    another part has. Raises DataError if a part would be empty.
    """
    hashes = hashed(split)
    groups = groups_of(hashes.texts, kept_together)
    labels = strata_of(split, hashes)
    part = np.zeros(len(split), np.int8)  # 0: training
    generator = np.random.default_rng(seed)
    for number, (name, fraction) in enumerate(fractions.items(), start=1):
        free = np.flatnonzero(part == 0)
        rows = free[_drawn(groups[free], labels[free], fraction * len(split) / len(free), generator)]
        if not len(rows):
            raise _none_drawn(split, groups, labels, name, fraction, is_grouped=kept_together is not None)
        part[rows] = number
    return part


def _none_drawn(
    split: Split, groups: np.ndarray, labels: np.ndarray, name: str, fraction: float, *, is_grouped: bool
) -> DataError:
    """Return the error that says why no row was drawn for the split `name`; see `held_out_parts` for the arrays."""
    n_rows = len(split)
    n_groups = int(groups.max(initial=-1)) + 1
    what = "sentences" if split.holds_words else "rows"
    unit = what.removesuffix("s")
    own_file = f"set dataset.train=FILE dataset.{name}=FILE instead of dataset.path"
    if n_rows == 1:
        ends = " (a blank line ends a sentence)" if split.holds_words else ""
        problem = f"There is one {unit}{ends}, and none to hold out for {name}"
        return DataError(problem, remedy=f"Add {what}, or {own_file}")

    # One text for all: blank, or equal.
    texts = {text_of(split[row]).strip() for row in range(min(n_rows, _ROWS_COMPARED))}
    if texts == {""}:
        remedy = "Choose the column of the texts with dataset.text=COLUMN"
        return DataError(f"The texts of all {n_rows:,} {what} are blank", remedy=remedy)
    if n_groups == 1 and len(texts) == 1:
        shown = next(iter(texts))[:60]
        remedy = "Choose another column with dataset.text=COLUMN; dataset.text and dataset.label may be swapped"
        problem = f"All {n_rows:,} {what} have the same text, {shown!r}: none can be held out for {name}"
        return DataError(problem, remedy=remedy)
    if n_groups == 1 and is_grouped:
        problem = f"dataset.group leaves the {n_rows:,} {what} in one group, and no other to hold out for {name}"
        return DataError(problem, remedy=f"Choose another column with dataset.group=COLUMN, or {own_file}")

    # Every label has one text, which training keeps; or the share is too small.
    n_labels = len(np.unique(labels[labels >= 0]))
    if n_labels > 1 and 2 * n_labels > n_groups:
        problem = f"There are {n_labels:,} labels for {n_groups:,} different texts, and training keeps a text of each"
        remedy = f"Check dataset.label: it may be a column of texts or ids. Otherwise add rows, or {own_file}"
        return DataError(problem, remedy=remedy)
    problem = f"{n_rows:,} {what} with {n_groups:,} different texts are too few to hold out {fraction:.0%} for {name}"
    return DataError(problem, remedy=f"Add {what}, set dataset.{name}_fraction=0.5, or {own_file}")


def groups_of(texts: np.ndarray, kept_together: Sequence[Any] | None) -> np.ndarray:
    """Return the group of each row: rows that share a text or a value, directly or through other rows."""
    _, groups = np.unique(texts, return_inverse=True)
    if kept_together is None:
        return groups
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n_texts = int(groups.max(initial=-1)) + 1
    numbers = {value: number for number, value in enumerate(dict.fromkeys(kept_together), n_texts)}
    known = np.array([value not in (None, "") for value in kept_together], bool)
    values = np.array([numbers[value] for value in kept_together], np.int64)[known]
    total = n_texts + len(numbers)
    edges = coo_array((np.ones(len(values), np.int8), (groups[known], values)), shape=(total, total))
    _, components = connected_components(edges, directed=False)
    return np.unique(components[groups], return_inverse=True)[1]


def strata_of(split: Split, hashes: Hashes) -> np.ndarray:
    """Return the stratum of each row, int64 [rows]: its label, the rarest of several, or the fifth of its number."""
    if hashes.target == "words":
        return np.full(len(split), UNLABELLED)
    if hashes.target == "number":
        edges = np.nanquantile(hashes.numbers, _FIFTHS) if (hashes.labels != UNLABELLED).any() else _FIFTHS
        return np.searchsorted(edges, hashes.numbers)
    if hashes.target == "label_set":
        counts = hashes.label_counts.tolist()
        sets = (example.label for example in split.of_texts())
        return np.array(
            [min(ids, key=counts.__getitem__) if isinstance(ids, tuple) and ids else UNLABELLED for ids in sets]
        )
    return hashes.labels


def _drawn(groups: np.ndarray, labels: np.ndarray, fraction: float, generator: np.random.Generator) -> np.ndarray:
    """Return which rows to take, as a mask: whole groups, and of each label about the `fraction` of its rows."""
    _, groups, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    label_of_group = rarest_labels(groups, labels, len(sizes))
    held_out = np.zeros(len(sizes), bool)
    next_ones: list[tuple[float, float, int]] = []
    budget = fraction * len(labels)
    values, label_places, n_groups = np.unique(label_of_group, return_inverse=True, return_counts=True)
    quotas = budget * np.bincount(label_places, weights=sizes) / len(labels)
    # A label too rare for a row still gets one, as long as such labels get no more than a quarter.
    rare = (quotas < 1) & (n_groups > 1)
    if 4 * rare.sum() <= budget and not rare.all():
        quotas[~rare] *= (budget - rare.sum()) / quotas[~rare].sum()
        quotas[rare] = 1
    for label, quota in zip(values.tolist(), quotas.tolist(), strict=True):
        members = np.flatnonzero(label_of_group == label)
        # A text repeated more often than its quota stays in training, unless all texts are.
        small = members[sizes[members] <= max(quota, sizes[members].min())]
        drawn = generator.permutation(small)[: len(members) - 1]
        rows = np.cumsum(sizes[drawn])
        count = int(np.searchsorted(rows, quota + 1e-9, side="right"))
        held_out[drawn[:count]] = True
        if count < len(drawn):
            lacking = quota - (rows[count - 1] if count else 0)
            next_ones.append((-lacking, generator.random(), int(drawn[count])))
    for _, _, group in sorted(next_ones):  # the largest remainders first
        if not held_out.any() or sizes[held_out].sum() + sizes[group] / 2 <= budget:
            held_out[group] = True
    only_taken = np.setdiff1d(labels[held_out[groups]], labels[~held_out[groups]])
    held_out[groups[np.isin(labels, only_taken)]] = False
    return held_out[groups]


def rarest_labels(groups: np.ndarray, labels: np.ndarray, n_groups: int) -> np.ndarray:
    """Return the label each group counts for: the rarest among its rows, so that rare labels reach every part."""
    values, places, counts = np.unique(labels, return_inverse=True, return_counts=True)
    rarity = counts[places] * len(values) + places  # ties are broken by label
    rarest = np.full(n_groups, np.iinfo(np.int64).max)
    np.minimum.at(rarest, groups, rarity)
    return values[rarest % len(values)]


def parse_fold(text: str) -> tuple[int, int]:
    """Return the number of a fold, from 1, and of how many it is one. Raises SettingError unless it is like 2/5."""
    match = re.fullmatch(r"(\d{1,3})/(\d{1,3})", text, re.ASCII)
    number, folds = map(int, match.groups()) if match else (0, 0)
    if not (folds >= 2 and 1 <= number <= folds):
        remedy = "Use folds=5 to run them all"
        raise SettingError(f"dataset.fold is {text}", allowed="one of several, such as 2/5", remedy=remedy)
    return number, folds


def assign_folds(
    split: Split, folds: int, seed: int, names: Sequence[str] = (), kept_together: Sequence[Any] | None = None
) -> np.ndarray:
    """Return the fold of each row, from 1 to `folds`: int64 [rows].

    Folds have equal size and the same share of each label, to the nearest group; groups and strata are those of
    `held_out_parts`. `names` are the labels' names. Raises DataError if the split has too few groups, or all rows of a
    label are in one fold, because no other fold could learn it.
    """
    hashes = hashed(split)
    groups = groups_of(hashes.texts, kept_together)
    labels = strata_of(split, hashes)
    n_groups = int(groups.max(initial=-1)) + 1
    sizes = np.bincount(groups)
    generator = np.random.default_rng(seed)
    lone = None
    label_of_group = rarest_labels(groups, labels, len(sizes))
    fold_of_group = np.zeros(len(sizes), np.int64)
    totals = [0] * folds
    values, counts = np.unique(label_of_group, return_counts=True)
    for label in values[np.argsort(counts, kind="stable")].tolist():  # rarest first
        members = generator.permutation(np.flatnonzero(label_of_group == label))
        label_rows = [0] * folds
        for group in members[np.argsort(-sizes[members], kind="stable")].tolist():  # largest first
            fold = min(range(folds), key=lambda number: (label_rows[number], totals[number]))  # noqa: B023
            fold_of_group[group] = fold
            label_rows[fold] += int(sizes[group])
            totals[fold] += int(sizes[group])
    assigned = fold_of_group[groups] + 1
    if hashes.target == "label":
        known = [label for label in np.unique(labels).tolist() if label >= 0]
        lone = next((names[label] for label in known if np.ptp(assigned[labels == label]) == 0), None)
    if n_groups < folds or lone is not None:
        few = f"there are {n_groups}" if n_groups < folds else f"the label {lone!r} has too few"
        problem = f"folds={folds} cannot be made: {few} different texts (or groups, dataset.group)"
        remedy = "Set fewer folds, add rows, or merge rare labels (dataset.label_names)"
        raise DataError(problem, allowed="at least one text for each fold, and two of each label", remedy=remedy)
    return assigned


def nested_share(train: Split, share: float, seed: int) -> Split:
    """Return this share of the rows, at least one, in order, with each label's share of them.

    The rows of a smaller share are among those of a larger one: rows are ranked once, at even distances within their
    label.
    """
    labels = strata_of(train, hashed(train))
    generator = np.random.default_rng(seed)
    ranks = np.empty(len(train))
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        ranks[members] = (np.arange(len(members)) + generator.random()) / len(members)
    kept = np.argsort(ranks, kind="stable")[: max(round(share * len(train)), 1)]
    return train.take(np.sort(kept).tolist())
