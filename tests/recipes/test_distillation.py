"""What a student starts from and learns from: parts of its teacher, its vectors, and its logits for each row."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from encoderlab.batch import Batch
from encoderlab.config.commands import DistillConfig, StudentStart
from encoderlab.data.built_in import IntentsDataset
from encoderlab.data.data import Data
from encoderlab.data.examples import Split, TextExample, WordsExample
from encoderlab.data.token_store import tokenize_examples
from encoderlab.data.tokenizer_config import SymbolsConfig
from encoderlab.errors import DataError, SettingError
from encoderlab.models.model import Model, Provenance
from encoderlab.models.pretrained import TOKEN_TABLE
from encoderlab.network.config import HeadSizes, ModelConfig
from encoderlab.network.heads import EncoderWithHeads
from encoderlab.recipes.distillation import (
    Teacher,
    projection,
    start_student,
    taught_rows,
    teach_vectors,
    teacher_logits,
)
from encoderlab.tasks.classification import ClassificationConfig
from encoderlab.tasks.pretraining import PretrainingConfig
from encoderlab.tasks.rows import TaughtRows
from encoderlab.tasks.tagging import TaggingConfig
from encoderlab.tasks.vectors import EncodingConfig, TeacherVectorsConfig
from encoderlab.training.config import TrainingConfig
from tests.runs.small_model import CPU, LABELS, TOKENIZER, model_of

pytestmark = pytest.mark.usefixtures("same_threads")
TEXTS = ["0123", "45", "9a", "b", "777", "12"]
TASKS = {False: ClassificationConfig(name="digits"), True: TaggingConfig(name="digits", special_tokens=False)}


def encoder_of(**shape):
    torch.manual_seed(0)
    config = ModelConfig(**{"n_layers": 4, "d_model": 16, "n_heads": 2, "max_length": 12, "dropout": 0.5} | shape)
    network = EncoderWithHeads(config, TOKENIZER.vocabulary_size, TOKENIZER.pad_id, HeadSizes()).eval()
    run = replace(model_of().config, task=EncodingConfig(name="teacher"), model=config)
    return Model(run, run.task.build(TOKENIZER, [], config.max_length), network, CPU, Provenance({}, None, {}))


def test_the_projection_keeps_what_varies_most():
    torch.manual_seed(0)
    spread = torch.randn(200, 3) @ torch.diag(torch.tensor([5.0, 3.0, 0.01]))
    kept = projection(spread, 2)
    assert torch.allclose(kept.T @ kept, torch.eye(2), atol=1e-5)
    assert (spread - spread @ kept @ kept.T).norm() < 0.01 * spread.norm()


def test_projected_embeddings_preserve_which_words_are_similar():
    teacher, student = encoder_of(), model_of(n_layers=1, d_model=12, max_length=6)
    start_student(student, teacher, StudentStart.embeddings)
    mine, theirs = student.network.encoder.embeddings.token.weight.detach(), teacher.weights[TOKEN_TABLE]
    assert torch.corrcoef(torch.stack([(one @ one.T).flatten() for one in (mine, theirs)]))[0, 1] > 0.9


def test_layers_are_selected_evenly_up_to_the_last():
    teacher, student = encoder_of(), model_of(n_layers=2, d_model=16)
    start_student(student, teacher, StudentStart.layers)
    for mine, source in ((0, 1), (1, 3)):
        weights = student.network.encoder.layers[mine].state_dict()
        assert all(
            torch.equal(weight, teacher.weights[f"encoder.layers.{source}.{name}"]) for name, weight in weights.items()
        )
    assert torch.equal(student.network.encoder.embeddings.token.weight, teacher.weights[TOKEN_TABLE])


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
        start_student(model_of(**shape), encoder_of(), start)


def test_tables_of_other_tokens_are_not_copied():
    tokenizer = SymbolsConfig(symbols="xyz").build(list, None)
    other = replace(encoder_of(), task=EncodingConfig(name="teacher").build(tokenizer, [], 12))
    with pytest.raises(SettingError, match="start=embeddings needs the teacher's tokenizer"):
        start_student(model_of(), other, StudentStart.embeddings)


def vectors_task(tokenizer=TOKENIZER, max_length=12):
    return TeacherVectorsConfig(name="vectors", teacher_width=16).build(tokenizer, [], max_length)


def test_targets_are_the_vectors_of_real_tokens_and_their_mean_per_text():
    mask = torch.tensor([[True, True, True, False], [True, True, False, False]])
    ids, none = torch.tensor([[4, 7, 8, 0], [5, 6, 0, 0]]), torch.zeros(0, dtype=torch.long)
    batch = Batch(ids, ids * 0, mask, torch.arange(2), none, None, None, n_tokens=5)
    task, teacher = vectors_task(), encoder_of()
    teach_vectors(task, teacher, CPU)
    targets = task.with_targets(batch, 0).teacher
    with torch.no_grad():
        hidden = teacher.network.encoder(ids, ids * 0, mask)
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


def data_of(words=False, labels=LABELS):
    columns = {"text": TEXTS, "label": [row % len(labels) for row in range(len(TEXTS))]}
    if words:
        columns = {"words": [list(text) for text in TEXTS], "labels": [[0] * len(text) for text in TEXTS]}
    return Data({name: Split(pa.table(columns)) for name in ("train", "test")}, labels)


def teacher_of(words=False, task=None, labels=LABELS, max_length=12):
    """Return a small finished run as a teacher, unless it cannot teach rows of texts, or of words."""
    model = replace(model_of(task or TASKS[words], max_length=max_length), provenance=Provenance({}, False, {}))
    model.network.eval()
    Teacher(config_of(words), model, model).check(data_of(words, labels))
    return model


def taught(teacher, words=False, **settings):
    student = model_of(TASKS[words], seed=1)
    student.config.dataset = IntentsDataset()
    data = data_of(words)
    store = tokenize_examples(list(data.split("train")), TOKENIZER)
    rows = student.task.rows(store, data.split("train").targets())
    return taught_rows(config_of(words, **settings), teacher, student, data, rows)


@pytest.mark.parametrize("words", [False, True])
def test_logits_are_those_of_the_teacher_in_the_students_order_of_classes(words):
    teacher = teacher_of(words, labels=LABELS if words else LABELS[::-1])
    examples = [WordsExample(tuple(text)) if words else TextExample(text) for text in TEXTS]
    logits = teacher_logits(teacher, examples, LABELS if words else LABELS[::-1])
    assert [len(of_row) for of_row in logits] == ([len(text) for text in TEXTS] if words else [1] * len(TEXTS))
    batch = teacher.rows([examples[0]]).gather(np.array([0]), TOKENIZER.pad_id)
    network = teacher.network
    with torch.no_grad():
        hidden = network.encoder(batch.input_ids, batch.token_type_ids, None)
        head = network.token_head(hidden[0]) if words else network.sequence_head(hidden[:, 0])
    expected = head.numpy() if words else head.numpy()[:, ::-1]
    np.testing.assert_allclose(logits[0], expected, rtol=1e-4)


@pytest.mark.parametrize("words", [False, True])
def test_every_row_of_a_student_has_its_teachers_logits(tmp_path, words):
    teacher = teacher_of(words)
    rows = taught(teacher, words)
    assert isinstance(rows, TaughtRows) and len(rows) == len(TEXTS) and rows.weight == 0.5
    batch = rows.prepare(rows.gather(np.array([2, 0]), 0))
    examples = list(data_of(words).split("train"))
    targets = batch.teacher.token_logits if words else batch.teacher.sequence_logits
    expected = np.concatenate(teacher_logits(teacher, [examples[2], examples[0]], LABELS))
    np.testing.assert_allclose(targets, expected, rtol=1e-4, atol=1e-5)
    assert not isinstance(taught(teacher, words, teacher_weight=0.0), TaughtRows)


@pytest.mark.parametrize("words", [False, True])
def test_unlabelled_texts_are_added_with_the_teachers_labels(tmp_path, words):
    (tmp_path / "more.txt").write_text("0 1 2\n\n3 4\n", encoding="utf-8")
    rows = taught(teacher_of(words), words, unlabelled=str(tmp_path / "more.txt"))
    assert len(rows) == len(TEXTS) + 2
    batch = rows.prepare(rows.gather(np.array([len(TEXTS) + 1]), 0))
    targets = batch.teacher.token_logits if words else batch.teacher.sequence_logits
    assert targets.argmax(1).tolist() == (batch.token_labels if words else batch.labels).tolist()


def test_a_teacher_that_reads_less_than_the_student_is_refused():
    with pytest.raises(DataError, match="model.max_length to at most 3"):
        taught(teacher_of(words=True, max_length=3), words=True)


@pytest.mark.parametrize(
    ("task", "labels", "words", "refusal"),
    [
        (TASKS[False], ["up", "sideways"], False, "does not know the label 'sideways'"),
        (TASKS[False], LABELS, True, "was not trained on a task like digits"),
        (TASKS[True], LABELS, False, "was not trained on a task like digits"),
        (PretrainingConfig(name="text"), LABELS, False, "was not trained on a task like digits"),
    ],
)
def test_a_run_of_another_task_is_refused(task, labels, words, refusal):
    with pytest.raises(DataError, match=refusal):
        teacher_of(words, task, labels)
