"""Two classes, one of them rare: the figures, the verdict and every later command are about the rare one."""

import csv
import json
import random

import pytest

from encoderlab.errors import SettingError
from tests.run_files import report_of

pytestmark = pytest.mark.slow

FRAUD, HAM = ("prize", "winner", "transfer", "urgent"), ("lunch", "meeting", "report", "garden")


def write_rows(path, rows, seed=0):
    """Write rows of which one in four is fraud; one word in five is of the other class."""
    generator = random.Random(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["text", "label"])
        for row in range(rows):
            own, other = (FRAUD, HAM) if row % 4 == 0 else (HAM, FRAUD)
            words = [generator.choice(other if generator.random() < 0.2 else own) for _ in range(5)]
            table.writerow([" ".join(words), "fraud" if row % 4 == 0 else "ham"])


@pytest.fixture(scope="module")
def fraud_run(tmp_path_factory, cache, run_in):
    folder = tmp_path_factory.mktemp("fraud")
    write_rows(folder / "rows.csv", 400)
    data = (
        "dataset=files",
        f"dataset.path={folder / 'rows.csv'}",
        "dataset.test_fraction=0.2",
        "tokenizer.vocabulary_size=100",
    )
    size = (
        "model=tiny",
        "model.n_layers=1",
        "model.d_model=16",
        "model.n_heads=2",
        "training.epochs=6",
        "training.batch_size=16",
    )
    task = ("task=classification", "task.score=f1", "task.threshold=precision:0.6", f"run_dir={folder / 'run'}")
    run_in(
        cache,
        "train",
        *task,
        *data,
        *size,
        "training.learning_rate=3e-3",
        "training.threads=1",
        "training.precision=fp32",
    )
    return folder / "run"


def test_headline_verdict_baselines_and_checkpoint_follow_the_score(fraud_run):
    report = report_of(fraud_run)
    test = report["splits"]["test"]
    assert (report["main_figure"], report["checkpoint"]["chosen_by"]) == ("f1", "f1")
    assert test["positive_label"] == "fraud" and test["f1"] == test["per_class"]["fraud"]["f1"]
    assert test["f1_ci95"][0] <= test["f1"] <= test["f1_ci95"][1]
    assert (
        report["baselines"]["majority"]["f1"] == 0 and report["baselines"]["majority"]["model_leads_by"] == test["f1"]
    )
    assert report["verdict"]["sentence"].startswith("The model's f1 of fraud is")
    page = (fraud_run / "report.html").read_text(encoding="utf-8")
    assert "f1 of fraud on test" in page and "ROC AUC of fraud" in page
    assert "f1 of fraud on test" in (fraud_run / "model" / "README.md").read_text(encoding="utf-8")


def test_the_threshold_fitted_on_validation_applies_to_test_and_predictions(fraud_run, printed):
    report = report_of(fraud_run)
    threshold = report["splits"]["test"]["threshold"]
    assert threshold == report["splits"]["validation"]["threshold"]
    saved = json.loads((fraud_run / "model" / "config.json").read_text(encoding="utf-8"))["encoderlab"]["task"]
    assert (saved["threshold"], saved["positive_label"]) == (threshold, "fraud")
    assert report["splits"]["validation"]["per_class"]["fraud"]["precision"] >= 0.6
    assert any("fitted on validation (task.threshold=precision:0.6)" in note for note in report["notes"])
    with (fraud_run / "predictions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["predicted"] == "fraud") == (float(row["probability_fraud"]) >= threshold) for row in rows} == {True}
    assert (
        printed("predict", f"run={fraud_run}", f"text={rows[0]['text']}", "format=jsonl")["predicted"]
        == rows[0]["predicted"]
    )
    page = (fraud_run / "report.html").read_text(encoding="utf-8")
    assert "Precision and recall" in page and "threshold of fraud" in page
    assert (fraud_run / "plots" / "precision_recall.png").is_file()


def test_an_exported_folder_states_and_applies_the_threshold(command, fraud_run, tmp_path, printed):
    command("export", f"run={fraud_run}", "path=there")
    fields = json.loads((tmp_path / "there" / "config.json").read_text(encoding="utf-8"))
    threshold = report_of(fraud_run)["splits"]["test"]["threshold"]
    assert (fields["positive_label"], fields["thresholds"]) == ("fraud", {"fraud": threshold})
    assert "model.config.thresholds" in (tmp_path / "there" / "README.md").read_text(encoding="utf-8")
    fields["thresholds"]["fraud"] = 0.0
    (tmp_path / "there" / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    assert printed("predict", "run=there", "text=lunch garden meeting", "format=jsonl")["predicted"] == "fraud"


def test_eval_and_compare_use_the_same_positive_label_on_any_rows(command, fraud_run, tmp_path, capsys):
    with (tmp_path / "new.csv").open("w", encoding="utf-8") as file:
        file.write(
            "text,label\n" + "prize winner,fraud\n" * 12 + "lunch garden,ham\n" * 4
        )  # here the other one is rarer
    command("eval", f"run={fraud_run}", "dataset=files", "dataset.path=new.csv", "run_dir=scored")
    report = report_of(tmp_path / "scored")
    assert report["splits"]["all"]["positive_label"] == "fraud"
    assert [note for note in report["notes"] if "Too few rows of all to score 'ham' (4)" in note]
    command("eval", f"run={fraud_run}", "dataset=files", "dataset.path=new.csv", "run_dir=again")
    capsys.readouterr()
    command("compare", "scored", "again")
    assert capsys.readouterr().out.strip().startswith("F1 of fraud of 1 run of")


def test_baselines_use_the_same_positive_label(tmp_path, printed):
    write_rows(tmp_path / "rows.csv", 120)
    report = printed(
        "baseline", "task=classification", "task.score=f1", "dataset=files", "dataset.path=rows.csv", "format=json"
    )
    assert report["main_figure"] == "f1"
    assert report["baselines"]["majority"]["positive_label"] == "fraud" and report["baselines"]["majority"]["f1"] == 0


def test_an_unknown_positive_label_is_refused_before_anything_is_trained(command, tmp_path):
    write_rows(tmp_path / "rows.csv", 40)
    with pytest.raises(
        SettingError, match=r"task.positive_label names 'frud', which is not a label of the data.*mean fraud"
    ):
        command("train", "task=classification", "task.positive_label=frud", "dataset=files", "dataset.path=rows.csv")
