"""Predictions and vectors belong to their row and do not depend on the other rows."""

import numpy as np
import pytest

from encoderlab.config.commands import VectorPooling
from encoderlab.data.examples import TextExample
from tests.runs.small_model import LABELS, model_of

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = ["0123456789", "a", "12ab"]


@pytest.fixture(scope="module")
def model():
    small = model_of()
    small.network.eval()
    return small


def vectors(model, texts, pooling):
    return model.vectors(model.rows([TextExample(text) for text in texts]), pooling)


def test_each_example_has_the_prediction_it_has_alone(model):
    examples = [TextExample(text) for text in (*TEXTS, "", "b" * 40)]
    for example, answer in zip(examples, model.predictions(examples), strict=True):
        (alone,) = model.predictions([example])
        assert answer.labels == alone.labels
        assert answer.probabilities == pytest.approx(alone.probabilities, abs=1e-5)
        assert sum(answer.by_label(LABELS).values()) == pytest.approx(1)
        assert max(answer.by_label(LABELS), key=answer.by_label(LABELS).get) == answer.labels[0]


@pytest.mark.parametrize("pooling", VectorPooling)
def test_a_rows_vectors_are_those_it_has_alone(model, pooling):
    for text, together in zip(TEXTS, vectors(model, TEXTS, pooling), strict=True):
        np.testing.assert_allclose(together, vectors(model, [text], pooling)[0], atol=1e-5)
