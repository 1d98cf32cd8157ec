"""encoderlab compare: what differs, how certain that is, and which runs cannot be compared."""

import csv
import json
import os
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import yaml

from encoderlab.errors import DataError, SettingError
from encoderlab.runs.folder import RunFolder

NAMES = ["bad", "good"]
N = 200
LABELS = np.random.default_rng(0).integers(0, 2, N)


def finished(
    name, *, seed=0, right=0.8, settings=(), command="train", task="toy", split="test", fingerprint="f", chosen_on=None
):
    """Write the folder of a finished run that is right on a fraction of the same N rows."""
    folder = RunFolder(Path("outputs") / name)
    folder.root.mkdir(parents=True)
    hit = np.random.default_rng(1000 + seed + int(right * 100)).random(N) < right
    predicted = np.where(hit, LABELS, 1 - LABELS)
    rows = [
        f'"text {n}",{NAMES[label]},{NAMES[answer]}'
        for n, (label, answer) in enumerate(zip(LABELS, predicted, strict=True))
    ]
    folder.predictions.write_text("\n".join(["text,label,predicted", *rows]) + "\n")
    config = {
        "seed": seed,
        "run_dir": None,
        "model": {"schema": "model", "name": "tiny", "n_layers": 1},
        "training": {"learning_rate": 0.001},
    }
    for key, value in dict(settings).items():
        group, _, setting = key.rpartition(".")
        (config[group] if group else config)[setting] = value
    folder.config.write_text(yaml.safe_dump(config))
    splits = {split: {"fingerprint": fingerprint, "rows": N}}
    folder.environment.write_text(json.dumps({"command": command, "dataset": {"labels": NAMES, "splits": splits}}))
    steps = [{"kind": "step", "step": step, "loss": 1 / step} for step in (1, 5, 9)]
    evaluations = [
        {"kind": "evaluation", "step": step, "split": "validation", "accuracy": step / 10} for step in (5, 9)
    ]
    folder.metrics.write_text("".join(json.dumps(line) + "\n" for line in [*steps, *evaluations]))
    accuracy = float(hit.mean())
    scores = {
        "n": N,
        "loss": 0.5,
        "accuracy": accuracy,
        "accuracy_ci95": [accuracy - 0.05, accuracy + 0.05],
        "per_class": dict.fromkeys(NAMES, {}),
    }
    report = {
        "command": command,
        "task": task,
        "seed": seed,
        "model": {"parameters": 10},
        "scored_split": split,
        "main_figure": "accuracy",
    }
    report |= {"splits": {split: scores}, "throughput": {"train_seconds": 2.0}, "checkpoint": {"chosen_on": chosen_on}}
    folder.report.write_text(json.dumps(report))
    return str(folder.root)


@pytest.fixture
def four(command):
    """Two settings with two seeds each, the second far better."""
    return [
        finished(f"layers{layers}-{seed}", seed=seed, right=right, settings={"model.n_layers": layers})
        for layers, right in ((1, 0.6), (2, 0.9))
        for seed in (0, 1)
    ]


def compared(command, capsys, *arguments):
    command("compare", *arguments, "output=compared")
    return json.loads(Path("compared/compare.json").read_text()), capsys.readouterr().out


def test_only_differing_settings_are_shown_and_seeds_do_not_count(command, capsys, four):
    found, printed = compared(command, capsys, *four)
    assert found["differing"] == {"model.n_layers": ["1", "2"]}
    assert [row["n"] for row in found["settings"]] == [2, 2]
    assert "They differ in\n  model.n_layers: 1 | 2\n" in printed
    assert all(path in printed for path in four)


def test_the_best_is_the_reference_and_each_difference_names_what_varied(command, capsys, four):
    found, printed = compared(command, capsys, *four)
    assert found["reference"] == "n_layers=2"
    worse, best = (row["difference"] for row in found["settings"])
    assert best is None
    assert worse["outcome"] == "lower"
    assert worse["varies"] == "rows and seeds"
    assert worse["interval"][1] < 0
    assert "the reference" in printed


def test_a_run_may_be_named_as_the_reference(command, capsys, four):
    found, _ = compared(command, capsys, *four, f"reference={four[0]}")
    assert found["reference"] == "n_layers=1"
    assert found["settings"][1]["difference"]["outcome"] == "higher"
    with pytest.raises(SettingError, match="reference=nowhere is not one of the compared runs"):
        command("compare", *four, "reference=nowhere")


def test_one_seed_each_is_tested_by_mcnemar_and_has_the_interval_of_its_rows(command, capsys, four):
    found, printed = compared(command, capsys, four[0], four[2])
    assert found["settings"][0]["difference"]["test"] == "McNemar's exact test"
    assert {row["interval_over"] for row in found["settings"]} == {"rows"}
    assert "over rows" in printed
    assert any("not the variation between seeds" in note for note in found["notes"])


def test_several_comparisons_are_corrected_and_the_report_says_so(command, capsys, four):
    third = finished("layers3", right=0.85, settings={"model.n_layers": 3})
    found, printed = compared(command, capsys, four[0], four[2], third)
    tested = [row["difference"] for row in found["settings"] if row["difference"]]
    assert all(one["p_corrected"] >= one["p_value"] for one in tested)
    assert any(one["p_corrected"] > one["p_value"] for one in tested)
    assert "p-values are corrected for 2 comparisons by Holm's method" in printed


def test_every_differing_setting_is_named_and_the_encoder_by_its_name(command, capsys):
    scratch = finished("scratch", settings={"model.name": "mini"})
    given = {"model.name": "bert", "model.pooling": "mean", "training.learning_rate": 0.0002, "init_from": "org/MiniLM"}
    finetuned = finished("finetuned", right=0.9, command="finetune", settings=given)
    found, printed = compared(command, capsys, scratch, finetuned)
    assert [row["label"] for row in found["settings"]] == ["encoder=mini", "encoder=org/MiniLM"]
    for line in (
        "encoder: mini | org/MiniLM",
        "pooling: null | mean",
        "learning_rate: 0.001 | 0.0002",
        "command: train | finetune",
    ):
        assert line in printed
    assert "bert" not in printed


def test_runs_with_different_main_figures_are_compared_by_a_named_one(command, capsys, four):
    path = RunFolder(Path(four[0])).report
    report = json.loads(path.read_text())
    report["splits"]["test"] |= {"f1": 0.4, "positive_label": "good"}
    path.write_text(json.dumps(report | {"main_figure": "f1"}))
    with pytest.raises(
        SettingError, match=r"have different main figures: f1 and accuracy. Set figure=f1 or figure=accuracy"
    ):
        command("compare", *four)
    found, printed = compared(command, capsys, *four, "figure=accuracy")
    assert found["figure"] == "accuracy"
    report["splits"]["test"]["positive_label"] = "bad"
    other = RunFolder(Path(four[1])).report
    other.write_text(json.dumps(json.loads(path.read_text()) | {"splits": report["splits"]}))
    with pytest.raises(SettingError, match="f1 refers to different labels: good and bad"):
        command("compare", four[0], four[1])


def test_another_figure_can_be_compared_and_a_wrong_one_lists_the_valid_ones(command, capsys, four):
    found, _ = compared(command, capsys, *four, "figure=loss")
    assert found["figure"] == "loss"
    with pytest.raises(
        SettingError, match=r"has no figure acuracy. Allowed: loss, accuracy. Did you mean figure=accuracy"
    ):
        command("compare", *four, "figure=acuracy")


def test_the_files_hold_every_run_and_the_page_is_well_formed_without_scripts(command, capsys, four):
    compared(command, capsys, *four)
    with Path("compared/compare.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["folder"] for row in rows] == four
    assert {row["model.n_layers"] for row in rows} == {"1", "2"}
    assert "| 2 | 2 |" in Path("compared/compare.md").read_text()
    assert {path.name for path in Path("compared/plots").iterdir()} == {
        "scores.png",
        "accuracy_against_n_layers.png",
        "curves.png",
    }
    page = Path("compared/compare.html").read_text()
    opened = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag, attributes):
            opened.append(tag)

    Tags().feed(page)
    assert opened.count("svg") == 3
    assert "script" not in opened
    assert all(path in page for path in four)


def test_markup_in_a_label_is_shown_literally(command, capsys):
    runs = [finished(f"run{n}", settings={"model.name": name}) for n, name in enumerate(["<b>|x", "y"])]
    compared(command, capsys, *runs)
    assert "<b>|x" not in Path("compared/compare.html").read_text()
    assert "\\<b\\>\\|x" in Path("compared/compare.md").read_text()


def test_an_unfinished_run_is_skipped_and_named(command, capsys, four):
    RunFolder(Path(four[0])).report.unlink()
    command("compare", *four)
    printed = capsys.readouterr()
    assert f"{four[0]} is not finished and was skipped. Resume it with resume={four[0]}" in printed.err
    assert four[0] not in printed.out


def test_a_sweeps_folder_means_its_finished_runs(command, capsys, four):
    Path("sweep/jobs").mkdir(parents=True)
    for folder in four:
        Path(folder).rename(Path("sweep", Path(folder).name))
    found, _ = compared(command, capsys, "sweep")
    runs = [Path(run["folder"]).name for row in found["settings"] for run in row["runs"]]
    assert runs == [Path(folder).name for folder in four]


def test_the_newer_of_two_identical_runs_is_used(command, capsys, four):
    again = finished("again", seed=0, right=0.6, settings={"model.n_layers": 1})
    os.utime(RunFolder(Path(again)).report, (2e9, 2e9))
    found, printed = compared(command, capsys, *four, again)
    assert found["settings"][0]["runs"][0]["folder"] == again
    assert "Skipped 1 of the runs, because a newer one has the same settings and seed" in printed


REFUSED = {
    "on different rows of test": {"fingerprint": "other"},
    "have different tasks: other and toy": {"task": "other"},
    "on different splits: validation and test": {"split": "validation"},
}


@pytest.mark.parametrize("words", REFUSED)
def test_runs_scored_differently_are_refused_with_a_remedy(command, four, words):
    other = finished("other", **REFUSED[words])
    with pytest.raises(DataError, match=words) as refused:
        command("compare", *four, other)
    assert other in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not Path("compared").exists()


def test_predictions_of_other_rows_than_those_scored_are_refused(command, four):
    predictions = RunFolder(Path(four[1])).predictions
    predictions.write_text("".join(predictions.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(DataError, match="does not contain the 200 rows that were scored"):
        command("compare", *four)
    predictions.write_text("text,label,predicted\na,bad,dreadful\n")
    with pytest.raises(DataError, match=r"predictions.csv cannot be read: 'dreadful'"):
        command("compare", *four)


def test_damaged_records_and_folders_without_a_run_are_named(command, four):
    with pytest.raises(DataError, match="nowhere does not exist"):
        command("compare", "nowhere", *four)
    Path("empty").mkdir()
    with pytest.raises(DataError, match="empty is not a run folder"):
        command("compare", "empty", *four)
    with pytest.raises(DataError, match="There is nothing to compare: 1 finished run among 1 folder"):
        command("compare", four[0])
    RunFolder(Path(four[0])).report.write_text('{"task": "toy"}')
    with pytest.raises(DataError, match=r"cannot be compared, because its records lack"):
        command("compare", *four)
    RunFolder(Path(four[0])).report.write_text("[")
    with pytest.raises(DataError, match=r"report.json cannot be read"):
        command("compare", *four)


def test_missing_predictions_are_named_and_a_damaged_journal_or_score_leaves_no_file(command, capsys, four):
    RunFolder(Path(four[1])).predictions.unlink()
    _, printed = compared(command, capsys, *four)
    assert f"Nothing is compared row by row, because {four[1]} has no predictions.csv" in " ".join(printed.split())
    RunFolder(Path(four[0])).metrics.write_text('{"kind": "st')
    with pytest.raises(DataError, match=r"metrics.jsonl cannot be read"):
        command("compare", *four, "output=drawn")
    assert not Path("drawn").exists()
    report = RunFolder(Path(four[0])).report
    report.write_text(
        json.dumps(json.loads(report.read_text()) | {"splits": {"test": {"n": N, "accuracy": float("nan")}}})
    )
    with pytest.raises(SettingError, match="has no figure accuracy"):
        command("compare", *four)


def test_folders_with_unusual_names_work(command, capsys):
    runs = [finished(name, settings={"model.n_layers": n}) for n, name in enumerate(["a b,c", "seed=1", "it's [1]"])]
    found, _ = compared(command, capsys, *runs)
    assert [run["folder"] for row in found["settings"] for run in row["runs"]] == runs


def test_a_checkpoint_chosen_on_the_scored_split_is_warned_about(command, capsys):
    runs = [
        finished(f"run{n}", split="validation", chosen_on="validation", settings={"model.n_layers": n}) for n in (1, 2)
    ]
    _, printed = compared(command, capsys, *runs)
    assert "Checkpoints were chosen on validation, the split that is compared" in printed


def test_evaluations_are_grouped_by_the_settings_of_their_runs(command, capsys, four):
    scored = [
        finished(f"eval{n}", seed=n % 2, right=0.7 + 0.1 * (n > 1), command="eval", settings={"run": run})
        for n, run in enumerate(four)
    ]
    found, _ = compared(command, capsys, *scored)
    assert found["differing"] == {"model.n_layers": ["1", "2"]}
    assert [row["n"] for row in found["settings"]] == [2, 2]
