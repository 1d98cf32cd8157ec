"""A task decides how an example becomes ids and targets, and what a prediction means; nothing else ever
mentions one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from encoderlab.batch import Batch, Encoded, HeadSizes, Prediction, TargetKind
from encoderlab.data.examples import Example
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import SettingError, closest
from encoderlab.tasks.sequences import Windowing

if TYPE_CHECKING:
    from encoderlab.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Answer:
    """The prediction for one example: a label with every class's probability, or one label for each word that was read.

    For a set of labels, `labels` are those predicted, with the probabilities of all; a number has neither.
    `word_confidences` are the probabilities of the words' labels, `word_probabilities` those of all classes, [words,
    classes].
    """

    labels: tuple[str, ...]
    probabilities: tuple[float, ...] | None = None
    word_confidences: tuple[float, ...] | None = None
    number: float | None = None
    word_probabilities: np.ndarray | None = field(default=None, compare=False, repr=False)

    def in_words(self) -> str:
        """Return the labels separated by commas, or the number."""
        return ", ".join(self.labels) or "no label" if self.number is None else f"{self.number:.6g}"

    def as_dict(self, names: Sequence[str], target: TargetKind, top_k: int | None = None) -> dict[str, Any]:
        """Return the prediction for a whole text as programs read it; `names` as for `by_label`.

        `predicted` is a label, a list of labels or a number, as the `target` is; labels come with the `probabilities`
        of all, or the `top` of them.
        """
        if target == "number":
            return {"predicted": self.number}
        predicted = self.labels[0] if target == "label" else list(self.labels)
        if top_k is None:
            return {"predicted": predicted, "probabilities": self.by_label(names)}
        assert self.probabilities is not None, "only a prediction for a whole text has them"
        return {"predicted": predicted, "top": as_objects(likeliest(names, self.probabilities, top_k))}

    def by_label(self, names: Sequence[str]) -> dict[str, float]:
        """Return the probability of each class; `names` are the classes in the order of their ids."""
        assert self.probabilities is not None, "only a prediction for a whole text has them"
        return dict(zip(names, self.probabilities, strict=True))


def likeliest(
    names: Sequence[str], probabilities: Sequence[float] | np.ndarray, k: int | None
) -> list[tuple[str, float]]:
    """Return the `k` most probable classes (None: all), most probable first; ties go to the class that comes first."""
    order = sorted(range(len(names)), key=lambda label: -probabilities[label])
    return [(names[label], float(probabilities[label])) for label in order[:k]]


def as_objects(found: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
    """Return labels with their probabilities as JSON objects."""
    return [{"label": name, "probability": round(chance, 6)} for name, chance in found]


class Task(ABC):
    """What to predict, and how. `labels` are the names of the classes in the order of their ids.

    A subclass is made from its settings, the tokenizer, the labels of the examples and the length of the longest
    sequence in tokens. Raises SettingError if `max_length` is less than the `shortest` sequence that can hold an
    example.
    """

    heads: HeadSizes
    unit: float = 1.0  # the user's units per 1 in the logits of a number
    windows: Windowing | None = None  # how texts longer than `max_length` are read; None: truncated

    def __init__(
        self, tokenizer: Tokenizer, labels: Sequence[str], max_length: int, score: str, *, shortest: int
    ) -> None:
        if max_length < shortest:
            raise SettingError(
                f"model.max_length={max_length} leaves no room for a token besides the special ones",
                allowed=f"at least {shortest} for this task",
            )
        self.tokenizer, self.labels, self.max_length, self.score = tokenizer, list(labels), max_length, score

    @property
    def key(self) -> str:
        """Return everything `encode` depends on, as text, for the token store's cache key."""
        windows = "" if self.windows is None else f" {self.windows}"
        return f"{type(self).__name__} {self.tokenizer.fingerprint} {self.max_length}{windows}"

    @property
    def limit(self) -> str:
        """Return how much of a text is read, as settings and in words."""
        tokens = f"model.max_length={self.max_length} tokens"
        return tokens if self.windows is None else f"task.max_windows={self.windows.most} windows of {tokens}"

    @abstractmethod
    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """Return the examples as ids with their targets; done once and cached. Raises DataError for the wrong kind."""

    @abstractmethod
    def metrics(self) -> Metrics:
        """Return an empty collection of predictions, to be scored."""

    def answers_of(self, logits: Float[Tensor, "rows classes"]) -> list[Answer]:
        """Return the predictions of rows of logits, for sequences or tokens: the most probable class, unless
        overridden.
        """
        probabilities = logits.float().softmax(-1)
        best = probabilities.argmax(-1).tolist()
        return [Answer((self.labels[i],), tuple(row)) for i, row in zip(best, probabilities.tolist(), strict=True)]

    def answers(self, prediction: Prediction, batch: Batch) -> list[Answer]:
        """Return the prediction for each example of `batch`, in the batch's order: for whole texts, unless
        overridden.
        """
        assert prediction.sequence_logits is not None
        return self.answers_of(prediction.sequence_logits)


def refuse_unknown_label(setting: str, label: str, labels: Sequence[str]) -> None:
    """Raise SettingError unless the `label` that a `setting` names is one of the `labels` of the data."""
    if label not in labels:
        near = closest(label, labels)
        raise SettingError(
            f"{setting} names {label!r}, which is not a label of the data",
            allowed=", ".join(labels),
            remedy=f"Did you mean {near}?" if near else "",
        )
