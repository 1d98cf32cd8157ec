"""Statistics of a dataset's rows, a fingerprint of each split, and the rows to look at before training on them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.data.examples import Split, Splits

if TYPE_CHECKING:
    import pyarrow as pa

    from encoderlab.batch import TargetKind

_BATCH = 10_000
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, odd: multiplying by it loses nothing
_UNLABELLED = -1
LONG = 10  # times as many words as the median has
LONG_FROM = 50  # words: ten times a very short text is not long
# Patterns in texts, for both `re` and RE2. Joiners do not count as invisible: emoji, Persian and Hindi need them.
PATTERNS = {
    "control characters": "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]",
    "characters that could not be decoded (U+FFFD)": "\ufffd",
    "characters of a wrong encoding": "\u00c3[\x80-\xbf]|\u00e2\u20ac|\u00c2[\xa0-\xbf]",
    "invisible characters": "[\xad\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069]",
    "markup": "</?[a-zA-Z][^<>]*>|&(?:amp|lt|gt|quot|nbsp|#[0-9]+|#x[0-9a-fA-F]+);",
}
BLANK, SYMBOLS = "nothing but white space", "no letter and no digit"
UNLABELLED, LENGTH = "no label", f"more than {LONG} times as many words as the median"
REPEATED, CONTRADICTED = "the text of an earlier row", "the text of an earlier row, with another label"
SHARED, SHARED_OTHERWISE = (
    "a text of the training split",
    "a text of the training split, with a label it never has there",
)


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

    `numbers` holds `min`, `mean`, `deviation` and `max` of the targets, if those are numbers.
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
    shared_with_train: int
    shared_with_other_label: int
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

    `duplicates` are rows whose text occurs earlier in the split. `shared_with_train` are rows whose text is in the
    training split; of these, `shared_with_other_label` have a label that training never gives that text.
    """
    hashes = {name: hashed(split) for name, split in splits.by_name.items()}
    train = hashes.get("train")
    return Survey(
        {name: _surveyed(one, None if name == "train" else train, splits.labels) for name, one in hashes.items()}
    )


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
    hashes = _joined(
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
    hashes = _joined(_hash("".join(f"{len(word)}:{word}" for word in words), b"words") for words in sentences)
    flat = np.array([label for ids in labels if ids is not None for label in ids], np.int64)
    lengths = np.array([len(words) for words in sentences], np.int64)
    return hashes, _hashed_ids(labels), lengths, flat


def _hashed_ids(labels: list[Any]) -> np.ndarray:
    """Return a hash of each row's ids, -1 if they are unknown."""
    # Shifted to stay at or above 0, so that no hash of labels looks like an unknown label.
    answers = _joined(_hash("" if ids is None else ",".join(map(str, ids))) for ids in labels) >> np.uint64(1)
    known = np.array([ids is not None for ids in labels], bool)
    return np.where(known, answers.astype(np.int64), _UNLABELLED)


def _hash(text: str, kind: bytes = b"") -> bytes:
    """Return 8 bytes that differ for equal texts of another `kind` (BLAKE2's personalisation, RFC 7693,
    section 2.5).
    """
    return hashlib.blake2b(text.encode(), digest_size=8, person=kind).digest()


def _joined(hashes: Iterable[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(hashes), np.uint64)


def _surveyed(split: Hashes, train: Hashes | None, names: list[str]) -> SplitSurvey:
    counts = np.zeros(len(names), np.int64)
    counts[: len(split.places)] = split.places
    shared, differing = _shared(split, train) if train else (0, 0)
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
        duplicates=len(split.texts) - len(np.unique(split.texts)),
        shared_with_train=shared,
        shared_with_other_label=differing,
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


def _shared(split: Hashes, train: Hashes) -> tuple[int, int]:
    shared = np.isin(split.texts, train.texts)
    same = np.isin(split.with_labels(), train.with_labels())
    return int(shared.sum()), int((shared & ~same & (split.labels != _UNLABELLED)).sum())


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
    train = hashes.get("train")
    found: dict[str, list[Oddity]] = {}
    for name, split in by_name.items():
        masks = _by_text(split) | _by_length(hashes[name]) | _by_label(hashes[name])
        if SYMBOLS in masks and masks[SYMBOLS].mean() > 0.5:  # normal for this data, such as brackets
            del masks[SYMBOLS]
        found[name] = [Oddity(kind, np.flatnonzero(mask)) for kind, mask in masks.items() if mask.any()]
        found[name] += _repeated(hashes[name])
        if train is not None and name != "train":
            found[name] += _shared_rows(hashes[name], train)
    return found


def _by_text(split: Split) -> dict[str, np.ndarray]:
    parts = [_of_texts(_whole_texts(batch)) for batch in split.batches(_BATCH)]
    return {kind: np.concatenate([part[kind] for part in parts]) for kind in (parts[0] if parts else {})}


def _whole_texts(table: pa.Table) -> pa.ChunkedArray:
    """Return the text of each row, joined with its pair; words are joined with blanks."""
    import pyarrow.compute as pc

    if "words" in table.column_names:
        return pc.binary_join(table["words"], " ")
    if "text_pair" not in table.column_names:
        return table["text"]
    return pc.binary_join_element_wise(table["text"], table["text_pair"], " ")


def _of_texts(texts: pa.ChunkedArray) -> dict[str, np.ndarray]:
    import pyarrow.compute as pc

    blank = _mask(pc.equal(pc.utf8_trim_whitespace(texts), ""))
    masks = {kind: _mask(pc.match_substring_regex(texts, pattern)) for kind, pattern in PATTERNS.items()}
    return {BLANK: blank, **masks, SYMBOLS: ~blank & ~_mask(pc.match_substring_regex(texts, r"[\p{L}\p{N}]"))}


def _mask(found: pa.ChunkedArray) -> np.ndarray:
    return found.to_numpy(zero_copy_only=False).astype(bool)


def _by_length(split: Hashes) -> dict[str, np.ndarray]:
    if not len(split.lengths):
        return {}
    return {LENGTH: split.lengths > max(LONG * float(np.median(split.lengths)), LONG_FROM)}


def _by_label(split: Hashes) -> dict[str, np.ndarray]:
    """Return rows without a label if others have one. A split without any labels, such as a test split, is not odd."""
    unknown = split.labels == _UNLABELLED
    return {} if unknown.all() else {UNLABELLED: unknown}


def _repeated(split: Hashes) -> list[Oddity]:
    """Return rows whose text occurred before, with the same label as its first occurrence, and with another one."""
    if not len(split.texts):
        return []
    _, first, group = np.unique(split.texts, return_index=True, return_inverse=True)
    earlier, labels = first[group], split.labels
    repeated = earlier != np.arange(len(group))
    other = repeated & (labels != labels[earlier]) & (labels != _UNLABELLED) & (labels[earlier] != _UNLABELLED)
    masks = {REPEATED: repeated & ~other, CONTRADICTED: other}
    return [Oddity(kind, np.flatnonzero(mask), earlier[mask]) for kind, mask in masks.items() if mask.any()]


def _shared_rows(split: Hashes, train: Hashes) -> list[Oddity]:
    """Return rows whose text is in training, with a label that it has there, and with another one."""
    shared = np.isin(split.texts, train.texts)
    otherwise = shared & ~np.isin(split.with_labels(), train.with_labels()) & (split.labels != _UNLABELLED)
    known, first = np.unique(train.texts, return_index=True)
    masks = {SHARED: shared & ~otherwise, SHARED_OTHERWISE: otherwise}
    return [
        Oddity(kind, np.flatnonzero(mask), first[np.searchsorted(known, split.texts[mask])], "train")
        for kind, mask in masks.items()
        if mask.any()
    ]
