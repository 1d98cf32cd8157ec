"""encoderlab baseline: the figures that a report shows next to a model's, with intervals, and the top features."""

import json

import pytest

from encoderlab.errors import DataError, SettingError


@pytest.fixture
def reviews(tmp_path):
    """Rows decided by one word, except for every tenth."""
    rows = [
        f"the film was {('dull', 'fine')[(n + (n % 10 == 0)) % 2]} {n % 13},{('bad', 'good')[n % 2]}"
        for n in range(200)
    ]
    (tmp_path / "reviews.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    return ("task=classification", "dataset=files", "dataset.path=reviews.csv", "dataset.test_fraction=0.3")


def report(command, capsys, *arguments):
    capsys.readouterr()
    command("baseline", *arguments, "format=json")
    return json.loads(capsys.readouterr().out)


def test_the_figures_equal_those_a_training_run_reports(command, reviews, tmp_path, capsys):
    found = report(command, capsys, *reviews)
    tiny = (
        "model.n_layers=1",
        "model.d_model=16",
        "model.n_heads=2",
        "training=smoke",
        "training.steps=1",
        "training.threads=1",
    )
    command("train", *reviews, *tiny, "tokenizer.vocabulary_size=100", "run_dir=run")
    trained = json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf-8"))
    assert found["scored_split"] == trained["scored_split"] == "test" and found["n"] == trained["splits"]["test"]["n"]
    for name, figures in trained["baselines"].items():
        for figure in ("accuracy", "f1_macro"):
            assert found["baselines"][name][figure] == figures[figure]
            low, high = found["baselines"][name][f"{figure}_ci95"]
            assert low <= figures[figure] <= high
    linear = found["baselines"]["tfidf_logreg"]
    assert linear["ahead_of_majority_by"] == pytest.approx(
        linear["accuracy"] - found["baselines"]["majority"]["accuracy"]
    )
    assert sum(map(sum, linear["confusion"])) == found["n"]
    assert linear["ahead_of_majority_by_ci95"][0] > 0


def test_the_strongest_words_are_listed_for_each_class(command, reviews, capsys):
    found = report(command, capsys, *reviews, "words=2")
    telling = found["baselines"]["tfidf_logreg"]["top_features"]
    assert "dull" in " ".join(telling["bad"]) and "fine" in " ".join(telling["good"])
    assert all(len(words) == 2 for words in telling.values())
    assert report(command, capsys, *reviews, "words=0")["baselines"]["tfidf_logreg"]["top_features"] == {}


def test_each_of_three_classes_has_its_own_words(command, tmp_path, capsys):
    rows = [f"it is {('red', 'green', 'blue')[n % 3]} {n % 7},{('stop', 'go', 'swim')[n % 3]}" for n in range(90)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    found = report(command, capsys, "task=classification", "dataset=files", "dataset.path=rows.csv")
    telling = found["baselines"]["tfidf_logreg"]["top_features"]
    assert {name: words[0].split()[-1] for name, words in telling.items()} == {
        "stop": "red",
        "go": "green",
        "swim": "blue",
    }


def test_word_labels_are_counted_by_word(command, capsys):
    found = report(command, capsys, "task=reverse", "dataset.limit=200", "split=validation")
    assert (found["scored_split"], found["main_figure"], found["n"]) == ("validation", "token_accuracy", 200)
    majority, by_word = found["baselines"]["majority"], found["baselines"]["word_majority"]
    assert {"token_accuracy_ci95", "accuracy_ci95", "f1_macro_ci95"} <= majority.keys()
    assert by_word["ahead_of_majority_by"] == pytest.approx(by_word["token_accuracy"] - majority["token_accuracy"])


def test_the_same_figures_are_printed_and_written_to_a_file(command, reviews, tmp_path, capsys):
    command("baseline", *reviews, "output=figures.json")
    printed = capsys.readouterr().out
    kept = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    linear = kept["baselines"]["tfidf_logreg"]
    assert f"{linear['accuracy']:.3f} ({linear['accuracy_ci95'][0]:.3f} to {linear['accuracy_ci95'][1]:.3f})" in printed
    assert "The strongest words for each class" in printed and f"scored on test ({kept['n']} rows)" in printed
    assert {path.name for path in tmp_path.iterdir()} == {"reviews.csv", "figures.json"}


def test_a_method_that_cannot_be_fitted_is_reported_as_skipped(command, reviews, capsys, monkeypatch):
    monkeypatch.setattr("encoderlab.baselines.supervised.MOST_ROWS", 10)
    command("baseline", *reviews)
    assert (
        "TF-IDF + logistic regression was skipped: the linear baseline is fitted on at most 10 rows"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["task=pretraining"], SettingError, "task=pretraining has no labels to learn. Use task=intents"),
        (
            ["task=tagging"],
            DataError,
            "This dataset holds labelled texts, which do not suit task=tagging. Use task=classification",
        ),
        (["output=reviews.csv"], SettingError, "output=reviews.csv already exists. Allowed: a new file"),
        (["output="], SettingError, "output is empty"),
        (["output=/dev/null/x"], DataError, "output=/dev/null/x cannot be written"),
        (
            ["tokenizer=symbols"],
            SettingError,
            "encoderlab baseline has no tokenizer settings. Remove tokenizer=symbols.",
        ),
        (["+tokenizer.lowercase=false"], SettingError, "encoderlab baseline has no tokenizer settings"),
        (["split=dev"], DataError, "split=dev is not in this dataset. Allowed: train, validation, test"),
    ],
)
def test_impossible_requests_are_refused_in_one_line(command, reviews, arguments, error, message):
    with pytest.raises(error, match=message):
        command("baseline", *reviews, *arguments)


def test_sequences_of_words_are_not_texts(command):
    with pytest.raises(
        DataError, match="This dataset holds sequences of labelled words, which do not suit task=intents"
    ):
        command("baseline", "task=intents", "dataset=reverse", "dataset.limit=20")
