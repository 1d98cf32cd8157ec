"""encoderlab train: what a run leaves behind, and what it refuses before it leaves anything."""

import csv
import json
from pathlib import Path

import pytest
import yaml

from encoderlab.api import Run
from encoderlab.apps.comparing.finished_runs import read_predictions, read_run
from encoderlab.errors import TrainingError
from encoderlab.system.files import differing_files
from encoderlab.training.checkpoint import checkpoints, step_of
from tests.experiment_models import REVERSE_MODEL
from tests.run_files import report_of


def test_a_run_folder_has_the_promised_files(brackets_run):
    files = {str(path.relative_to(brackets_run)) for path in brackets_run.rglob("*") if path.is_file()}
    assert files >= {
        "config.yaml",
        "environment.json",
        "metrics.jsonl",
        "report.json",
        "report.html",
        "predictions.csv",
        "plots/curves.png",
        "plots/confusion.png",
        "model/model.safetensors",
        "model/config.json",
        "model/tokenizer.json",
        "model/README.md",
    }
    assert not any(differing_files(path, step=step_of(path)) for path in checkpoints(brackets_run / "checkpoints"))


def test_the_report_has_the_keys_that_scripts_rely_on(brackets_run):
    report = report_of(brackets_run)
    assert (report["command"], report["task"], report["seed"]) == ("train", "brackets", 0)
    assert report["model"]["parameters"] == sum(report["model"]["parameters_by_part"].values())
    for split in ("validation", "test"):
        scores = report["splits"][split]
        assert scores["n"] == 300
        assert scores["accuracy_ci95"][0] <= scores["accuracy"] <= scores["accuracy_ci95"][1]
        assert scores["f1_macro_ci95"][0] <= scores["f1_macro"] <= scores["f1_macro_ci95"][1]
        assert {"loss", "f1_weighted", "f1", "roc_auc", "per_class"} <= scores.keys()
        assert sum(map(sum, scores["confusion"])) == 300
    assert {"majority", "tfidf_logreg"} <= report["baselines"].keys()
    assert report["baselines"]["majority"]["accuracy"] > 0.3
    assert {"tokens_per_second", "examples_per_second", "padding_fraction", "train_seconds"} <= report[
        "throughput"
    ].keys()
    assert report["checkpoint"] == {"step": 30, "chosen_by": "accuracy", "chosen_on": "validation"}


def test_a_tagging_report_scores_tokens_and_has_the_baselines_of_words(reverse_run):
    report = report_of(reverse_run)
    assert 0 <= report["splits"]["test"]["token_accuracy"] <= 1
    assert {"majority", "word_majority"} == report["baselines"].keys()
    assert report["main_score"] == "token_accuracy"


def test_predictions_are_those_the_scores_were_computed_from(brackets_run):
    with (brackets_run / "predictions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["text", "label", "predicted", "probability_unbalanced", "probability_balanced", "loss"]
    right = sum(row["label"] == row["predicted"] for row in rows)
    assert right / len(rows) == pytest.approx(report_of(brackets_run)["splits"]["test"]["accuracy"])
    for row in rows:
        chances = {name: float(row[f"probability_{name}"]) for name in ("unbalanced", "balanced")}
        assert sum(chances.values()) == pytest.approx(1, abs=1e-4)
        assert chances[row["predicted"]] >= 0.499


def test_metrics_have_a_line_per_logged_step_and_per_evaluation(brackets_run):
    lines = [json.loads(line) for line in (brackets_run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "step"] == [1, 5, 10, 15, 20, 25, 30]
    (evaluation,) = [line for line in lines if line["kind"] == "evaluation"]
    assert (evaluation["step"], evaluation["split"]) == (30, "validation")
    assert {"loss", "learning_rate", "gradient_norm", "tokens_per_second"} <= lines[0].keys()


def test_config_and_environment_suffice_to_repeat_the_run(brackets_run):
    config = yaml.safe_load((brackets_run / "config.yaml").read_text())
    assert config["model"]["n_layers"] == 1
    assert config["training"]["steps"] == 30
    environment = json.loads((brackets_run / "environment.json").read_text())
    assert environment["versions"]["torch"]
    assert environment["hardware"]["threads"] == 1
    assert len(environment["dataset"]["splits"]["train"]["fingerprint"]) == 16


def test_what_a_finished_run_shares_names_files_without_their_folders_and_holds_no_state(pairs_run, tmp_path):
    shared = [path for path in pairs_run.rglob("*") if path.is_file() and path.suffix in (".json", ".md", ".html")]
    assert {"README.md", "config.json", "report.html", "report.json"} <= {path.name for path in shared}
    leaking = {path.name for path in shared if str(pairs_run.parent) in path.read_text(encoding="utf-8")}
    assert leaking <= {"environment.json"}
    card = (pairs_run / "model" / "README.md").read_text(encoding="utf-8")
    assert "- `dataset=files`" in card and "`model=model`" not in card and "`training=training`" not in card
    assert not list(pairs_run.glob("checkpoints/*/state.pt")) and list(pairs_run.glob("checkpoints/*/manifest.json"))
    assert Run(pairs_run).model.config.dataset.path == str(pairs_run.parent / "rows.csv")  # eval reads it again


def test_a_users_file_keeps_its_label_names_everywhere(pairs_run):
    assert json.loads((pairs_run / "model" / "config.json").read_text())["id2label"] == {"0": "down", "1": "up"}
    assert set(report_of(pairs_run)["splits"]["test"]["per_class"]) == {"up", "down"}


def test_predictions_for_rows_of_a_file_have_its_lines(pairs_run):
    with (pairs_run / "predictions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = (pairs_run.parent / "rows.csv").read_text(encoding="utf-8").splitlines()
    assert list(rows[0])[:4] == ["line", "text", "text_pair", "label"]
    assert all(lines[int(row["line"]) - 1].startswith(f'"{row["text"]}","{row["text_pair"]}",') for row in rows)
    (scores,) = read_predictions([read_run(pairs_run)])  # as compare does
    assert len(scores.labels) == len(rows)


def test_a_nan_loss_ends_the_run_with_remedies_and_keeps_its_checkpoints_if_there_are_any(command, tmp_path, capsys):
    data = ("task=reverse", *REVERSE_MODEL, "training=smoke", "dataset.limit=100")
    ruin = ("training.clip_norm=null", "training.learning_rate=1e30", "training.warmup=0", "run_dir=run")
    with pytest.raises(TrainingError, match=r"not finite.*training.learning_rate"):
        command("train", *data, *ruin)
    assert not (tmp_path / "run").exists(), "a run of which nothing came leaves no folder"
    with pytest.raises(TrainingError):
        command("train", *data, *ruin, "training.checkpoint_every=1")
    assert checkpoints(tmp_path / "run" / "checkpoints")
    assert "Progress saved. Resume with: encoderlab train resume=run" in capsys.readouterr().err


def test_a_run_records_the_experiment_as_it_was_typed_whatever_else_was(command):
    small = ("dataset.train_rows=30", "dataset.validation_rows=10", "dataset.test_rows=10", "training.steps=2")
    command("train", "experiment=notebook_reverse", "model=tiny", *small, "baselines=false", "run_dir=run")
    record = json.loads(Path("run/environment.json").read_text(encoding="utf-8"))
    assert record["overrides"][:2] == ["experiment=notebook_reverse", "model=tiny"]


@pytest.mark.slow
def test_what_is_suggested_next_has_not_just_been_done(command, tmp_path, capsys):
    command("train", "task=reverse", *REVERSE_MODEL, "training=smoke", "dataset.limit=100", "run_dir=run")
    _, _, suggested = capsys.readouterr().err.partition("\nNext\n")
    assert "encoderlab predict run=" in suggested
    assert "encoderlab eval" not in suggested, "the run has been scored on its splits"
