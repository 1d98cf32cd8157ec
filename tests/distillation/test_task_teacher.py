"""A teacher of a task: its logits for each row in the student's order of classes, and runs that cannot teach it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.config.commands import DistillConfig
from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.data.tokenizers import SymbolsConfig
from encoderlab.distillation import task as task_teacher
from encoderlab.distillation.task import TaskTeacher, TeacherLogits
from encoderlab.errors import DataError
from encoderlab.model.config import ModelConfig
from encoderlab.runs.saved_model import Origin
from encoderlab.tasks.config import ClassificationConfig, MultilabelConfig, PretrainingConfig, TaggingConfig
from encoderlab.training.config import TrainingConfig
from tests.runs.small_assembly import LABELS, assembly_of

CONFIG = DistillConfig(
    "cache", ClassificationConfig(name="digits"), None, SymbolsConfig(), ModelConfig(), TrainingConfig(), teacher="it"
)
COUNTS = st.lists(st.integers(0, 4), min_size=1, max_size=8)


def finished(task=None, labels=LABELS):
    assembly = replace(assembly_of(task, labels), origin=Origin({}, False, {}))
    assembly.model.eval()
    return assembly


@pytest.fixture
def opened(monkeypatch):
    """Open a finished run as a teacher of these labels."""
    monkeypatch.setattr(task_teacher, "encoder_folder", lambda name, setting: Path(name))

    def make(assembly, labels=LABELS, words=False):
        monkeypatch.setattr(task_teacher, "reopen", lambda run: assembly)
        return TaskTeacher.open(CONFIG, labels, words)

    return make


def logits_of(counts):
    values = np.arange(2 * sum(counts), dtype=np.float32).reshape(-1, 2)
    return TeacherLogits(values, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))


def rows_of(logits):
    return [logits.values[start:stop].tolist() for start, stop in zip(logits.offsets, logits.offsets[1:], strict=False)]


@given(COUNTS, COUNTS)
def test_appended_rows_keep_their_logits(first, second):
    assert rows_of(logits_of(first).followed_by(logits_of(second))) == rows_of(logits_of(first)) + rows_of(
        logits_of(second)
    )


@given(COUNTS, st.data())
def test_a_student_gets_the_first_logits_of_each_requested_row(counts, data):
    logits, rows = logits_of(counts), data.draw(st.lists(st.integers(0, len(counts) - 1), min_size=1))
    requested = [data.draw(st.integers(0, counts[row])) for row in rows]
    wanted = [one for row, count in zip(rows, requested, strict=True) for one in rows_of(logits)[row][:count]]
    assert logits.of(np.array(rows), np.array(requested)).tolist() == wanted
    assert logits.too_short_for(np.array(counts)) == 0
    assert logits.too_short_for(np.array(counts) + 1) == len(counts)


@pytest.mark.parametrize("words", [False, True])
def test_every_row_gets_its_logits_in_the_students_order_of_classes(opened, monkeypatch, words):
    monkeypatch.setattr(task_teacher, "ENCODED_AT_A_TIME", 4)
    assembly = finished(TaggingConfig(name="digits", special_tokens=False) if words else None)
    texts = ["0", "0123", "ab1", "98", "1b" * 5, "77"]
    examples = [WordsExample(tuple(text)) if words else TextExample(text) for text in texts]
    logits = opened(assembly, LABELS[::-1], words).logits(examples)
    assert np.diff(logits.offsets).tolist() == ([len(text) for text in texts] if words else [1] * len(texts))
    for row, text in enumerate(texts):
        (encoded,) = assembly.task.encode([examples[row]])
        ids = torch.tensor([encoded.input_ids])
        with torch.no_grad():
            hidden = assembly.model.encoder(ids, torch.tensor([encoded.token_type_ids]), None)
            head = assembly.model.token_head(hidden[0]) if words else assembly.model.sequence_head(hidden[:, 0])
        np.testing.assert_allclose(
            logits.values[logits.offsets[row] : logits.offsets[row + 1]], head.numpy()[:, ::-1], rtol=1e-4
        )
        assert len(head) == (len(text) if words else 1)


def test_a_teacher_can_know_more_labels_than_the_task(opened):
    teacher = opened(finished(), ["level", "up"])
    assert teacher.logits([TextExample("01")]).values.shape == (1, 2)


@pytest.mark.parametrize(
    ("task", "labels", "words", "refusal"),
    [
        (None, ["up", "sideways"], False, "does not know the label 'sideways'. Allowed: a teacher of all 2 labels"),
        (None, LABELS, True, "was not trained on a task like digits"),
        (TaggingConfig(name="parts"), LABELS, False, "was not trained on a task like digits"),
        (PretrainingConfig(name="text"), LABELS, False, "was not trained on a task like digits"),
    ],
)
def test_a_run_of_another_task_is_refused(opened, task, labels, words, refusal):
    with pytest.raises(DataError, match=refusal):
        opened(finished(task), labels, words)


def test_a_teacher_of_label_sets_has_logits_for_each_label(opened):
    assert opened(finished(MultilabelConfig(name="digits"))).logits([TextExample("01")]).values.shape == (1, 3)
