"""Predictions and vectors belong to their row and do not depend on the other rows."""

import numpy as np
import pytest

from encoderlab.config.commands import VectorPooling
from encoderlab.data.examples import TextExample
from encoderlab.runs.predict import encoded_rows, predictions_of, vectors_of
from tests.runs.small_assembly import LABELS, assembly_of

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = ["0123456789", "a", "12ab"]


@pytest.fixture(scope="module")
def assembly():
    small = assembly_of()
    small.model.eval()
    return small


def vectors(assembly, texts, pooling):
    rows = encoded_rows(assembly, [TextExample(text) for text in texts])
    return vectors_of(assembly, rows, pooling)


def test_each_example_has_the_prediction_it_has_alone(assembly):
    examples = [TextExample(text) for text in (*TEXTS, "", "b" * 40)]
    for example, answer in zip(examples, predictions_of(assembly, examples), strict=True):
        (alone,) = predictions_of(assembly, [example])
        assert answer.labels == alone.labels
        assert answer.probabilities == pytest.approx(alone.probabilities, abs=1e-5)
        assert sum(answer.by_label(LABELS).values()) == pytest.approx(1)
        assert max(answer.by_label(LABELS), key=answer.by_label(LABELS).get) == answer.labels[0]


@pytest.mark.parametrize("pooling", VectorPooling)
def test_a_rows_vectors_are_those_it_has_alone(assembly, pooling):
    for text, together in zip(TEXTS, vectors(assembly, TEXTS, pooling), strict=True):
        np.testing.assert_allclose(together, vectors(assembly, [text], pooling)[0], atol=1e-5)
