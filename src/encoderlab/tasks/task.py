"""A task decides how an example becomes ids and right answers, and what a prediction means; nothing else ever mentions one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from encoderlab.batch import Batch, Encoded, HeadSizes, Prediction, TargetKind, WindowPooling
from encoderlab.data.examples import Example
from encoderlab.data.tokenizers.tokenizer import Tokenizer
from encoderlab.errors import SettingError, closest
from encoderlab.tasks.config import TextTaskConfig, Windows

if TYPE_CHECKING:
    from encoderlab.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model says of one example: a label with every class's probability, or one label for each word it read.

    Of a set of labels, `labels` are those that are given, and the probabilities those of all; a number has neither.
    `word_confidences` are the probabilities of the words' labels, `word_probabilities` those of all classes, [words, classes].
    """

    labels: tuple[str, ...]
    probabilities: tuple[float, ...] | None = None
    word_confidences: tuple[float, ...] | None = None
    number: float | None = None
    word_probabilities: np.ndarray | None = field(default=None, compare=False, repr=False)

    def in_words(self) -> str:
        """The labels with commas between them, or the number."""
        return ", ".join(self.labels) or "no label" if self.number is None else f"{self.number:.6g}"

    def as_dict(self, names: Sequence[str], target: TargetKind, top_k: int | None = None) -> dict[str, Any]:
        """An answer for a whole text as programs read it; `names` as for `by_label`.

        `predicted` is a label, a list of labels or a number, as the `target` is; beside labels stand the `probabilities` of all, or
        the `top` of them.
        """
        if target == "number":
            return {"predicted": self.number}
        predicted = self.labels[0] if target == "label" else list(self.labels)
        if top_k is None:
            return {"predicted": predicted, "probabilities": self.by_label(names)}
        assert self.probabilities is not None, "only an answer for a whole text has them"
        return {"predicted": predicted, "top": as_objects(likeliest(names, self.probabilities, top_k))}

    def by_label(self, names: Sequence[str]) -> dict[str, float]:
        """The probability of each class of an answer that has them; `names` are the classes in the order of their ids."""
        assert self.probabilities is not None, "only an answer for a whole text has them"
        return dict(zip(names, self.probabilities, strict=True))


@dataclass(frozen=True, slots=True)
class Windowing:
    """How long texts are read: in at most `most` windows, each sharing at least `overlap` of its tokens with the next.

    `pooling` says how the windows' logits become those of the text.
    """

    pooling: WindowPooling
    overlap: float
    most: int

    @classmethod
    def of(cls, config: TextTaskConfig) -> Windowing | None:
        """As a task's settings say; None where long texts are cut."""
        if config.windows is Windows.none:
            return None
        pooled: WindowPooling = "max" if config.windows is Windows.max else "mean"
        return cls(pooled, config.window_overlap, config.max_windows)

    def starts(self, n_tokens: int, room: int) -> tuple[int, ...]:
        """Where the windows of `room` tokens begin in a text of `n_tokens`, which are more: evenly spaced from end to end.

        >>> Windowing("mean", 0.25, 8).starts(100, 40)
        (0, 30, 60)
        """
        last, step = n_tokens - room, max(int(room * (1 - self.overlap)), 1)
        gaps = min(-(-last // step), self.most - 1)
        return tuple(round(place * last / gaps) for place in range(gaps + 1))


def likeliest(names: Sequence[str], probabilities: Sequence[float] | np.ndarray, k: int | None) -> list[tuple[str, float]]:
    """The `k` most probable classes (None: all), the most probable first; of equal ones the class that comes first."""
    order = sorted(range(len(names)), key=lambda label: -probabilities[label])
    return [(names[label], float(probabilities[label])) for label in order[:k]]


def as_objects(found: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
    """Labels with their probabilities as JSON holds them."""
    return [{"label": name, "probability": round(chance, 6)} for name, chance in found]


class Task(ABC):
    """What is asked, and how it is answered. `labels` are the names of the answers in the order of their ids.

    A subclass is made from its settings, the tokenizer, the labels of the examples and the length of the longest sequence in
    tokens. Raises SettingError if `max_length` is less than the `shortest` sequence that can hold an example.
    """

    heads: HeadSizes
    unit: float = 1.0  # what 1 in the logits of a number is in the user's units
    windows: Windowing | None = None  # how texts longer than `max_length` are read; None: they are cut

    def __init__(self, tokenizer: Tokenizer, labels: Sequence[str], max_length: int, score: str, *, shortest: int) -> None:
        if max_length < shortest:
            raise SettingError(
                f"model.max_length={max_length} leaves no room for a token beside the special ones",
                allowed=f"at least {shortest} for this task",
            )
        self.tokenizer, self.labels, self.max_length, self.score = tokenizer, list(labels), max_length, score

    @property
    def key(self) -> str:
        """Everything `encode` depends on, as text: the token store is kept under it."""
        windows = "" if self.windows is None else f" {self.windows}"
        return f"{type(self).__name__} {self.tokenizer.fingerprint} {self.max_length}{windows}"

    @property
    def limit(self) -> str:
        """How much of a text is read, as settings and in words."""
        tokens = f"model.max_length={self.max_length} tokens"
        return tokens if self.windows is None else f"task.max_windows={self.windows.most} windows of {tokens}"

    @abstractmethod
    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """The examples as ids with their right answers: deterministic, done once and kept. Raises DataError for the wrong kind."""

    @abstractmethod
    def metrics(self) -> Metrics:
        """An empty collection of answers, to be scored."""

    def answers_of(self, logits: Float[Tensor, "rows classes"]) -> list[Answer]:
        """What a row of logits says, of a whole sequence or of a token: the likeliest class, unless a task reads it otherwise."""
        probabilities = logits.float().softmax(-1)
        best = probabilities.argmax(-1).tolist()
        return [Answer((self.labels[i],), tuple(row)) for i, row in zip(best, probabilities.tolist(), strict=True)]

    @abstractmethod
    def answers(self, prediction: Prediction, batch: Batch) -> list[Answer]:
        """What `prediction` says of each example of `batch`, in the batch's order."""


def refuse_unknown_label(setting: str, label: str, labels: Sequence[str]) -> None:
    """Raise SettingError unless the `label` that a `setting` names is one of the `labels` of the data."""
    if label not in labels:
        near = closest(label, labels)
        raise SettingError(
            f"{setting} names {label!r}, which is not a label of the data",
            allowed=", ".join(labels),
            remedy=f"Did you mean {near}?" if near else "",
        )
