"""From a task's settings to the task: one line for each kind of task."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from encoderlab.data.tokenizers.tokenizer import Tokenizer
from encoderlab.tasks.classification import Classification
from encoderlab.tasks.config import ClassificationConfig, PretrainingConfig, TaggingConfig, TaskConfig, TeacherVectorsConfig
from encoderlab.tasks.encoding import Encoding, EncodingConfig
from encoderlab.tasks.pretraining.pretraining import Pretraining
from encoderlab.tasks.tagging import Tagging
from encoderlab.tasks.task import Task
from encoderlab.tasks.teacher_vectors import TeacherVectors

TASKS: dict[type[TaskConfig], Callable[..., Task]] = {
    ClassificationConfig: Classification,
    TaggingConfig: Tagging,
    PretrainingConfig: Pretraining,
    TeacherVectorsConfig: TeacherVectors,
    EncodingConfig: Encoding,
}


def build_task(config: TaskConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> Task:
    """The task over examples whose label ids stand for `labels`, in sequences of at most `max_length` tokens.

    A task on documents has labels of its own. Raises SettingError where no example fits into `max_length`.
    """
    return TASKS[type(config)](config, tokenizer, labels, max_length)
