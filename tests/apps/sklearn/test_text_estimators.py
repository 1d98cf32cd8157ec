"""The text estimators: scikit-learn's own checks, its tools around them, inputs in any container, settings as typed, and no
stray files or output.
"""

import pickle
import tempfile

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import encoderlab
from encoderlab import TextClassifier, TextRegressor
from encoderlab.apps.sklearn.inputs import InputError, examples_of
from encoderlab.data.examples import TextExample
from encoderlab.errors import SettingError

pytestmark = pytest.mark.usefixtures("one_thread")

SIZES = {"model.n_layers": 1, "model.d_model": 16, "model.n_heads": 2}
TINY = {
    "init_from": None,
    "steps": 2,
    "batch_size": 8,
    "validation_fraction": 0.0,
    "settings": SIZES | {"training.precision": "fp32", "training.threads": 1},
}
TEXTS = [f"{word} film, number {number}" for number in range(20) for word in ("a warm and witty", "a dull and empty")]
CLASSES = ["good", "bad"] * 20


NUMBERS = """
    classifier_data_not_an_array classifiers_classes classifiers_one_label classifiers_regression_target
    classifiers_train array_api_input complex_data dict_unchanged dont_overwrite_parameters dtype_object estimators_dtypes
    estimators_empty_data_messages estimator_sparse_array estimator_sparse_matrix
    estimators_fit_returns_self estimators_nan_inf estimators_overwrite_params estimators_pickle
    f_contiguous_array_estimator fit2d_1feature fit2d_1sample fit2d_predict1d fit_check_is_fitted fit_idempotent
    fit_score_takes_y methods_sample_order_invariance methods_subset_invariance n_features_in
    n_features_in_after_fitting pipeline_consistency positive_only_tag_during_fit readonly_memmap_input
    regressor_data_not_an_array regressors_int regressors_no_decision_function regressors_train requires_y_none
    supervised_y_2d all_zero_sample_weights_error class_weight_classifiers
    classifiers_multilabel_output_format_decision_function classifiers_multilabel_output_format_predict
    classifiers_multilabel_output_format_predict_proba classifiers_multilabel_representation_invariance
    classifiers_one_label_sample_weights estimator_sparse_tag sample_weight_equivalence_on_dense_data
    sample_weights_list sample_weights_not_an_array sample_weights_not_overwritten sample_weights_pandas_series
    sample_weights_shape transformer_data_not_an_array transformer_general
"""
NUMERIC = {f"check_{name}": "it feeds numbers, and these estimators read texts" for name in NUMBERS.split()}


class NumbersClassifier(TextClassifier):
    """The classifier as one that reads tables of numbers: scikit-learn has no checks for others."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


class NumbersRegressor(TextRegressor):
    """The regressor, likewise."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


@parametrize_with_checks(
    [NumbersClassifier(**TINY), NumbersRegressor(**TINY)], expected_failed_checks=lambda _: NUMERIC
)
def test_scikit_learns_checks_pass(estimator, check):
    try:
        check(estimator)
    except Exception as error:
        if (
            check.func.__name__ in NUMERIC
        ):  # without its traceback, of which pytest would parse every file: 0.2 s for each check
            raise error.with_traceback(None) from None
        raise


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
    with pytest.raises(ValueError, match="Row 1 of X has a blank text"):
        classifier.predict([TEXTS[0], " "])


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


@pytest.mark.parametrize(("kind", "classes"), [("Int64", [3, 7]), ("boolean", [False, True])])
def test_labels_of_pandas_nullable_types_keep_their_type(kind, classes):
    fitted = TextClassifier(**TINY).fit(TEXTS, pd.Series(classes * 20, dtype=kind))
    assert fitted.classes_.tolist() == classes and fitted.classes_.dtype == type(classes[0])


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


def test_fit_prints_nothing_and_leaves_no_file(tmp_path, monkeypatch, capfd):
    for name in ("home", "work", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("ENCODERLAB_CACHE", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path / "work")
    TextClassifier(**TINY | {"validation_fraction": 0.2}).fit(TEXTS, CLASSES)
    assert capfd.readouterr() == ("", "")
    with pytest.raises(InputError):
        TextClassifier(**TINY | {"validation_fraction": 0.2}).fit(TEXTS[:2], CLASSES[:2])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    TextClassifier(**TINY, verbose=True).fit(TEXTS, CLASSES)
    assert "parameters" in capfd.readouterr().err


def test_without_init_from_it_starts_from_the_shipped_encoder(shipped):
    settings = {"training.warmup": 0.25, "training.precision": "fp32", "training.threads": 1}
    classifier = TextClassifier(steps=2, batch_size=4, learning_rate=np.float64(0.01), dropout=0.2, settings=settings)
    config = classifier.fit(TEXTS, CLASSES).model_.config
    assert (config.model.name, config.model.d_model, config.model.dropout) == ("mini-en", 16, 0.2)
    assert (config.training.warmup, config.training.learning_rate, config.training.batch_size) == (0.25, 0.01, 4)
    assert config.dataset.validation_fraction == 0  # all of few rows are trained on


def test_a_setting_that_does_not_exist_is_refused_by_name():
    with pytest.raises(SettingError, match="There is no setting training.warm_up. Did you mean training.warmup?"):
        TextClassifier(settings={"training.warm_up": 0.1}).fit(TEXTS, CLASSES)
    with pytest.raises(SettingError, match=r'Allowed: a dictionary such as {"training.warmup": 0.1}'):
        TextClassifier(settings=["training.warmup=0.1"]).fit(TEXTS, CLASSES)


def test_a_mapping_can_have_any_class_as_a_key():
    weights = {"good": np.int64(2), "bad, né: {really}": 0.5}
    settings = TINY["settings"] | {"task.class_weights": weights}
    fitted = TextClassifier(**TINY | {"settings": settings}).fit(TEXTS, np.array(list(weights) * 20))
    assert fitted.model_.config.task.class_weights == {"good": 2, "bad, né: {really}": 0.5}
    with pytest.raises(SettingError, match="There is no setting task.class_weight. Did you mean task.class_weights?"):
        TextClassifier(**TINY | {"settings": {"task.class_weight": weights}}).fit(TEXTS, CLASSES)
    with pytest.raises(SettingError, match="task.class_weights is"):
        TextClassifier(**TINY | {"settings": {"task.class_weights": {"good": -1}}}).fit(TEXTS, CLASSES)


@given(st.lists(st.text(max_size=5), max_size=5))
def test_texts_are_read_from_any_container(texts):
    wanted = [TextExample(text) for text in texts]
    series = pd.Series(texts, dtype=object)
    for container in (texts, tuple(texts), iter(texts), np.array(texts, object), series, series.to_frame("text")):
        assert examples_of(container) == wanted


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), min_size=1, max_size=5))
def test_pairs_are_tuples_lists_or_two_columns(pairs):
    wanted = [TextExample(*pair) for pair in pairs]
    frame = pd.DataFrame(pairs, columns=["premise", "hypothesis"], dtype=object)
    for container in (pairs, list(map(list, pairs)), frame, frame.to_numpy()):
        assert examples_of(container) == wanted


@pytest.mark.parametrize(
    ("X", "refusal"),
    [
        (csr_matrix((2, 2)), "X is not a list of texts|Row 0 of X is"),
        (
            "one text",
            "X is not a list of texts: 'one text'. Allowed: an iterable with a text in each row, or a pair of texts",
        ),
        (7, "X is not a list of texts: 7"),
        (["a", None], "Row 1 of X is None"),
        ([("a", "b", "c")], r"Row 0 of X is \('a', 'b', 'c'\)"),
        (pd.DataFrame({"a": ["x"], "b": [3]}), r"Row 0 of X is \['x', 3\]"),
        (["a", ("b", "c")], "X contains both single texts and pairs of texts. Allowed: one of the two"),
    ],
)
def test_rows_that_are_not_texts_are_refused(X, refusal):
    with pytest.raises(ValueError, match=refusal) as refused:
        examples_of(X)
    assert "\n" not in str(refused.value)


def test_tags_say_that_it_reads_texts():
    tags = get_tags(TextClassifier())
    assert tags.input_tags.string and not tags.input_tags.two_d_array
    assert tags.classifier_tags.multi_label


LABELS = pd.DataFrame({"film": [1] * 40, "witty": [1, 0] * 20})


def test_several_labels_are_columns_of_0_and_1():
    fitted = TextClassifier(**TINY).fit(TEXTS, LABELS)
    assert fitted.classes_.tolist() == ["film", "witty"]
    assert fitted.predict_proba(TEXTS).shape == (40, 2)
    predicted = fitted.predict(TEXTS)
    assert predicted.shape == (40, 2) and set(predicted.flat) <= {0, 1}
    assert 0 <= fitted.score(TEXTS, LABELS.to_numpy()) <= 1
    assert TextClassifier(**TINY).fit(TEXTS, LABELS.to_numpy()).classes_.tolist() == [0, 1]
    with pytest.raises(InputError, match="other values than 0 and 1"):
        TextClassifier(**TINY).fit(TEXTS, LABELS * 2)


def test_transform_gives_the_vectors_of_the_encoder(classifier):
    vectors = classifier.transform(TEXTS)
    assert vectors.shape == (40, 16)
    np.testing.assert_allclose(vectors, classifier.model_.embed(TEXTS), rtol=1e-5)
    pipeline = make_pipeline(TextClassifier(**TINY), LogisticRegression())
    assert pipeline.fit(TEXTS, CLASSES).predict(TEXTS).shape == (40,)


LEARNS = TINY | {"steps": 40, "learning_rate": 0.01}


@pytest.mark.slow
@pytest.mark.parametrize("weighted", ["good", "bad"])
def test_weights_of_rows_and_of_classes_decide_between_labels_that_contradict_each_other(weighted):
    texts = ["the same film"] * 40
    heavy = [5.0 if label == weighted else 1.0 for label in CLASSES]
    by_row = TextClassifier(**LEARNS).fit(texts, CLASSES, sample_weight=heavy)
    assert set(by_row.predict(texts)) == {weighted}
    by_class = TextClassifier(**LEARNS, class_weight={weighted: 5}).fit(texts, CLASSES)
    assert set(by_class.predict(texts)) == {weighted}
    np.testing.assert_allclose(by_row.predict_proba(texts), by_class.predict_proba(texts), atol=0.02)
    numbers = TextRegressor(**LEARNS).fit(texts, [0.0, 6.0] * 20, sample_weight=[1.0, 5.0] * 20)
    assert numbers.predict(texts[:1])[0] == pytest.approx(5, abs=0.5)


def test_equal_weights_change_nothing(classifier):
    weighted = TextClassifier(**TINY).fit(TEXTS, CLASSES, sample_weight=np.full(40, 3.0))
    np.testing.assert_allclose(weighted.predict_proba(TEXTS), classifier.predict_proba(TEXTS), rtol=1e-5)


@pytest.mark.parametrize(
    ("weights", "refusal"),
    [([1.0] * 39, "39 weights for 40 rows"), ([-1.0] * 40, "negative"), ([0.0] * 40, "all are 0")],
)
def test_weights_that_mean_nothing_are_refused(weights, refusal):
    with pytest.raises(InputError, match=refusal):
        TextClassifier(**TINY).fit(TEXTS, CLASSES, sample_weight=weights)


def test_fit_refuses_a_blank_text_as_predict_does():
    for estimator, targets in ((TextClassifier(**TINY), CLASSES), (TextRegressor(**TINY), np.arange(40.0))):
        with pytest.raises(InputError, match="Row 1 of X has a blank text"):
            estimator.fit([TEXTS[0], " ", *TEXTS[2:]], targets)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"learning_rate": -1}, "learning_rate is -1"),
        ({"class_weight": {"good": -1}}, "class_weight is"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"dropout": 2}, "dropout is 2"),
    ],
)
def test_a_refusal_names_the_parameter(parameters, named):
    with pytest.raises(SettingError, match=named) as refused:
        TextClassifier(**TINY | parameters).fit(TEXTS, CLASSES)
    assert not any(f"{group}." in str(refused.value) for group in ("training", "task", "model", "dataset"))


@pytest.mark.slow
def test_rows_can_have_weights_where_the_names_of_labels_are_trained_on_too():
    texts = [f"{('a warm and witty film', 'a dull empty mess')[row % 2]} {row}" for row in range(12)]
    labels = ["warm_witty", "dull_mess"] * 6
    model = TextClassifier(steps=2).fit(texts, labels, sample_weight=[1.0, 3.0] * 6)
    assert set(model.predict(texts)) <= set(labels)
