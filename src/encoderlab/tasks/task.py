"""A task decides how an example becomes ids and right answers, and what a prediction means; nothing else ever mentions one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from encoderlab.batch import Batch, Encoded, HeadSizes, Prediction
from encoderlab.data.examples import Example
from encoderlab.data.tokenizers.tokenizer import Tokenizer
from encoderlab.errors import SettingError

if TYPE_CHECKING:
    from encoderlab.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model says of one example: a label with every class's probability, or one label for each word it read.

    `word_confidences` are the probabilities of the words' labels.
    """

    labels: tuple[str, ...]
    probabilities: tuple[float, ...] | None = None
    word_confidences: tuple[float, ...] | None = None

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

    @abstractmethod
    def answers(self, prediction: Prediction, batch: Batch) -> list[Answer]:
        """What `prediction` says of each example of `batch`, in the batch's order."""
