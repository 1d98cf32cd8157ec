"""A teacher of vectors: its targets are its encoder's own outputs, and a student that reads other tokens is refused."""

import pytest
import torch

from encoderlab.batch import Batch, HeadSizes
from encoderlab.data.tokenizers import SymbolsConfig
from encoderlab.distillation.teacher import VectorTeacher
from encoderlab.errors import SettingError
from encoderlab.model.config import ModelConfig
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.runs.pretrained import Pretrained
from encoderlab.tasks.config import TeacherVectorsConfig
from encoderlab.tasks.teacher_vectors import TeacherVectors
from tests.runs.small_assembly import CPU, TOKENIZER

MASK = torch.tensor([[True, True, True, False], [True, True, False, False]])


@pytest.fixture
def teacher(monkeypatch):
    """Return a teacher with random weights and width 8 that reads 12 tokens."""
    torch.manual_seed(0)
    config = ModelConfig(n_layers=1, d_model=8, n_heads=2, max_length=12, dropout=0.5)
    weights = EncoderWithHeads(config, TOKENIZER.vocabulary_size, TOKENIZER.pad_id, HeadSizes()).state_dict()
    encoder = Pretrained("teacher", config, HeadSizes(), weights, TOKENIZER, [])
    monkeypatch.setattr("encoderlab.distillation.teacher.load_pretrained", lambda name, setting: encoder)
    return VectorTeacher.open("teacher", CPU)


def task_of(tokenizer=TOKENIZER, max_length=12):
    return TeacherVectors(TeacherVectorsConfig(name="vectors", teacher_width=8), tokenizer, [], max_length)


def batch(mask=MASK):
    ids = torch.tensor([[4, 7, 8, 0], [5, 6, 0, 0]])
    none = torch.zeros(0, dtype=torch.long)
    return Batch(ids, ids * 0, mask, torch.arange(2), none, None, None, n_tokens=5)


def test_targets_are_the_vectors_of_real_tokens_and_their_mean_per_text(teacher):
    task = task_of()
    teacher.teach(task)
    targets = task.ask(batch(), 0).targets
    with torch.no_grad():
        hidden = teacher.model.encoder(batch().input_ids, batch().token_type_ids, MASK)
    assert teacher.width == 8
    assert torch.equal(targets.token_vectors, hidden[MASK])
    assert torch.allclose(
        targets.sequence_vectors, torch.stack([hidden[0, :3].mean(0), hidden[1, :2].mean(0)]), atol=1e-6
    )


def test_a_teacher_is_frozen_and_its_targets_can_be_used_in_a_loss(teacher):
    targets = teacher(batch())
    student = torch.ones(2, 8, requires_grad=True)
    (student * targets.sequence_vectors).sum().backward()
    assert student.grad is not None
    assert not teacher.model.training and not any(weight.requires_grad for weight in teacher.model.parameters())


def test_a_student_with_another_tokenizer_is_refused(teacher):
    other = SymbolsConfig(symbols="0123").build(list, None)
    with pytest.raises(SettingError, match="different tokenizers.*Use tokenizer=as_pretrained"):
        teacher.teach(task_of(tokenizer=other))


def test_a_student_that_reads_longer_texts_is_refused_with_the_length_that_works(teacher):
    with pytest.raises(SettingError, match="model.max_length is 13.*Set model.max_length=12"):
        teacher.teach(task_of(max_length=13))
