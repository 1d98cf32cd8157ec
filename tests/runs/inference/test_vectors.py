"""Vectors belong to their row, have the requested width, and ignore padding."""

import numpy as np
import pytest

from encoderlab.config.commands import VectorPooling
from encoderlab.data.examples import TextExample
from encoderlab.runs.inference.inputs import encoded_rows
from encoderlab.runs.inference.vectors import vectors_of
from tests.runs.small_assembly import assembly_of

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = ["0123456789", "a", "12ab"]


@pytest.fixture(scope="module")
def assembly():
    found = assembly_of()
    found.model.eval()
    return found


def vectors(assembly, texts, pooling, **options):
    rows = encoded_rows(assembly, [TextExample(text) for text in texts])
    found = dict(vectors_of(assembly, rows, pooling, **options))
    return [found[row] for row in range(len(texts))]


@pytest.mark.parametrize("pooling", [*VectorPooling, None])
def test_a_rows_vectors_are_those_it_has_alone(assembly, pooling):
    together = vectors(assembly, TEXTS, pooling)
    for text, found in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(found, vectors(assembly, [text], pooling)[0], atol=1e-5)


def test_a_text_has_one_vector_or_one_per_token(assembly):
    assert [found.shape for found in vectors(assembly, TEXTS, VectorPooling.mean)] == [(1, 8)] * 3
    of_tokens = vectors(assembly, TEXTS, None)
    assert [found.shape for found in of_tokens] == [(12, 8), (3, 8), (6, 8)]  # [CLS], the symbols, [SEP]
    np.testing.assert_allclose(of_tokens[2].mean(0), vectors(assembly, TEXTS, VectorPooling.mean)[2][0], atol=1e-5)


def test_normalized_vectors_have_length_one_and_the_same_direction(assembly):
    plain, normalized = (vectors(assembly, TEXTS, VectorPooling.cls, normalize=given) for given in (False, True))
    for one, other in zip(plain, normalized, strict=True):
        np.testing.assert_allclose(other, one / np.linalg.norm(one), atol=1e-5)
