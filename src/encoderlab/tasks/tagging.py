"""Tagging: one label for each word of a sequence, such as its part of speech or the entity that it belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from encoderlab.errors import SettingError
from encoderlab.network.config import HeadSizes, TargetKind
from encoderlab.settings import setting
from encoderlab.tasks.classification import class_weights
from encoderlab.tasks.task import (
    NO_ABSTENTION,
    Abstention,
    LabelledTaskConfig,
    RowPrediction,
    Task,
    check_score,
    part_targets,
    score_name,
)

if TYPE_CHECKING:
    from torch import Tensor

    from encoderlab.batch import Batch, Prediction
    from encoderlab.data.examples import Example
    from encoderlab.data.survey import SplitSurvey
    from encoderlab.data.tokenizers import Tokenizer
    from encoderlab.metrics.entities import TaggingMetrics
    from encoderlab.tasks.rows import ExampleRows, Targets
    from encoderlab.training.loss import LabelWeights

UNREAD_WORD = "?"  # written for a word that did not fit into the model
OPEN_WORD = "_"  # written for a word whose label is not probable enough


class TaggingScore(StrEnum):
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


@dataclass
class TaggingConfig(LabelledTaskConfig):
    """One label for each word of a sequence."""

    of_words: ClassVar[bool] = True
    target: ClassVar[TargetKind] = "words"

    score: str = setting(
        "auto",
        "Score that selects the best checkpoint and leads the report: entity_f1, token_accuracy, accuracy, f1_macro, "
        "or a function of your own of labels and predictions (lists of words' labels), module:function; auto: "
        "entity_f1 for BIO or BIOES labels, else token_accuracy.",
    )
    decoding: Decoding = setting(
        Decoding.auto,
        "argmax (word by word) or valid (the most probable BIO or BIOES sequence); auto: valid if possible.",
    )
    special_tokens: bool = setting(True, "Put [CLS] before the words and [SEP] after them.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_score(self.score, TaggingScore)

    @property
    def adds_special_tokens(self) -> bool:
        return self.special_tokens

    def build(self, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> Tagging:
        return Tagging(self, tokenizer, labels, max_length)

    def main_score_of(self, labels: Sequence[str]) -> str:
        """Return the name of the score that `score` selects. Raises SettingError if these `labels` do not have it."""
        from encoderlab.metrics.entities import entity_labels

        has_entities = entity_labels(labels) is not None
        if self.score == TaggingScore.entity_f1 and not has_entities:
            problem = "task.score=entity_f1 needs BIO or BIOES labels, such as B-person, I-person and O"
            raise SettingError(problem, remedy="Set task.score=token_accuracy")
        if self.score == TaggingScore.auto:
            return TaggingScore.entity_f1.value if has_entities else TaggingScore.token_accuracy.value
        return score_name(self.score)


class Tagging(Task):
    """Predicts a label for each word; words beyond `max_length` tokens have no target, and the run counts such rows."""

    config: TaggingConfig

    def __init__(self, config: TaggingConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> None:
        from encoderlab.metrics.entities import ValidDecoder, entity_labels

        self.shortest = 3 if config.special_tokens else 1
        super().__init__(config, tokenizer, labels, max_length, config.main_score_of(labels))
        self.heads = HeadSizes(token_classes=len(self.labels))
        entities = None if config.decoding is Decoding.argmax else entity_labels(self.labels)
        if entities is None and config.decoding is Decoding.valid:
            problem = "task.decoding=valid needs BIO or BIOES labels, such as B-person, I-person and O"
            raise SettingError(problem, remedy="Set task.decoding=argmax")
        self.decoder = None if entities is None else ValidDecoder(entities)

    def targets(self, targets: Iterable[Any]) -> Targets:
        return part_targets(targets)

    def reading_note(self, name: str, rows: ExampleRows) -> str:
        """Return a sentence if words of the split `name` are not read, which no score counts; otherwise ""."""
        read = super().reading_note(name, rows)
        if not read or rows.targets is None or rows.targets.of_parts is None:
            return read
        n_words = int(rows.targets.of_parts.lengths().sum())
        n_unread = n_words - int(rows.n_targets().sum())
        return f"{read}: {n_unread:,} of {n_words:,} words were not read, and the scores leave them out"

    def label_weights(self, train: SplitSurvey) -> LabelWeights | None:
        return class_weights(self.config, self.labels, train)

    def metrics(self) -> TaggingMetrics:
        from encoderlab.metrics.entities import TaggingMetrics

        return TaggingMetrics(self.labels, self.main_score, self._decoded, own=self.own_score)

    def _decoded(self, logits: Tensor, batch: Batch) -> Tensor:
        """Return the id of the label of each target word: [targets, labels] -> int64 [targets]."""
        if self.decoder is None:
            return logits.argmax(-1)
        n_rows, longest = batch.input_ids.shape
        return self.decoder.decode(logits, batch.target_positions // longest, n_rows, longest)

    @property
    def exported_decoding(self) -> dict[str, Any]:
        """Return what the tokenizer reads before a word, whether the labels mark entities, and which sequences of
        labels are valid, if only valid ones are predicted.
        """
        from encoderlab.metrics.entities import entity_labels

        fields = {"before_word": self.tokenizer.before_word, "entities": entity_labels(self.labels) is not None}
        return fields if self.decoder is None else fields | {"valid": self.decoder.flags()}

    def predictions(self, prediction: Prediction, batch: Batch) -> list[RowPrediction]:
        """Return the labels of each row's words; truncated words have none, which a caller that knows them fills in."""
        assert prediction.token_logits is not None
        logits = prediction.token_logits.float()
        ids = self._decoded(logits, batch).cpu().numpy()
        chances = logits.softmax(-1).cpu().numpy()
        chances = chances[np.arange(len(ids)), ids]
        rows = (batch.target_positions // batch.input_ids.shape[1]).cpu().numpy()
        starts = np.searchsorted(rows, np.arange(1, len(batch)))
        predictions = []
        for row_ids, confidences in zip(np.split(ids, starts), np.split(chances, starts), strict=True):
            labels = tuple(self.labels[id_] for id_ in row_ids)
            predictions.append(RowPrediction(labels, None, tuple(confidences.tolist())))
        return predictions

    def plain(self, prediction: RowPrediction, abstention: Abstention = NO_ABSTENTION) -> dict[str, Any]:
        return {"predicted": list(prediction.labels)}

    def cells(self, prediction: RowPrediction, example: Example, abstention: Abstention) -> dict[str, Any]:
        """Return the labels of all words, separated by blanks, and the probability of each that was read."""
        chances = [float(f"{chance:.6g}") for chance in prediction.word_confidences or ()]
        words = []
        for label, chance in zip(prediction.labels, chances, strict=True):
            words.append(label if chance >= abstention.min_probability else OPEN_WORD)
        n_words = len(getattr(example, "words", words))
        words += [UNREAD_WORD] * (n_words - len(words))
        return {"predicted": " ".join(words), "probability": chances}
