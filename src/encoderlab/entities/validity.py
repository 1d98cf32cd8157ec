"""Invalid BIO or BIOES label sequences: the first of them, and how conlleval reads them."""

from __future__ import annotations

import numpy as np

from encoderlab.entities.counting import spans_of
from encoderlab.entities.scheme import OUTSIDE, EntityLabels, label_name


def first_invalid(labels: EntityLabels, ids: np.ndarray, lengths: np.ndarray) -> tuple[int, str] | None:
    """Return the first word with a label that is invalid in its place, and a description of that place; None if all are
    valid.

    The sentences, of `lengths` words, follow one another; `ids` are their label ids, [words], -1 (unknown) counting as
    O.
    """
    names, n_words = [*labels.names, OUTSIDE], len(ids)
    may_begin, may_end = (
        np.array([*map(test, range(len(names) - 1)), True]) for test in (labels.may_begin, labels.may_end)
    )
    links = np.array(
        [[_may_follow(labels, first, second) for second in range(len(names))] for first in range(len(names))]
    )
    ends = np.cumsum(lengths)[lengths > 0]
    firsts, lasts = np.zeros(n_words, bool), np.zeros(n_words, bool)
    firsts[ends - lengths[lengths > 0]], lasts[ends - 1] = True, True
    valid = np.where(firsts, may_begin[ids], links[np.roll(ids, 1), ids])
    wrong = np.flatnonzero(~valid | (lasts & ~may_end[ids]))
    if not len(wrong):
        return None
    word = int(wrong[0])
    if valid[word]:
        return word, "at the end of the sentence"
    return word, "at the start of the sentence" if firsts[word] else f"after {names[ids[word - 1]]!r}"


def _may_follow(labels: EntityLabels, first: int, second: int) -> bool:
    """Return whether the one label may follow the other, the number of labels standing for O."""
    n = len(labels.names)
    if second == n:
        return first == n or labels.may_end(first)
    return labels.may_begin(second) if first == n else labels.may_follow(first, second)


def repaired(labels: EntityLabels, ids: np.ndarray, lengths: np.ndarray) -> list[str]:
    """Return valid label names for the entities that conlleval finds in the sentences, [words]; arguments as for
    `first_invalid`.

    IOB1, in which B only separates neighbours of one type, becomes BIO.
    """
    spans = spans_of(labels, ids, lengths)
    last = spans.end == np.arange(1, len(ids) + 1)
    if labels.bioes:
        prefixes = np.select([spans.begins & last, spans.begins, last], ["S", "B", "E"], "I")
    else:
        prefixes = np.where(spans.begins, "B", "I")
    return [
        OUTSIDE if kind < 0 else label_name(prefix, labels.types[kind])
        for prefix, kind in zip(prefixes.tolist(), spans.kind.tolist(), strict=True)
    ]
