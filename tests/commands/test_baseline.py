"""encoderlab baseline: the scores that a report shows next to a model's, with intervals."""

import json

import pytest

from encoderlab.errors import SettingError


@pytest.fixture
def reviews(tmp_path):
    """Rows decided by one word, except for every tenth."""
    labels, words = ("bad", "good"), ("dull", "fine")
    rows = [f"the film was {words[(n + (n % 10 == 0)) % 2]} {n % 13},{labels[n % 2]}" for n in range(200)]
    (tmp_path / "reviews.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    return ("task=classification", "dataset=files", "dataset.path=reviews.csv", "dataset.test_fraction=0.3")


@pytest.mark.slow
def test_the_scores_equal_those_that_a_training_run_reports(command, reviews, tmp_path, printed):
    alone = printed("baseline", *reviews, "format=json")
    tiny = ("model.n_layers=1", "model.d_model=16", "model.n_heads=2", "training=smoke", "training.steps=1")
    command("train", *reviews, *tiny, "training.threads=1", "tokenizer.vocabulary_size=100", "run_dir=run")
    trained = json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf-8"))
    assert alone["scored_split"] == trained["scored_split"] == "test" and alone["n"] == trained["splits"]["test"]["n"]
    assert "trial" in trained["baselines"].pop("frozen_encoder_logreg")["skipped"], "smoke runs stay fast"
    for name, scores in trained["baselines"].items():
        for score in ("accuracy", "f1_macro"):
            assert alone["baselines"][name][score] == scores[score]
            low, high = alone["baselines"][name][f"{score}_ci95"]
            assert low <= scores[score] <= high
    linear = alone["baselines"]["tfidf_logreg"]
    assert sum(map(sum, linear["confusion"])) == alone["n"]
    assert alone["baselines"]["frozen_encoder_logreg"]["accuracy"] > 0.8


@pytest.mark.parametrize(
    ("task", "columns", "name"),
    [
        ("classification", "dataset.text_pair=second", "frozen_encoder_logreg"),
        ("regression", "dataset.label=n", "frozen_encoder_ridge"),
    ],
)
def test_pairs_and_numbers_have_a_frozen_encoder_too(task, columns, name, tmp_path, printed):
    marks = ("awful", "poor", "fair", "good", "great")
    rows = [
        f"film {n} was {marks[n % 5]},{'it was' if n % 2 else 'tall trees near'} {n},{n % 2},{n % 5}" for n in range(90)
    ]
    (tmp_path / "rows.csv").write_text("\n".join(["text,second,label,n", *rows]) + "\n", encoding="utf-8")
    report = printed("baseline", f"task={task}", "dataset=files", "dataset.path=rows.csv", columns, "format=json")
    one = report["baselines"][name]
    assert one[report["main_score"]] > 0.95


def test_texts_that_the_frozen_encoder_cannot_read_are_skipped(tmp_path, printed):
    unread = "\u4f60\u597d"
    rows = [f"{unread} {n} {unread * (n % 2)},{n % 2}" for n in range(40)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    chinese = printed("baseline", "task=classification", "dataset=files", "dataset.path=rows.csv", "format=json")
    brackets = printed("baseline", "task=brackets", "dataset.limit=100", "format=json")
    for report, reason in ((chinese, "does not know"), (brackets, "symbols")):
        assert reason in report["baselines"]["frozen_encoder_logreg"]["skipped"]


def test_the_same_scores_are_printed_for_people(command, reviews, printed, capsys):
    linear = printed("baseline", *reviews, "format=json")["baselines"]["tfidf_logreg"]
    low, high = linear["accuracy_ci95"]
    command("baseline", *reviews)
    shown = capsys.readouterr().out
    assert f"{linear['accuracy']:.3f} ({low:.3f} to {high:.3f})" in shown
    assert len(linear["candidates"]) > 3 and all(one["setting"] in shown for one in linear["candidates"])
    assert linear["setting"] == linear["candidates"][0]["setting"]


def test_each_layer_of_an_encoder_is_probed(reviews, printed, shipped, command):
    report = printed("baseline", *reviews, "probe=mini-en", "format=json")
    layers = [name for name in report["baselines"] if name.startswith("layer_")]
    assert layers == ["layer_0", "layer_1"]
    for name in layers:
        scores = report["baselines"][name]
        low, high = scores["accuracy_ci95"]
        assert low <= scores["accuracy"] <= high and "mini-en" in scores["label"]
    with pytest.raises(SettingError, match="probe"):
        command("baseline", "task=tagging", "dataset=reverse", "probe=mini-en")
