"""Self-training labels texts of clusters, in the proportions it finds them in, and is refused where classes are none."""

import numpy as np
import pytest

from encoderlab.recipes.further_texts import Labelled, judged_by_folds, judged_on, self_label

WIDTH = 16
NONE = Labelled(np.zeros((0, WIDTH)), np.zeros(0, np.int64))


def vectors_of(classes, spread, seed=0):
    """Return vectors of length 1, each near the centre of its class."""
    draw = np.random.default_rng(seed)
    centres = np.eye(WIDTH)[: classes.max() + 1]
    vectors = centres[classes] + spread * draw.normal(size=(len(classes), WIDTH))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def few():
    classes = np.repeat([0, 1, 2], 4)
    return Labelled(vectors_of(classes, 0.2, seed=1), classes)


def test_texts_of_clusters_get_their_classes_in_their_proportions(few):
    classes = np.repeat([0, 1, 2], [700, 200, 100])
    rows, given = self_label(few, vectors_of(classes, 0.2))
    assert (classes[rows] == given).mean() > 0.95
    assert len({*rows.tolist()}) == len(rows)
    counts = np.bincount(given)
    assert counts[0] > 2 * counts[1] > 2 * counts[2] > 0


def test_the_same_rows_give_the_same_labels(few):
    others = vectors_of(np.repeat([0, 1, 2], 50), 0.3)
    first, again = self_label(few, others), self_label(few, others)
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))


def test_fewer_texts_than_classes_are_no_error(few):
    rows, given = self_label(few, vectors_of(np.array([1, 0]), 0.1))
    assert len(rows) == len(given) <= 2


def test_clusters_are_told_from_labels_drawn_at_random(few):
    others = vectors_of(np.repeat([0, 1, 2], 100), 0.2)
    assert judged_by_folds(few, others, NONE, seed=0).favours_own_labels
    at_random = Labelled(few.vectors, np.random.default_rng(3).permutation(few.classes))
    assert not judged_by_folds(at_random, others, NONE, seed=0).favours_own_labels


def test_validation_rows_judge_too(few):
    classes = np.repeat([0, 1, 2], 30)
    others = vectors_of(classes, 0.2)
    assert judged_on(Labelled(vectors_of(classes, 0.2, seed=2), classes), few, others).favours_own_labels
    assert not judged_on(Labelled(vectors_of(classes, 0.2, seed=2), 2 - classes), few, others).favours_own_labels
