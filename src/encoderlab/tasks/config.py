"""The settings of each task: what is asked of the encoder, and by which score the answers are judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from encoderlab.settings import REQUIRED, check_settings, setting

if TYPE_CHECKING:
    from encoderlab.data.tokenizer import Tokenizer
    from encoderlab.tasks.task import Task


class ClassificationScore(Enum):
    """Figures that can choose the best checkpoint of a classification run."""

    accuracy = "accuracy"
    f1_macro = "f1_macro"
    f1_weighted = "f1_weighted"


class TaggingScore(Enum):
    """Figures that can choose the best checkpoint of a tagging run."""

    token_accuracy = "token_accuracy"
    accuracy = "accuracy"
    f1_macro = "f1_macro"


@dataclass
class TaskConfig(ABC):
    """What is asked of the encoder."""

    group: ClassVar[str] = "task"

    name: str = setting(REQUIRED, "The task's name; run folders are sorted by it.")

    def __post_init__(self) -> None:
        check_settings(self, self.group)

    @abstractmethod
    def build(self, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> Task:
        """The task over examples whose label ids stand for `labels`, in sequences of at most `max_length` tokens."""


@dataclass
class ClassificationConfig(TaskConfig):
    """One label for a whole text, or for a pair of texts."""

    score: ClassificationScore = setting(ClassificationScore.accuracy, "Figure that chooses the best checkpoint.")

    def build(self, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> Task:
        """See `TaskConfig.build`."""
        from encoderlab.tasks.classification import Classification

        return Classification(tokenizer, labels, max_length, self.score.value)


@dataclass
class TaggingConfig(TaskConfig):
    """One label for each word of a sequence."""

    score: TaggingScore = setting(TaggingScore.token_accuracy, "Figure that chooses the best checkpoint.")
    special_tokens: bool = setting(True, "Put [CLS] in front of the words and [SEP] behind them.")

    def build(self, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> Task:
        """See `TaskConfig.build`."""
        from encoderlab.tasks.tagging import Tagging

        return Tagging(tokenizer, labels, max_length, self.score.value, special_tokens=self.special_tokens)
