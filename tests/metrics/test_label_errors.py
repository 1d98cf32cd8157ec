"""Confident learning and large residuals: they flag what their definitions say, and find labels changed on purpose."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.metrics.label_errors import find_label_errors, find_label_set_errors, find_number_errors

TOPICS = (
    ["goal", "match", "striker", "league", "referee", "keeper", "penalty", "coach", "stadium", "derby"],
    ["vote", "senate", "law", "minister", "budget", "treaty", "election", "party", "mayor", "reform"],
    ["chip", "laptop", "code", "server", "screen", "battery", "update", "network", "browser", "robot"],
    ["film", "actor", "scene", "plot", "sequel", "director", "script", "camera", "studio", "premiere"],
)


def test_rows_above_the_mean_confidence_of_another_class_are_flagged_worst_first():
    """Thresholds by hand: class 0 (0.9 + 0.8 + 0.1 + 0.4) / 4 = 0.55, class 1 (0.9 + 0.7 + 0.3) / 3 = 0.633."""
    of_one = np.array([0.1, 0.2, 0.9, 0.6, 0.9, 0.7, 0.3])
    found = find_label_errors(np.array([0, 0, 0, 0, 1, 1, 1]), np.stack([1 - of_one, of_one], axis=1))
    assert found.rows.tolist() == [2, 6] and found.likely.tolist() == [1, 0]
    assert np.allclose(found.margins, [-0.8, -0.4])  # row 3 is called 1, but not as surely as rows of class 1 are


def test_a_row_labelled_with_its_likeliest_class_is_never_flagged():
    """Class 1 has a single row, which the model does not recognise: its threshold is 0.02."""
    of_one = np.array([0.1, 0.1, 0.05, 0.02])
    assert find_label_errors(np.array([0, 0, 0, 1]), np.stack([1 - of_one, of_one], axis=1)).rows.tolist() == [3]


def test_each_label_of_a_set_has_its_own_thresholds():
    """Label 0 by hand: given to rows 0 to 2, (0.9 + 0.8 + 0.1) / 3 = 0.6; not given to 3 and 4, (0.9 + 0.2) / 2 = 0.55."""
    given = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1]], dtype=bool)
    probabilities = np.array([[0.9, 0.1], [0.8, 0.1], [0.1, 0.1], [0.1, 0.8], [0.8, 0.9]])
    found = find_label_set_errors(given, probabilities)
    assert (
        found.rows.tolist() == [2, 4] and found.labels.tolist() == [0, 0] and np.allclose(found.margins, [-0.8, -0.6])
    )


def test_residuals_are_judged_by_a_robust_spread():
    """Residuals from -2 to 2 have median 0 and median absolute deviation 1; those beyond 3.5 times 1.4826 are large."""
    residuals = np.array([-2.0, -1, -1, 0, 0, 1, 1, 2, 5.1, -400, 40])
    found = find_number_errors(residuals + 7, np.full(len(residuals), 7.0))
    assert found.rows.tolist() == [9, 10] and np.allclose(found.distances, np.array([-400, 40]) / 1.4826)
    assert not len(find_number_errors(np.array([1.0, 1, 1, 9]), np.ones(4)).rows)  # no spread to judge by


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(5, 60))
def test_flagged_rows_are_ranked_and_never_labelled_with_their_likeliest_class(seed, classes, rows):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.ones(classes), rows)
    labels = generator.integers(classes, size=rows)
    found = find_label_errors(labels, probabilities)
    assert (labels[found.rows] != probabilities[found.rows].argmax(1)).all()
    assert (found.likely != labels[found.rows]).all() and (np.diff(found.margins) >= 0).all()
    assert set(found.likely.tolist()) <= set(labels.tolist())
    order = generator.permutation(rows)
    again = find_label_errors(labels[order], probabilities[order])
    assert set(order[again.rows].tolist()) == set(found.rows.tolist())


class Found:
    """Counts of changed and flagged labels over several seeds."""

    def __init__(self):
        self.hits, self.flagged, self.changed, self.first = 0, 0, 0, []

    def add(self, right, changed, first=20):
        """Add a seed: `right` says whether each flagged label, in order, was changed; `changed` is the number of
        changed labels.
        """
        self.hits, self.flagged, self.changed = (
            self.hits + right.sum(),
            self.flagged + len(right),
            self.changed + changed,
        )
        self.first.append(right[:first].mean())

    def shares(self):
        print(f"found {self.hits} of {self.changed}, flagged {self.flagged}, of the first {np.mean(self.first):.3f}")
        return self.hits / self.changed, self.hits / self.flagged, np.mean(self.first)


def out_of_fold(model, inputs, labels, groups=None, method="predict_proba"):
    from sklearn.model_selection import GroupKFold, cross_val_predict

    return cross_val_predict(
        model, inputs, labels, groups=groups, cv=5 if groups is None else GroupKFold(5), method=method
    )


def words_with(model):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    return make_pipeline(TfidfVectorizer(), model)


def flipped_rows(seed, rows=600, share=0.1):
    """Return texts of four topics whose words overlap, their labels, and which labels were flipped."""
    generator = np.random.default_rng(seed)
    everything = [word for words in TOPICS for word in words]
    true = generator.integers(4, size=rows)
    texts = [" ".join([*generator.choice(TOPICS[topic], 3), *generator.choice(everything, 5)]) for topic in true]
    flipped = generator.random(rows) < share
    return texts, np.where(flipped, (true + generator.integers(1, 4, size=rows)) % 4, true), flipped


def test_most_flipped_labels_are_found():
    """The figures of docs/more_from_your_rows.md: 600 rows of four topics, a tenth of the labels flipped, three seeds."""
    from sklearn.linear_model import LogisticRegression

    counted = Found()
    for seed in range(3):
        texts, labels, flipped = flipped_rows(seed)
        found = find_label_errors(labels, out_of_fold(words_with(LogisticRegression(C=10)), texts, labels))
        counted.add(flipped[found.rows], flipped.sum())
    of_flipped, of_flagged, of_first = counted.shares()
    assert of_flipped > 0.6 and of_flagged > 0.4 and of_first > 0.8


def flipped_sets(seed, rows=600, share=0.05):
    """Return texts on any of four topics, labels [rows, topics], and which of them were flipped."""
    generator = np.random.default_rng(seed)
    everything = [word for words in TOPICS for word in words]
    true = generator.random((rows, 4)) < np.array([0.4, 0.3, 0.2, 0.1])
    about = [[word for topic in np.flatnonzero(row) for word in generator.choice(TOPICS[topic], 3)] for row in true]
    texts = [" ".join([*words, *generator.choice(everything, 4)]) for words in about]
    flipped = generator.random((rows, 4)) < share
    return texts, true ^ flipped, flipped


NAMES = {
    1: ["anna", "omar", "li", "smith", "jordan", "paris"],
    2: ["paris", "lagos", "lima", "jordan", "kyoto", "bonn"],
}
BEFORE = {1: ["said", "met", "mr", "asked"], 2: ["in", "near", "from", "to"]}
OTHERS = ["the", "a", "train", "plan", "was", "late", "today", "new", "old", "and", "but", "good"]


def flipped_sentences(seed, sentences=300, share=0.05):
    """Return words with their neighbours, labels (none, person, place), sentences, and which labels were flipped."""
    generator = np.random.default_rng(seed)
    words, true, sentence = [], [], []
    for number in range(sentences):
        for _ in range(3):
            others = generator.choice(OTHERS, generator.integers(1, 3)).tolist()
            kind = int(generator.integers(3))
            name = (
                [generator.choice(BEFORE[kind] if generator.random() < 0.5 else OTHERS), generator.choice(NAMES[kind])]
                if kind
                else []
            )
            words += [*others, *map(str, name)]
            true += [0] * len(others) + ([0, kind] if kind else [])
        sentence += [number] * (len(words) - len(sentence))
    flipped = generator.random(len(true)) < share
    labels = np.where(flipped, (np.array(true) + generator.integers(1, 3, len(true))) % 3, true)
    around = zip(["", *words[:-1]], words, [*words[1:], ""], strict=True)
    return (
        [{"before": before, "word": word, "after": after} for before, word, after in around],
        labels,
        sentence,
        flipped,
    )


def test_most_flipped_labels_of_words_are_found():
    """The figures of docs/more_from_your_rows.md: 300 sentences, a word's label in twenty flipped, three seeds."""
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    counted = Found()
    for seed in range(3):
        words, labels, sentences, flipped = flipped_sentences(seed)
        model = make_pipeline(DictVectorizer(), LogisticRegression(C=10, max_iter=1000))
        found = find_label_errors(labels, out_of_fold(model, words, labels, sentences))
        counted.add(flipped[found.rows], flipped.sum())
    of_flipped, of_flagged, of_first = counted.shares()
    assert of_flipped > 0.6 and of_flagged > 0.8 and of_first > 0.9


def swapped_numbers(seed, rows=600, share=0.05):
    """Return texts, their numbers (a noisy sum over words), and which rows have another row's number."""
    generator = np.random.default_rng(seed)
    worth = dict(zip((word for words in TOPICS for word in words), generator.normal(size=40), strict=True))
    words = [generator.choice(list(worth), 8).tolist() for _ in range(rows)]
    true = np.array([sum(map(worth.__getitem__, of_row)) for of_row in words]) + generator.normal(scale=0.5, size=rows)
    swapped = generator.random(rows) < share
    return [" ".join(of_row) for of_row in words], np.where(swapped, generator.permutation(true), true), swapped
