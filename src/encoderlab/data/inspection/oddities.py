"""Odd rows: the kinds of rows to look at before training on a split, and which rows are of each kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from encoderlab.data.examples import Split
from encoderlab.data.survey import Hashes, hashed

_BATCH = 10_000
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
            found[name] += _shared(hashes[name], train)
    return found


def _by_text(split: Split) -> dict[str, np.ndarray]:
    parts = [_of_texts(_joined(split.table.arrow(start, start + _BATCH))) for start in range(0, len(split), _BATCH)]
    return {kind: np.concatenate([part[kind] for part in parts]) for kind in (parts[0] if parts else {})}


def _joined(table: pa.Table) -> pa.ChunkedArray:
    """Return the text of each row, joined with its pair; words are joined with blanks."""
    if "words" in table.column_names:
        return pc.binary_join(table["words"], " ")
    if "text_pair" not in table.column_names:
        return table["text"]
    return pc.binary_join_element_wise(table["text"], table["text_pair"], " ")


def _of_texts(texts: pa.ChunkedArray) -> dict[str, np.ndarray]:
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


def _shared(split: Hashes, train: Hashes) -> list[Oddity]:
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
