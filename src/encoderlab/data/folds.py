"""Training rows divided for several runs: into folds, each of which tests one run, or into nested shares."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from encoderlab.data.examples import Folded, Split
from encoderlab.data.splitting import groups_of, rarest_labels, strata_of
from encoderlab.data.survey import hashed
from encoderlab.errors import DataError, SettingError

_ROWS = ("row", "rows with different texts")  # singular, plural
_GROUPS = ("group (dataset.group)", "groups (dataset.group)")


@dataclass(frozen=True, slots=True)
class Fold:
    """One fold of several, counted from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Fold:
        """Return the fold that `dataset.fold` names. Raises SettingError unless it is written as 2/5."""
        found = re.fullmatch(r"(\d{1,3})/(\d{1,3})", text, re.ASCII)
        fold = cls(*map(int, found.groups())) if found else cls(0, 0)
        if not (fold.of >= 2 and 1 <= fold.number <= fold.of):
            raise SettingError(
                f"dataset.fold is {text}", allowed="one of several, such as 2/5", remedy="Use folds=5 to run them all"
            )
        return fold


def assign_folds(
    split: Split, folds: int, seed: int, names: Sequence[str] = (), kept_together: Sequence[Any] | None = None
) -> np.ndarray:
    """Return the fold of each row, from 1 to `folds`: int64 [rows].

    Folds have equal size and the same share of each label, to the nearest group. Rows with equal text (and pair, or
    words) share a fold, and so do rows with an equal value in `kept_together`. A row with several labels counts for the
    rarest, a number for its fifth of the range; sentences of words are drawn without regard to labels. `names` are the
    labels' names. Raises DataError if a label, or the whole split, has too few rows.
    """
    hashes = hashed(split)
    groups = groups_of(hashes.texts, kept_together)
    labels = strata_of(split, hashes)
    unit = _ROWS if kept_together is None else _GROUPS
    if (n_groups := int(groups.max(initial=-1)) + 1) < folds:
        raise _too_many(folds, n_groups, unit[n_groups != 1])
    has_classes = hashes.target == "label" and not hashes.of_words
    if has_classes:
        _refuse_rare_labels(groups, labels, folds, names, unit)
    assigned = _spread(groups, labels, folds, np.random.default_rng(seed))
    if has_classes:
        _refuse_missing_labels(assigned, labels, folds, names)
    return assigned


def _refuse_rare_labels(
    groups: np.ndarray, labels: np.ndarray, folds: int, names: Sequence[str], unit: tuple[str, str]
) -> None:
    pairs = np.unique(np.stack([labels, groups], axis=1)[labels >= 0], axis=0)
    found, counts = np.unique(pairs[:, 0], return_counts=True)
    if len(found) and counts.min() < folds:
        least, name = int(counts.min()), names[int(found[counts.argmin()])]
        raise _too_many(folds, least, unit[least != 1], name)


def _too_many(folds: int, most: int, of_what: str, label: str | None = None) -> DataError:
    words = f"folds={folds} is too many: training has only {most} {of_what}{'' if label is None else f' of the label {label!r}'}"
    ways = [f"set folds={most}"] * (most >= 2) + ["add rows"]
    remedy = " or ".join(ways) if label is None else f"{', '.join(ways)}, or merge rare labels (dataset.label_names)"
    remedy = remedy[0].upper() + remedy[1:]
    return DataError(words, allowed="at least one for each fold", remedy=remedy)


def _refuse_missing_labels(assigned: np.ndarray, labels: np.ndarray, folds: int, names: Sequence[str]) -> None:
    """Raise DataError if all rows of a label are in one fold, which groups with several labels can cause."""
    pairs = np.unique(np.stack([labels, assigned], axis=1)[labels >= 0], axis=0)
    found, counts = np.unique(pairs[:, 0], return_counts=True)
    if len(found) and counts.min() < 2:
        name = names[found[counts.argmin()]]
        raise DataError(
            f"All rows of the label {name!r} fall into one of {folds} folds, so none is left to train on",
            remedy="Set another dataset.split_seed, or fewer folds",
        )


def _spread(groups: np.ndarray, labels: np.ndarray, folds: int, generator: np.random.Generator) -> np.ndarray:
    """Return folds from 1: label by label, rarest first, each group, largest first, goes where the label has the fewest
    rows.
    """
    sizes = np.bincount(groups)
    label_of_group = rarest_labels(groups, labels, len(sizes))
    fold_of_group, totals = np.zeros(len(sizes), np.int64), [0] * folds
    found, counts = np.unique(label_of_group, return_counts=True)
    for label in found[np.argsort(counts, kind="stable")].tolist():
        members = generator.permutation(np.flatnonzero(label_of_group == label))
        of_label = [0] * folds
        for group in members[np.argsort(-sizes[members], kind="stable")].tolist():
            fold = min(range(folds), key=lambda one: (of_label[one], totals[one]))
            fold_of_group[group] = fold
            of_label[fold] += int(sizes[group])
            totals[fold] += int(sizes[group])
    return fold_of_group[groups] + 1


def divide(train: Split, fold: Fold, assigned: np.ndarray) -> tuple[dict[str, Split], Folded]:
    """Return the rows as `train` and `test` of one fold, in order, and the rows before the division."""
    parts = {"train": np.flatnonzero(assigned != fold.number), "test": np.flatnonzero(assigned == fold.number)}
    return {name: train.take(rows.tolist()) for name, rows in parts.items()}, Folded(train, assigned)


def nested_share(train: Split, share: float, seed: int) -> Split:
    """Return this share of the rows, at least one, in order, with each label's share of them.

    The rows of a smaller share are among those of a larger one: rows are ranked once, at even distances within their
    label.
    """
    labels = strata_of(train, hashed(train))
    generator, ranks = np.random.default_rng(seed), np.empty(len(train))
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        ranks[members] = (np.arange(len(members)) + generator.random()) / len(members)
    chosen = np.argsort(ranks, kind="stable")[: max(round(share * len(train)), 1)]
    return train.take(np.sort(chosen).tolist())
