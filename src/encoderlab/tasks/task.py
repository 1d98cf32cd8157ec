"""A task decides how an example becomes ids and right answers, and what a prediction means; nothing else ever mentions one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from encoderlab.batch import Batch, Encoded, HeadSizes, Prediction, TargetKind
from encoderlab.data.examples import Example
from encoderlab.data.tokenizers.tokenizer import Tokenizer
from encoderlab.errors import SettingError

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

    def as_dict(self, names: Sequence[str], target: TargetKind) -> dict[str, Any]:
        """An answer for a whole text as programs read it; `names` as for `by_label`.

        `predicted` is a label, a list of labels or a number, as the `target` is; beside labels stand the `probabilities` of all.
        """
        if target == "number":
            return {"predicted": self.number}
        predicted = self.labels[0] if target == "label" else list(self.labels)
        return {"predicted": predicted, "probabilities": self.by_label(names)}

    def by_label(self, names: Sequence[str]) -> dict[str, float]:
        """The probability of each class of an answer that has them; `names` are the classes in the order of their ids."""
        assert self.probabilities is not None, "only an answer for a whole text has them"
        return dict(zip(names, self.probabilities, strict=True))


class Task(ABC):
    """What is asked, and how it is answered. `labels` are the names of the answers in the order of their ids.

    A subclass is made from its settings, the tokenizer, the labels of the examples and the length of the longest sequence in
    tokens. Raises SettingError where `max_length` is less than the `shortest` sequence that can hold an example.
    """

    heads: HeadSizes
    unit: float = 1.0  # what 1 in the logits of a number is in the user's units

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
        return f"{type(self).__name__} {self.tokenizer.fingerprint} {self.max_length}"

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
