"""From a task's settings to the task, with one line for each kind of task."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from encoderlab.batch import HeadSizes
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.metrics.calibration import DEFAULT
from encoderlab.metrics.scores import PredictionScores
from encoderlab.metrics.texts import ClassificationScores, LabelSetScores
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.runs.corpus import AnyCorpus, Corpus
from encoderlab.tasks import config as tasks
from encoderlab.tasks.config import TaskConfig
from encoderlab.tasks.pretraining import Pretraining, TeacherVectors
from encoderlab.tasks.task import Task, refuse_unknown_label
from encoderlab.tasks.texts import Classification, Encoding, EncodingConfig, Multilabel, Regression, Tagging
from encoderlab.training.loss import LabelWeights

TASKS: dict[type[TaskConfig], Any] = {
    tasks.ClassificationConfig: Classification,
    tasks.MultilabelConfig: Multilabel,
    tasks.RegressionConfig: Regression,
    EncodingConfig: Encoding,
    tasks.TaggingConfig: Tagging,
    tasks.PretrainingConfig: Pretraining,
    tasks.TeacherVectorsConfig: TeacherVectors,
}
UNEVEN = 0.9  # share of the most frequent label


def resolve_task(task: TaskConfig, corpus: AnyCorpus) -> TaskConfig:
    """Return the task's settings, with open ones resolved from the training rows: scale, positive label."""
    if not isinstance(corpus, Corpus):
        return task
    train = corpus.survey["train"]
    if isinstance(task, tasks.RegressionConfig):
        numbers = train.numbers or {"mean": 0.0, "deviation": 1.0}
        mean = numbers["mean"] if task.mean is None else task.mean
        deviation = (numbers["deviation"] or 1.0) if task.deviation is None else task.deviation
        return replace(task, mean=mean, deviation=deviation)
    has_validation = "validation" in corpus.splits.by_name
    return resolve_labels(task, corpus.labels, train.labels, has_validation=has_validation)


def resolve_labels(
    task: TaskConfig, labels: Sequence[str], counts: Mapping[str, int], *, has_validation: bool = True
) -> TaskConfig:
    """Return the task's settings with those decided that the frequencies of its labels, `counts`, decide.

    The positive label of two is the rarer one. If one label has more than `UNEVEN` of the rows, predicting it always is
    hard to beat in accuracy: then F1 leads, labels weigh alike, and the threshold of two labels is fitted if there is a
    validation split. A score of the user's own leaves all of this to the user.
    """
    if not isinstance(task, tasks.ClassificationConfig):
        return task
    if task.positive_label is None and len(labels) == 2:
        task = replace(task, positive_label=min(reversed(labels), key=lambda label: counts[label]))
    if task.score is not tasks.ClassificationScore.auto:
        return task
    if is_uneven(labels, counts):
        score = tasks.ClassificationScore.f1 if len(labels) == 2 else tasks.ClassificationScore.f1_macro
        is_fitted = task.threshold is None and len(labels) == 2 and has_validation
        threshold = "f1" if is_fitted else task.threshold
        return replace(task, score=score, class_weights=task.class_weights or tasks.BALANCED, threshold=threshold)
    return replace(task, score=tasks.ClassificationScore.accuracy)


def is_uneven(labels: Sequence[str], counts: Mapping[str, int]) -> bool:
    """Return whether one of the labels has more than `UNEVEN` of the rows."""
    return max(counts[label] for label in labels) > UNEVEN * sum(counts[label] for label in labels)


def uneven_note(task: TaskConfig, corpus: AnyCorpus) -> str | None:
    """Return a sentence on the settings with which rare labels are learned; None if there are none."""
    if not isinstance(task, tasks.ClassificationConfig) or not isinstance(corpus, Corpus):
        return None
    counts = corpus.survey["train"].labels
    if task.class_weights != tasks.BALANCED or not is_uneven(corpus.labels, counts):
        return None
    settings = f"task.score={task.score.value}, task.class_weights={tasks.BALANCED}"
    settings += f", task.threshold={task.threshold}" if task.threshold is not None else ""
    label = max(corpus.labels, key=lambda label: counts[label])
    return f"{counts[label] / sum(counts.values()):.0%} of the training rows are {label!r}, hence {settings}"


def resolve_thresholds(task: TaskConfig, labels: Sequence[str], held_out: PredictionScores | None) -> TaskConfig:
    """Return the task's settings with every threshold filled in: that of the `held_out` scores, or 0.5 without any."""
    if isinstance(task, tasks.ClassificationConfig) and isinstance(task.threshold, str):
        fitted = held_out.threshold if isinstance(held_out, ClassificationScores) else None
        return replace(task, threshold=DEFAULT if fitted is None else fitted)
    if not isinstance(task, tasks.MultilabelConfig):
        return task
    fitted = held_out.thresholds.tolist() if isinstance(held_out, LabelSetScores) else [DEFAULT] * len(labels)
    return replace(task, thresholds=dict(zip(labels, fitted, strict=True)) | task.known_thresholds)


def label_weights_of(task: TaskConfig, corpus: AnyCorpus) -> LabelWeights | None:
    """Return the weights of the labels in the loss, by the settings and the frequencies in training; None: all alike.

    For classes, the mean weight of a training row is 1, so that weights do not change the size of steps. Raises
    SettingError for the weight of an unknown label.
    """
    weights = task.known_class_weights if isinstance(task, tasks.LabelledTaskConfig) else None
    if weights is None or not isinstance(corpus, Corpus):
        return None
    train = corpus.survey["train"]
    counts = torch.tensor([train.labels[label] for label in corpus.labels], dtype=torch.float64)
    if isinstance(weights, str):
        is_set = isinstance(task, tasks.MultilabelConfig)
        rarer = (train.rows - counts + 1) / (counts + 1) if is_set else 1 / counts.clamp(min=1)
    else:
        for label in weights:
            refuse_unknown_label("task.class_weights", label, corpus.labels)
        rarer = torch.tensor([weights.get(label, 1.0) for label in corpus.labels], dtype=torch.float64)
    if not isinstance(task, tasks.MultilabelConfig):
        rarer = rarer * counts.sum() / (rarer * counts).sum()
    return rarer.float()


def start_from_frequencies(
    model: EncoderWithHeads, heads: HeadSizes, corpus: AnyCorpus, label_weights: LabelWeights | None
) -> None:
    """Make a fresh head for a set of labels start with each label's frequency in training, times its weight (Lin et al.
    2017, section 3.3): otherwise the first epochs are spent on learning which labels are rare.
    """
    if heads.sequence_target != "label_set" or not isinstance(corpus, Corpus) or model.sequence_head is None:
        return
    train = corpus.survey["train"]
    share = (torch.tensor(list(train.labels.values())) + 1.0) / (train.rows + 2.0)
    weights = torch.ones_like(share) if label_weights is None else label_weights
    with torch.no_grad():
        model.sequence_head.bias.copy_(share.logit() + weights.log())


def build_task(config: TaskConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> Task:
    """Return the task for examples whose label ids index `labels`, in sequences of at most `max_length` tokens.

    A task on documents has labels of its own. Raises SettingError if no example fits into `max_length`.
    """
    return TASKS[type(config)](config, tokenizer, labels, max_length)
