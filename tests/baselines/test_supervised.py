"""Baselines: simple methods on the same rows, honest and strong enough to be worth beating."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from encoderlab.baselines import linear as module
from encoderlab.baselines import supervised
from encoderlab.data.examples import Split, Splits
from encoderlab.metrics.thresholds import ThresholdRule

SST2 = Path(__file__).parents[3] / "shared" / "hub" / "datasets" / "nyu-mll" / "glue" / "sst2"


def baselines(train, scored, labels=("a", "b")):
    return supervised.baselines(Splits({"train": train, "test": scored}, list(labels)), "test")


def texts(rows, pairs=None):
    columns = {"text": [text for text, _ in rows], "label": [label for _, label in rows]}
    return Split(pa.table(columns | ({"text_pair": pairs} if pairs else {})))


def words(rows):
    return Split(pa.table({"words": [list(w) for w, _ in rows], "labels": [labels for _, labels in rows]}))


def test_the_majority_is_taken_from_training_and_not_from_the_scored_rows():
    train = texts([("good", 1), ("fine", 1), ("bad", 0)])
    found = baselines(train, texts([("bad", 0), ("poor", 0), ("good", 1)]))["majority"]
    assert found.predicted.tolist() == [1, 1, 1]
    assert found.figures["accuracy"] == pytest.approx(1 / 3)
    assert found.figures["f1_macro"] == pytest.approx(1 / 4)
    assert found.figures["seconds"] >= 0


def test_the_linear_model_learns_from_words():
    train = texts([("a good film", 1), ("a bad film", 0)] * 10)
    found = baselines(train, texts([("such a bad day", 0), ("good grief", 1)]))["tfidf_logreg"]
    assert found.figures["accuracy"] == 1.0
    assert set(found.figures) == {"accuracy", "f1_macro", "matthews", "seconds"}


def test_the_linear_model_treats_single_symbols_as_words():
    train = texts([("( ) ( )", 1), (") ) ( (", 0), ("[]", 1), ("][", 0)] * 5)
    assert baselines(train, texts([("[][]", 1), (")) ((", 0)]))["tfidf_logreg"].figures["accuracy"] == 1.0


def test_both_texts_of_a_pair_are_read():
    train = texts([("same", 1), ("same", 0)] * 10, pairs=["good", "bad"] * 10)
    scored = texts([("same", 0), ("same", 1)], pairs=["bad", "good"])
    assert baselines(train, scored)["tfidf_logreg"].figures["accuracy"] == 1.0


def test_unlabelled_rows_are_predicted_but_neither_trained_on_nor_scored():
    train = texts([("good", 1), ("bad", 0), ("good", None)] * 5)
    found = baselines(train, texts([("good", None), ("good", 1), ("bad", 0)]))["tfidf_logreg"]
    assert found.predicted.tolist() == [1, 1, 0]
    assert found.figures["accuracy"] == 1.0


def test_the_linear_model_is_skipped_with_a_reason_above_its_row_limit(monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 3)
    split = texts([("good", 1), ("bad", 0)] * 2)
    found = baselines(split, split)
    assert found["tfidf_logreg"].skipped == "the linear baseline is fitted on at most 3 rows, but training has 4"
    assert found["tfidf_logreg"].figures == {}
    assert found["majority"].figures["accuracy"] == 0.5


def test_the_linear_model_is_skipped_with_a_reason_if_rows_times_labels_are_too_many():
    train = texts([(f"text {n}", n // 2) for n in range(4_000)])
    found = baselines(train, train, labels=[str(n) for n in range(2_000)])["tfidf_logreg"]
    assert found.skipped.endswith("at most 5,000,000 rows times labels, but training has 8,000,000")


@pytest.mark.parametrize(
    ("rows", "reason"),
    [([("good", 1), ("fine", 1)], "needs two labels"), ([(" ", 1), ("", 0)], "every training text is empty")],
)
def test_the_linear_model_is_skipped_if_there_is_nothing_to_fit(rows, reason):
    found = baselines(texts(rows), texts([("good", 1), ("bad", 0)]))
    assert reason in found["tfidf_logreg"].skipped


def test_a_word_gets_its_most_frequent_label_and_a_new_word_the_overall_one():
    train = words([(["a", "b"], [0, 1]), (["a", "b", "c"], [0, 1, 1]), (["b"], [0])])
    scored = words([(["a", "b", "new"], [0, 1, 1]), (["c"], [1])])
    found = baselines(train, scored)
    assert [answers.tolist() for answers in found["majority"].predicted] == [[0, 0, 0], [0]]
    assert [answers.tolist() for answers in found["word_majority"].predicted] == [[0, 1, 0], [1]]
    assert found["word_majority"].figures["token_accuracy"] == pytest.approx(3 / 4)
    assert found["word_majority"].figures["accuracy"] == pytest.approx(1 / 2)
    assert found["majority"].figures["f1_macro"] == pytest.approx(0.2)


def test_sequences_without_labels_are_predicted_and_not_scored():
    train = words([(["a", "b"], [0, 1]), (["a"], None)])
    found = baselines(train, words([(["a", "b"], None), (["b"], [1])]))["word_majority"]
    assert [answers.tolist() for answers in found.predicted] == [[0, 1], [1]]
    assert found.figures["token_accuracy"] == 1.0


@pytest.mark.parametrize(("least", "predicted"), [(0.01, [1, 1]), (0.99, [0, 0])])
def test_a_known_threshold_decides_between_two_classes(least, predicted):
    rows = texts([("good film", 1), ("bad film", 0)] * 10)
    splits = Splits({"train": rows, "test": texts([("good", 1), ("bad", 0)])}, ["a", "b"])
    found = supervised.baselines(splits, "test", ThresholdRule(known=least))["tfidf_logreg"]
    assert found.predicted.tolist() == predicted


def test_a_threshold_is_found_on_validation():
    rows = texts([("good film", 1)] * 2 + [("bad film", 0)] * 18)
    held_out = texts([("good", 1), ("bad", 0), ("bad", None)] * 5)
    splits = Splits({"train": rows, "validation": held_out, "test": texts([("good", 1), ("bad", 0)])}, ["a", "b"])
    found = supervised.baselines(splits, "test", ThresholdRule())["tfidf_logreg"]
    assert found.predicted.tolist() == [1, 0]


@pytest.mark.parametrize(
    "train",
    [
        texts([("good", 1), ("bad", 0)]),
        texts([("good", 1), ("fine", 1)]),
        texts([("good", 1.5), ("bad", 0.5)]),
        texts([(" ", [0]), ("", [1])]),
        words([(["a", "b"], [0, 1])]),
    ],
)
def test_the_planned_baselines_are_those_that_are_fitted(train):
    splits = Splits({"train": train, "test": train}, [] if train.target == "number" else ["a", "b"])
    found = supervised.baselines(splits, "test")
    assert supervised.planned(splits) == {name: baseline.skipped for name, baseline in found.items()}


def test_fitting_twice_gives_the_same_answers():
    random = np.random.default_rng(0)
    rows = [(" ".join(random.choice(list("abcdefgh"), 6)), int(random.integers(2))) for _ in range(200)]
    first, second = (baselines(texts(rows), texts(rows))["tfidf_logreg"].predicted for _ in range(2))
    assert first.tolist() == second.tolist()


@pytest.mark.slow
@pytest.mark.skipif(not SST2.is_dir(), reason="needs ../shared/hub, a copy of SST-2")
def test_on_sst2_the_linear_model_scores_as_published():
    files = {split: str(SST2 / f"{split}-00000-of-00001.parquet") for split in ("train", "validation")}
    splits = {name: Split(pq.read_table(file).rename_columns({"sentence": "text"})) for name, file in files.items()}
    found = baselines(splits["train"], splits["validation"])
    assert 0.815 <= found["tfidf_logreg"].figures["accuracy"] <= 0.83
