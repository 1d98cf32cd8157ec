"""A kind of task: its settings, and what follows from them for data, model, loss, scores and predictions.

Each kind has a file of its own with two classes. The settings (`TaskConfig`) say what the rows must be and settle what
the rows decide; they load no PyTorch, so that `--help` starts at once. `TaskConfig.build` returns the `Task`, which
knows the tokenizer and the labels too: how texts become rows, which heads a model needs, how it is scored, and what a
prediction means. Model, loss and loop never mention a task.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from encoderlab.errors import DataError, SettingError, closest
from encoderlab.network.config import HeadSizes, TargetKind
from encoderlab.settings import REQUIRED, check_settings, setting
from encoderlab.system.own_functions import EXAMPLE, OwnFunction, function_name, is_dotted, own_function, with_colon
from encoderlab.tasks.sequences import SequenceFormat, Windowing

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from encoderlab.batch import Batch, Prediction
    from encoderlab.data.examples import Example, Split
    from encoderlab.data.survey import SplitSurvey
    from encoderlab.data.token_store import TokenStore
    from encoderlab.data.tokenizers import Tokenizer
    from encoderlab.metrics.calibration import ThresholdRule
    from encoderlab.metrics.own import OwnScore
    from encoderlab.metrics.scores import Metrics, PredictionScores, SplitScores
    from encoderlab.network.heads import EncoderWithHeads
    from encoderlab.tasks.rows import ExampleRows, Targets
    from encoderlab.training.config import TrainingConfig
    from encoderlab.training.loss import LabelWeights, LossForm

BALANCED = "balanced"
UNLIKE_TRAINING = "unlike training"  # the reasons for giving no label
UNSURE = "unsure"
MANY = 0.1  # of the rows: more of them are worth a remedy
FEW = 0.001  # of the rows: fewer of them are counted
INSTEAD = "Train it on a task with encoderlab finetune init_from=..., or get its vectors with encoderlab embed"


class Windows(Enum):
    """How a text longer than `model.max_length` is read: truncated, or in windows with pooled logits."""

    none = "none"
    mean = "mean"
    max = "max"


@dataclass
class TaskConfig:
    """What the encoder learns to predict."""

    group: ClassVar[str] = "task"
    command: ClassVar[str] = "train"  # the command that trains it from scratch
    target: ClassVar[TargetKind] = "label"  # the kind of target of a row
    of_words: ClassVar[bool] = False  # each word of a row has a label
    of_documents: ClassVar[bool] = False  # it is learned from documents, without labels
    of_vectors: ClassVar[bool] = False  # the vectors of texts are trained; a row may lack a label
    one_class_per_text: ClassVar[bool] = False  # a row has one of several classes
    of_encoder_alone: ClassVar[bool] = False  # nothing is predicted, and no run is trained
    length_factor: ClassVar[int] = 1  # how many times longer to train if the number of rows decides

    name: str = setting(REQUIRED, "The task's name; run folders are sorted by it.")

    def __post_init__(self) -> None:
        check_settings(self, self.group)
        own_loss = self.own_loss
        if own_loss is not None and not is_dotted(own_loss):
            near = with_colon(own_loss)
            remedy = f"Did you mean {near}?" if near else ""
            raise SettingError(f"task.loss is {own_loss}", allowed=EXAMPLE, remedy=remedy)
        if self.name in ("", ".", "..") or set(self.name) & set("/\\\0"):
            raise SettingError(f"task.name is {self.name!r}", allowed="a valid folder name, without / and \\")

    @property
    def windowing(self) -> Windowing | None:
        """Return how long texts are read in windows; None if they are truncated."""
        return None

    @property
    def adds_special_tokens(self) -> bool:
        """Return whether [CLS] and [SEP] surround the texts."""
        return True

    @property
    def normalizes_vectors(self) -> bool:
        """Return whether the vectors of texts were trained to have length 1."""
        return False

    @abstractmethod
    def build(self, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> Task:
        """Return the task for examples whose label ids index `labels`, in sequences of at most `max_length` tokens.

        A task on documents has labels of its own. Raises SettingError if no example fits into `max_length`, or a
        setting does not suit the labels.
        """

    def settled(self, labels: Sequence[str], train: SplitSurvey, *, has_validation: bool) -> tuple[Self, list[str]]:
        """Return the settings with those decided that the training rows decide, and notes on them for the user."""
        return self, []

    @property
    def trains_encoder(self) -> bool:
        """Return whether an encoder is trained that predicts nothing of labelled rows."""
        return self.of_documents or self.of_vectors

    @property
    def branch_weight(self) -> float | None:
        """Return the weight of a linear model of n-grams beside the network; None: it is decided after training."""
        return 0.0

    @property
    def fits_thresholds(self) -> bool:
        """Return whether thresholds are fitted on validation, which therefore needs rows."""
        return False

    @property
    def own_loss(self) -> str | None:
        """Return the dotted name of a loss of one's own."""
        return getattr(self, "loss", None)

    @property
    def own_score(self) -> str | None:
        """Return the dotted name of a score of one's own."""
        score = getattr(self, "score", "")
        return score if is_dotted(score) else None

    def own_functions(self) -> dict[str, OwnFunction]:
        """Return the score and the loss of one's own by their settings. Raises SettingError for an unknown one."""
        named = {"task.score": self.own_score, "task.loss": self.own_loss}
        return {name: own_function(dotted, name) for name, dotted in named.items() if dotted is not None}

    def two_class_rule(self, labels: Sequence[str]) -> tuple[ThresholdRule | None, int]:
        """Return how one of two classes is predicted (None: the more probable one is), and which one is positive."""
        return None, 1

    def n_micro_batches(self, training: TrainingConfig) -> int | None:
        """Return in how many micro-batches a batch must be computed; None: in any number. Raises SettingError."""
        return None

    @property
    def exported_thresholds(self) -> dict[str, Any]:
        """Return what an exported config.json says of labels: their thresholds, and the positive class of two."""
        return {}

    @property
    def separates_pairs(self) -> bool:
        """Return whether an encoder that learns this task is best used on the texts of pairs one by one."""
        return False

    @abstractmethod
    def main_score_of(self, labels: Sequence[str]) -> str:
        """Return the name of the score that judges this task on data with these `labels`."""


def check_score(score: str, known: Iterable[str]) -> None:
    """Raise SettingError unless `task.score` is one of the `known` scores, or names a function of one's own."""
    known = list(known)
    if score not in known and not is_dotted(score):
        near = with_colon(score) or closest(score, known)
        allowed = f"{', '.join(known)}, or {EXAMPLE}"
        raise SettingError(f"task.score is {score}", allowed=allowed, remedy=f"Did you mean {near}?" if near else "")


def score_name(score: str) -> str:
    """Return the name of a score in reports: of a function of one's own, the function's."""
    return function_name(score) if is_dotted(score) else str(score)


OWN_LOSS = (
    "A loss of your own, module:function: from logits and targets, as tensors, to the loss of each target; null: cross "
    "entropy or, for numbers, squared error."
)


def check_numbers(by_label: Any, setting: str, allowed: str, *, above: float, most: float) -> None:
    """Raise SettingError unless a setting holds a number for each label, more than `above` and at most `most`."""
    numbers: list[Any] = list(by_label.values()) if isinstance(by_label, dict) else [None]
    for number in numbers:
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if not is_number or not above < number <= most:
            raise SettingError(f"{setting} is {by_label}", allowed=allowed)


@dataclass
class LabelledTaskConfig(TaskConfig):
    """A task whose labels may have different weights in the loss."""

    class_weights: Any = setting(
        None,
        "Weight of each label in the loss: balanced (rare ones more), or your own, such as {fraud: 5}; others are 1.",
    )
    label_smoothing: float = setting(
        0.0, "Share of each target that all labels get alike in the loss.", minimum=0, below=1
    )
    focal_gamma: float = setting(
        0.0, "Focal loss: how much less targets count that are predicted well; 0: alike, 2 is usual.", minimum=0
    )
    loss: str | None = setting(None, OWN_LOSS)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.class_weights not in (None, BALANCED):
            allowed = f"{BALANCED}, or a weight above 0 for each label, such as {{fraud: 5}}"
            largest = math.nextafter(math.inf, 0)
            check_numbers(self.class_weights, "task.class_weights", allowed, above=0, most=largest)
        shaped = {name: getattr(self, name) for name in ("class_weights", "label_smoothing", "focal_gamma")}
        if self.loss is not None and any(shaped.values()):
            set_too = ", ".join(f"task.{name}={value}" for name, value in shaped.items() if value)
            remedy = f"Remove {set_too}, or task.loss"
            raise SettingError(f"task.loss={self.loss} replaces what {set_too} would shape", remedy=remedy)

    @property
    def known_class_weights(self) -> str | dict[str, float] | None:
        """Return the class weights by label; YAML reads some labels as numbers."""
        weights = self.class_weights
        if not isinstance(weights, dict):
            return weights
        return {str(label): float(weight) for label, weight in weights.items()}


@dataclass
class TextTaskConfig(TaskConfig):
    """What to predict for a whole text, or for a pair of texts."""

    windows: Windows = setting(
        Windows.none,
        "How texts longer than model.max_length are read: none (truncated), or in overlapping windows with logits "
        "averaged (mean) or reduced to their maximum (max).",
    )
    max_windows: int = setting(8, "Most windows per text; those of a longer text are evenly spaced.", minimum=2)
    linear_weight: float | None = setting(
        None,
        "Weight of a linear model of n-grams whose logits are added to the network's, from 0 (none) to 1; null: chosen "
        "on validation, of few rows by cross-validation, and 0 unless both together are better by evidence, or if jobs "
        "of a sweep differ in the network or its training.",
        minimum=0,
        maximum=1,
    )

    @property
    def branch_weight(self) -> float | None:
        return self.linear_weight

    @property
    def windowing(self) -> Windowing | None:
        if self.windows is Windows.none:
            return None
        return Windowing("mean" if self.windows is Windows.mean else "max", self.max_windows)


@dataclass(frozen=True, slots=True)
class RowPrediction:
    """The prediction for one example; a number has neither labels nor probabilities."""

    labels: tuple[str, ...]  # one, those of a set that are predicted, or one for each word that was read
    probabilities: tuple[float, ...] | None = None  # of all classes; words have none
    word_confidences: tuple[float, ...] | None = None  # the probabilities of the words' labels
    number: float | None = None
    novelty: float | None = None  # how unlike the training texts its text is; see `metrics.novelty`

    def in_words(self) -> str:
        """Return the labels separated by commas, or the number."""
        return ", ".join(self.labels) or "no label" if self.number is None else f"{self.number:.6g}"

    def by_label(self, names: Sequence[str]) -> dict[str, float]:
        """Return the probability of each class; `names` are the classes in the order of their ids."""
        assert self.probabilities is not None, "only a prediction for a whole text has them"
        return dict(zip(names, self.probabilities, strict=True))


@dataclass(frozen=True, slots=True)
class Abstention:
    """When no label is given: below `min_probability`, or to texts with a novelty above `most_novelty` (None: any)."""

    min_probability: float = 0.0
    most_novelty: float | None = None

    def reason(self, probability: float, novelty: float | None) -> str | None:
        """Return why no label is given; None: one is."""
        if self.most_novelty is not None and novelty is not None and novelty > self.most_novelty:
            return UNLIKE_TRAINING
        return UNSURE if probability < self.min_probability else None

    def applied(self, prediction: dict[str, Any], probability: float, novelty: float | None) -> dict[str, Any]:
        """Return a prediction without its label if none is given; `reason` says why where novelty is asked for."""
        reason = self.reason(probability, novelty)
        kept = prediction if reason is None else prediction | {"predicted": None}
        return kept if self.most_novelty is None else kept | {"reason": reason}


NO_ABSTENTION = Abstention()  # every text gets a label


class Task(ABC):
    """What to predict, and how. `labels` are the names of the classes in the order of their ids.

    Raises SettingError if `max_length` is less than the `shortest` sequence that can hold an example.
    """

    heads: HeadSizes
    shortest: int = 5  # [CLS] a [SEP] b [SEP]
    unit: float = 1.0  # the user's units per 1 in the logits of a number
    freezes_tokens: bool = False  # the embeddings of tokens stay as pretrained

    def __init__(
        self, config: TaskConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int, main_score: str
    ) -> None:
        if max_length < self.shortest:
            problem = f"model.max_length={max_length} leaves no room for a token besides the special ones"
            raise SettingError(problem, allowed=f"at least {self.shortest} for this task")
        self.config = config
        self.tokenizer = tokenizer
        self.labels = list(labels)
        self.max_length = max_length
        self.main_score = main_score
        self.format = SequenceFormat.of(
            tokenizer, max_length, config.windowing, special_tokens=config.adds_special_tokens
        )

    # From texts to rows

    @property
    def windows(self) -> Windowing | None:
        """Return how texts longer than `max_length` are read in windows; None: they are truncated."""
        return self.format.windows

    @property
    def limit(self) -> str:
        """Return how much of a text is read, as settings and in words."""
        tokens = f"model.max_length={self.max_length} tokens"
        return tokens if self.windows is None else f"task.max_windows={self.windows.most} windows of {tokens}"

    def rows(self, store: TokenStore, targets: Iterable[Any] | None = None) -> ExampleRows:
        """Return tokenised texts as rows, with their `targets` as a dataset has them (None: none are known).

        Raises DataError for texts of the wrong kind, and for pairs that are to be read in windows.
        """
        from encoderlab.tasks.rows import ExampleRows

        holds_words = "word_starts" in store
        if holds_words and not self.config.of_words:
            problem = "This dataset holds sequences of labelled words, but the task needs texts"
            raise DataError(problem, remedy="Set task=tagging, or choose a dataset of texts")
        if self.config.of_words and not holds_words and len(store):
            problem = "This dataset holds labelled texts, but a tagging task needs sequences of labelled words"
            raise DataError(problem, remedy="Set task=classification, or choose a dataset of words")
        if "second" in store and self.windows is not None:
            problem = f"task.windows={self.windows.pooling} reads single texts in windows, but these rows are pairs"
            raise DataError(problem, remedy="Set task.windows=none, which truncates the longer text of a pair")
        known = None if targets is None else self.targets(targets)
        return ExampleRows(store, self.format, known, of_words=self.config.of_words)

    def rows_of_split(self, store: TokenStore, split: Split) -> ExampleRows:
        """Return the tokenised texts of a split as rows with their targets. Raises DataError as `rows` does."""
        rows = self.rows(store, split.targets())
        rows.examples = split
        return rows

    def targets(self, targets: Iterable[Any]) -> Targets | None:
        """Return the targets of rows, each None if it is unknown, as batches need them; None: nothing is predicted."""
        return None

    def reading_note(self, name: str, rows: ExampleRows) -> str:
        """Return a sentence if rows of the split `name` are longer than the model reads at once, otherwise ""."""
        which_rows = f"of the rows of {name}"
        if self.windows is None:
            share = rows.truncated_share()
            n_rows = f"{share:.1%}" if share >= FEW else f"{round(share * len(rows)):,}"
            has_windows = isinstance(self.config, TextTaskConfig)
            remedy = "; task.windows=mean reads them whole" if share > MANY and has_windows else ""
            return f"{n_rows} {which_rows} were truncated to {self.limit}{remedy}" if share else ""
        windows = rows.windows()
        several = windows > 1
        if not several.any():
            return ""
        too_long = int(rows.truncated().sum())
        capped = f"; {too_long:,} longer ones in {self.windows.most} of them (task.max_windows)" if too_long else ""
        read = f"read in windows of {self.max_length} tokens, {windows[several].mean():.1f} on average (task.windows)"
        n_rows = f"{several.mean():.1%}" if several.mean() >= FEW else f"{several.sum():,}"
        return f"{n_rows} {which_rows} were {read}{capped}"

    # Training

    def label_weights(self, train: SplitSurvey) -> LabelWeights | None:
        """Return the weights of the labels in the loss; None: all alike. Raises SettingError for an unknown label."""
        return None

    def start_head(self, network: EncoderWithHeads, train: SplitSurvey, weights: LabelWeights | None) -> None:
        """Set what the training rows say of a fresh head, before its first step."""
        return

    def loss_form(self) -> LossForm:
        """Return what is computed from logits and targets. Raises SettingError for an unknown function of one's own."""
        from encoderlab.training.loss import LossForm

        config = self.config
        own = None if config.own_loss is None else own_function(config.own_loss, "task.loss").call
        return LossForm(getattr(config, "label_smoothing", 0.0), getattr(config, "focal_gamma", 0.0), own)

    # Scores

    @property
    def own_score(self) -> OwnScore | None:
        """Return the score of one's own. Raises SettingError if it cannot be imported."""
        from encoderlab.metrics.own import OwnScore

        dotted = self.config.own_score
        return None if dotted is None else OwnScore(own_function(dotted, "task.score"))

    @abstractmethod
    def metrics(self) -> Metrics:
        """Return an empty collection of predictions, to be scored."""

    def fitted_on(self, held_out: SplitScores | None) -> Task:
        """Return the task with what the scores on validation decide, such as thresholds; None: there are none."""
        return self

    def threshold_notes(self, scores: Mapping[str, PredictionScores]) -> list[str]:
        """Return notes on the thresholds that the settings ask for, given the scores of all splits by name."""
        return []

    # Predictions

    @property
    def exported_decoding(self) -> dict[str, Any]:
        """Return what an export says about how the labels of words follow from the graph's logits."""
        return {}

    def predictions_of(self, logits: Float[Tensor, "rows classes"]) -> list[RowPrediction]:
        """Return the predictions of rows of logits, unless overridden, the most probable class."""
        probabilities = logits.float().softmax(-1)
        best = probabilities.argmax(-1).tolist()
        rows = zip(best, probabilities.tolist(), strict=True)
        return [RowPrediction((self.labels[id_],), tuple(row)) for id_, row in rows]

    def predictions(self, prediction: Prediction, batch: Batch) -> list[RowPrediction]:
        """Return the prediction for each example of `batch`, in its order: for whole texts, unless overridden."""
        assert prediction.sequence_logits is not None
        return self.predictions_of(prediction.sequence_logits)

    def plain(self, prediction: RowPrediction, abstention: Abstention = NO_ABSTENTION) -> dict[str, Any]:
        """Return a prediction as plain values: `predicted`, and the `probabilities` of all labels if there are any."""
        chances = prediction.by_label(self.labels)
        label = prediction.labels[0]
        return abstention.applied({"predicted": label, "probabilities": chances}, chances[label], prediction.novelty)

    def cells(self, prediction: RowPrediction, example: Example, abstention: Abstention) -> dict[str, Any]:
        """Return what a table says of a prediction: `predicted`, its `probability`, and `probabilities` of all labels.

        `predicted` is None, if `abstention` says so.
        """
        chances = rounded_chances(prediction, self.labels)
        label = prediction.labels[0]
        cells = {"predicted": label, "probability": chances[label], "probabilities": chances}
        return abstention.applied(cells, chances[label], prediction.novelty)

    @property
    def gives_one_label(self) -> bool:
        """Return whether a row or a word is predicted to have one label, which may be too improbable to give."""
        return self.heads.sequence_target == "label"


def rounded_chances(prediction: RowPrediction, labels: Sequence[str]) -> dict[str, float]:
    """Return the probability of each label, to the six digits that a table shows."""
    return {name: float(f"{chance:.6g}") for name, chance in prediction.by_label(labels).items()}


def class_targets(targets: Iterable[int | None]) -> Targets:
    """Return one class for each row."""
    from encoderlab.tasks.rows import Targets

    ids = np.array([-1 if id_ is None else id_ for id_ in targets], np.int64)
    return Targets(ids >= 0, of_rows=ids)


def part_targets(targets: Iterable[Sequence[int] | None], n_labels: int = 0) -> Targets:
    """Return the label ids of each row's words, or of the labels that it has of `n_labels`."""
    from itertools import chain

    from encoderlab.data.token_store import Column
    from encoderlab.tasks.rows import Targets

    known = []
    counts = []
    ids: list[Sequence[int]] = []
    for row_ids in targets:
        known.append(row_ids is not None)
        counts.append(len(row_ids or ()))
        ids.append(row_ids or ())
    offsets = np.concatenate([np.zeros(1, np.int64), np.array(counts, np.int64)]).cumsum()
    values = np.fromiter(chain.from_iterable(ids), np.int32, int(offsets[-1]))
    return Targets(np.array(known, bool), of_parts=Column(values, offsets), n_labels=n_labels)


def refuse_unknown_label(setting: str, label: str, labels: Sequence[str]) -> None:
    """Raise SettingError unless the `label` that a `setting` names is one of the `labels` of the data."""
    if label not in labels:
        near = closest(label, labels)
        problem = f"{setting} names {label!r}, which is not a label of the data"
        raise SettingError(problem, allowed=", ".join(labels), remedy=f"Did you mean {near}?" if near else "")
