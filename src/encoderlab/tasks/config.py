"""The settings of each task: what the encoder predicts, and the score that judges it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Literal

from encoderlab.errors import SettingError
from encoderlab.settings import REQUIRED, check_settings, setting

BALANCED = "balanced"
TargetKind = Literal["label", "label_set", "number"]  # equal to `batch.TargetKind`, which would import PyTorch


class Windows(Enum):
    """How a text longer than `model.max_length` is read: truncated, or in windows with pooled logits."""

    none = "none"
    mean = "mean"
    max = "max"


class SecondSentence(Enum):
    """What to predict for a pair: whether the second text follows the first (BERT), or no pairs at all."""

    next = "next"
    none = "none"


class ClassificationScore(Enum):
    """Scores that can select the best checkpoint of a classification run and lead its report."""

    auto = "auto"  # decided by the frequencies of the labels: see `runs.task.resolve_labels`
    accuracy = "accuracy"
    f1_macro = "f1_macro"
    f1_weighted = "f1_weighted"
    f1 = "f1"  # of two classes
    matthews = "matthews"


class TaggingScore(Enum):
    """Scores that can select the best checkpoint of a tagging run and lead its report."""

    auto = "auto"  # entity_f1 for BIO or BIOES labels, otherwise token_accuracy
    entity_f1 = "entity_f1"
    token_accuracy = "token_accuracy"
    accuracy = "accuracy"
    f1_macro = "f1_macro"


class Decoding(Enum):
    """How a sentence is labelled."""

    auto = "auto"  # valid where labels are BIO or BIOES: on WNUT-17's validation split it adds 0.6 points of entity F1
    argmax = "argmax"  # word by word
    valid = "valid"  # as the most probable valid BIO or BIOES sequence


class MultilabelScore(Enum):
    """Scores that can select the best checkpoint of a multi-label run and lead its report."""

    f1_micro = "f1_micro"
    f1_macro = "f1_macro"
    subset_accuracy = "subset_accuracy"


class RegressionScore(Enum):
    """Scores that can select the best checkpoint of a regression run and lead its report."""

    pearson = "pearson"
    spearman = "spearman"
    mae = "mae"
    rmse = "rmse"


@dataclass
class TaskConfig:
    """What the encoder learns to predict."""

    group: ClassVar[str] = "task"
    target: ClassVar[TargetKind] = "label"
    length_factor: ClassVar[int] = 1  # how many times longer to train if the number of rows decides

    name: str = setting(REQUIRED, "The task's name; run folders are sorted by it.")

    def __post_init__(self) -> None:
        check_settings(self, self.group)
        if self.name in ("", ".", "..") or set(self.name) & set("/\\\0"):
            raise SettingError(f"task.name is {self.name!r}", allowed="a valid folder name, without / and \\")


def _check_numbers(by_label: Any, setting: str, allowed: str, fits: Callable[[float], bool]) -> None:
    """Raise SettingError unless a setting holds a number that `fits` for each label."""
    numbers = by_label.values() if isinstance(by_label, dict) else [None]
    if not all(isinstance(one, int | float) and not isinstance(one, bool) and fits(one) for one in numbers):
        raise SettingError(f"{setting} is {by_label}", allowed=allowed)


@dataclass
class LabelledTaskConfig(TaskConfig):
    """A task whose labels may have different weights in the loss."""

    class_weights: Any = setting(
        None,
        "Weight of each label in the loss: balanced (rare ones more), or your own, such as {fraud: 5}; others are 1.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.class_weights not in (None, BALANCED):
            allowed = f"{BALANCED}, or a weight above 0 for each label, such as {{fraud: 5}}"
            _check_numbers(self.class_weights, "task.class_weights", allowed, lambda weight: 0 < weight < math.inf)

    @property
    def known_class_weights(self) -> str | dict[str, float] | None:
        """Return the class weights by label; YAML reads some labels as numbers."""
        weights = self.class_weights
        return {str(label): float(one) for label, one in weights.items()} if isinstance(weights, dict) else weights


@dataclass
class TextTaskConfig(TaskConfig):
    """What to predict for a whole text, or for a pair of texts."""

    windows: Windows = setting(
        Windows.none,
        "How texts longer than model.max_length are read: none (truncated), or in overlapping windows with logits "
        "averaged (mean) or reduced to their maximum (max).",
    )
    max_windows: int = setting(8, "Most windows per text; those of a longer text are evenly spaced.", least=2)


@dataclass
class ClassificationConfig(TextTaskConfig, LabelledTaskConfig):
    """One label for a whole text, or for a pair of texts."""

    score: ClassificationScore = setting(
        ClassificationScore.auto,
        "Score that selects the best checkpoint and leads the report; auto: accuracy or, if one label has more than "
        "90% of the training rows, f1 (f1_macro of more than two labels) with balanced class_weights and threshold=f1.",
    )
    positive_label: str | None = setting(
        None, "Of two labels, the positive one for F1 and ROC AUC; null: the rarer one in the training rows."
    )
    threshold: Any = setting(
        None,
        "Probability from which the positive label is predicted, or how to fit it on validation: f1, or precision:0.9.",
    )


@dataclass
class MultilabelConfig(TextTaskConfig, LabelledTaskConfig):
    """Any number of labels for a whole text, or for a pair of texts."""

    target: ClassVar[TargetKind] = "label_set"
    length_factor: ClassVar[int] = 4  # most labels are rare, and rows say little of them; BERT read GoEmotions 4 times

    score: MultilabelScore = setting(
        MultilabelScore.f1_micro, "Score that selects the best checkpoint and leads the report."
    )
    thresholds: Any = setting(
        None, "Your own thresholds, such as {joy: 0.3}; others are fitted, or 0.5 without validation."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.thresholds is not None:
            allowed = "a probability for each label, such as {joy: 0.3}"
            _check_numbers(self.thresholds, "task.thresholds", allowed, lambda threshold: 0 <= threshold <= 1)

    @property
    def known_thresholds(self) -> dict[str, float]:
        """Return `thresholds` by label; YAML reads some labels as numbers."""
        return {str(label): float(threshold) for label, threshold in (self.thresholds or {}).items()}


@dataclass
class RegressionConfig(TextTaskConfig):
    """A number for a whole text, or for a pair of texts."""

    target: ClassVar[TargetKind] = "number"

    score: RegressionScore = setting(
        RegressionScore.pearson, "Score that selects the best checkpoint and leads the report."
    )
    mean: float | None = setting(
        None, "Number subtracted from every target before training; null: the mean of the training rows."
    )
    deviation: float | None = setting(
        None, "Number that every target is then divided by; null: the standard deviation of the training rows.", above=0
    )


@dataclass
class TaggingConfig(LabelledTaskConfig):
    """One label for each word of a sequence."""

    score: TaggingScore = setting(
        TaggingScore.auto,
        "Score that selects the best checkpoint and leads the report; auto: entity_f1 for BIO or BIOES labels, "
        "else token_accuracy.",
    )
    decoding: Decoding = setting(
        Decoding.auto,
        "argmax (word by word) or valid (the most probable BIO or BIOES sequence); auto: valid if possible.",
    )
    special_tokens: bool = setting(True, "Put [CLS] before the words and [SEP] after them.")

    def main_score(self, labels: Sequence[str]) -> str:
        """Return the name of the score that `score` selects. Raises SettingError if these `labels` do not have it."""
        from encoderlab.metrics.entities import entity_labels  # imports PyTorch

        has_entities = entity_labels(labels) is not None
        if self.score is TaggingScore.entity_f1 and not has_entities:
            wrong = "task.score=entity_f1 needs BIO or BIOES labels, such as B-person, I-person and O"
            raise SettingError(wrong, remedy="Set task.score=token_accuracy")
        if self.score is TaggingScore.auto:
            return TaggingScore.entity_f1.value if has_entities else TaggingScore.token_accuracy.value
        return self.score.value


@dataclass
class DocumentTaskConfig(TaskConfig):
    """A task learned from documents, without labels."""

    min_characters: int = setting(50, "Shorter paragraphs are skipped.", least=0)
    min_sentences: int = setting(3, "Paragraphs of fewer sentences are skipped.", least=1)
    language: str | None = setting(
        None, "Language of the sentence splitter, such as german (NLTK's punkt_tab); null: the dataset's."
    )
    row_length: int | None = setting(
        None, "Most tokens in a row, with special tokens; null: model.max_length.", least=8, most=1048576
    )


@dataclass
class TeacherVectorsConfig(DocumentTaskConfig):
    """The vectors of a teacher for texts and their tokens, learned on documents (encoderlab distill)."""

    teacher_width: int | None = setting(None, "Width of the teacher's vectors; set by the teacher.", brought=True)


@dataclass
class PretrainingConfig(DocumentTaskConfig):
    """Masked tokens, and whether one text follows another."""

    second_sentence: SecondSentence = setting(
        SecondSentence.next, "next (does it follow?) or none (masked tokens only)."
    )
    mlm_probability: float = setting(0.15, "Share of the ordinary tokens to predict.", above=0, below=1)
    mask_replace_prob: float = setting(
        0.8, "Share of the predicted tokens that the mask token replaces.", least=0, most=1
    )
    random_replace_prob: float = setting(
        0.1, "Share of the predicted tokens that a random token replaces; the rest stay unchanged.", least=0, most=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mask_replace_prob + self.random_replace_prob > 1:
            raise SettingError("task.mask_replace_prob plus task.random_replace_prob is more than 1")
