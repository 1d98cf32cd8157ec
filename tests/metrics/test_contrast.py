"""Scores of contrastive learning, counted by hand."""

import numpy as np

from encoderlab.metrics.pretraining import nearest_is_right


def test_a_row_is_compared_with_the_other_rows_of_its_label_and_with_labels_of_its_set_only():
    vectors = np.array([[1, 0], [1, 0.2], [0.1, 1], [1, 0.05], [0, 1], [0, 2], [-1, 0], [1, 0]], float)
    #                   label a        | label b           | of another set | no label, and a lone one of that set
    classes = np.array([0, 0, 1, 1, 10, 10, -1, 11])
    right, can_be = nearest_is_right(vectors, classes, n_labels=10)
    assert can_be.tolist() == [True, True, True, True, True, True, False, False]
    # Both rows of b are nearer to the mean of a than to each other, except the one that points elsewhere.
    assert right.tolist() == [True, True, False, False, True, True, False, False]
