"""From a task's settings to the task: one line for each kind of task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from encoderlab.batch import HeadSizes
from encoderlab.data.tokenizers.tokenizer import Tokenizer
from encoderlab.metrics import AnswerScores, LabelSetScores
from encoderlab.metrics.thresholds import DEFAULT
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.runs.corpora.corpus import Corpus
from encoderlab.runs.corpora.document_corpus import DocumentCorpus
from encoderlab.tasks.classification import Classification
from encoderlab.tasks.config import (
    ClassificationConfig,
    MultilabelConfig,
    PretrainingConfig,
    RegressionConfig,
    TaggingConfig,
    TaskConfig,
    TeacherVectorsConfig,
)
from encoderlab.tasks.encoding import Encoding, EncodingConfig
from encoderlab.tasks.multilabel import Multilabel
from encoderlab.tasks.pretraining.pretraining import Pretraining
from encoderlab.tasks.regression import Regression
from encoderlab.tasks.tagging import Tagging
from encoderlab.tasks.task import Task
from encoderlab.tasks.teacher_vectors import TeacherVectors

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
    """The task's settings, with what they leave open filled in from the training rows: the scale of numbers, the positive label."""
    if isinstance(corpus, DocumentCorpus):
        return task
    train = corpus.survey.splits["train"]
    if isinstance(task, RegressionConfig):
        numbers = train.numbers or {"mean": 0.0, "deviation": 1.0}
        mean = numbers["mean"] if task.mean is None else task.mean
        return replace(task, mean=mean, deviation=(numbers["deviation"] or 1.0) if task.deviation is None else task.deviation)
    if isinstance(task, ClassificationConfig) and task.positive_label is None and len(corpus.labels) == 2:
        return replace(task, positive_label=min(reversed(corpus.labels), key=lambda label: train.labels[label]))
    return task


def with_thresholds(task: TaskConfig, labels: Sequence[str], held_out: AnswerScores | None) -> TaskConfig:
    """The task's settings, every label's threshold filled in: that of the `held_out` scores, 0.5 where there are none.

    A task of another kind has no thresholds and stays as it is.
    """
    if not isinstance(task, MultilabelConfig):
        return task
    fitted = held_out.thresholds.tolist() if isinstance(held_out, LabelSetScores) else [DEFAULT] * len(labels)
    return replace(task, thresholds=dict(zip(labels, fitted, strict=True)) | task.known_thresholds)


def start_from_frequencies(model: EncoderWithHeads, heads: HeadSizes, corpus: Corpus | DocumentCorpus) -> None:
    """Have a fresh head for a set of labels begin with each label as likely as it is in training (Lin et al. 2017, section 3.3).

    Rare labels would otherwise spend the first epochs on learning that they are rare. Other heads stay as they are.
    """
    if heads.sequence_target != "label_set" or isinstance(corpus, DocumentCorpus) or model.sequence_head is None:
        return
    train = corpus.survey.splits["train"]
    share = (torch.tensor(list(train.labels.values())) + 1.0) / (train.rows + 2.0)
    with torch.no_grad():
        model.sequence_head.bias.copy_(share.logit())


def build_task(config: TaskConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> Task:
    """The task over examples whose label ids stand for `labels`, in sequences of at most `max_length` tokens.

    A task on documents has labels of its own. Raises SettingError where no example fits into `max_length`.
    """
    return TASKS[type(config)](config, tokenizer, labels, max_length)
