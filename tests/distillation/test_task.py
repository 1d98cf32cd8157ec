"""Distillation on a task: what a student learns from, the same student without its teacher, and all three side by side."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from encoderlab.config.commands import DistillConfig, StudentStart
from encoderlab.data.examples import Split, Splits, TextExample, WordsExample
from encoderlab.data.survey import survey
from encoderlab.data.tokenizers import SymbolsConfig
from encoderlab.distillation import task as task_distillation
from encoderlab.distillation.task import TaskDistillation, TaskTeacher, TeacherLogits, _labelled
from encoderlab.errors import DataError, SettingError
from encoderlab.model.config import ModelConfig
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.inference.inputs import encoded_rows
from encoderlab.runs.saved_model import Origin
from encoderlab.tasks.config import ClassificationConfig, TaggingConfig
from encoderlab.tasks.rows import TaughtRows
from encoderlab.training.config import TrainingConfig
from tests.runs.small_assembly import LABELS, assembly_of

pytestmark = pytest.mark.usefixtures("same_threads")
TEXTS = ["0123", "45", "9a", "b", "777", "12"]
TASKS = {False: ClassificationConfig(name="digits"), True: TaggingConfig(name="digits")}


def config_of(words=False, **settings):
    settings = {"teacher": "it", "init_from": "an encoder", "teacher_weight": 0.5} | settings
    training = TrainingConfig(device="cpu", threads=1)
    return DistillConfig("cache", TASKS[words], None, SymbolsConfig(), ModelConfig(), training, seed=3, **settings)


def corpus_of(tmp_path, words=False):
    columns = {"text": TEXTS, "label": [row % 3 for row in range(len(TEXTS))]}
    if words:
        columns = {"words": [list(text) for text in TEXTS], "labels": [[0] * len(text) for text in TEXTS]}
    splits = Splits({name: Split(pa.table(columns)) for name in ("train", "test")}, LABELS)
    return Corpus(splits, survey(splits), tmp_path)


@pytest.fixture
def distillation(monkeypatch, tmp_path):
    """Return a distillation from a small teacher, ."""

    def make(words=False, length=12, **settings):
        teacher = replace(assembly_of(TASKS[words], seed=1, max_length=length), origin=Origin({}, False, {}))
        teacher.model.eval()
        monkeypatch.setattr(TaskTeacher, "open", lambda config, labels, words: TaskTeacher("it", teacher, [0, 1, 2]))
        return TaskDistillation(config_of(words, **settings), corpus_of(tmp_path, words), words)

    return make


def prepared(found, tmp_path, words=False):
    assembly, corpus = assembly_of(TASKS[words]), corpus_of(tmp_path, words)
    return found.prepare(assembly, corpus, encoded_rows(assembly, list(corpus.split("train"))))


@pytest.mark.parametrize("words", [False, True])
def test_every_row_has_the_logits_of_the_teacher(distillation, tmp_path, words):
    found = distillation(words)
    rows = prepared(found, tmp_path, words)
    assert isinstance(rows, TaughtRows) and len(rows) == len(TEXTS) and rows.weight == 0.5
    batch = rows.prepare(rows.gather(np.array([2, 0]), 0))
    examples = list(corpus_of(tmp_path, words).split("train"))
    targets = batch.targets.token_logits if words else batch.targets.sequence_logits
    np.testing.assert_allclose(targets, found.teacher.logits([examples[2], examples[0]]).values, rtol=1e-4, atol=1e-5)


def test_a_teacher_without_weight_changes_no_row(distillation, tmp_path):
    found = distillation(teacher_weight=0.0)
    assert not isinstance(prepared(found, tmp_path), TaughtRows)


def test_a_teacher_that_reads_less_than_the_student_is_refused(distillation, tmp_path):
    found = distillation(words=True, length=5)
    with pytest.raises(
        DataError, match="reads fewer words of 1 rows than the student. Set model.max_length to at most 5"
    ):
        prepared(found, tmp_path, words=True)


@pytest.mark.parametrize("words", [False, True])
def test_unlabelled_texts_are_added_with_the_teachers_labels(distillation, tmp_path, words):
    (tmp_path / "more.txt").write_text("0 1 2\n\n3 4\n", encoding="utf-8")
    found = distillation(words, unlabelled=str(tmp_path / "more.txt"))
    rows = prepared(found, tmp_path, words)
    assert len(rows) == len(TEXTS) + 2
    batch = rows.prepare(rows.gather(np.array([len(TEXTS) + 1]), 0))
    targets, labels = (
        (batch.targets.token_logits, batch.token_labels) if words else (batch.targets.sequence_logits, batch.labels)
    )
    assert targets.argmax(1).tolist() == labels.tolist()


def test_a_file_without_texts_is_refused(distillation, tmp_path):
    (tmp_path / "more.txt").write_text("\n \n", encoding="utf-8")
    found = distillation(unlabelled=str(tmp_path / "more.txt"))
    with pytest.raises(DataError, match=r"more.txt has no texts"):
        prepared(found, tmp_path)


def test_words_beyond_the_teachers_length_get_its_last_label():
    logits = TeacherLogits(np.eye(3, dtype=np.float32)[[2, 0, 1]], np.array([0, 2, 3]))
    found = _labelled([WordsExample(("a", "b", "c", "d")), WordsExample(("e",))], logits)
    assert [one.labels for one in found] == [(2, 0, 0, 0), (1,)]
    texts = _labelled([TextExample("a"), TextExample("b")], TeacherLogits(np.eye(2, dtype=np.float32), np.arange(3)))
    assert [one.label for one in texts] == [0, 1]


def test_tables_of_other_tokens_are_not_copied(distillation, monkeypatch, tmp_path):
    class Encoder:
        tokenizer = SymbolsConfig(symbols="xyz").build(list, None)

    monkeypatch.setattr(task_distillation, "load_pretrained", lambda *named: Encoder())
    found = distillation(init_from=None, start=StudentStart.embeddings)
    with pytest.raises(
        SettingError, match="start=embeddings needs the teacher's tokenizer, but the student has another"
    ):
        prepared(found, tmp_path)
