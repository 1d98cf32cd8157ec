"""The settings of each task: what is asked of the encoder, and by which score the answers are judged."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Literal

from encoderlab.entities.scheme import entity_labels
from encoderlab.errors import SettingError
from encoderlab.settings import REQUIRED, check_settings, setting
from encoderlab.tasks.choices import (
    ClassificationScore,
    Decoding,
    MultilabelScore,
    PretrainingScore,
    RegressionScore,
    TaggingScore,
    TeacherScore,
)

BALANCED = "balanced"
Target = Literal["label", "label_set", "number"]  # `batch.TargetKind`, which would bring PyTorch along


class FittedThresholds(Enum):
    """Which thresholds are fitted on validation: one for each label, or one for all."""

    per_label = "per_label"
    shared = "shared"


class Windows(Enum):
    """How a text that is longer than the model reads is read: cut, or in windows whose logits are pooled."""

    none = "none"
    mean = "mean"
    max = "max"


class SecondSentence(Enum):
    """What is asked about a pair: does the second follow (BERT), are the two in order (ALBERT), or nothing and there is no pair."""

    next = "next"
    swapped = "swapped"
    none = "none"


def requested_precision(threshold: Any) -> float | None:
    """The precision that a threshold such as precision:0.9 is chosen for; None where it says something else."""
    asked = re.fullmatch(r"precision:(\d*\.?\d+)", threshold) if isinstance(threshold, str) else None
    return float(asked[1]) if asked and 0 < float(asked[1]) <= 1 else None


@dataclass
class TaskConfig:
    """What is asked of the encoder."""

    group: ClassVar[str] = "task"
    target: ClassVar[Target] = "label"
    passes: ClassVar[int] = 1  # how many times as long it is learned, where the number of rows decides

    name: str = setting(REQUIRED, "The task's name; run folders are sorted by it.")

    def __post_init__(self) -> None:
        check_settings(self, self.group)
        if self.name in ("", ".", "..") or set(self.name) & set("/\\\0"):
            raise SettingError(f"task.name is {self.name!r}", allowed="a name that a folder can have, without / and \\")


@dataclass
class LabelledTaskConfig(TaskConfig):
    """A task whose labels may count differently in the loss."""

    class_weights: Any = setting(
        None, "What each label counts for in the loss: balanced (rare ones more), or your own, as {fraud: 5}; the others are 1."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.class_weights
        if given not in (None, BALANCED) and not isinstance(given, dict):
            raise SettingError(f"task.class_weights is {given}", allowed=f"{BALANCED}, or a weight for each label, as {{fraud: 5}}")
        for label, weight in (given if isinstance(given, dict) else {}).items():
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
                raise SettingError(f"task.class_weights gives {label} {weight}", allowed="a number above 0")

    @property
    def known_class_weights(self) -> str | dict[str, float] | None:
        """The same, by label; a label that is a number is one in YAML."""
        given = self.class_weights
        return {str(label): float(weight) for label, weight in given.items()} if isinstance(given, dict) else given


@dataclass
class TextTaskConfig(TaskConfig):
    """What is asked about a whole text, or about a pair of texts."""

    windows: Windows = setting(
        Windows.none,
        "How texts longer than model.max_length are read: none (cut), or in overlapping windows whose logits are averaged (mean) "
        "or of which the largest count (max).",
    )
    window_overlap: float = setting(0.25, "Share of a window that it has in common with the next, at least.", least=0, below=1)
    max_windows: int = setting(8, "Windows of a text at most; those of a longer text are evenly spaced.", least=2)


@dataclass
class ClassificationConfig(TextTaskConfig, LabelledTaskConfig):
    """One label for a whole text, or for a pair of texts."""

    score: ClassificationScore = setting(
        ClassificationScore.accuracy,
        "Figure that chooses the best checkpoint and that the report puts first; f1 is for two labels.",
    )
    positive_label: str | None = setting(
        None, "Of two labels, the one that F1 and ROC AUC are about; null: the rarer one in the training rows."
    )
    threshold: Any = setting(
        None,
        "Probability from which the positive label is given, or what it is chosen for on validation: f1, or precision:0.9.",
    )
    label_smoothing: float = setting(0.0, "Share of each label that is spread over all labels in the loss.", least=0, below=1)


@dataclass
class MultilabelConfig(TextTaskConfig, LabelledTaskConfig):
    """Any number of labels for a whole text, or for a pair of texts."""

    target: ClassVar[Target] = "label_set"
    passes: ClassVar[int] = 4  # most labels are rare, and each row says little of them; BERT read GoEmotions four times

    score: MultilabelScore = setting(
        MultilabelScore.f1_micro, "Figure that chooses the best checkpoint and that the report puts first."
    )
    fit_thresholds: FittedThresholds = setting(
        FittedThresholds.per_label,
        "The probability from which a label is given, fitted on validation: per_label or shared (one for all labels).",
    )
    thresholds: Any = setting(
        None,
        "Thresholds of your own, as {joy: 0.3} or {joy: 'precision:0.9'}; the others are fitted, or 0.5 without validation.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.thresholds, dict | None):
            raise SettingError(f"task.thresholds is {self.thresholds}", allowed="a probability for each label, as {joy: 0.3}")
        for label, threshold in (self.thresholds or {}).items():
            if requested_precision(threshold) is None and (not isinstance(threshold, int | float) or not 0 <= threshold <= 1):
                raise SettingError(f"task.thresholds gives {label} {threshold}", allowed="a probability, or precision:0.9")

    @property
    def known_thresholds(self) -> dict[str, float]:
        """Those of `thresholds` that are numbers, by label; a label that is a number is one in YAML."""
        return {str(label): float(one) for label, one in (self.thresholds or {}).items() if not isinstance(one, str)}

    @property
    def requested_precisions(self) -> dict[str, float]:
        """The precisions that the others of `thresholds` are chosen for."""
        return {str(label): asked for label, one in (self.thresholds or {}).items() if (asked := requested_precision(one))}


@dataclass
class RegressionConfig(TextTaskConfig):
    """A number for a whole text, or for a pair of texts."""

    target: ClassVar[Target] = "number"

    score: RegressionScore = setting(
        RegressionScore.pearson, "Figure that chooses the best checkpoint and that the report puts first."
    )
    mean: float | None = setting(None, "What is subtracted from every number before training; null: the mean of the training rows.")
    deviation: float | None = setting(
        None, "What every number is then divided by; null: the standard deviation of the training rows.", above=0
    )


@dataclass
class TaggingConfig(LabelledTaskConfig):
    """One label for each word of a sequence."""

    score: TaggingScore = setting(
        TaggingScore.auto,
        "Figure that chooses the best checkpoint and that the report puts first; auto: entity_f1 for BIO or BIOES labels, "
        "else token_accuracy.",
    )
    decoding: Decoding = setting(
        Decoding.auto,
        "How labels are chosen: argmax (word by word), valid (the likeliest valid BIO or BIOES sequence); auto: valid if possible.",
    )
    label_smoothing: float = setting(0.0, "Share of each label that is spread over all labels in the loss.", least=0, below=1)
    special_tokens: bool = setting(True, "Put [CLS] in front of the words and [SEP] behind them.")

    def figure(self, labels: Sequence[str]) -> str:
        """The name of the figure that `score` means. Raises SettingError if these `labels` do not have it."""
        has_entities = entity_labels(labels) is not None
        if self.score is TaggingScore.entity_f1 and not has_entities:
            raise SettingError(
                "task.score=entity_f1 needs BIO or BIOES labels, such as B-person, I-person and O",
                remedy="Set task.score=token_accuracy",
            )
        if self.score is TaggingScore.auto:
            return TaggingScore.entity_f1.value if has_entities else TaggingScore.token_accuracy.value
        return self.score.value


@dataclass
class DocumentTaskConfig(TaskConfig):
    """What is learned from documents, without labels."""

    min_characters: int = setting(50, "Shorter paragraphs are left out.", least=0)
    min_sentences: int = setting(3, "Paragraphs of fewer sentences are left out.", least=1)
    language: str | None = setting(
        None, "Language of the sentence splitter, such as german (NLTK's punkt_tab); null: the dataset's."
    )
    row_length: int | None = setting(
        None, "Tokens of a row at most, special ones included; null: model.max_length.", least=8, most=1048576
    )

    @property
    def paired(self) -> SecondSentence:
        """How two texts make a row, or that one does."""
        return SecondSentence.none


@dataclass
class TeacherVectorsConfig(DocumentTaskConfig):
    """The vectors that a teacher gives to texts and to their tokens, learned on documents (encoderlab distill)."""

    token_weight: float = setting(1.0, "What the cosine distance of the tokens' vectors counts for in the loss.", least=0)
    sequence_weight: float = setting(1.0, "What the cosine distance of the texts' mean vectors counts for in the loss.", least=0)
    teacher_width: int | None = setting(None, "Width of the teacher's vectors; comes with the teacher.", brought=True)
    score: TeacherScore = setting(TeacherScore.sequence_cosine, "Figure that chooses the best checkpoint, with training.keep=best.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.token_weight and not self.sequence_weight:
            raise SettingError(
                "task.token_weight and task.sequence_weight are both 0: there is nothing to learn",
                allowed="at least one above 0",
            )


@dataclass
class PretrainingConfig(DocumentTaskConfig):
    """Hidden tokens, and whether one text follows another."""

    second_sentence: SecondSentence = setting(
        SecondSentence.next, "next (does it follow?), swapped (are the two in order?), none (masked tokens alone)."
    )
    mlm_probability: float = setting(0.15, "Share of the ordinary tokens that are asked for.", above=0, below=1)
    mask_replace_prob: float = setting(0.8, "Share of the asked tokens that the mask token hides.", least=0, most=1)
    random_replace_prob: float = setting(
        0.1, "Share of the asked tokens that a random one replaces; the rest stay as they are.", least=0, most=1
    )
    whole_words: bool = setting(False, "Ask for all pieces of a word together.")
    score: PretrainingScore = setting(
        PretrainingScore.mlm_accuracy, "Figure that chooses the best checkpoint, with training.keep=best."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mask_replace_prob + self.random_replace_prob > 1:
            raise SettingError(
                f"task.mask_replace_prob={self.mask_replace_prob:g} plus "
                f"task.random_replace_prob={self.random_replace_prob:g} is more than 1",
                allowed="a sum of at most 1",
            )
        if self.second_sentence is SecondSentence.none and self.score is PretrainingScore.nsp_accuracy:
            raise SettingError("task.score=nsp_accuracy needs pairs", remedy="Set task.score=mlm_accuracy")

    @property
    def paired(self) -> SecondSentence:
        """See `DocumentTaskConfig.paired`."""
        return self.second_sentence
