"""Statistics of a dataset's rows, a fingerprint of each split, and the rows to look at before training on them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from encoderlab.data.examples import Split, text_of
from encoderlab.tables.markup import MARKUP

_BATCH = 10_000
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, odd: multiplying by it loses nothing
UNLABELLED = -1
ROWS_LOOKED_AT = 20_000  # of a split, for markup
LONG = 10  # times as many words as the median has
LONG_FROM = 50  # words: ten times a very short text is not long


@dataclass(frozen=True)
class Hashes:
    """A split by row: a hash of its text (with its pair, or its words), its label, its length in words.

    `labels` are ids, -1 if unknown; for sentences of words and rows with several labels, a hash of all labels; for
    numbers, their bits (see `numbers`).
    """

    texts: np.ndarray  # uint64
    labels: np.ndarray  # int64
    lengths: np.ndarray  # int64
    label_counts: np.ndarray  # of each label by id, over rows or words: int64
    target: str  # of the split

    @property
    def numbers(self) -> np.ndarray:
        """Return the numbers that are the rows' targets, NaN if unknown: float64 [rows]."""
        return self.labels.view(np.float64)

    def with_labels(self) -> np.ndarray:
        """Return a hash of each row's text and label together: uint64."""
        return self.texts * _ODD + self.labels.astype(np.uint64)


@dataclass(frozen=True)
class SplitSurvey:
    """What is known of a split; lengths are in words."""

    rows: int
    labels: dict[str, int]  # counts of rows, or of words if each word has a label
    unlabelled: int
    words_median: float
    words_p95: float
    words_max: int
    empty: int
    duplicates: int
    conflicting: int
    shared_with_train: int
    shared_with_other_label: int
    markup: float  # share of rows with HTML in their text, in a sample
    fingerprint: str  # of texts and targets
    texts_fingerprint: str
    numbers: dict[str, float] | None = None  # `min`, `mean`, `deviation` and `max` of targets that are numbers


def survey_of(splits: Mapping[str, Split], labels: Sequence[str]) -> dict[str, SplitSurvey]:
    """Read every split once, and describe it by its name; 24 bytes per row are kept. `labels` are ordered by their ids.

    `duplicates` are rows whose text occurs earlier in the split, `conflicting` those of them with another label than
    the first. `shared_with_train` are rows whose text is in the training split; of these, `shared_with_other_label`
    have a label that training never gives that text.
    """
    hashes = {name: hashed(split) for name, split in splits.items()}
    surveyed = {}
    for name, split in splits.items():
        own = hashes[name]

        # Texts that occur more than once in the split, or also in training.
        train = None if name == "train" else hashes.get("train")
        repeated, conflicting, _ = _same_texts(own, own)
        shared, differing, _ = _same_texts(own, train) if train else (np.zeros(1), np.zeros(1), None)

        # How often each label occurs, how long texts are, and the range of numbers.
        counts = np.zeros(len(labels), np.int64)
        counts[: len(own.label_counts)] = own.label_counts
        lengths = own.lengths if len(split) else np.zeros(1, np.int64)
        numbers = own.numbers[~np.isnan(own.numbers)] if own.target == "number" else np.empty(0)
        measures = {"min": np.min, "mean": np.mean, "deviation": np.std, "max": np.max}
        surveyed[name] = SplitSurvey(
            rows=len(split),
            labels=dict(zip(labels, counts.tolist(), strict=True)),
            unlabelled=int((own.labels == UNLABELLED).sum()),
            words_median=float(np.median(lengths)),
            words_p95=float(np.percentile(lengths, 95)),
            words_max=int(lengths.max()),
            empty=int((own.lengths == 0).sum()),
            duplicates=int(repeated.sum()),
            conflicting=int(conflicting.sum()),
            shared_with_train=int(shared.sum()),
            shared_with_other_label=int(differing.sum()),
            markup=float(with_markup(split.evenly(ROWS_LOOKED_AT)).mean()) if len(split) else 0.0,
            fingerprint=hashlib.sha256(own.texts.tobytes() + own.labels.tobytes()).hexdigest()[:16],
            texts_fingerprint=hashlib.sha256(own.texts.tobytes()).hexdigest()[:16],
            numbers={name: float(measure(numbers)) for name, measure in measures.items()} if len(numbers) else None,
        )
    return surveyed


def hashed(split: Split) -> Hashes:
    """Return the rows of a split as 64-bit hashes: two of 4 million texts share one with a chance of 1 in 2 million."""
    batches = [_hashed(batch.to_pydict(), len(batch)) for batch in split.batches(_BATCH)] or [_hashed({}, 0)]
    texts, labels, lengths, ids = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
    return Hashes(texts, labels, lengths, np.bincount(ids[ids >= 0]), split.target)


def _hashed(columns: dict[str, list[Any]], n_rows: int) -> tuple[np.ndarray, ...]:
    """Return the hash of each row's text, an integer for its target, its length in words; and all ids of labels."""
    if "words" in columns:
        rows = columns["words"]
        hashes = _as_array(_hash("".join(f"{len(word)}:{word}" for word in words), b"words") for words in rows)
        lengths = [*map(len, rows)]
    else:
        rows = [*zip(columns.get("text", ()), columns.get("text_pair", [None] * n_rows), strict=True)]
        hashes = _as_array(
            _hash(text) if pair is None else _hash(f"{len(text)}:{text}{pair}", b"pair") for text, pair in rows
        )
        lengths = [len(text.split()) + len((pair or "").split()) for text, pair in rows]
    labels = columns.get("labels", columns.get("label", [None] * n_rows))
    first = next((label for label in labels if label is not None), None)
    unknown = [label is None for label in labels]
    ids = np.empty(0, np.int64)
    if isinstance(first, list):
        ids = np.array([id_ for label_set in labels for id_ in label_set or ()], np.int64)
        hashed_sets = _as_array(_hash(",".join(map(str, label_set or ()))) for label_set in labels)
        targets = hashed_sets >> np.uint64(1)  # at or above 0
    elif isinstance(first, float):
        targets = np.array([np.nan if number is None else number for number in labels], np.float64).view(np.int64)
    else:
        ids = np.array([UNLABELLED if id_ is None else id_ for id_ in labels], np.int64)
        targets = ids
    return hashes, np.where(unknown, UNLABELLED, targets.astype(np.int64)), np.array(lengths, np.int64), ids


def _hash(text: str, kind: bytes = b"") -> bytes:
    """Return 8 bytes that differ for equal texts of another `kind` (RFC 7693, section 2.5)."""
    return hashlib.blake2b(text.encode(), digest_size=8, person=kind).digest()


def _as_array(hashes: Iterable[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(hashes), np.uint64)


def _same_texts(split: Hashes, reference: Hashes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which rows have the text of an earlier row, or of a row of another split: bool [rows].

    Also which of them have a label that the earlier row does not have, or that no such row of the other split has
    (bool), and the first row with the text (int64).
    """
    if not len(reference.texts):
        return np.zeros(len(split.texts), bool), np.zeros(len(split.texts), bool), np.zeros(len(split.texts), np.int64)
    known, first = np.unique(reference.texts, return_index=True)
    place = np.minimum(np.searchsorted(known, split.texts), len(known) - 1)
    like = first[place]
    same = known[place] == split.texts
    pairs = reference.with_labels()
    if reference is split:
        same = same & (like != np.arange(len(like)))
        pairs = pairs[first]
    return same, same & ~np.isin(split.with_labels(), pairs) & (split.labels != UNLABELLED), like


@dataclass(frozen=True, slots=True)
class Oddity:
    """One kind of odd row, and the rows of that kind."""

    kind: str
    rows: np.ndarray  # ascending, int64
    like: np.ndarray | None = None  # of texts that repeat others: the row that has each one first, int64 [rows]
    like_split: str | None = None  # the split of those rows


def odd_rows(by_name: dict[str, Split]) -> dict[str, list[Oddity]]:
    """Return the kinds of odd rows in each split. Rows of other splits are compared with those of `train`."""
    hashes = {name: hashed(split) for name, split in by_name.items()}
    odd: dict[str, list[Oddity]] = {}
    for name, split in by_name.items():
        own = hashes[name]
        long = own.lengths > max(LONG * float(np.median(own.lengths)) if len(own.lengths) else 0, LONG_FROM)
        kinds = [
            Oddity("nothing but white space", np.flatnonzero(own.lengths == 0)),
            Oddity("markup", np.flatnonzero(with_markup(split))),
            Oddity(f"more than {LONG} times as many words as the median", np.flatnonzero(long)),
        ]
        others = {"train": "a text of the training split"} if name != "train" and "train" in hashes else {}
        for other, kind in {name: "the text of an earlier row", **others}.items():
            same, otherwise, like = _same_texts(own, hashes[other])
            for words, mask in ((kind, same & ~otherwise), (f"{kind}, with another label", otherwise)):
                kinds.append(Oddity(words, np.flatnonzero(mask), like[mask], other))
        odd[name] = [kind for kind in kinds if len(kind.rows)]
    return odd


def with_markup(split: Split) -> np.ndarray:
    """Return which rows have HTML in their text: bool [rows]."""
    return np.fromiter((MARKUP.search(text_of(example)) is not None for example in split), bool, len(split))
