"""Baselines: simple methods on the same rows, honest and strong enough to be worth beating."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from encoderlab.baselines import supervised
from encoderlab.data.data import Data
from encoderlab.data.examples import Split
from encoderlab.metrics.calibration import ThresholdRule

SST2 = Path(__file__).parents[3] / "shared" / "hub" / "datasets" / "nyu-mll" / "glue" / "sst2"
WORDS = ("rain", "goal", "vote")


def letters(split):
    """Return how often each letter occurs in each text, scaled to length 1: what a frozen encoder stands for here."""
    counts = np.array([np.bincount([ord(c) % 32 for c in one.text], minlength=32) for one in split.of_texts()], float)
    return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1)


def baselines(train, scored, labels=("a", "b"), threshold=None, frozen=letters, **further):
    splits = Data({"train": train, **further, "test": scored}, list(labels))
    return supervised.baselines(splits, "test", threshold, frozen=frozen)


def texts(rows, pairs=None, kind=None):
    columns = {"text": [text for text, _ in rows], "label": pa.array([label for _, label in rows], kind)}
    return Split(pa.table(columns | ({"text_pair": pairs} if pairs else {})))


def words(rows):
    return Split(pa.table({"words": [list(w) for w, _ in rows], "labels": [labels for _, labels in rows]}))


def numbers(rows):
    return texts(rows, kind=pa.float64())


def sets(rows):
    named = [(" ".join(["the", *(WORDS[label] for label in labels or ())]), labels) for labels in rows]
    return texts(named, kind=pa.list_(pa.int64()))


def test_the_majority_is_taken_from_training_and_not_from_the_scored_rows():
    train = texts([("good", 1), ("fine", 1), ("bad", 0)])
    found = baselines(train, texts([("bad", 0), ("poor", 0), ("good", 1)]))["majority"]
    assert found.predicted.tolist() == [1, 1, 1]
    assert found.scores.pop("seconds") >= 0
    scores = {"accuracy": 1 / 3, "f1_macro": 1 / 4, "matthews": 0, "f1": 1 / 2, "average_precision": 1 / 3}
    assert found.scores == pytest.approx(scores)


GOOD_AND_BAD = texts([("a good film", 1), ("a bad film", 0)] * 10)
SYMBOLS = texts([("( ) ( )", 1), (") ) ( (", 0), ("[]", 1), ("][", 0)] * 5)
PAIRS = texts([("same", 1), ("same", 0)] * 10, pairs=["good", "bad"] * 10)


@pytest.mark.parametrize(
    ("train", "scored"),
    [
        (GOOD_AND_BAD, texts([("such a bad day", 0), ("good grief", 1)])),
        (SYMBOLS, texts([("[][]", 1), (")) ((", 0)])),
        (PAIRS, texts([("same", 0), ("same", 1)], pairs=["bad", "good"])),
    ],
    ids=["words", "symbols", "pairs"],
)
def test_the_linear_model_learns_from_words_symbols_and_both_texts_of_a_pair(train, scored):
    assert baselines(train, scored)["tfidf_logreg"].scores["accuracy"] == 1.0


def test_unlabelled_rows_are_predicted_but_neither_trained_on_nor_scored():
    train = texts([("good", 1), ("bad", 0), ("good", None)] * 5)
    found = baselines(train, texts([("good", None), ("good", 1), ("bad", 0)]))["tfidf_logreg"]
    assert found.predicted.tolist() == [1, 1, 0] and found.scores["accuracy"] == 1.0
    found = baselines(words([(["a", "b"], [0, 1]), (["a"], None)]), words([(["a", "b"], None), (["b"], [1])]))
    assert [one.tolist() for one in found["word_majority"].predicted] == [[0, 1], [1]]
    assert found["word_majority"].scores["token_accuracy"] == 1.0
    found = baselines(numbers([("a", 1.0), ("b", None), ("c", 3.0)]), numbers([("a", None), ("b", 2.0)]))["mean"]
    assert found.predicted.tolist() == [2.0, 2.0] and found.scores["mae"] == 0.0


@pytest.mark.parametrize(
    ("train", "method", "reason"),
    [
        (texts([("good", 1), ("bad", 0)] * 2), "tfidf_logreg", "at most 3 rows, but training has 4"),
        (texts([("a", 0), ("b", 1), ("c", 2)]), "tfidf_logreg", "at most 8 rows times labels, but training has 9"),
        (sets([[0], [1], [2]]), "tfidf_logreg", "at most 8 rows times labels, but training has 9"),
        (texts([("good", 1), ("fine", 1)]), "tfidf_logreg", "needs two labels"),
        (texts([(" ", 1), ("", 0)]), "tfidf_logreg", "every training text is empty"),
        (numbers([(" ", 1.0), ("", 2.0)]), "tfidf_ridge", "every training text is empty"),
    ],
)
def test_a_linear_model_that_cannot_be_fitted_is_skipped_with_a_reason(monkeypatch, train, method, reason):
    for name, most in (("MOST_ROWS", 3), ("MOST_CELLS", {"label": 8, "label_set": 8})):
        monkeypatch.setattr(supervised, name, most)
    found = baselines(train, train, "abc")
    assert reason in found[method].skipped and found[method].scores == {}
    assert all(one.scores for name, one in found.items() if not name.startswith(("tfidf", "frozen")))


@pytest.mark.parametrize(
    ("train", "score"),
    [
        (texts([("good", 1), ("bad", 0), ("fine", 1), ("poor", 0)] * 5), "accuracy"),
        (texts([("good", 1), ("bad", 0)] * 8 + [("once", 2)]), "accuracy"),
        (sets([[0], [1], [0, 1], [], [2], [1, 2]] * 6), "f1_micro"),
        (numbers([("a cheap and small room", 10.0), ("a large room with a view", 30.0)] * 15), "pearson"),
    ],
    ids=["two classes", "a label of a single row", "sets of labels", "numbers"],
)
def test_a_linear_model_is_fitted_to_the_vectors_of_a_frozen_encoder(train, score):
    name, frozen = list(baselines(train, train, "abc").items())[-1]
    assert name.startswith("frozen_encoder") and frozen.scores[score] > 0.9 and frozen.scores["seconds"] > 0


def test_the_linear_model_chooses_what_it_reads_by_cross_validation():
    rng = np.random.default_rng(0)

    def inflected(n):  # each word is new, and only its ending is known
        labels = rng.integers(2, size=n).tolist()
        return texts([("".join(rng.choice(list("abcdefgh"), 6)) + ("ing", "ed")[label], label) for label in labels])

    found = baselines(inflected(120), inflected(50))["tfidf_logreg"]
    assert found.scores["accuracy"] > 0.9
    described = found.description()
    assert described["setting"].startswith("characters") and described["compared_on"] == 120
    best, *others = described["candidates"]
    assert best["setting"] == described["setting"] and best["loss"] <= min(one["loss"] for one in others)
    assert best["accuracy"] > 0.9 > min(one["accuracy"] for one in others)


def test_the_linear_model_sees_where_two_texts_differ():
    rng = np.random.default_rng(0)
    words = ["river", "cloud", "stone", "apple", "chair", "light", "paper", "glass", "horse", "bread"]
    rows = [[*rng.choice(words, 3, replace=False)] for _ in range(150)]
    pairs = [" ".join(row[::-1] if same else rng.choice(words, 3)) for row, same in zip(rows, [0, 1] * 75, strict=True)]
    train = texts([(" ".join(row), same) for row, same in zip(rows, [0, 1] * 75, strict=True)], pairs=pairs)
    found = baselines(train.take(np.arange(100)), train.take(np.arange(100, 150)))["tfidf_logreg"]
    assert found.scores["accuracy"] > 0.9


def test_linear_models_rank_the_rows_of_two_classes():
    found = baselines(GOOD_AND_BAD, texts([("a good film", 1), ("a bad film", 0), ("good", 0), ("bad", 0)]))
    for method in ("tfidf_logreg", "frozen_encoder_logreg"):
        assert 0.5 <= found[method].scores["average_precision"] <= 1


def test_a_frozen_encoder_reads_a_part_of_many_rows_or_none_and_says_so(monkeypatch):
    rows = texts([("good", 1), ("bad", 0), ("fine", 1), ("poor", 0)] * 5)
    monkeypatch.setattr(supervised, "MOST_FROZEN_ROWS", 9)
    frozen = baselines(rows, rows)["frozen_encoder_logreg"]
    assert "9 of the 20 training rows" in frozen.note and frozen.scores["accuracy"] == 1
    monkeypatch.setattr(supervised, "MOST_FROZEN_CHARACTERS", 1)
    assert "characters" in baselines(rows, rows)["frozen_encoder_logreg"].skipped
    skipped = baselines(rows, rows, frozen="no texts")["frozen_encoder_logreg"]
    assert (skipped.skipped, skipped.note) == ("no texts", "")


def test_a_word_gets_its_most_frequent_label_and_a_new_word_the_overall_one():
    train = words([(["a", "b"], [0, 1]), (["a", "b", "c"], [0, 1, 1]), (["b"], [0])])
    found = baselines(train, words([(["a", "b", "new"], [0, 1, 1]), (["c"], [1])]))
    assert [one.tolist() for one in found["majority"].predicted] == [[0, 0, 0], [0]]
    assert [one.tolist() for one in found["word_majority"].predicted] == [[0, 1, 0], [1]]
    assert found["word_majority"].scores["token_accuracy"] == pytest.approx(3 / 4)


@pytest.mark.parametrize(
    ("rule", "predicted"),
    [(ThresholdRule(known=1e-5), [1, 1]), (ThresholdRule(known=1 - 1e-5), [0, 0]), (ThresholdRule(), [1, 0])],
    ids=["low", "high", "fitted on validation"],
)
def test_a_threshold_decides_between_two_classes(rule, predicted):
    train = texts([("good film", 1)] * 2 + [("bad film", 0)] * 18)
    held_out = texts([("good", 1), ("bad", 0), ("bad", None)] * 5)
    found = baselines(train, texts([("good", 1), ("bad", 0)]), threshold=rule, validation=held_out)
    assert found["tfidf_logreg"].predicted.tolist() == predicted


def test_numbers_are_predicted_from_words_and_the_mean_is_that_of_training():
    train = numbers([("a cheap and small room", 10.0), ("a large room with a view", 30.0)] * 15)
    found = baselines(train, numbers([("a cheap bed", 10.0), ("the view", 30.0), ("cheap, small", 9.0)]), ())
    cheap, view, small = found["tfidf_ridge"].predicted
    assert small < view > cheap and found["mean"].predicted.tolist() == [20.0] * 3
    assert found["tfidf_ridge"].scores["mae"] < found["mean"].scores["mae"]


SETS = [[0], [1], [0, 1], [], [2], [1, 2]] * 6


def test_each_label_of_a_set_is_learned_from_its_words():
    found = baselines(sets(SETS), sets(SETS[:6]), "abc")
    assert found["tfidf_logreg"].scores["subset_accuracy"] == 1.0
    assert found["majority"].predicted.tolist() == [[False, True, False]] * 6


def test_labels_of_all_or_no_rows_are_predicted_as_such():
    found = baselines(sets([[0], [0, 1]] * 5), sets([[0], [0, 1]]), "abc")["tfidf_logreg"]
    assert found.predicted[:, 0].all() and not found.predicted[:, 2].any()


def test_thresholds_of_sets_come_from_validation():
    rare = sets([[0] if row % 8 == 0 else [] for row in range(64)])
    without, with_validation = baselines(rare, rare, "a"), baselines(rare, rare, "a", validation=rare)
    assert with_validation["tfidf_logreg"].scores["f1_micro"] >= without["tfidf_logreg"].scores["f1_micro"]


@pytest.mark.slow
@pytest.mark.skipif(not SST2.is_dir(), reason="needs ../shared/hub, a copy of SST-2")
def test_on_sst2_the_linear_model_scores_as_published():
    files = {split: str(SST2 / f"{split}-00000-of-00001.parquet") for split in ("train", "validation")}
    splits = {name: Split(pq.read_table(file).rename_columns({"sentence": "text"})) for name, file in files.items()}
    found = baselines(splits["train"], splits["validation"])
    assert 0.815 <= found["tfidf_logreg"].scores["accuracy"] <= 0.83
