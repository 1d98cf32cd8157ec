"""The model inside an estimator: it predicts like the original, pickles, and is saved once."""

import pickle
from dataclasses import replace

import pytest
import torch

from encoderlab.data.examples import TextExample
from encoderlab.data.generated import BracketsDataset
from encoderlab.errors import SettingError
from encoderlab.estimators.fitted_model import FittedModel
from encoderlab.estimators.inputs import InputError
from encoderlab.runs.saved_model import Origin, read_model
from encoderlab.tasks.config import ClassificationConfig
from encoderlab.training.config import TrainingConfig
from tests.runs.small_assembly import LABELS, assembly_of

pytestmark = pytest.mark.usefixtures("same_threads")
TEXTS = [TextExample(text) for text in ("012", "9a", "b")]


@pytest.fixture
def model():
    training = TrainingConfig(device="cpu", threads=1)
    saved = assembly_of(ClassificationConfig(name="digits"), training=training).saved(Origin({"step": 1}, False, {}))
    return FittedModel(replace(saved, config=replace(saved.config, dataset=BracketsDataset())))


def test_it_predicts_in_order_and_without_dropout(model):
    together = model.answers(TEXTS)
    assert [answer.labels[0] in LABELS for answer in together] == [True] * 3
    assert model.answers(TEXTS) == together
    alone = [model.answers([text])[0].probabilities for text in TEXTS]
    assert alone == [pytest.approx(answer.probabilities, abs=1e-5) for answer in together]
    assert model.answers([]) == []


def test_a_pickled_copy_predicts_the_same_and_has_no_weight_twice(model):
    content = pickle.dumps(model)
    assert pickle.loads(content).answers(TEXTS) == model.answers(TEXTS)
    n_bytes = sum(weight.numel() * weight.element_size() for weight in model.saved.weights.values())
    assert len(content) < 1.5 * n_bytes + 20_000


def test_a_pair_is_refused_as_a_value_error(model):
    with pytest.raises(InputError, match="trained on single texts, but a pair was given") as refused:
        model.answers([TextExample("0", "1")])
    assert isinstance(refused.value, ValueError)


def test_it_is_saved_like_any_model_and_replaces_nothing(model, tmp_path):
    model.save(tmp_path / "deep" / "model")
    read = read_model(tmp_path / "deep" / "model")
    assert read.labels == LABELS and all(
        torch.equal(read.weights[name], weight) for name, weight in model.saved.weights.items()
    )
    with pytest.raises(SettingError, match=r"path=.*model already exists. Allowed: a new folder"):
        model.save(tmp_path / "deep" / "model")
