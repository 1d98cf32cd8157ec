"""Predictions and vectors belong to their row and do not depend on the other rows."""

import numpy as np
import pytest

from encoderlab.config.commands import VectorPooling
from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.runs.predict import encoded_rows, predictions_of, vectors_of
from encoderlab.tasks.config import TaggingConfig
from tests.runs.small_assembly import LABELS, assembly_of

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = ["0123456789", "a", "12ab"]


@pytest.fixture(scope="module")
def assembly():
    small = assembly_of()
    small.model.eval()
    return small


def vectors(assembly, texts, pooling, **options):
    rows = encoded_rows(assembly, [TextExample(text) for text in texts])
    return vectors_of(assembly, rows, pooling, **options)


def test_each_example_has_the_prediction_it_has_alone(assembly):
    examples = [TextExample(text) for text in (*TEXTS, "", "b" * 40)]
    for example, answer in zip(examples, predictions_of(assembly, examples), strict=True):
        (alone,) = predictions_of(assembly, [example])
        assert answer.labels == alone.labels
        assert answer.probabilities == pytest.approx(alone.probabilities, abs=1e-5)
        assert sum(answer.by_label(LABELS).values()) == pytest.approx(1)
        assert max(answer.by_label(LABELS), key=answer.by_label(LABELS).get) == answer.labels[0]


def test_each_word_has_its_own_prediction():
    tagger = assembly_of(TaggingConfig(name="digits"))
    tagger.model.eval()
    answers = predictions_of(tagger, [WordsExample(("1", "2", "ab")), WordsExample(("b",))])
    assert [len(answer.labels) for answer in answers] == [3, 1]


@pytest.mark.parametrize("pooling", VectorPooling)
def test_a_rows_vectors_are_those_it_has_alone(assembly, pooling):
    for text, together in zip(TEXTS, vectors(assembly, TEXTS, pooling), strict=True):
        np.testing.assert_allclose(together, vectors(assembly, [text], pooling)[0], atol=1e-5)


def test_vectors_can_be_normalized(assembly):
    means = vectors(assembly, TEXTS, VectorPooling.mean)
    normalized = vectors(assembly, TEXTS, VectorPooling.mean, normalize=True)
    np.testing.assert_allclose(normalized, means / np.linalg.norm(means, axis=1, keepdims=True), atol=1e-5)
