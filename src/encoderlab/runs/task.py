"""From a task's settings to the task, with one line for each kind of task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch

from encoderlab.batch import HeadSizes
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.metrics import LabelSetScores, PredictionScores, Scores
from encoderlab.metrics.thresholds import DEFAULT
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.document_corpus import DocumentCorpus
from encoderlab.tasks.config import (
    ClassificationConfig,
    LabelledTaskConfig,
    MultilabelConfig,
    PretrainingConfig,
    RegressionConfig,
    TaggingConfig,
    TaskConfig,
    TeacherVectorsConfig,
)
from encoderlab.tasks.pretraining import Pretraining
from encoderlab.tasks.tagging import Tagging
from encoderlab.tasks.task import Task, refuse_unknown_label
from encoderlab.tasks.teacher_vectors import TeacherVectors
from encoderlab.tasks.texts import Classification, Encoding, EncodingConfig, Multilabel, Regression
from encoderlab.training.loss import PLAIN, LabelLoss

TASKS: dict[type[TaskConfig], Callable[..., Task]] = {
    ClassificationConfig: Classification,
    MultilabelConfig: Multilabel,
    RegressionConfig: Regression,
    TaggingConfig: Tagging,
    PretrainingConfig: Pretraining,
    TeacherVectorsConfig: TeacherVectors,
    EncodingConfig: Encoding,
}


def settled_task(task: TaskConfig, corpus: Corpus | DocumentCorpus) -> TaskConfig:
    """Return the task's settings, with open ones filled in from the training rows: the scale of numbers, the positive
    label.
    """
    if isinstance(corpus, DocumentCorpus):
        return task
    train = corpus.survey.splits["train"]
    if isinstance(task, RegressionConfig):
        numbers = train.numbers or {"mean": 0.0, "deviation": 1.0}
        mean = numbers["mean"] if task.mean is None else task.mean
        return replace(
            task, mean=mean, deviation=(numbers["deviation"] or 1.0) if task.deviation is None else task.deviation
        )
    return with_positive_label(task, corpus.labels, train.labels)


def with_positive_label(task: TaskConfig, labels: Sequence[str], counts: Mapping[str, int]) -> TaskConfig:
    """Return the task's settings; if the positive label of two is open, it is the rarer one by `counts`."""
    if isinstance(task, ClassificationConfig) and task.positive_label is None and len(labels) == 2:
        return replace(task, positive_label=min(reversed(labels), key=lambda label: counts[label]))
    return task


def with_thresholds(task: TaskConfig, labels: Sequence[str], held_out: PredictionScores | None) -> TaskConfig:
    """Return the task's settings with every threshold filled in: that of the `held_out` scores, or 0.5 if there are
    none.

    A task without thresholds stays as it is.
    """
    if isinstance(task, ClassificationConfig) and isinstance(task.threshold, str):
        chosen = held_out.threshold if isinstance(held_out, Scores) else None
        return replace(task, threshold=DEFAULT if chosen is None else chosen)
    if not isinstance(task, MultilabelConfig):
        return task
    fitted = held_out.thresholds.tolist() if isinstance(held_out, LabelSetScores) else [DEFAULT] * len(labels)
    return replace(task, thresholds=dict(zip(labels, fitted, strict=True)) | task.known_thresholds)


def label_loss_of(task: TaskConfig, corpus: Corpus | DocumentCorpus) -> LabelLoss:
    """Return the weights of the labels in the loss, from the task's settings and the labels' frequencies in training.

    For classes, the mean weight of a training row is 1, so that weights do not change the size of steps. Raises
    SettingError for the weight of an unknown label.
    """
    if not isinstance(task, LabelledTaskConfig) or isinstance(corpus, DocumentCorpus):
        return PLAIN
    given = task.known_class_weights
    if given is None:
        return LabelLoss(focal=task.focal)
    train = corpus.survey.splits["train"]
    counts = torch.tensor([train.labels[label] for label in corpus.labels], dtype=torch.float64)
    if isinstance(given, str):
        rarer = (
            (train.rows - counts + 1) / (counts + 1) if isinstance(task, MultilabelConfig) else 1 / counts.clamp(min=1)
        )
    else:
        for label in given:
            refuse_unknown_label("task.class_weights", label, corpus.labels)
        rarer = torch.tensor([given.get(label, 1.0) for label in corpus.labels], dtype=torch.float64)
    if not isinstance(task, MultilabelConfig):
        rarer = rarer * counts.sum() / (rarer * counts).sum()
    return LabelLoss(rarer.float(), task.focal)


def start_from_frequencies(
    model: EncoderWithHeads, heads: HeadSizes, corpus: Corpus | DocumentCorpus, label_loss: LabelLoss
) -> None:
    """Make a fresh head for a set of labels start with each label's frequency in training (Lin et al. 2017, section
    3.3).

    Otherwise the first epochs are spent on learning which labels are rare. A label's frequency includes its weight.
    Other heads stay as they are.
    """
    if heads.sequence_target != "label_set" or isinstance(corpus, DocumentCorpus) or model.sequence_head is None:
        return
    train = corpus.survey.splits["train"]
    share = (torch.tensor(list(train.labels.values())) + 1.0) / (train.rows + 2.0)
    weights = torch.ones_like(share) if label_loss.weights is None else label_loss.weights
    with torch.no_grad():
        model.sequence_head.bias.copy_(share.logit() + weights.log())


def build_task(config: TaskConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> Task:
    """Return the task for examples whose label ids index `labels`, in sequences of at most `max_length` tokens.

    A task on documents has labels of its own. Raises SettingError if no example fits into `max_length`.
    """
    return TASKS[type(config)](config, tokenizer, labels, max_length)
