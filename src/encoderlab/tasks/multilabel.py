"""Multi-label classification: any number of labels for a whole text, or for a pair of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from encoderlab.network.config import HeadSizes, TargetKind
from encoderlab.settings import setting
from encoderlab.tasks.classification import weights_by_label
from encoderlab.tasks.task import (
    NO_ABSTENTION,
    Abstention,
    LabelledTaskConfig,
    RowPrediction,
    Task,
    TextTaskConfig,
    check_numbers,
    check_score,
    part_targets,
    refuse_unknown_label,
    rounded_chances,
    score_name,
)

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from encoderlab.data.examples import Example
    from encoderlab.data.survey import SplitSurvey
    from encoderlab.data.tokenizers import Tokenizer
    from encoderlab.metrics.scores import SplitScores
    from encoderlab.metrics.texts import LabelSetMetrics
    from encoderlab.network.heads import EncoderWithHeads
    from encoderlab.tasks.rows import Targets
    from encoderlab.training.loss import LabelWeights


class MultilabelScore(StrEnum):
    """Scores that can select the best checkpoint of a multi-label run and lead its report."""

    f1_micro = "f1_micro"
    f1_macro = "f1_macro"
    subset_accuracy = "subset_accuracy"


@dataclass
class MultilabelConfig(TextTaskConfig, LabelledTaskConfig):
    """Any number of labels for a whole text, or for a pair of texts."""

    target: ClassVar[TargetKind] = "label_set"
    length_factor: ClassVar[int] = 4  # most labels are rare, and rows say little of them; BERT read GoEmotions 4 times

    score: str = setting(
        "f1_micro",
        "Score that selects the best checkpoint and leads the report: f1_micro, f1_macro, subset_accuracy, or a "
        "function of your own, module:function, of labels and predictions: true or false for each row and label.",
    )
    thresholds: Any = setting(
        None, "Your own thresholds, such as {joy: 0.3}; others are fitted, or 0.5 without validation."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_score(self.score, MultilabelScore)
        if self.thresholds is not None:
            allowed = "a probability for each label, such as {joy: 0.3}"
            check_numbers(self.thresholds, "task.thresholds", allowed, above=-5e-324, most=1)

    def build(self, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> Multilabel:
        return Multilabel(self, tokenizer, labels, max_length)

    def main_score_of(self, labels: Sequence[str]) -> str:
        return score_name(self.score)

    @property
    def fits_thresholds(self) -> bool:
        return True

    @property
    def exported_thresholds(self) -> dict[str, Any]:
        return {"thresholds": self.thresholds} if self.thresholds else {}

    @property
    def known_thresholds(self) -> dict[str, float]:
        """Return `thresholds` by label; YAML reads some labels as numbers."""
        return {str(label): float(threshold) for label, threshold in (self.thresholds or {}).items()}


class Multilabel(Task):
    """Predicts for each label whether a sequence has it: yes from the label's threshold.

    `thresholds` are the known ones by label; scoring fits the others, and predictions use 0.5 for them.
    """

    config: MultilabelConfig

    def __init__(self, config: MultilabelConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> None:
        super().__init__(config, tokenizer, labels, max_length, config.main_score_of(labels))
        self.thresholds = config.known_thresholds
        for label in self.thresholds:
            refuse_unknown_label("task.thresholds", label, self.labels)
        self.heads = HeadSizes(
            sequence_classes=len(self.labels) or 1,
            sequence_target="label_set",
            window_pooling=None if self.windows is None else self.windows.pooling,
        )

    def targets(self, targets: Iterable[Any]) -> Targets:
        return part_targets(targets, n_labels=len(self.labels))

    def label_weights(self, train: SplitSurvey) -> LabelWeights | None:
        """Return how much more each label's presence weighs than its absence; None: as much.

        Raises SettingError for the weight of an unknown label.
        """
        import torch

        weights = self.config.known_class_weights
        if weights is None:
            return None
        if isinstance(weights, str):
            counts = torch.tensor([train.labels[label] for label in self.labels], dtype=torch.float64)
            return ((train.rows - counts + 1) / (counts + 1)).float()
        return torch.tensor(weights_by_label(weights, self.labels), dtype=torch.float64).float()

    def start_head(self, network: EncoderWithHeads, train: SplitSurvey, weights: LabelWeights | None) -> None:
        """Make the head start with each label's frequency in training, times its weight (Lin et al. 2017, section 3.3):
        otherwise the first epochs are spent on learning which labels are rare.
        """
        import torch

        if network.sequence_head is None:
            return
        share = (torch.tensor(list(train.labels.values())) + 1.0) / (train.rows + 2.0)
        factors = torch.ones_like(share) if weights is None else weights
        with torch.no_grad():
            network.sequence_head.bias.copy_(share.logit() + factors.log())

    def metrics(self) -> LabelSetMetrics:
        from encoderlab.metrics.texts import LabelSetMetrics

        return LabelSetMetrics(self.labels, self.thresholds, self.main_score, own=self.own_score)

    def fitted_on(self, held_out: SplitScores | None) -> Task:
        """Return the task with a threshold for every label: the user's, the fitted one, or 0.5 without validation."""
        from encoderlab.metrics.calibration import DEFAULT
        from encoderlab.metrics.texts import LabelSetScores

        fitted = [DEFAULT] * len(self.labels)
        if isinstance(held_out, LabelSetScores):
            fitted = held_out.thresholds.tolist()
        thresholds = dict(zip(self.labels, fitted, strict=True)) | self.config.known_thresholds
        config = replace(self.config, thresholds=thresholds)
        return config.build(self.tokenizer, self.labels, self.max_length)

    def predictions_of(self, logits: Float[Tensor, "rows labels"]) -> list[RowPrediction]:
        """Return the labels of each row whose probability reaches their threshold."""
        from encoderlab.metrics.calibration import DEFAULT

        bounds = [self.thresholds.get(label, DEFAULT) for label in self.labels]
        rows = logits.cpu().double().sigmoid()  # MPS has no float64
        reached = (rows >= rows.new_tensor(bounds)).tolist()
        predictions = []
        for marks, probabilities in zip(reached, rows.tolist(), strict=True):
            labels = tuple(label for label, is_reached in zip(self.labels, marks, strict=True) if is_reached)
            predictions.append(RowPrediction(labels, tuple(probabilities)))
        return predictions

    def plain(self, prediction: RowPrediction, abstention: Abstention = NO_ABSTENTION) -> dict[str, Any]:
        return {"predicted": list(prediction.labels), "probabilities": prediction.by_label(self.labels)}

    def cells(self, prediction: RowPrediction, example: Example, abstention: Abstention) -> dict[str, Any]:
        """Return a list of the predicted labels, and one of their probabilities."""
        chances = rounded_chances(prediction, self.labels)
        predicted_chances = [chances[label] for label in prediction.labels]
        return {"predicted": list(prediction.labels), "probability": predicted_chances, "probabilities": chances}
