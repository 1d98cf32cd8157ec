"""encoderlab compare: what differs, how certain that is, and which runs cannot be compared."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from pandas import read_csv

from encoderlab.errors import DataError, SettingError
from encoderlab.runs.run import Run

NAMES = ["bad", "good"]
N = 200
LABELS = np.random.default_rng(0).integers(0, 2, N)


def finished(
    name,
    *,
    seed=0,
    right=0.8,
    settings=(),
    command="train",
    task="toy",
    split="test",
    fingerprint="f",
    chosen_on=None,
    typed=None,
    training_rows=None,
    hardware=None,
):
    """Write the folder of a finished run that is right on a fraction of the same N rows."""
    folder = Run(Path("outputs") / name)
    folder.folder.mkdir(parents=True)
    hit = np.random.default_rng(1000 + seed + int(right * 100)).random(N) < right
    predicted = np.where(hit, LABELS, 1 - LABELS)
    rows = [
        f'"text {n}",{NAMES[label]},{NAMES[answer]}'
        for n, (label, answer) in enumerate(zip(LABELS, predicted, strict=True))
    ]
    folder.predictions_file.write_text("\n".join(["text,label,predicted", *rows]) + "\n")
    config = {"seed": seed, "run_dir": None, "model": {"schema": "model", "name": "tiny", "n_layers": 1}}
    config |= {"training": {"learning_rate": 0.001}, "dataset": {"train_share": 1.0}}
    for key, value in dict(settings).items():
        group, _, setting = key.rpartition(".")
        (config[group] if group else config)[setting] = value
    folder.config_file.write_text(yaml.safe_dump(config))
    splits = {split: {"fingerprint": fingerprint, "rows": N}}
    if training_rows is not None:
        splits["train"] = {"rows": training_rows}
    environment = {"command": command, "overrides": typed, "dataset": {"labels": NAMES, "splits": splits}}
    environment["hardware"] = hardware or {}
    folder.environment_file.write_text(json.dumps(environment))
    accuracy = float(hit.mean())
    scores = {"n": N, "loss": 0.5, "accuracy": accuracy, "accuracy_ci95": [accuracy - 0.05, accuracy + 0.05]}
    scores["per_class"] = dict.fromkeys(NAMES, {})
    report = {"command": command, "task": task, "seed": seed, "model": {"parameters": 10}}
    report |= {"scored_split": split, "main_score": "accuracy", "baselines": {"majority": {"accuracy": 0.525}}}
    report |= {"splits": {split: scores}, "throughput": {"train_seconds": 2.0}, "checkpoint": {"chosen_on": chosen_on}}
    folder.report_file.write_text(json.dumps(report))
    return str(folder.folder)


@pytest.fixture
def four(command):
    """Two settings with two seeds each, the second far better."""
    return [
        finished(f"layers{layers}-{seed}", seed=seed, right=right, settings={"model.n_layers": layers})
        for layers, right in ((1, 0.6), (2, 0.9))
        for seed in (0, 1)
    ]


def compared(command, *arguments):
    command("compare", *arguments, "output=compared")
    return json.loads(Path("compared/compare.json").read_text())


def test_settings_are_grouped_by_seed_and_compared_with_the_best(command, capsys, four):
    found = compared(command, *four)
    assert found["differing"] == {"model.n_layers": ["1", "2"]} and found["reference"] == "n_layers=2"
    assert [row["n"] for row in found["settings"]] == [2, 2]
    worse, best = (row["difference"] for row in found["settings"])
    assert best is None and worse["outcome"] == "lower" and worse["varies"] == "rows and seeds"
    assert worse["interval"][1] < 0
    printed = capsys.readouterr().out
    assert (
        all(path in printed for path in four)
        and re.search(r"most frequent label +0\.525", printed)
        and "model.n_layers: 1 | 2" in printed
    )
    for row in found["settings"]:
        assert f"{row['value']:.3f}" in printed


def test_an_interval_over_two_seeds_has_no_impossible_scores(command):
    runs = [finished(f"run{seed}", seed=seed, right=right) for seed, right in ((0, 0.7), (1, 0.95))]
    low, high = compared(command, *runs)["settings"][0]["interval"]
    assert 0 <= low < 0.7 and high == 1


def test_seeds_with_the_same_score_have_the_interval_of_the_rows(command):
    runs = [finished(f"run{seed}", seed=seed, right=1.0) for seed in (0, 1)]
    (row,) = compared(command, *runs)["settings"]
    assert row["interval_over"] == "rows" and row["interval"][0] < row["interval"][1]


def test_a_run_may_be_named_as_the_reference(command, four):
    found = compared(command, *four, f"reference={four[0]}")
    assert found["reference"] == "n_layers=1" and found["settings"][1]["difference"]["outcome"] == "higher"


def test_one_seed_each_is_tested_by_the_bootstrap_and_has_the_interval_of_its_rows(command, four):
    found = compared(command, four[0], four[2])
    assert found["settings"][0]["difference"]["test"] == "paired bootstrap"
    assert {row["interval_over"] for row in found["settings"]} == {"rows"}


def test_several_comparisons_are_corrected(command, four):
    third = finished("layers3", right=0.85, settings={"model.n_layers": 3})
    tested = [row["difference"] for row in compared(command, four[0], four[2], third)["settings"] if row["difference"]]
    assert all(one["p_corrected"] >= one["p_value"] for one in tested)
    assert any(one["p_corrected"] > one["p_value"] for one in tested)


def test_the_encoder_is_named_as_the_user_chose_it(command):
    scratch = finished("scratch", settings={"model.name": "mini"})
    pretrained = {"model.name": "bert", "model.pooling": "mean", "init_from": "org/MiniLM"}
    found = compared(command, scratch, finished("finetuned", right=0.9, command="finetune", settings=pretrained))
    assert [row["label"] for row in found["settings"]] == ["encoder=mini", "encoder=org/MiniLM"]
    assert found["differing"]["command"] == ["train", "finetune"]


def test_what_was_typed_names_a_run_and_not_what_follows_from_it(command):
    def length(steps, epochs, evaluate_every):
        return {"training.evaluate_every": evaluate_every, "training.steps": steps, "training.epochs": epochs}

    runs = [
        finished("steps", settings=length(120, None, 12), typed=["task=toy", "training.steps=120"]),
        finished("long", settings=length(None, 20, 34), typed=["task=toy", "training.epochs=20"]),
        finished("short", settings=length(None, 3, 5), typed=["task=toy", "training.epochs=3"]),
    ]
    labels = [row["label"] for row in compared(command, *runs)["settings"]]
    assert labels == ["epochs=3", "epochs=20", "steps=120"]


def test_a_learning_curve_says_which_settings_changed_with_the_rows(command):
    def run_on(share, rows, epochs, *typed):
        settings = {"dataset.train_share": share, "training.epochs": epochs, "training.evaluate_every": rows // 10}
        overrides = [f"dataset.train_share={share}", *typed]
        return finished(f"{rows}-{len(typed)}", settings=settings, training_rows=rows, typed=overrides)

    notes = compared(command, run_on(0.1, 20, 40), run_on(1, 200, 5))["notes"]
    (changed,) = (note for note in notes if "changed with the rows" in note)
    assert "training.epochs (40 | 5)" in changed and "evaluate_every" not in changed
    held = compared(command, run_on(0.1, 20, 7, "training.epochs=7"), run_on(1, 200, 7, "training.epochs=7"))
    assert [row["label"] for row in held["settings"]] == ["train_share=0.1", "train_share=1"]
    assert not any("changed with the rows" in note for note in held["notes"])


def test_runs_with_different_main_scores_are_compared_by_a_named_one(command, four):
    path = Run(Path(four[0])).report_file
    report = json.loads(path.read_text())
    report["splits"]["test"] |= {"f1": 0.4, "positive_label": "good"}
    path.write_text(json.dumps(report | {"main_score": "f1"}))
    with pytest.raises(SettingError, match="score=f1 or score=accuracy"):
        command("compare", *four)
    assert compared(command, *four, "score=accuracy")["score"] == "accuracy"
    report["splits"]["test"]["positive_label"] = "bad"
    other = Run(Path(four[1])).report_file
    other.write_text(json.dumps(json.loads(path.read_text()) | {"splits": report["splits"]}))
    with pytest.raises(SettingError, match="good and bad"):
        command("compare", four[0], four[1])


def test_the_files_hold_every_run_and_the_page_is_escaped(command, four):
    odd = finished("a b,c <b>", right=0.7, settings={"model.name": "<script>x</script>"})
    compared(command, *four, odd)
    page = Path("compared/compare.html").read_text()
    assert page.count("<svg") == 1 and "<script" not in page and all(path in page for path in four)


def test_shares_of_the_training_rows_are_counted_and_have_their_own_baselines(command, capsys):
    runs = []
    for share, right in ((0.5, 0.7), (1.0, 0.8)):
        runs.append(finished(f"share{share}", right=right, settings={"dataset.train_share": share}))
        folder = Run(Path(runs[-1]))
        record, report = (json.loads(path.read_text()) for path in (folder.environment_file, folder.report_file))
        record["dataset"]["splits"]["train"] = {"rows": int(1000 * share)}
        report["baselines"]["tfidf_logreg"] = {"accuracy": share / 2, "accuracy_ci95": [0.1, 0.9]}
        folder.environment_file.write_text(json.dumps(record))
        folder.report_file.write_text(json.dumps(report))
    found = compared(command, *runs)
    assert [row["training_rows"] for row in found["settings"]] == [500, 1000]
    rows = [(one["name"], one["value"], one["interval"]) for one in found["baselines"]]
    assert rows == [("majority", 0.525, None), *(("tfidf_logreg", value, [0.1, 0.9]) for value in (0.25, 0.5))]
    printed = capsys.readouterr().out
    assert "training rows" in printed and "TF-IDF + logistic regression (train_share=0.5)" in printed


def test_an_unfinished_run_is_skipped_and_the_newer_of_identical_runs_used(command, capsys, four):
    again = finished("again", seed=0, right=0.6, settings={"model.n_layers": 1})
    os.utime(Run(Path(again)).report_file, (2e9, 2e9))
    assert compared(command, *four, again)["settings"][0]["runs"][0]["folder"] == again
    Run(Path(four[3])).report_file.unlink()
    capsys.readouterr()
    command("compare", *four)
    printed = capsys.readouterr()
    assert f"resume={four[3]}" in printed.err and f"{four[3]}\n" not in printed.out


def test_evaluations_are_grouped_by_the_settings_of_their_runs(command, four):
    scored = [
        finished(f"eval{n}", seed=n % 2, right=0.7 + 0.1 * (n > 1), command="eval", settings={"run": run})
        for n, run in enumerate(four)
    ]
    found = compared(command, *scored)
    assert found["differing"] == {"model.n_layers": ["1", "2"]} and [row["n"] for row in found["settings"]] == [2, 2]


def test_what_a_run_was_scored_on_is_not_what_it_was_trained_on(command):
    shares = [
        finished(
            f"share{share}",
            settings={"dataset.train_share": share, "training.precision": "auto"},
            training_rows=int(share * 1000),
            hardware={"precision": "bfloat16"},
        )
        for share in (0.5, 1.0)
    ]
    scored = []
    for number, run in enumerate(shares):
        own = {"run": run, "dataset.train_share": 1.0, "dataset.limit": 100 * number, "precision": "fp32"}
        settings = {**own, "device": "cpu"}
        scored.append(finished(f"eval{number}", command="eval", settings=settings, right=0.7, training_rows=7))
    found = compared(command, *scored)
    assert [row["label"] for row in found["settings"]] == ["train_share=0.5", "train_share=1"]
    assert [row["training_rows"] for row in found["settings"]] == [500, 1000]
    assert found["differing"] == {"dataset.train_share": ["0.5", "1"]}
    beside = compared(command, scored[0], shares[1])
    assert beside["differing"] == {"dataset.train_share": ["0.5", "1"]}


def test_a_precision_that_nobody_typed_is_listed_once(command):
    def runs(name, *typed):
        for number, precision in enumerate(("bfloat16", "float32")):
            settings = {"model.n_layers": number, "training.precision": "auto", "training.measure": bool(number)}
            overrides = [f"model.n_layers={number}", *typed[number : number + 1]]
            hardware = {"precision": precision}
            yield finished(f"{name}{number}", settings=settings, typed=overrides, hardware=hardware)

    found = compared(command, *runs("open"))
    assert [*found["differing"]] == ["model.n_layers"] and [*found["not_typed"]] == ["precision"]
    found = compared(command, *runs("set", "training.precision=bf16", "training.precision=fp32"))
    assert [*found["differing"]] == ["model.n_layers", "training.precision"] and not found["not_typed"]


def test_a_difference_over_few_seeds_is_no_larger_than_the_score_can_be(command):
    runs = [
        finished(f"layers{layers}-{seed}", seed=seed, right=right, settings={"model.n_layers": layers})
        for layers, seed, right in ((1, 0, 0.1), (1, 1, 0.9), (2, 0, 0.95), (2, 1, 0.05))
    ]
    (difference,) = (row["difference"] for row in compared(command, *runs)["settings"] if row["difference"])
    assert difference["interval"] == [-1.0, 1.0]


def test_a_checkpoint_chosen_on_the_scored_split_is_warned_about(command):
    runs = [
        finished(f"run{n}", split="validation", chosen_on="validation", settings={"model.n_layers": n}) for n in (1, 2)
    ]
    assert any("Checkpoints were chosen on validation" in note for note in compared(command, *runs)["notes"])


@pytest.fixture
def grid(command):
    """Two factors, combined; the runs are not in the order of their numbers."""
    runs = []
    for rate in ("1e-3", "3e-4"):
        for layers in (10, 2):
            typed = [f"training.learning_rate={rate}", f"model.n_layers={layers}"]
            settings = {"training.learning_rate": float(rate), "model.n_layers": layers}
            runs.append(finished(f"{rate}-{layers}", settings=settings, typed=typed, right=0.6 + layers / 50))
    return runs


def test_settings_are_in_the_order_of_their_numbers_as_they_were_typed(command, grid):
    found = compared(command, *grid)
    assert found["factors"] == {"n_layers": ["2", "2", "10", "10"], "learning_rate": ["3e-4", "1e-3", "3e-4", "1e-3"]}
    assert [row["label"] for row in found["settings"]][0] == "n_layers=2, learning_rate=3e-4"


def test_two_factors_have_a_heat_map(command, grid):
    compared(command, *grid)
    page = Path("compared/compare.html").read_text()
    assert page.count("<svg") == 2
    widths = [float(width) for width in re.findall(r'viewBox="0 0 ([0-9.]+)', page)]
    assert min(widths) > 0.8 * max(widths), "stretched to one width, their letters are of one size"
    compared(command, *grid[:2])
    assert Path("compared/compare.html").read_text().count("<svg") == 1


def test_a_table_has_each_number_in_a_cell_of_its_own(command, grid):
    command("compare", *grid, "output=tables/t.csv")
    table = read_csv("tables/t.csv")
    assert table["learning_rate"].tolist()[:4] == [3e-4, 1e-3] * 2 and table["n_layers"].tolist()[:4] == [2, 2, 10, 10]
    found = compared(command, *grid)
    assert table["mean"].tolist()[:4] == [row["value"] for row in found["settings"]]
    assert table["low"].tolist()[:4] == [row["interval"][0] for row in found["settings"]]
    assert table["setting"].tolist()[4:] == ["always the most frequent label"]
    assert sorted(path.name for path in Path("tables").iterdir()) == ["t.csv"]


def test_a_table_for_a_paper_is_markdown_or_latex(command, grid):
    odd = finished("odd", settings={"model.name": "50% of_a|b & c"})
    for form in ("md", "tex"):
        command("compare", *grid, odd, f"output=t.{form}")
    rows = [line for line in Path("t.md").read_text().splitlines() if line.startswith("|")]
    assert len(rows) == 8 and {line.count("|") - line.count("\\|") for line in rows} == {rows[0].count("|")}
    tex = Path("t.tex").read_text()
    assert r"50\% of\_a\textbar{}b \& c" in tex and tex.count(r"\\") == 7
    assert all(line.count("&") - line.count(r"\&") == 8 for line in tex.splitlines() if line.endswith(r"\\"))


def test_a_table_replaces_no_file_unless_it_may(command, grid):
    Path("t.md").write_text("mine")
    with pytest.raises(SettingError, match="overwrite=true"):
        command("compare", *grid, "output=t.md")
    assert Path("t.md").read_text() == "mine"
    command("compare", *grid, "output=t.md", "overwrite=true")
    assert "learning_rate" in Path("t.md").read_text()


def test_a_linear_model_that_a_score_includes_is_told_with_the_networks_own_score(command):
    runs = [finished(f"run{n}", settings={"model.n_layers": n + 1}) for n in range(2)]
    path = Path(runs[0]) / "report.json"
    branch = {"weight": 0.8, "score": "accuracy", "splits": {"test": {"network": 0.4567}}}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"linear_branch": branch}))
    assert any("1 run" in note and "0.457" in note for note in compared(command, *runs)["notes"])


def test_what_differs_though_nobody_typed_it_is_listed(command, capsys):
    runs = [
        finished(
            f"run{n}", settings={"model.n_layers": n + 1}, hardware={"threads": n // 2 + 1, "precision": "float32"}
        )
        for n in range(3)
    ]
    assert compared(command, *runs)["not_typed"] == {"threads": {"1": runs[:2], "2": runs[2:]}}
    assert "threads: 1 | 2 (run2)" in capsys.readouterr().out


def test_folders_elsewhere_have_short_names(command, four, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path.parent)
    command("compare", *(tmp_path / folder for folder in four))
    printed = capsys.readouterr().out
    assert printed.count(str(tmp_path)) == 1 and "  layers1-0 (seed 0" in printed
    pretrained = {"init_from": str(tmp_path / "outputs/pretrain/a/model")}
    monkeypatch.chdir(tmp_path)
    others = [finished("x", settings=pretrained), finished("y", settings={"init_from": "/elsewhere/b/model"})]
    labels = [row["label"] for row in compared(command, *others)["settings"]]
    assert labels == ["encoder=a/model", "encoder=b/model"]


def edit(name, content):
    return lambda run: Path(run, name).write_text(content)


@pytest.mark.parametrize(
    ("changes", "damage", "words"),
    [
        ({"fingerprint": "other"}, None, "rows of test"),
        ({"task": "other"}, None, "other and toy"),
        ({"split": "validation"}, None, "validation and test"),
        ({}, edit("predictions.csv", "text,label,predicted\na,bad,good\n"), "200 rows"),
        ({}, edit("predictions.csv", "text,label,predicted\na,bad,dreadful\n"), "dreadful"),
        ({}, edit("report.json", "["), "report.json"),
        ({}, edit("report.json", '{"task": "toy"}'), "records lack"),
        ({}, edit("config.yaml", "- 1"), "config.yaml"),
    ],
)
def test_runs_that_cannot_be_compared_are_named_in_one_line(command, four, changes, damage, words):
    other = finished("other", settings={"model.n_layers": 3}, **changes)
    if damage:
        damage(other)
    with pytest.raises(DataError, match=words) as refused:
        command("compare", *four, other, "output=compared")
    assert "other" in str(refused.value) and "\n" not in str(refused.value) and not Path("compared").exists()


def test_folders_without_a_run_and_scores_that_do_not_exist_are_refused(command, four):
    Path("empty").mkdir()
    for folder in ("nowhere", "empty"):
        with pytest.raises(DataError, match=folder):
            command("compare", folder, *four)
    with pytest.raises(DataError, match="nothing to compare"):
        command("compare", four[0])
    for setting in ("reference=nowhere", "score=acuracy"):
        with pytest.raises(SettingError, match=setting.partition("=")[2]):
            command("compare", *four, setting)


def test_a_folder_of_runs_means_its_finished_runs(command, four):
    Path("sweep").mkdir()
    Path("sweep/multirun.yaml").touch()
    for folder in four:
        Path(folder).rename(Path("sweep", Path(folder).name))
    runs = [Path(run["folder"]).name for row in compared(command, "sweep")["settings"] for run in row["runs"]]
    assert runs == [Path(folder).name for folder in four]
