"""Which rows are chosen to be labelled, and what is said of the labels so far."""

from collections import Counter

import numpy as np
import pytest

from encoderlab.apps.labelling.selection import (
    UNLABELLED,
    Reason,
    accuracy_so_far,
    choose_rows,
    classifier_of,
    unlike_neighbours,
)


def clusters(sizes, seed=0, noise=0.1):
    """Return vectors of length 1 around as many directions as there are sizes, and the cluster of each."""
    generator = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    vectors = np.eye(16)[cluster] + noise * generator.normal(size=(len(cluster), 16))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), cluster


def test_the_first_rows_come_from_every_cluster_however_small():
    vectors, cluster = clusters([200, 100, 50], noise=0.05)
    chosen = choose_rows(vectors, np.arange(len(vectors)), 3, random_share=0.0, seed=0)
    assert sorted(cluster[chosen.rows]) == [0, 1, 2]
    assert {*chosen.reasons} == {Reason.typical}
    centres = np.stack([vectors[cluster == one].mean(0) for one in range(3)])
    near = np.linalg.norm(vectors - centres[cluster], axis=1)
    assert all(near[row] <= np.median(near[cluster == cluster[row]]) for row in chosen.rows)


def test_the_same_rows_are_chosen_where_centres_are_fitted_on_a_part_of_them(monkeypatch):
    vectors, cluster = clusters([3000, 3000, 3000])
    monkeypatch.setattr("encoderlab.apps.labelling.selection.CLUSTERED_ROWS", 300)
    monkeypatch.setattr("encoderlab.apps.labelling.selection._ROWS_AT_A_TIME", 1000)
    chosen = choose_rows(vectors, np.arange(len(vectors)), 3, random_share=0.0, seed=0)
    assert sorted(cluster[chosen.rows]) == [0, 1, 2]


def test_unsure_rows_lie_between_the_classes_and_random_ones_anywhere():
    vectors, cluster = clusters([400, 400], noise=0.4)
    labels = np.full(len(vectors), UNLABELLED)
    labels[::20] = cluster[::20]
    candidates = np.flatnonzero(labels == UNLABELLED)
    probabilities = classifier_of(vectors, labels)
    chosen = choose_rows(vectors, candidates, 40, random_share=0.5, seed=1, probabilities=probabilities)
    assert Counter(chosen.reasons) == {Reason.random: 20, Reason.unsure: 20}
    assert not {*chosen.rows} & {*np.flatnonzero(labels != UNLABELLED)}
    assert len({*chosen.rows}) == 40
    margins = np.abs(np.diff(probabilities(np.arange(len(vectors))), axis=1)[:, 0])
    unsure = [row for row, reason in zip(chosen.rows, chosen.reasons, strict=True) if reason is Reason.unsure]
    assert max(margins[unsure]) < np.median(margins[candidates])


@pytest.mark.parametrize("n", [1, 5, 20])
def test_no_more_rows_are_chosen_than_there_are(n):
    vectors, _ = clusters([3, 2])
    chosen = choose_rows(vectors, np.arange(5), n, random_share=0.25, seed=0)
    assert len({*chosen.rows}) == min(n, 5)


def test_equal_vectors_leave_no_place_empty():
    vectors, _ = clusters([10, 10], noise=0.0)
    assert len({*choose_rows(vectors, np.arange(20), 6, random_share=0.0, seed=0).rows}) == 6


def test_accuracy_is_that_of_rows_drawn_at_random_if_there_are_enough():
    vectors, cluster = clusters([60, 60])
    wrong = np.arange(120) % 12 == 0
    labels = np.where(wrong, 1 - cluster, cluster)
    at_random = np.arange(120) % 3 == 0  # all wrong labels are among these 40 rows
    nothing = np.zeros(120, bool)
    by_all = accuracy_so_far(vectors, labels, nothing, 0)
    assert not by_all.unbiased and by_all.n == 120 and by_all.value == pytest.approx(110 / 120, abs=0.03)
    by_random = accuracy_so_far(vectors, labels, at_random, 0)
    assert by_random.unbiased and by_random.n == 40 and by_random.value == pytest.approx(30 / 40, abs=0.05)
    assert by_random.interval[0] < by_random.value < by_random.interval[1]


def test_no_accuracy_of_one_class_or_of_very_few_rows():
    vectors, cluster = clusters([10, 10])
    nothing = np.zeros(20, bool)
    assert accuracy_so_far(vectors, np.zeros(20, int), nothing, 0) is None
    assert accuracy_so_far(vectors[8:13], cluster[8:13], nothing[:5], 0) is None


def test_a_label_that_none_of_the_nearest_rows_has_is_found():
    vectors, labels = clusters([30, 30])
    labels[[4, 40]] = labels[[40, 4]]
    assert np.flatnonzero(unlike_neighbours(vectors, labels)).tolist() == [4, 40]
    assert not unlike_neighbours(vectors[:3], labels[:3]).any()
