"""Linear models of n-grams: equal to scikit-learn's, stored as plain parts, chosen by cross-validation."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from encoderlab.linear.choice import choose
from encoderlab.linear.model import LinearModel, Setting, fit
from encoderlab.linear.ngrams import NGrams, TfIdf

TEXTS = ["The cat sat on the mat.", "a DOG, a dog!", "", "the cat ran. The cat", "x", "Über   Straße\n42 \u4f60\u597d"]
NEW = ["the dog sat", "nothing known here?", "", "the the the cat"]
RAIN = [("heavy rain in the north",), ("more rain and wind",), ("the rain stays",), ("rain at night",)]
GOALS = [("two goals at home",), ("a late goal wins it",), ("no goal in the derby",), ("goals and more goals",)]


@pytest.mark.parametrize("sublinear", [False, True])
@pytest.mark.parametrize(
    ("analyzer", "shortest", "longest"),
    [("word", 1, 1), ("word", 1, 3), ("word", 2, 2), ("char_wb", 2, 5), ("char_wb", 1, 1), ("char_wb", 4, 6)],
)
def test_features_equal_those_of_scikit_learn(analyzer, shortest, longest, sublinear):
    tfidf, features = TfIdf.fitted(NGrams(analyzer, shortest, longest, sublinear), TEXTS, 1000)
    theirs = TfidfVectorizer(analyzer=analyzer, ngram_range=(shortest, longest), sublinear_tf=sublinear)
    expected = csr_array(theirs.fit_transform(TEXTS))
    assert list(tfidf.vocabulary) == list(theirs.get_feature_names_out())
    np.testing.assert_allclose(features.toarray(), expected.toarray(), rtol=1e-6)
    np.testing.assert_allclose(tfidf.features(NEW).toarray(), csr_array(theirs.transform(NEW)).toarray(), rtol=1e-6)


@given(st.lists(st.text(st.sampled_from("abÀß .,!\t\n\u2003\u4f60\U0001f600\ud800"), max_size=30), min_size=1))
def test_new_texts_have_the_features_that_training_texts_have_whatever_is_beside_them(texts):
    ngrams = NGrams("token", 1, 2, beside=NGrams("char_wb", 2, 5))
    tfidf, expected = TfIdf.fitted(ngrams, texts, 10_000)
    features = tfidf.features(texts).toarray()
    np.testing.assert_allclose(features, expected.toarray(), rtol=1e-6)
    for text, row in zip(texts, features, strict=True):
        assert (tfidf.features([text]).toarray() == row).all()


def test_the_most_frequent_ngrams_are_kept():
    tfidf, _ = TfIdf.fitted(NGrams("word", 1, 1), TEXTS, 2)
    assert list(tfidf.vocabulary) == ["cat", "the"]


@pytest.mark.parametrize("labels", [[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 2, 2]], ids=["two", "three"])
def test_probabilities_of_classes_equal_those_of_scikit_learn(labels):
    rows = RAIN + GOALS
    model = fit("label", rows, np.array(labels), 4, Setting(NGrams("word", 1, 2), 10.0))
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    texts = [text for (text,) in rows]
    theirs = LogisticRegression(C=10, tol=1e-6).fit(vectorizer.fit_transform(texts), labels)
    expected = theirs.predict_proba(vectorizer.transform(texts))
    n_known = expected.shape[1]
    np.testing.assert_allclose(model.probabilities(rows)[:, :n_known], expected, atol=1e-4)
    assert model.probabilities(rows)[:, n_known:].max() < 1e-6, "a class that training lacks is not predicted"
    assert model.predictions(rows).tolist() == labels


def test_each_label_has_a_probability_of_its_own():
    marks = np.array([[True, True, False, False]] * 4 + [[True, False, True, False]] * 4)
    model = fit("label_set", RAIN + GOALS, marks, 4, Setting(NGrams("word", 1, 1)))
    assert (model.predictions(RAIN + GOALS) == marks).all()
    certain = model.probabilities(RAIN)[:, [0, 3]]
    assert (certain[:, 0] > 0.999).all() and (certain[:, 1] < 0.001).all(), "a label of all rows, and one of none"


def test_numbers_equal_those_of_ridge_regression():
    rows, numbers = RAIN + GOALS, np.arange(8.0)
    model = fit("number", rows, numbers, 1, Setting(NGrams("word", 1, 1), 2.0))
    x = TfidfVectorizer(sublinear_tf=True).fit_transform(text for (text,) in rows)
    np.testing.assert_allclose(model.predictions(rows), Ridge(alpha=0.5).fit(x, numbers).predict(x), atol=1e-3)


@pytest.mark.parametrize("compared", [False, True])
def test_a_model_is_stored_as_arrays_and_json(compared):
    rows = [(*one, *other) for one, other in zip(RAIN + GOALS, GOALS + GOALS, strict=True)]
    model = fit("label", rows, np.array([0] * 4 + [1] * 4), 2, Setting(NGrams("char_wb", 2, 3), compared=compared))
    arrays = load(save(model.arrays()))
    description = json.loads(json.dumps(model.description()))
    assert (LinearModel.from_parts(description, arrays).outputs(rows) == model.outputs(rows)).all()
    with pytest.raises(ValueError, match="shapes"):
        LinearModel.from_parts(description, arrays | {"idf": arrays["idf"][1:]})


def test_what_is_best_for_the_rows_is_chosen():
    rng = np.random.default_rng(0)
    endings = ("ing", "ed")
    labels = rng.integers(2, size=120)
    rows = [("".join(rng.choice(list("abcdefgh"), 6)) + endings[label],) for label in labels]
    choice = choose("label", rows, labels, 2)
    assert choice.setting.ngrams.analyzer == "char_wb", "each word is new, and only its ending is known"
    assert choice.candidates[0].score > 0.9 > choice.candidates[-1].score
    fitted = fit("label", rows, labels, 2, choice.setting)
    assert (fitted.predictions(rows) == labels).mean() > 0.9


def test_two_texts_are_read_as_one_where_that_predicts_better():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=120)
    opinions = [f"{'awful' if label == 0 else 'great'}{rng.integers(20)}" for label in labels]
    rows = [("title", f"text {word}") if rng.random() < 0.5 else (f"title {word}", "text") for word in opinions]
    choice = choose("label", rows, labels, 2)
    assert not choice.setting.compared, "in which of both a word is makes no difference"
    assert any(candidate.setting.compared for candidate in choice.candidates)


@pytest.mark.parametrize(
    ("kind", "rows", "targets", "n_outputs"),
    [
        ("label", [("( ) ( )",), (") ) ( (",), ("[]",), ("][",)] * 5, np.array([1, 0, 1, 0] * 5), 2),
        ("label", RAIN[:1] + GOALS[:1], np.array([0, 1]), 2),
        ("label_set", RAIN + GOALS, np.array([[True, False]] * 4 + [[False, True]] * 4), 2),
        ("number", RAIN + GOALS, np.arange(8.0), 1),
    ],
    ids=["no words", "a row of each class", "sets of labels", "numbers"],
)
def test_a_setting_is_chosen_for_whatever_can_be_fitted(kind, rows, targets, n_outputs):
    choice = choose(kind, rows, targets, n_outputs)
    assert fit(kind, rows, targets, n_outputs, choice.setting).outputs(rows).shape == (len(rows), n_outputs)
