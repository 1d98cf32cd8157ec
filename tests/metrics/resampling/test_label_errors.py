"""Confident learning: it flags what the paper's rule says, and finds labels that were flipped on purpose."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.metrics.resampling.label_errors import find_label_errors

TOPICS = (
    ["goal", "match", "striker", "league", "referee", "keeper", "penalty", "coach", "stadium", "derby"],
    ["vote", "senate", "law", "minister", "budget", "treaty", "election", "party", "mayor", "reform"],
    ["chip", "laptop", "code", "server", "screen", "battery", "update", "network", "browser", "robot"],
    ["film", "actor", "scene", "plot", "sequel", "director", "script", "camera", "studio", "premiere"],
)


def test_a_row_above_the_mean_confidence_of_another_class_is_flagged_the_worst_first():
    """Thresholds by hand: class 0 (0.9 + 0.8 + 0.1 + 0.4) / 4 = 0.55, class 1 (0.9 + 0.7 + 0.3) / 3 = 0.633."""
    of_one = np.array([0.1, 0.2, 0.9, 0.6, 0.9, 0.7, 0.3])
    found = find_label_errors(np.array([0, 0, 0, 0, 1, 1, 1]), np.stack([1 - of_one, of_one], axis=1))
    assert found.rows.tolist() == [2, 6] and found.likely.tolist() == [1, 0]
    assert np.allclose(found.margins, [-0.8, -0.4])  # row 3 is called 1, but not as surely as rows of class 1 are


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(5, 60))
def test_what_is_flagged_is_ranked_and_never_a_row_whose_label_is_the_likeliest_class(seed, classes, rows):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.ones(classes), rows)
    labels = generator.integers(classes, size=rows)
    found = find_label_errors(labels, probabilities)
    assert (found.likely != labels[found.rows]).all() and (np.diff(found.margins) >= 0).all()
    assert set(found.likely.tolist()) <= set(labels.tolist())
    order = generator.permutation(rows)
    again = find_label_errors(labels[order], probabilities[order])
    assert set(order[again.rows].tolist()) == set(found.rows.tolist())


def flipped_rows(seed, rows=600, share=0.1):
    """Texts of four topics whose words overlap, their labels, and which of those were flipped."""
    generator = np.random.default_rng(seed)
    everything = [word for words in TOPICS for word in words]
    true = generator.integers(4, size=rows)
    texts = [" ".join([*generator.choice(TOPICS[topic], 3), *generator.choice(everything, 5)]) for topic in true]
    flipped = generator.random(rows) < share
    return texts, np.where(flipped, (true + generator.integers(1, 4, size=rows)) % 4, true), flipped


def test_most_flipped_labels_are_found():
    """The figures of docs/more_from_your_rows.md: 600 rows of four topics, a tenth of the labels flipped, three seeds."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.pipeline import make_pipeline

    hits = n_found = n_flipped = first = 0
    for seed in range(3):
        texts, labels, flipped = flipped_rows(seed)
        model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=10))
        found = find_label_errors(labels, cross_val_predict(model, texts, labels, cv=5, method="predict_proba"))
        hits, n_found, n_flipped = hits + flipped[found.rows].sum(), n_found + len(found.rows), n_flipped + flipped.sum()
        first += flipped[found.rows[:20]].mean() / 3
    print(f"found {hits} of {n_flipped}, flagged {n_found}, of the first 20 {first:.3f}")
    assert hits / n_flipped > 0.6 and hits / n_found > 0.4 and first > 0.8
