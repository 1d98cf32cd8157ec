"""Statistics of a dataset's rows, a fingerprint of each split, and the rows to look at before training on them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.data.examples import Split, Splits, text_of

if TYPE_CHECKING:
    from encoderlab.batch import TargetKind

_BATCH = 10_000
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, odd: multiplying by it loses nothing
_UNLABELLED = -1
ROWS_LOOKED_AT = 20_000  # of a split, for markup
LONG = 10  # times as many words as the median has
LONG_FROM = 50  # words: ten times a very short text is not long
MARKUP = re.compile("</?[a-zA-Z][^<>]*>|&(?:amp|lt|gt|quot|nbsp|#[0-9]+|#x[0-9a-fA-F]+);")


@dataclass(frozen=True)
class Hashes:
    """A split by row: a hash of its text (with its pair, or its words), its label, its length in words.

    `labels` are ids, -1 if unknown; for sentences of words and rows with several labels, a hash of all labels; for
    numbers, their bits (see `numbers`). `places` counts each label by id, over rows or words.
    """

    texts: np.ndarray  # uint64
    labels: np.ndarray  # int64
    lengths: np.ndarray  # int64
    places: np.ndarray  # int64
    of_words: bool
    target: TargetKind = "label"

    @property
    def numbers(self) -> np.ndarray:
        """Return the numbers that are the rows' targets, NaN if unknown: float64 [rows]."""
        assert self.target == "number", "only such rows have them"
        return self.labels.view(np.float64)

    def with_labels(self) -> np.ndarray:
        """Return a hash of each row's text and label together: uint64."""
        return self.texts * _ODD + self.labels.astype(np.uint64)


@dataclass(frozen=True)
class SplitSurvey:
    """One split. `labels` counts rows, or words if each word has a label; lengths are in words.

    `markup` is the share of rows with HTML in their text, in a sample. `numbers` holds `min`, `mean`, `deviation` and
    `max` of the targets, if those are numbers.
    """

    rows: int
    labels: dict[str, int]
    unlabelled: int
    words_min: int
    words_median: float
    words_p95: float
    words_max: int
    empty: int
    duplicates: int
    conflicting: int
    shared_with_train: int
    shared_with_other_label: int
    markup: float
    fingerprint: str
    numbers: dict[str, float] | None = None


@dataclass(frozen=True)
class Survey:
    """All splits by name."""

    splits: dict[str, SplitSurvey]

    def as_dict(self) -> dict[str, Any]:
        """Return the same as plain dictionaries, for JSON."""
        return {name: asdict(split) for name, split in self.splits.items()}


def survey(splits: Splits) -> Survey:
    """Read every split once; 24 bytes per row are kept.

    `duplicates` are rows whose text occurs earlier in the split, `conflicting` those of them with another label than
    the first. `shared_with_train` are rows whose text is in the training split; of these, `shared_with_other_label`
    have a label that training never gives that text.
    """
    hashes = {name: hashed(split) for name, split in splits.by_name.items()}
    train = hashes.get("train")
    surveyed = {}
    for name, one in hashes.items():
        split = splits.by_name[name]
        looked_at = np.unique(np.linspace(0, len(split) - 1, min(len(split), ROWS_LOOKED_AT)).round().astype(np.int64))
        markup = float(with_markup(split.take(looked_at)).mean()) if len(split) else 0.0
        surveyed[name] = _surveyed(one, None if name == "train" else train, splits.labels, markup)
    return Survey(surveyed)


def hashed(split: Split) -> Hashes:
    """Return the rows of a split as 64-bit hashes (two texts in 4 million share one with a chance of 1 in 2
    million).
    """
    read = _words_batch if split.holds_words else _texts_batch
    batches = [read(batch.to_pydict()) for batch in split.batches(_BATCH)] or [read({"words": [], "text": []})]
    texts, labels, lengths, ids = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
    return Hashes(texts, labels, lengths, np.bincount(ids[ids >= 0]), split.holds_words, split.target)


def _texts_batch(columns: dict[str, list[Any]]) -> tuple[np.ndarray, ...]:
    texts = columns["text"]
    pairs = columns.get("text_pair", [None] * len(texts))
    rows = zip(texts, pairs, strict=True)
    hashes = _as_array(
        _hash(text) if pair is None else _hash(f"{len(text)}:{text}{pair}", b"pair") for text, pair in rows
    )
    lengths = [len(text.split()) + len((pair or "").split()) for text, pair in zip(texts, pairs, strict=True)]
    labels, ids = _texts_labels(columns.get("label", [None] * len(texts)))
    return hashes, labels, np.array(lengths, np.int64), ids


def _texts_labels(labels: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return an integer for each row's target, int64 [rows], and the ids of all labels, int64 [labels]."""
    first = next((label for label in labels if label is not None), None)
    if isinstance(first, list):
        return _hashed_ids(labels), np.array([id_ for ids in labels for id_ in ids or ()], np.int64)
    if isinstance(first, float):
        bits = np.array([np.nan if label is None else label for label in labels], np.float64).view(np.int64)
        return np.where([label is None for label in labels], _UNLABELLED, bits), np.empty(0, np.int64)
    ids = np.array([_UNLABELLED if label is None else label for label in labels], np.int64)
    return ids, ids


def _words_batch(columns: dict[str, list[Any]]) -> tuple[np.ndarray, ...]:
    sentences = columns["words"]
    labels = columns.get("labels", [None] * len(sentences))
    hashes = _as_array(_hash("".join(f"{len(word)}:{word}" for word in words), b"words") for words in sentences)
    flat = np.array([label for ids in labels if ids is not None for label in ids], np.int64)
    lengths = np.array([len(words) for words in sentences], np.int64)
    return hashes, _hashed_ids(labels), lengths, flat


def _hashed_ids(labels: list[Any]) -> np.ndarray:
    """Return a hash of each row's ids, -1 if they are unknown."""
    # Shifted to stay at or above 0, so that no hash of labels looks like an unknown label.
    hashes = _as_array(_hash("" if ids is None else ",".join(map(str, ids))) for ids in labels) >> np.uint64(1)
    known = np.array([ids is not None for ids in labels], bool)
    return np.where(known, hashes.astype(np.int64), _UNLABELLED)


def _hash(text: str, kind: bytes = b"") -> bytes:
    """Return 8 bytes that differ for equal texts of another `kind` (BLAKE2's personalisation, RFC 7693,
    section 2.5).
    """
    return hashlib.blake2b(text.encode(), digest_size=8, person=kind).digest()


def _as_array(hashes: Iterable[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(hashes), np.uint64)


def _surveyed(split: Hashes, train: Hashes | None, names: list[str], markup: float) -> SplitSurvey:
    counts = np.zeros(len(names), np.int64)
    counts[: len(split.places)] = split.places
    repeated, conflicting, _ = _same_texts(split, split)
    shared, differing, _ = _same_texts(split, train) if train else (np.zeros(1), np.zeros(1), None)
    lengths = split.lengths if len(split.lengths) else np.zeros(1, np.int64)
    return SplitSurvey(
        rows=len(split.texts),
        labels=dict(zip(names, counts.tolist(), strict=True)),
        unlabelled=int((split.labels == _UNLABELLED).sum()),
        words_min=int(lengths.min()),
        words_median=float(np.median(lengths)),
        words_p95=float(np.percentile(lengths, 95)),
        words_max=int(lengths.max()),
        empty=int((split.lengths == 0).sum()),
        duplicates=int(repeated.sum()),
        conflicting=int(conflicting.sum()),
        shared_with_train=int(shared.sum()),
        shared_with_other_label=int(differing.sum()),
        markup=markup,
        fingerprint=hashlib.sha256(split.texts.tobytes() + split.labels.tobytes()).hexdigest()[:16],
        numbers=_described(split.numbers) if split.target == "number" else None,
    )


def _described(numbers: np.ndarray) -> dict[str, float] | None:
    """Return the range, mean and deviation of the known numbers; None if there are none."""
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        return None
    return {
        "min": float(known.min()),
        "mean": float(known.mean()),
        "deviation": float(known.std()),
        "max": float(known.max()),
    }


def _same_texts(split: Hashes, reference: Hashes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which rows have the text of an earlier row, or of a row of another split: bool [rows].

    Also which of them have a label that the earlier row, or no such row of the other split, has (bool), and the first
    row with the text (int64).
    """
    if not len(reference.texts):
        return np.zeros(len(split.texts), bool), np.zeros(len(split.texts), bool), np.zeros(len(split.texts), np.int64)
    known, first = np.unique(reference.texts, return_index=True)
    place = np.minimum(np.searchsorted(known, split.texts), len(known) - 1)
    like, same, pairs = first[place], known[place] == split.texts, reference.with_labels()
    if reference is split:
        same, pairs = same & (like != np.arange(len(like))), pairs[first]
    return same, same & ~np.isin(split.with_labels(), pairs) & (split.labels != _UNLABELLED), like


@dataclass(frozen=True, slots=True)
class Oddity:
    """One kind of odd row, and the rows of that kind, ascending: int64 [rows].

    If a text repeats another, `like` [rows] gives the row that has it first, in the same split or in the one
    `like_split` names.
    """

    kind: str
    rows: np.ndarray
    like: np.ndarray | None = None
    like_split: str | None = None


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
            *_repeated(own, own, "the text of an earlier row", None),
        ]
        if name != "train" and "train" in hashes:
            kinds += _repeated(own, hashes["train"], "a text of the training split", "train")
        odd[name] = [kind for kind in kinds if len(kind.rows)]
    return odd


def _repeated(split: Hashes, reference: Hashes, kind: str, like_split: str | None) -> list[Oddity]:
    """Return the rows whose text `reference` has, with the same label and with another one."""
    same, otherwise, like = _same_texts(split, reference)
    masks = {kind: same & ~otherwise, f"{kind}, with another label": otherwise}
    return [Oddity(words, np.flatnonzero(mask), like[mask], like_split) for words, mask in masks.items()]


def with_markup(split: Split) -> np.ndarray:
    """Return which rows have HTML in their text: bool [rows]."""
    return np.fromiter((MARKUP.search(text_of(example)) is not None for example in split), bool, len(split))
