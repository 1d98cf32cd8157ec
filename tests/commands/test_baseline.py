"""encoderlab baseline: the scores that a report shows next to a model's, with intervals, and the top features."""

import json

import pytest

from encoderlab.errors import DataError, SettingError


@pytest.fixture
def reviews(tmp_path):
    """Rows decided by one word, except for every tenth."""
    labels, words = ("bad", "good"), ("dull", "fine")
    rows = [f"the film was {words[(n + (n % 10 == 0)) % 2]} {n % 13},{labels[n % 2]}" for n in range(200)]
    (tmp_path / "reviews.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    return ("task=classification", "dataset=files", "dataset.path=reviews.csv", "dataset.test_fraction=0.3")


def test_the_scores_equal_those_that_a_training_run_reports(command, reviews, tmp_path, printed):
    alone = printed("baseline", *reviews, "format=json")
    tiny = ("model.n_layers=1", "model.d_model=16", "model.n_heads=2", "training=smoke", "training.steps=1")
    command("train", *reviews, *tiny, "training.threads=1", "tokenizer.vocabulary_size=100", "run_dir=run")
    trained = json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf-8"))
    assert alone["scored_split"] == trained["scored_split"] == "test" and alone["n"] == trained["splits"]["test"]["n"]
    for name, scores in trained["baselines"].items():
        for score in ("accuracy", "f1_macro"):
            assert alone["baselines"][name][score] == scores[score]
            low, high = alone["baselines"][name][f"{score}_ci95"]
            assert low <= scores[score] <= high
    linear = alone["baselines"]["tfidf_logreg"]
    lead = linear["accuracy"] - alone["baselines"]["majority"]["accuracy"]
    assert linear["ahead_of_majority_by"] == pytest.approx(lead) and linear["ahead_of_majority_by_ci95"][0] > 0
    assert sum(map(sum, linear["confusion"])) == alone["n"]


def test_the_strongest_words_are_listed_for_each_class(reviews, printed, tmp_path):
    features = printed("baseline", *reviews, "words=2", "format=json")["baselines"]["tfidf_logreg"]["top_features"]
    assert "dull" in " ".join(features["bad"]) and "fine" in " ".join(features["good"])
    assert all(len(words) == 2 for words in features.values())
    rows = [f"it is {('red', 'green', 'blue')[n % 3]} {n % 7},{('stop', 'go', 'swim')[n % 3]}" for n in range(90)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    three = printed("baseline", *reviews[:2], "dataset.path=rows.csv", "format=json")["baselines"]["tfidf_logreg"]
    strongest = {name: words[0].split()[-1] for name, words in three["top_features"].items()}
    assert strongest == {"stop": "red", "go": "green", "swim": "blue"}


def test_the_same_scores_are_printed_and_written_to_a_file(command, reviews, tmp_path, capsys):
    command("baseline", *reviews, "output=scores.json")
    linear = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))["baselines"]["tfidf_logreg"]
    low, high = linear["accuracy_ci95"]
    assert f"{linear['accuracy']:.3f} ({low:.3f} to {high:.3f})" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "error", "fragment"),
    [
        (["task=pretraining"], SettingError, "task=pretraining"),
        (["task=tagging"], DataError, "Use task=classification"),
        (["output=reviews.csv"], SettingError, "output=reviews.csv already exists"),
        (["output=/dev/null/x"], DataError, "output=/dev/null/x cannot be written"),
        (["tokenizer=symbols"], SettingError, "tokenizer"),
        (["split=dev"], DataError, "split=dev"),
    ],
)
def test_impossible_requests_are_refused_in_one_line(command, reviews, words, error, fragment):
    with pytest.raises(error, match=fragment):
        command("baseline", *reviews, *words)
