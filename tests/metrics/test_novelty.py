"""How unlike the training rows a vector is, and whether two samples of vectors come from one source."""

import numpy as np
import pytest
from scipy.spatial.distance import mahalanobis

from encoderlab.metrics.novelty import fit_novelty, two_sample_test


def two_classes(n, seed=0, width=6):
    random = np.random.default_rng(seed)
    classes = np.arange(n) % 2
    spread = np.linspace(0.5, 2, width)
    return (random.normal(size=(n, width)) * spread + 3 * classes[:, None]).astype(np.float32), classes


def test_it_is_the_distance_to_the_nearest_class_in_the_covariance_within_classes():
    vectors, classes = two_classes(4000)
    novelty = fit_novelty(vectors, classes, two_classes(1000, seed=1)[0])
    means = np.stack([vectors[classes == id_].mean(0) for id_ in (0, 1)])
    inverse = np.linalg.inv(np.cov((vectors - means[classes]).T))
    new = np.random.default_rng(2).normal(size=(20, 6)).astype(np.float32) * 4
    expected = [min(mahalanobis(row, mean, inverse) ** 2 for mean in means) for row in new]
    assert novelty.measure(new) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("held_out", [True, False])
def test_the_stated_share_of_new_rows_is_above_the_threshold(held_out):
    vectors, classes = two_classes(2000)
    novelty = fit_novelty(vectors, classes, two_classes(1000, seed=1)[0] if held_out else None)
    found = novelty.measure(two_classes(4000, seed=2)[0])
    for share in (0.02, 0.2):
        assert (found > novelty.threshold(share)).mean() == pytest.approx(share, abs=0.02)


def test_rows_that_are_all_alike_or_alone_in_their_class_have_a_novelty():
    alike = fit_novelty(np.ones((6, 4), np.float32), np.arange(6) % 2)
    assert np.isfinite(alike.measure(np.zeros((1, 4), np.float32))).all()
    alone = fit_novelty(np.eye(3, dtype=np.float32), np.arange(3))
    assert np.isfinite(alone.measure(np.zeros((1, 3), np.float32))).all()


def test_two_samples_of_one_source_are_seldom_told_apart():
    random = np.random.default_rng(0)
    p_values = []
    for _ in range(60):
        rows = random.normal(size=(120, 8))
        p_values.append(two_sample_test(rows[:80], rows[80:]).p_value)
    assert np.mean(np.array(p_values) < 0.05) <= 0.1 and np.mean(p_values) == pytest.approx(0.5, abs=0.1)


def test_a_shift_is_found():
    random = np.random.default_rng(0)
    test = two_sample_test(random.normal(size=(300, 8)), random.normal(size=(100, 8)) + 0.5)
    assert test.auc > 0.7 and test.p_value < 0.01
