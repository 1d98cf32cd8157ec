"""The figures of a set, from runs and baselines that are made up."""

import json

import pytest

from benchmarks.suite.figures import figures_of

LABELS = ["a", "b"] * 50
ROWS = {"n": len(LABELS), "per_class": {"a": {}, "b": {}}, "accuracy_ci95": [0.7, 0.9], "f1_macro": 0.7}
RECORD = {"command": ["train"], "error": None, "wall_seconds": 100.0, "peak_memory": 10**9, "made": {}}


def write_answers(folder, n_right):
    folder.mkdir(parents=True)
    other = {"a": "b", "b": "a"}
    lines = [f"t,{label},{label if row < n_right else other[label]}" for row, label in enumerate(LABELS)]
    (folder / "predictions.csv").write_text("\n".join(["text,label,predicted", *lines]) + "\n", encoding="utf-8")


def write_run(folder, seed, n_right, fingerprint="rows"):
    write_answers(folder / str(seed), n_right)
    (folder / str(seed) / "model").mkdir()
    (folder / str(seed) / "model" / "weights").write_bytes(bytes(2_500_000))
    report = {
        "task": "classification",
        "seed": seed,
        "model": {"parameters": 1000},
        "scored_split": "test",
        "main_figure": "accuracy",
        "splits": {"test": ROWS | {"accuracy": n_right / len(LABELS)}},
        "throughput": {"train_seconds": 60.0 + seed},
    }
    environment = {"command": "train", "dataset": {"splits": {"test": {"fingerprint": fingerprint}}}}
    for name, content in (("report.json", report), ("environment.json", environment), ("config.yaml", {"seed": seed})):
        (folder / str(seed) / name).write_text(json.dumps(content), encoding="utf-8")
    (folder / f"{seed}.json").write_text(json.dumps(RECORD), encoding="utf-8")


@pytest.fixture
def folder(tmp_path):
    """A dataset whose linear model is right on 70 of 100 rows."""
    write_answers(tmp_path / "baselines", 70)
    scores = {
        "accuracy": 0.7,
        "accuracy_ci95": [0.6, 0.8],
        "f1_macro": 0.7,
        "seconds": 1.0,
        "per_class": {"a": {}, "b": {}},
    }
    facts = {
        "main_figure": "accuracy",
        "scored_split": "test",
        "n": len(LABELS),
        "training_rows": 300,
        "labels": ["a", "b"],
    }
    report = facts | {"fingerprint": "rows", "best": "tfidf_logreg", "baselines": {"tfidf_logreg": scores}}
    (tmp_path / "baselines" / "report.json").write_text(json.dumps(report), encoding="utf-8")
    return tmp_path


def test_seeds_are_averaged_and_compared_with_the_linear_model_row_by_row(folder):
    for seed, n_right in enumerate((84, 86, 88)):
        write_run(folder / "box", seed, n_right)
    found = figures_of("sms_spam", folder)["kinds"]["box"]
    assert found["score"] == pytest.approx(0.86) and found["deviation"] == pytest.approx(0.02)
    assert found["train_seconds"] == 61 and found["megabytes"] == 2.5
    assert found["ahead"]["value"] == pytest.approx(0.16) and found["ahead"]["varies"] == "rows and seeds"
    low, high = found["ahead"]["interval"]
    assert 0 < low < 0.16 < high


def write_of_task(folder, figures, answers, main, per_class):
    """Write a baseline with the last of `answers` and a run with the first; `figures` are those of both."""
    scores = {**figures, f"{main}_ci95": [0.1, 0.9], "n": len(answers[0][0]), **per_class}
    linear = {"seconds": 1.0, **scores}
    facts = {"main_figure": main, "scored_split": "test", "n": scores["n"], "training_rows": 300, "labels": list("ab")}
    (folder / "baselines").mkdir()
    report = facts | {"fingerprint": "rows", "best": "best", "baselines": {"best": linear}}
    (folder / "baselines" / "report.json").write_text(json.dumps(report), encoding="utf-8")
    write_run(folder / "box", 0, 0)
    own = json.loads((folder / "box" / "0" / "report.json").read_text(encoding="utf-8"))
    own |= {"main_figure": main, "splits": {"test": scores}}
    (folder / "box" / "0" / "report.json").write_text(json.dumps(own), encoding="utf-8")
    for where, rows in ((folder / "box" / "0", answers[0]), (folder / "baselines", answers[1])):
        lines = [f"t,{label},{predicted}" for label, predicted in zip(*rows, strict=True)]
        (where / "predictions.csv").write_text("\n".join(["text,label,predicted", *lines]) + "\n", encoding="utf-8")


def test_runs_during_other_work_report_no_times_and_no_memory(folder):
    write_run(folder / "box", 0, 84)
    (folder / "box" / "0.json").write_text(json.dumps(RECORD | {"timed": False}), encoding="utf-8")
    found = figures_of("sms_spam", folder)["kinds"]["box"]
    assert found["score"] == pytest.approx(0.84) and found["megabytes"] == 2.5
    assert [found[cost] for cost in ("train_seconds", "wall_seconds", "peak_memory")] == [None, None, None]


def test_numbers_are_compared_by_their_correlation(tmp_path):
    numbers = [float(n) for n in range(50)]
    swapped = [number + (-1) ** n * 20 for n, number in enumerate(numbers)]
    figures = {"pearson": 0.9, "spearman": 0.8, "mae": 1.0, "rmse": 1.0}
    write_of_task(tmp_path, figures, [(numbers, numbers), (numbers, swapped)], "pearson", {})
    found = figures_of("sick_relatedness", tmp_path)
    assert found["baselines"]["best"]["spearman"] == found["kinds"]["box"]["spearman"] == 0.8
    assert 0 < found["kinds"]["box"]["ahead"]["interval"][0] < found["kinds"]["box"]["ahead"]["value"] < 1


def test_label_sets_are_compared_by_macro_f1_if_that_comes_first(tmp_path):
    labels = ["a", "b", "a|b", ""] * 25
    never_b = [label.replace("|b", "").replace("b", "") for label in labels]
    figures = {"f1_macro": 1.0, "f1_micro": 1.0, "subset_accuracy": 1.0}
    write_of_task(
        tmp_path, figures, [(labels, labels), (labels, never_b)], "f1_macro", {"per_class": {"a": {}, "b": {}}}
    )
    found = figures_of("goemotions", tmp_path)["kinds"]["box"]
    assert found["ahead"]["value"] == pytest.approx(0.5)
    assert found["f1_micro_ahead"]["value"] == pytest.approx(1 - 2 * 50 / (50 + 100))


def test_one_seed_has_the_interval_of_its_rows(folder):
    write_run(folder / "box", 0, 85)
    ahead = figures_of("sms_spam", folder)["kinds"]["box"]["ahead"]
    assert ahead["varies"] == "rows" and ahead["value"] == pytest.approx(0.15)


def test_failed_runs_and_those_scored_on_other_rows_are_listed_separately(folder):
    write_run(folder / "box", 0, 85)
    write_run(folder / "box", 1, 99, fingerprint="others")
    (folder / "box" / "2.json").write_text(json.dumps(RECORD | {"error": "out of memory"}), encoding="utf-8")
    found = figures_of("sms_spam", folder)["kinds"]["box"]
    assert [run["seed"] for run in found["runs"]] == [0] and found["score"] == 0.85
    assert {failure["seed"]: failure["error"] for failure in found["failed"]} == {
        1: "box/1 was scored on other rows than the baselines.",
        2: "out of memory",
    }


def test_a_kind_without_a_finished_run_has_only_its_failures(folder):
    (folder / "student").mkdir()
    (folder / "student" / "0.json").write_text(json.dumps(RECORD | {"error": "no teacher"}), encoding="utf-8")
    found = figures_of("sms_spam", folder)["kinds"]["student"]
    assert found["runs"] == [] and "score" not in found and found["failed"] == [{"seed": 0, "error": "no teacher"}]
