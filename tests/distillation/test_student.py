"""What a student starts from: its teacher's embeddings projected to its width, or its layers."""

import pytest
import torch

from encoderlab.batch import HeadSizes
from encoderlab.config.commands import StudentStart
from encoderlab.distillation.student import check_start, projection, start_student
from encoderlab.errors import SettingError
from encoderlab.model.config import ModelConfig
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.runs.pretrained import TOKEN_TABLE, Pretrained


def config_of(**changes):
    return ModelConfig(**{"n_layers": 4, "d_model": 16, "n_heads": 2, "max_length": 10} | changes)


def built(config):
    return EncoderWithHeads(config, 30, 0, HeadSizes())


@pytest.fixture
def teacher():
    torch.manual_seed(0)
    config = config_of()
    return Pretrained("teacher", config, HeadSizes(), built(config).state_dict(), None, [])


def test_the_projection_keeps_what_varies_most():
    torch.manual_seed(0)
    spread = torch.randn(200, 3) @ torch.diag(torch.tensor([5.0, 3.0, 0.01]))
    kept = projection(spread, 2)
    assert torch.allclose(kept.T @ kept, torch.eye(2), atol=1e-5)
    assert (spread - spread @ kept @ kept.T).norm() < 0.01 * spread.norm()


def test_fresh_weights_are_left_unchanged(teacher):
    config = config_of(d_model=8)
    model = built(config)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    start_student(model, config, teacher, StudentStart.fresh)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


def test_projected_embeddings_preserve_which_words_are_similar(teacher):
    config = config_of(d_model=12, max_length=6)
    model = built(config)
    start_student(model, config, teacher, StudentStart.embeddings)
    mine, its = model.encoder.embeddings.token.weight.detach(), teacher.weights[TOKEN_TABLE]
    alike, wanted = (torch.corrcoef(torch.stack([(one @ one.T).flatten() for one in (mine, its)])))[0]
    assert wanted > 0.9 and alike == pytest.approx(1.0)
    assert model.encoder.embeddings.position(slice(6)).shape == (6, 12)


def test_layers_are_selected_evenly_up_to_the_last(teacher):
    config = config_of(n_layers=2)
    model = built(config)
    start_student(model, config, teacher, StudentStart.layers)
    for mine, its in ((0, 1), (1, 3)):
        found, wanted = model.encoder.layers[mine].state_dict(), f"encoder.layers.{its}."
        assert all(torch.equal(weight, teacher.weights[wanted + name]) for name, weight in found.items())
    assert torch.equal(model.encoder.embeddings.token.weight, teacher.weights[TOKEN_TABLE])


@pytest.mark.parametrize(
    ("changes", "start", "message"),
    [
        ({"d_model": 32}, StudentStart.embeddings, "cannot be widened"),
        ({"d_model": 8}, StudentStart.layers, "model.d_model is 8, and the teacher's is 16"),
        ({"n_layers": 5}, StudentStart.layers, "model.n_layers is 5, and the teacher's is 4"),
    ],
)
def test_a_student_that_does_not_fit_its_teacher_is_refused(teacher, changes, start, message):
    config = config_of(**changes)
    with pytest.raises(SettingError, match=message):
        check_start(config, teacher.config, start)
