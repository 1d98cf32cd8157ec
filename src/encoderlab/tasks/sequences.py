"""Token ids as the sequences that a BERT-like encoder reads: [CLS] a [SEP], or [CLS] a [SEP] b [SEP].

Source: Devlin et al. 2019, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from encoderlab.batch import Encoded, WindowPooling
from encoderlab.data.examples import Example, TextExample, are_texts
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError
from encoderlab.tasks.config import TextTaskConfig, Windows

OVERLAP = 0.25  # least share of a window that overlaps the next

Target = int | float | tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Windowing:
    """How long texts are read: in at most `most` windows, whose logits are combined as `pooling` says.

    Each shares at least a quarter of its tokens with the next, unless there would be more than `most`.
    """

    pooling: WindowPooling
    most: int

    @classmethod
    def of(cls, config: TextTaskConfig) -> Windowing | None:
        """Return the windowing in a task's settings; None if long texts are truncated."""
        if config.windows is Windows.none:
            return None
        pooled: WindowPooling = "max" if config.windows is Windows.max else "mean"
        return cls(pooled, config.max_windows)

    def starts(self, n_tokens: int, room: int) -> tuple[int, ...]:
        """Return where windows of `room` tokens begin in a longer text of `n_tokens`, evenly spaced from end to end.

        >>> Windowing("mean", 8).starts(100, 40)
        (0, 30, 60)
        """
        last, step = n_tokens - room, max(int(room * (1 - OVERLAP)), 1)
        gaps = min(-(-last // step), self.most - 1)
        return tuple(round(place * last / gaps) for place in range(gaps + 1))


def join(
    tokenizer: Tokenizer, first: Sequence[int], second: Sequence[int] | None, max_length: int, label: Target = None
) -> Encoded:
    """Return one text or a pair as a sequence of at most `max_length` tokens, truncating the longer text first."""
    cls, sep = [tokenizer.cls_id], [tokenizer.sep_id]
    if second is None:
        kept = max(max_length - 2, 0)
        ids = [*cls, *first[:kept], *sep]
        return Encoded(ids, [0] * len(ids), label, truncated=len(first) > kept)
    kept_first, kept_second = longest_first(len(first), len(second), max_length - 3)
    a, b = [*cls, *first[:kept_first], *sep], [*second[:kept_second], *sep]
    truncated = kept_first < len(first) or kept_second < len(second)
    return Encoded(a + b, [0] * len(a) + [1] * len(b), label, truncated=truncated)


def in_windows(
    tokenizer: Tokenizer, ids: Sequence[int], max_length: int, windows: Windowing, label: Target = None
) -> Encoded:
    """Return a text longer than `max_length` as [CLS] window [SEP], once for each window."""
    room = max_length - 2
    starts = windows.starts(len(ids), room)
    together = [id_ for start in starts for id_ in (tokenizer.cls_id, *ids[start : start + room], tokenizer.sep_id)]
    unread = any(later - start > room for start, later in pairwise(starts))
    return Encoded(together, [0] * len(together), label, truncated=unread, window_starts=starts)


def sequences_of(
    tokenizer: Tokenizer, examples: Sequence[TextExample], max_length: int, windows: Windowing | None = None
) -> list[Encoded]:
    """Return texts and pairs with their labels, tokenised all at once because a call for each takes five times as long.

    Long texts are read in `windows`, or truncated if that is None. Raises DataError for pairs in windows.
    """
    firsts = tokenizer.encode([example.text for example in examples])
    if windows is not None:
        _refuse_pairs(examples, windows)
        return [
            in_windows(tokenizer, ids, max_length, windows, example.label)
            if len(ids) > max_length - 2
            else join(tokenizer, ids, None, max_length, example.label)
            for example, ids in zip(examples, firsts, strict=True)
        ]
    seconds = iter(tokenizer.encode([example.text_pair for example in examples if example.text_pair is not None]))
    return [
        join(tokenizer, first, None if example.text_pair is None else next(seconds), max_length, example.label)
        for example, first in zip(examples, firsts, strict=True)
    ]


def _refuse_pairs(examples: Sequence[TextExample], windows: Windowing) -> None:
    if any(example.text_pair is not None for example in examples):
        raise DataError(
            f"task.windows={windows.pooling} reads single texts in windows, but these rows are pairs",
            remedy="Set task.windows=none, which truncates the longer text of a pair",
        )


def texts_among(examples: Sequence[Example]) -> Sequence[TextExample]:
    """Return the examples, which are texts. Raises DataError if they are sequences of words."""
    if not are_texts(examples):
        raise DataError(
            "This dataset holds sequences of labelled words, but the task needs texts",
            remedy="Set task=tagging, or choose a dataset of texts",
        )
    return examples


def longest_first_of_many(first: np.ndarray, second: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Return `longest_first` of many pairs at once: [pairs] each."""
    kept_second = np.minimum(second, np.maximum(room // 2, room - first))
    return np.minimum(first, room - kept_second), kept_second


def longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """Return how many tokens of two texts fit into `room` when the longer one is always truncated first.

    >>> longest_first(10, 3, 8)
    (5, 3)
    >>> longest_first(10, 9, 8)
    (4, 4)
    """
    room = max(room, 0)
    kept_second = min(second, max(room // 2, room - first))
    return min(first, room - kept_second), kept_second
