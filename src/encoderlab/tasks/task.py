"""A task defines how an example becomes ids and targets, what a prediction means, and which metrics score it.

Model, loss and loop never mention a task. Ids become the sequences that BERT reads: [CLS] a [SEP], or [CLS] a [SEP] b
[SEP] (Devlin et al. 2019, section 3).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from jaxtyping import Float
from torch import Tensor

from encoderlab.batch import Batch, Encoded, HeadSizes, Prediction, TargetKind, WindowPooling
from encoderlab.data.examples import Example, TextExample
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError, SettingError, closest
from encoderlab.tasks.config import TextTaskConfig, Windows

if TYPE_CHECKING:
    from encoderlab.metrics.scores import Metrics

OVERLAP = 0.25  # least share of a window that overlaps the next, unless that would take more windows than allowed

Target = int | float | tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class RowPrediction:
    """The prediction for one example; a number has neither labels nor probabilities."""

    labels: tuple[str, ...]  # one, those of a set that are predicted, or one for each word that was read
    probabilities: tuple[float, ...] | None = None  # of all classes; words have none
    word_confidences: tuple[float, ...] | None = None  # the probabilities of the words' labels
    number: float | None = None

    def in_words(self) -> str:
        """Return the labels separated by commas, or the number."""
        return ", ".join(self.labels) or "no label" if self.number is None else f"{self.number:.6g}"

    def as_dict(self, names: Sequence[str], target: TargetKind) -> dict[str, Any]:
        """Return `predicted` as the `target` is (a label, a list of labels, a number), and labels' `probabilities`."""
        if target == "number":
            return {"predicted": self.number}
        predicted = self.labels[0] if target == "label" else list(self.labels)
        return {"predicted": predicted, "probabilities": self.by_label(names)}

    def by_label(self, names: Sequence[str]) -> dict[str, float]:
        """Return the probability of each class; `names` are the classes in the order of their ids."""
        assert self.probabilities is not None, "only a prediction for a whole text has them"
        return dict(zip(names, self.probabilities, strict=True))


class Task(ABC):
    """What to predict, and how. `labels` are the names of the classes in the order of their ids.

    Raises SettingError if `max_length` is less than the `shortest` sequence that can hold an example.
    """

    heads: HeadSizes
    shortest: int = 5  # [CLS] a [SEP] b [SEP]
    unit: float = 1.0  # the user's units per 1 in the logits of a number
    windows: Windowing | None = None  # how texts longer than `max_length` are read; None: truncated
    encoded_by: str = ""  # what else `encode` depends on, for the cache key

    def __init__(self, tokenizer: Tokenizer, labels: Sequence[str], max_length: int, main_score: str) -> None:
        if max_length < self.shortest:
            wrong = f"model.max_length={max_length} leaves no room for a token besides the special ones"
            raise SettingError(wrong, allowed=f"at least {self.shortest} for this task")
        self.tokenizer, self.labels, self.max_length, self.main_score = tokenizer, list(labels), max_length, main_score

    @property
    def key(self) -> str:
        """Return everything `encode` depends on, as text, for the token store's cache key."""
        parts = (type(self).__name__, self.tokenizer.fingerprint, self.max_length, self.windows or "", self.encoded_by)
        return " ".join(str(part) for part in parts if part != "")

    @property
    def limit(self) -> str:
        """Return how much of a text is read, as settings and in words."""
        tokens = f"model.max_length={self.max_length} tokens"
        return tokens if self.windows is None else f"task.max_windows={self.windows.most} windows of {tokens}"

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """Return examples as ids with their targets; done once and cached. They are texts or pairs, unless overridden.

        All are tokenised at once, because a call for each takes five times as long. Raises DataError for examples of
        the wrong kind, and for pairs that are to be read in windows.
        """
        if not all(isinstance(example, TextExample) for example in examples):
            wrong = "This dataset holds sequences of labelled words, but the task needs texts"
            raise DataError(wrong, remedy="Set task=tagging, or choose a dataset of texts")
        texts = cast("Sequence[TextExample]", examples)
        tokenizer, most, windows = self.tokenizer, self.max_length, self.windows
        pairs = [example.text_pair for example in texts if example.text_pair is not None]
        if pairs and windows is not None:
            wrong = f"task.windows={windows.pooling} reads single texts in windows, but these rows are pairs"
            raise DataError(wrong, remedy="Set task.windows=none, which truncates the longer text of a pair")
        firsts, seconds = tokenizer.encode([example.text for example in texts]), iter(tokenizer.encode(pairs))
        return [
            in_windows(tokenizer, first, most, windows, example.label)
            if windows is not None and len(first) > most - 2
            else join(tokenizer, first, None if example.text_pair is None else next(seconds), most, example.label)
            for example, first in zip(texts, firsts, strict=True)
        ]

    @abstractmethod
    def metrics(self) -> Metrics:
        """Return an empty collection of predictions, to be scored."""

    def predictions_of(self, logits: Float[Tensor, "rows classes"]) -> list[RowPrediction]:
        """Return the predictions of rows of logits, unless overridden, the most probable class."""
        probabilities = logits.float().softmax(-1)
        best = probabilities.argmax(-1).tolist()
        rows = zip(best, probabilities.tolist(), strict=True)
        return [RowPrediction((self.labels[id_],), tuple(row)) for id_, row in rows]

    def predictions(self, prediction: Prediction, batch: Batch) -> list[RowPrediction]:
        """Return the prediction for each example of `batch`, in its order: for whole texts, unless overridden."""
        assert prediction.sequence_logits is not None
        return self.predictions_of(prediction.sequence_logits)


def refuse_unknown_label(setting: str, label: str, labels: Sequence[str]) -> None:
    """Raise SettingError unless the `label` that a `setting` names is one of the `labels` of the data."""
    if label not in labels:
        wrong = f"{setting} names {label!r}, which is not a label of the data"
        remedy = f"Did you mean {near}?" if (near := closest(label, labels)) else ""
        raise SettingError(wrong, allowed=", ".join(labels), remedy=remedy)


@dataclass(frozen=True, slots=True)
class Windowing:
    """How long texts are read: in at most `most` windows, whose logits are combined as `pooling` says."""

    pooling: WindowPooling
    most: int

    @classmethod
    def of(cls, config: TextTaskConfig) -> Windowing | None:
        """Return the windowing in a task's settings; None if long texts are truncated."""
        if config.windows is Windows.none:
            return None
        return cls(cast("WindowPooling", config.windows.value), config.max_windows)

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
    paired = second is not None
    separators = tokenizer.pair_separators if paired else 1
    second, room = second or (), max_length - 1 - separators - paired
    kept = min(len(second), max(room // 2, room - len(first)))  # as `longest_first`, for single numbers
    a = [tokenizer.cls_id, *first[: room - kept], *[tokenizer.sep_id] * separators]
    b = [*second[:kept], tokenizer.sep_id] if paired else []
    return Encoded(a + b, [0] * len(a) + [1] * len(b), label, truncated=len(first) + len(second) > room)


def in_windows(
    tokenizer: Tokenizer, ids: Sequence[int], max_length: int, windows: Windowing, label: Target = None
) -> Encoded:
    """Return a text longer than `max_length` as [CLS] window [SEP], once for each window."""
    room = max_length - 2
    starts = windows.starts(len(ids), room)
    together = [id_ for start in starts for id_ in (tokenizer.cls_id, *ids[start : start + room], tokenizer.sep_id)]
    unread = any(later - start > room for start, later in pairwise(starts))
    return Encoded(together, [0] * len(together), label, truncated=unread, window_starts=starts)


def longest_first(first: np.ndarray, second: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how many tokens of both texts of pairs fit into `room` when the longer one is truncated first: [pairs].

    >>> longest_first(np.array([10, 10]), np.array([3, 9]), 8)
    (array([5, 4]), array([3, 4]))
    """
    kept_second = np.minimum(second, np.maximum(room // 2, room - first))
    return np.minimum(first, room - kept_second), kept_second
