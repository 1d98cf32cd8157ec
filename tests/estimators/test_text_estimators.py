"""The text estimators: scikit-learn's own checks, its tools around them, and no stray files or output."""

import pickle
import tempfile

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import validate_data

import encoderlab
from encoderlab import TextClassifier, TextRegressor
from encoderlab.errors import SettingError
from encoderlab.estimators.inputs import InputError
from tests.estimators.tiny import CLASSES, TEXTS, TINY

pytestmark = pytest.mark.usefixtures("one_thread")


NUMBERS = "it feeds numbers, and these estimators read texts"


NUMERIC = dict.fromkeys(
    (
        "check_classifier_data_not_an_array",
        "check_classifiers_classes",
        "check_classifiers_one_label",
        "check_classifiers_regression_target",
        "check_classifiers_train",
        "check_array_api_input",
        "check_dict_unchanged",
        "check_dont_overwrite_parameters",
        "check_dtype_object",
        "check_estimators_dtypes",
        "check_estimators_fit_returns_self",
        "check_estimators_nan_inf",
        "check_estimators_overwrite_params",
        "check_estimators_pickle",
        "check_f_contiguous_array_estimator",
        "check_fit2d_1feature",
        "check_fit2d_1sample",
        "check_fit2d_predict1d",
        "check_fit_check_is_fitted",
        "check_fit_idempotent",
        "check_fit_score_takes_y",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_n_features_in",
        "check_n_features_in_after_fitting",
        "check_pipeline_consistency",
        "check_positive_only_tag_during_fit",
        "check_readonly_memmap_input",
        "check_regressor_data_not_an_array",
        "check_regressors_int",
        "check_regressors_no_decision_function",
        "check_regressors_train",
        "check_requires_y_none",
        "check_supervised_y_2d",
    ),
    NUMBERS,
)


class _OfNumbers:
    """A text estimator that is given numbers and reads them as texts."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = False
        for kind in (tags.classifier_tags, tags.regressor_tags):
            if kind is not None:
                kind.poor_score = True  # two steps teach nothing
        return tags

    def fit(self, X, y):
        return super().fit(_as_texts(validate_data(self, X)), y)

    def _answers(self, X):
        if not hasattr(self, "model_"):
            raise NotFittedError
        return super()._answers(_as_texts(validate_data(self, X, reset=False)))


def _as_texts(X):
    return [" ".join(f"{value:.0f}" for value in row) for row in X]


class ClassifierOfNumbers(_OfNumbers, TextClassifier):
    pass


class RegressorOfNumbers(_OfNumbers, TextRegressor):
    pass


@parametrize_with_checks([TextClassifier(**TINY), TextRegressor(**TINY)], expected_failed_checks=lambda _: NUMERIC)
def test_scikit_learns_checks_pass(estimator, check):
    try:
        check(estimator)
    except Exception as error:
        if (
            check.func.__name__ in NUMERIC
        ):  # without its traceback, of which pytest would parse every file: 0.2 s for each check
            raise error.with_traceback(None) from None
        raise


@pytest.mark.slow
@parametrize_with_checks([ClassifierOfNumbers(**TINY), RegressorOfNumbers(**TINY)])
def test_checks_on_numbers_pass_once_numbers_become_texts(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def classifier():
    """Return a classifier fitted without held-out rows."""
    return TextClassifier(**TINY).fit(TEXTS, CLASSES)


def test_a_fitted_classifier_predicts_classes_and_probabilities(classifier):
    assert classifier.classes_.tolist() == ["bad", "good"]
    probabilities = classifier.predict_proba(np.array(TEXTS))
    assert probabilities.shape == (40, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert classifier.predict(pd.Series(TEXTS)).tolist() == classifier.classes_[probabilities.argmax(axis=1)].tolist()
    assert classifier.predict_proba([]).shape == (0, 2)


def test_it_pickles_and_its_saved_model_opens_like_any_other(classifier, tmp_path):
    wanted = classifier.predict_proba(TEXTS)
    joblib.dump(classifier, tmp_path / "classifier.joblib")
    for copy in (pickle.loads(pickle.dumps(classifier)), joblib.load(tmp_path / "classifier.joblib")):
        np.testing.assert_array_equal(copy.predict_proba(TEXTS), wanted)
    classifier.save(tmp_path / "model")
    answers = encoderlab.load(tmp_path / "model").predict(TEXTS)
    np.testing.assert_allclose([answer["probabilities"]["good"] for answer in answers], wanted[:, 1], rtol=1e-6)
    assert tempfile.gettempdir() not in (tmp_path / "model" / "config.json").read_text()
    with pytest.raises(SettingError, match="already exists"):
        classifier.save(tmp_path / "model")
    with pytest.raises(NotFittedError):
        clone(classifier).predict(TEXTS)


@pytest.mark.parametrize("classes", [[True, False], [7, 3], [2.0, 1.0], ["yes", "no, never"]])
def test_predictions_have_the_type_of_the_labels(classes):
    fitted = TextClassifier(**TINY).fit(TEXTS, np.array(classes * 20))
    assert fitted.classes_.tolist() == sorted(classes)
    assert set(fitted.predict(TEXTS).tolist()) <= set(classes)


def test_pairs_are_tuples_or_two_columns():
    pairs, numbers = list(zip(TEXTS, TEXTS[::-1], strict=True)), np.linspace(3, 5, 40)
    regressor = TextRegressor(**TINY).fit(pairs, numbers)
    answers = regressor.predict(pd.DataFrame(pairs, columns=["premise", "hypothesis"]))
    np.testing.assert_array_equal(answers, regressor.predict(pairs))
    assert answers.dtype == np.float64 and 2 < answers.mean() < 6, "in the units of y"
    with pytest.raises(InputError, match="trained on pairs of texts, but one text was given"):
        regressor.predict(TEXTS)


@pytest.mark.parametrize(
    ("X", "y", "refusal"),
    [
        (
            "one text",
            ["a"],
            "X is not a list of texts: 'one text'. Allowed: an iterable with a text in each row, or a pair of texts",
        ),
        (None, ["a"], "X is not a list of texts: None"),
        ([1.5, 2.5], ["a", "b"], "Row 0 of X is 1.5. Allowed: a text in each row, or a pair of texts"),
        (["a", ("b", "c")], ["a", "b"], "X contains both single texts and pairs of texts. Allowed: one of the two"),
        (["a", "b"], ["a", "a"], "y has 1 class. Allowed: at least two classes"),
        (["a", "b"], ["a"], "inconsistent numbers of samples"),
        (["a", "b"], None, "requires y to be passed"),
        (["a", "b", "c"], ["a", "b", None], "Row 2 of y is None. Allowed: a target for each row"),
        (["a"], ["a"], "X has 1 sample. Allowed: at least two"),
    ],
)
def test_unusable_data_raise_a_value_error(X, y, refusal):
    with pytest.raises(ValueError, match=refusal):
        TextClassifier(**TINY).fit(X, y)


@pytest.mark.slow
def test_scikit_learns_tools_work_with_it():
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = make_pipeline(lower, TextClassifier(**TINY))
    assert cross_val_score(pipeline, TEXTS, CLASSES, cv=2).shape == (2,)
    search = GridSearchCV(
        TextClassifier(**TINY), {"learning_rate": [1e-3, 1e-2], "dropout": [0.0]}, cv=2, error_score="raise"
    )
    assert search.fit(TEXTS, CLASSES).best_params_["learning_rate"] in (1e-3, 1e-2)
    calibrated = CalibratedClassifierCV(TextClassifier(**TINY), cv=2).fit(TEXTS, CLASSES)
    np.testing.assert_allclose(calibrated.predict_proba(TEXTS).sum(axis=1), 1, rtol=1e-6)
    assert cross_val_score(TextRegressor(**TINY), TEXTS, np.arange(40.0), cv=2).shape == (2,)


@pytest.mark.slow
def test_it_learns(shipped):
    texts = [f"{text} {number}" for number in range(30) for text in ("a warm and witty film", "a dull and empty mess")]
    classifier = TextClassifier(
        steps=60, batch_size=8, learning_rate=0.01, settings=TINY["settings"] | {"model": "as_pretrained"}
    )
    with pytest.raises(SettingError):  # sizes are the encoder's own
        classifier.fit(texts, ["good", "bad"] * 30)
    classifier.set_params(settings={"training.precision": "fp32", "training.threads": 1})
    assert classifier.fit(texts, ["good", "bad"] * 30).score(texts, ["good", "bad"] * 30) > 0.9
