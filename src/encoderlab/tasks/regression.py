"""Regression: a number for a whole text, or for a pair of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from encoderlab.network.config import HeadSizes, TargetKind
from encoderlab.settings import setting
from encoderlab.tasks.task import (
    NO_ABSTENTION,
    OWN_LOSS,
    Abstention,
    RowPrediction,
    Task,
    TextTaskConfig,
    check_score,
    score_name,
)

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from encoderlab.data.examples import Example
    from encoderlab.data.survey import SplitSurvey
    from encoderlab.data.tokenizers import Tokenizer
    from encoderlab.metrics.texts import RegressionMetrics
    from encoderlab.tasks.rows import Targets


class RegressionScore(StrEnum):
    """Scores that can select the best checkpoint of a regression run and lead its report."""

    pearson = "pearson"
    spearman = "spearman"
    mae = "mae"
    rmse = "rmse"


@dataclass
class RegressionConfig(TextTaskConfig):
    """A number for a whole text, or for a pair of texts."""

    target: ClassVar[TargetKind] = "number"

    score: str = setting(
        "pearson",
        "Score that selects the best checkpoint and leads the report: pearson, spearman, mae, rmse, or a function of "
        "your own of labels and predictions, module:function.",
    )
    loss: str | None = setting(None, OWN_LOSS)
    mean: float | None = setting(
        None, "Number subtracted from every target before training; null: the mean of the training rows."
    )
    deviation: float | None = setting(
        None, "Number that every target is then divided by; null: the standard deviation of the training rows.", above=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_score(self.score, RegressionScore)

    def build(self, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> Regression:
        return Regression(self, tokenizer, max_length)

    def main_score_of(self, labels: Sequence[str]) -> str:
        return score_name(self.score)

    def settled(
        self, labels: Sequence[str], train: SplitSurvey, *, has_validation: bool
    ) -> tuple[RegressionConfig, list[str]]:
        """Return the settings with the mean and deviation of the training rows where they were left open."""
        numbers = train.numbers or {"mean": 0.0, "deviation": 1.0}
        mean = numbers["mean"] if self.mean is None else self.mean
        deviation = (numbers["deviation"] or 1.0) if self.deviation is None else self.deviation
        return replace(self, mean=mean, deviation=deviation), []


class Regression(Task):
    """Predicts one number, of which the model learns its distance from the `mean` in units of the `deviation`."""

    config: RegressionConfig

    def __init__(self, config: RegressionConfig, tokenizer: Tokenizer, max_length: int) -> None:
        super().__init__(config, tokenizer, [], max_length, config.main_score_of([]))
        assert config.mean is not None and config.deviation is not None, "see `RegressionConfig.settled`"
        self.mean = config.mean
        self.unit = config.deviation
        self.heads = HeadSizes(
            sequence_classes=1,
            sequence_target="number",
            window_pooling=None if self.windows is None else self.windows.pooling,
        )

    def targets(self, targets: Iterable[Any]) -> Targets:
        """Return the numbers, centred and scaled; a number that is not one is unknown."""
        from encoderlab.tasks.rows import Targets

        numbers = np.array([np.nan if number is None else number for number in targets], np.float64)
        scaled = (numbers - self.mean) / self.unit
        return Targets(~np.isnan(scaled), of_rows=scaled.astype(np.float32))

    def metrics(self) -> RegressionMetrics:
        from encoderlab.metrics.texts import RegressionMetrics

        return RegressionMetrics(self.mean, self.unit, self.main_score, own=self.own_score)

    def predictions_of(self, logits: Float[Tensor, "rows one"]) -> list[RowPrediction]:
        """Return the number of each row in the user's units."""
        from encoderlab.metrics.texts import rounded

        numbers = logits[:, 0].cpu().double().numpy() * self.unit + self.mean  # MPS has no float64
        return [RowPrediction((), number=number) for number in rounded(numbers, self.unit).tolist()]

    def plain(self, prediction: RowPrediction, abstention: Abstention = NO_ABSTENTION) -> dict[str, Any]:
        return {"predicted": prediction.number}

    def cells(self, prediction: RowPrediction, example: Example, abstention: Abstention) -> dict[str, Any]:
        return {"predicted": prediction.number}
