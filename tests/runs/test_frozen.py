"""Vectors of texts are kept for the next round, and only then."""

import numpy as np
import pyarrow as pa
import pytest

import encoderlab
from encoderlab.data.examples import Split
from encoderlab.models.frozen import VECTORS, cached_vectors


def split_of(*texts, **more):
    return Split(pa.table({"text": list(texts), **more}))


@pytest.fixture(scope="module")
def model():
    return encoderlab.load("mini-en", device="cpu")


def test_vectors_are_made_once_for_the_same_texts(model, tmp_path):
    texts = split_of("a film", "a song", "rain in May")
    first = cached_vectors(model, texts, tmp_path)
    np.testing.assert_allclose(first, model.embed(["a film", "a song", "rain in May"], normalize=True), atol=1e-6)
    (path,) = tmp_path.rglob(VECTORS)
    written = path.stat().st_mtime_ns
    again = cached_vectors(model, split_of("a film", "a song", "rain in May", label=[1, None, 0]), tmp_path)
    assert np.array_equal(first, again) and path.stat().st_mtime_ns == written
    cached_vectors(model, split_of("a song", "a film", "rain in May"), tmp_path)
    assert len(list(tmp_path.rglob(VECTORS))) == 2


def test_damaged_vectors_are_made_again(model, tmp_path):
    texts = split_of("a film", "a song")
    first = np.array(cached_vectors(model, texts, tmp_path))
    (path,) = tmp_path.rglob(VECTORS)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    assert np.array_equal(cached_vectors(model, texts, tmp_path), first)


def test_a_pair_has_one_vector(model, tmp_path):
    pairs = cached_vectors(model, split_of("a film", "a song", text_pair=["a movie", "a dog"]), tmp_path)
    assert pairs.shape[0] == 2 and pairs.shape[1] > model.shape.d_model
