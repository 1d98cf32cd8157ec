"""Comparing settings: textbook formulas hold, differences are those of the scores, corrections only raise p-values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import f1_score, matthews_corrcoef

from encoderlab.metrics import scores_of_predictions
from encoderlab.metrics.comparison import (
    BOOTSTRAP,
    MCNEMAR,
    ROWS_AND_SEEDS,
    difference_over_seeds,
    holm,
    paired_difference,
)
from encoderlab.metrics.intervals import mean_of

OF_CLASSES = ("accuracy", "f1_macro", "f1_weighted", "f1", "matthews")


def scored(labels, predicted, n_classes=2):
    names = [str(number) for number in range(n_classes)]
    labels = labels if isinstance(labels, list) else np.array(labels)
    return scores_of_predictions(labels, predicted, names, "accuracy")


def guessed(share_right, seed, n=400, n_classes=2):
    """Return a run that gets a fraction of the rows right; every run has the same labels."""
    labels = np.random.default_rng(0).integers(0, n_classes, n)
    right = np.random.default_rng(seed).random(n) < share_right
    return scored(labels, np.where(right, labels, (labels + 1) % n_classes), n_classes)


scores = st.lists(st.integers(0, 1000).map(lambda thousandths: thousandths / 1000), min_size=2, max_size=8)
p_values = st.lists(st.floats(0, 1, allow_subnormal=False), min_size=1, max_size=12)


@given(scores, st.sampled_from([0.0, 0.25]))
def test_the_interval_over_seeds_is_students_t_interval_and_over_folds_the_corrected_one(values, test_to_train):
    found = mean_of(values, test_to_train)
    assert found.value == pytest.approx(np.mean(values))
    assert found.deviation == pytest.approx(np.std(values, ddof=1))
    reach = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) * (1 / len(values) + test_to_train) ** 0.5
    if len(set(values)) == 1:
        assert found.interval is None, "of scores that do not vary, nothing is known"
    else:
        assert found.interval == pytest.approx([found.value - reach, found.value + reach])


def test_holm_gives_the_figures_of_the_worked_example():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@pytest.mark.parametrize("figure", OF_CLASSES)
def test_a_difference_is_between_mean_scores_and_changes_sign_with_the_sides(figure):
    first, second = [guessed(0.8, seed) for seed in (1, 2)], [guessed(0.6, seed) for seed in (3, 4, 5)]
    found, turned = (paired_difference(*sides, figure, 0) for sides in ((first, second), (second, first)))
    average = {"f1_macro": "macro", "f1_weighted": "weighted", "f1": "binary"}.get(figure)

    def score(run):
        if figure == "matthews":
            return matthews_corrcoef(run.labels, run.predicted)
        if average is None:
            return (run.predicted == run.labels).mean()
        return f1_score(run.labels, run.predicted, average=average)

    assert found.value == pytest.approx(
        np.mean([score(run) for run in first]) - np.mean([score(run) for run in second])
    )
    assert turned.value == pytest.approx(-found.value)
    assert turned.interval == pytest.approx([-found.interval[1], -found.interval[0]], abs=2e-3)  # drawn anew
    assert found.p_value == pytest.approx(turned.p_value, abs=2e-3)
    assert (found.test, found.varies) == (ROWS_AND_SEEDS, "rows and seeds")
    assert found.p_value < 0.05


def test_settings_with_equal_predictions_do_not_differ():
    runs = [guessed(0.7, 1)]
    for figure in OF_CLASSES:
        for first in (runs, runs * 2):
            found = paired_difference(first, first, figure, 0)
            assert (found.value, found.p_value) == (0, 1)


def test_variation_between_seeds_widens_the_interval_of_the_rows():
    steady = [guessed(0.75, 1), guessed(0.75, 1)]
    scattered = [guessed(0.6, 2), guessed(0.9, 3)]
    rows_alone = paired_difference(scattered, [steady[0]], "accuracy", 0)
    with_seeds = paired_difference(scattered, steady, "accuracy", 0)
    assert rows_alone.varies == "rows"
    assert np.ptp(with_seeds.interval) > 2 * np.ptp(rows_alone.interval)


def test_at_most_one_test_in_twenty_finds_a_difference_where_there_is_none():
    def p_value(number):
        sides = [[guessed(0.7, 100 * number + 10 * side + seed, n=120) for seed in range(3)] for side in (0, 1)]
        return paired_difference(*sides, "accuracy", 0).p_value

    assert np.mean([p_value(number) < 0.05 for number in range(1, 81)]) <= 0.1


@given(scores, scores)
def test_unpaired_seeds_are_compared_by_welchs_test(first, second):
    found = difference_over_seeds(first, second, "loss")
    if np.ptp(first) and np.ptp(second):
        expected = stats.ttest_ind(first, second, equal_var=False)
        assert found.p_value == pytest.approx(expected.pvalue, abs=1e-9)
        bounds = expected.confidence_interval(0.95)
        assert found.interval == pytest.approx([bounds.low, bounds.high], abs=1e-9)
    assert found.varies == "seeds"


def test_a_row_counts_with_all_its_words_and_an_empty_one_not_at_all():
    labels, first, second = (
        [np.array(row, np.int64) for row in ([*one[:2]], [], [*one[2:]])]
        for one in ([0, 1, 1, 0, 1], [0, 1, 1, 0, 0], [1, 1, 1, 0, 0])
    )
    sides = [scored(labels, first)], [scored(labels, second)]
    assert paired_difference(*sides, "token_accuracy", 0).value == pytest.approx(1 / 5)
    assert paired_difference(*sides, "accuracy", 0).value == pytest.approx(1 / 2)
    assert paired_difference(*sides, "token_accuracy", 0).test == BOOTSTRAP


@pytest.mark.parametrize("name", ["f1_micro", "f1_macro", "subset_accuracy"])
def test_label_sets_are_compared_by_their_own_scores(name):
    random = np.random.default_rng(2)
    labels = random.random((300, 4)) < 0.3
    better, worse = (scored(labels, labels ^ (random.random(labels.shape) < noise), 4) for noise in (0.05, 0.2))
    difference = paired_difference([better], [worse], name, 0)
    assert difference.value == pytest.approx(better.values[name] - worse.values[name])
    assert difference.interval[0] > 0 and difference.p_value < 0.01


@pytest.mark.parametrize("name", ["pearson", "spearman", "mae", "rmse"])
def test_numbers_are_compared_by_their_own_scores(name):
    random = np.random.default_rng(3)
    labels = random.normal(size=300)
    first, second = (scored(labels, labels + random.normal(size=300) * noise) for noise in (0.3, 0.9))
    difference = paired_difference([first], [second], name, 0)
    assert difference.value == pytest.approx(first.values[name] - second.values[name])
    assert (difference.value < 0) == (name in ("mae", "rmse")) and difference.p_value < 0.01


@pytest.mark.parametrize(("won", "lost"), [(5, 0), (0, 5), (7, 2), (0, 0)])
def test_two_models_that_differ_in_few_rows_are_compared_by_the_exact_test(won, lost):
    labels = np.zeros(200, int)
    first, second = labels.copy(), labels.copy()
    second[:won] = 1
    first[won : won + lost] = 1
    difference = paired_difference([scored(labels, first)], [scored(labels, second)], "accuracy", 0)
    exact = stats.binomtest(won, won + lost).pvalue if won + lost else 1.0
    assert (difference.won, difference.lost, difference.test) == (won, lost, MCNEMAR)
    assert difference.p_value == difference.mcnemar_p == pytest.approx(exact)
    assert difference.bootstrap_p is not None
    assert paired_difference([scored(labels, first)], [scored(labels, second)], "f1_macro", 0).test == BOOTSTRAP


def test_two_models_that_differ_in_many_rows_are_compared_by_the_bootstrap():
    difference = paired_difference([guessed(0.8, 1)], [guessed(0.6, 2)], "accuracy", 0)
    assert difference.test == BOOTSTRAP and difference.won + difference.lost > 25
