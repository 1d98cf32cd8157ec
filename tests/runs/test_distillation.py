"""What a student starts from and learns from: parts of its teacher, its vectors, and its logits for each row."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from encoderlab.batch import Batch, HeadSizes
from encoderlab.config.commands import DistillConfig, StudentStart
from encoderlab.data.examples import Split, Splits, TextExample, WordsExample
from encoderlab.data.survey import survey
from encoderlab.data.tokenizers import SymbolsConfig
from encoderlab.errors import DataError, SettingError
from encoderlab.model.config import ModelConfig
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.runs import distillation
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.distillation import TaskTeacher, projection, start_student, taught_rows, teach_vectors
from encoderlab.runs.predict import encoded_rows
from encoderlab.runs.saved_model import TOKEN_TABLE, Origin, SavedModel
from encoderlab.tasks.config import ClassificationConfig, PretrainingConfig, TaggingConfig, TeacherVectorsConfig
from encoderlab.tasks.pretraining import TeacherVectors
from encoderlab.tasks.rows import TaughtRows
from encoderlab.tasks.texts import EncodingConfig
from encoderlab.training.config import TrainingConfig
from tests.runs.small_assembly import CPU, LABELS, TOKENIZER, assembly_of

pytestmark = pytest.mark.usefixtures("same_threads")
TEXTS = ["0123", "45", "9a", "b", "777", "12"]
TASKS = {False: ClassificationConfig(name="digits"), True: TaggingConfig(name="digits", special_tokens=False)}


def encoder_of(**shape):
    torch.manual_seed(0)
    config = ModelConfig(**{"n_layers": 4, "d_model": 16, "n_heads": 2, "max_length": 12, "dropout": 0.5} | shape)
    weights = EncoderWithHeads(config, TOKENIZER.vocabulary_size, TOKENIZER.pad_id, HeadSizes()).state_dict()
    run = replace(assembly_of().config, task=EncodingConfig(name="teacher"), model=config)
    return SavedModel(run, [], TOKENIZER, weights, Origin({}, None, {}))


def test_the_projection_keeps_what_varies_most():
    torch.manual_seed(0)
    spread = torch.randn(200, 3) @ torch.diag(torch.tensor([5.0, 3.0, 0.01]))
    kept = projection(spread, 2)
    assert torch.allclose(kept.T @ kept, torch.eye(2), atol=1e-5)
    assert (spread - spread @ kept @ kept.T).norm() < 0.01 * spread.norm()


def test_projected_embeddings_preserve_which_words_are_similar():
    teacher, student = encoder_of(), assembly_of(n_layers=1, d_model=12, max_length=6)
    start_student(student, teacher, StudentStart.embeddings)
    mine, theirs = student.model.encoder.embeddings.token.weight.detach(), teacher.weights[TOKEN_TABLE]
    assert torch.corrcoef(torch.stack([(one @ one.T).flatten() for one in (mine, theirs)]))[0, 1] > 0.9


def test_layers_are_selected_evenly_up_to_the_last():
    teacher, student = encoder_of(), assembly_of(n_layers=2, d_model=16)
    start_student(student, teacher, StudentStart.layers)
    for mine, source in ((0, 1), (1, 3)):
        weights = student.model.encoder.layers[mine].state_dict()
        assert all(
            torch.equal(weight, teacher.weights[f"encoder.layers.{source}.{name}"]) for name, weight in weights.items()
        )
    assert torch.equal(student.model.encoder.embeddings.token.weight, teacher.weights[TOKEN_TABLE])


@pytest.mark.parametrize(
    ("shape", "start", "message"),
    [
        ({"d_model": 32}, StudentStart.embeddings, "model.d_model is 32"),
        ({"d_model": 8}, StudentStart.layers, "model.d_model is 8, and the teacher's is 16"),
        ({"d_model": 16, "n_layers": 5}, StudentStart.layers, "model.n_layers is 5, and the teacher's is 4"),
    ],
)
def test_a_student_that_cannot_hold_parts_of_its_teacher_is_refused(shape, start, message):
    with pytest.raises(SettingError, match=message):
        start_student(assembly_of(**shape), encoder_of(), start)


def test_tables_of_other_tokens_are_not_copied():
    other = replace(encoder_of(), tokenizer=SymbolsConfig(symbols="xyz").build(list, None))
    with pytest.raises(SettingError, match="start=embeddings needs the teacher's tokenizer"):
        start_student(assembly_of(), other, StudentStart.embeddings)


def vectors_task(tokenizer=TOKENIZER, max_length=12):
    return TeacherVectors(TeacherVectorsConfig(name="vectors", teacher_width=16), tokenizer, [], max_length)


def test_targets_are_the_vectors_of_real_tokens_and_their_mean_per_text():
    mask = torch.tensor([[True, True, True, False], [True, True, False, False]])
    ids, none = torch.tensor([[4, 7, 8, 0], [5, 6, 0, 0]]), torch.zeros(0, dtype=torch.long)
    batch = Batch(ids, ids * 0, mask, torch.arange(2), none, None, None, n_tokens=5)
    task, teacher = vectors_task(), encoder_of()
    teach_vectors(task, teacher, CPU)
    targets = task.with_targets(batch, 0).teacher
    with torch.no_grad():
        hidden = teacher.model().encoder(ids, ids * 0, mask)
    assert torch.equal(targets.token_vectors, hidden[mask])
    means = torch.stack([hidden[0, :3].mean(0), hidden[1, :2].mean(0)])
    assert torch.allclose(targets.sequence_vectors, means, atol=1e-6)
    student = torch.ones(2, 16, requires_grad=True)
    (student * targets.sequence_vectors).sum().backward()
    assert student.grad is not None


def test_a_student_that_reads_other_tokens_or_more_is_refused():
    other = SymbolsConfig(symbols="0123").build(list, None)
    with pytest.raises(SettingError, match=r"tokenizer=as_pretrained"):
        teach_vectors(vectors_task(tokenizer=other), encoder_of(), CPU)
    with pytest.raises(SettingError, match=r"model\.max_length is 13.*model\.max_length=12"):
        teach_vectors(vectors_task(max_length=13), encoder_of(), CPU)


def config_of(words=False, **settings):
    settings = {"teacher": "it", "init_from": "an encoder", "teacher_weight": 0.5} | settings
    training = TrainingConfig(device="cpu", threads=1)
    return DistillConfig("cache", TASKS[words], None, SymbolsConfig(), ModelConfig(), training, seed=3, **settings)


def corpus_of(tmp_path, words=False, labels=LABELS):
    columns = {"text": TEXTS, "label": [row % len(labels) for row in range(len(TEXTS))]}
    if words:
        columns = {"words": [list(text) for text in TEXTS], "labels": [[0] * len(text) for text in TEXTS]}
    splits = Splits({name: Split(pa.table(columns)) for name in ("train", "test")}, labels)
    return Corpus(splits, survey(splits), tmp_path)


@pytest.fixture
def opened(monkeypatch, tmp_path):
    """Open a small finished run as a teacher."""
    monkeypatch.setattr(distillation, "encoder_folder", lambda name, setting: Path(name))

    def make(words=False, task=None, labels=LABELS, max_length=12):
        run = replace(assembly_of(task or TASKS[words], max_length=max_length), origin=Origin({}, False, {}))
        run.model.eval()
        monkeypatch.setattr(distillation, "reopen", lambda config: run)
        return TaskTeacher.open(config_of(words), corpus_of(tmp_path, words, labels))

    return make


def taught(teacher, tmp_path, words=False, **settings):
    student, corpus = assembly_of(TASKS[words], seed=1), corpus_of(tmp_path, words)
    rows = encoded_rows(student, list(corpus.split("train")))
    return taught_rows(config_of(words, **settings), teacher, student, corpus, rows)


@pytest.mark.parametrize("words", [False, True])
def test_logits_are_those_of_the_teacher_in_the_students_order_of_classes(opened, words):
    teacher = opened(words, labels=LABELS if words else LABELS[::-1])
    examples = [WordsExample(tuple(text)) if words else TextExample(text) for text in TEXTS]
    logits = teacher.logits(examples)
    assert [len(of_row) for of_row in logits] == ([len(text) for text in TEXTS] if words else [1] * len(TEXTS))
    (encoded,), model = teacher.assembly.task.encode([examples[0]]), teacher.assembly.model
    ids = torch.tensor([encoded.input_ids])
    with torch.no_grad():
        hidden = model.encoder(ids, torch.tensor([encoded.token_type_ids]), None)
        head = model.token_head(hidden[0]) if words else model.sequence_head(hidden[:, 0])
    expected = head.numpy() if words else head.numpy()[:, ::-1]
    np.testing.assert_allclose(logits[0], expected, rtol=1e-4)


@pytest.mark.parametrize("words", [False, True])
def test_every_row_of_a_student_has_its_teachers_logits(opened, tmp_path, words):
    teacher = opened(words)
    rows = taught(teacher, tmp_path, words)
    assert isinstance(rows, TaughtRows) and len(rows) == len(TEXTS) and rows.weight == 0.5
    batch = rows.prepare(rows.gather(np.array([2, 0]), 0))
    examples = list(corpus_of(tmp_path, words).split("train"))
    targets = batch.teacher.token_logits if words else batch.teacher.sequence_logits
    expected = np.concatenate(teacher.logits([examples[2], examples[0]]))
    np.testing.assert_allclose(targets, expected, rtol=1e-4, atol=1e-5)
    assert not isinstance(taught(teacher, tmp_path, words, teacher_weight=0.0), TaughtRows)


@pytest.mark.parametrize("words", [False, True])
def test_unlabelled_texts_are_added_with_the_teachers_labels(opened, tmp_path, words):
    (tmp_path / "more.txt").write_text("0 1 2\n\n3 4\n", encoding="utf-8")
    rows = taught(opened(words), tmp_path, words, unlabelled=str(tmp_path / "more.txt"))
    assert len(rows) == len(TEXTS) + 2
    batch = rows.prepare(rows.gather(np.array([len(TEXTS) + 1]), 0))
    targets = batch.teacher.token_logits if words else batch.teacher.sequence_logits
    assert targets.argmax(1).tolist() == (batch.token_labels if words else batch.labels).tolist()


def test_a_teacher_that_reads_less_than_the_student_is_refused(opened, tmp_path):
    with pytest.raises(DataError, match="model.max_length to at most 3"):
        taught(opened(words=True, max_length=3), tmp_path, words=True)


@pytest.mark.parametrize(
    ("task", "labels", "words", "refusal"),
    [
        (TASKS[False], ["up", "sideways"], False, "does not know the label 'sideways'"),
        (TASKS[False], LABELS, True, "was not trained on a task like digits"),
        (TASKS[True], LABELS, False, "was not trained on a task like digits"),
        (PretrainingConfig(name="text"), LABELS, False, "was not trained on a task like digits"),
    ],
)
def test_a_run_of_another_task_is_refused(opened, task, labels, words, refusal):
    with pytest.raises(DataError, match=refusal):
        opened(words, task, labels)
