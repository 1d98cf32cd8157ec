"""Two classes, one of them rare: the scores, the verdict and every later command are about the rare one."""

import csv
import json
import random

import pytest

from tests.run_files import report_of

pytestmark = pytest.mark.slow

FRAUD, HAM = ("prize", "winner", "transfer", "urgent"), ("lunch", "meeting", "report", "garden")
SIZE = ("model=tiny", "model.n_layers=1", "model.d_model=16", "model.n_heads=2", "training.batch_size=16")


def write_rows(path, n):
    """Write rows of which one in four is fraud; one word in five is of the other class."""
    generator = random.Random(0)
    rows = [("text", "label")]
    for row in range(n):
        own, other = (FRAUD, HAM) if row % 4 == 0 else (HAM, FRAUD)
        words = [generator.choice(other if generator.random() < 0.2 else own) for _ in range(5)]
        rows.append((" ".join(words), "fraud" if row % 4 == 0 else "ham"))
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


@pytest.fixture(scope="module")
def fraud_run(tmp_path_factory, cache, run_in):
    folder = tmp_path_factory.mktemp("fraud")
    write_rows(folder / "rows.csv", 400)
    data = (
        "dataset=files",
        f"dataset.path={folder / 'rows.csv'}",
        "dataset.test_fraction=0.2",
        "dataset.validation_fraction=0.2",
    )
    task = ("task=classification", "task.score=f1", "task.threshold=precision:0.6", "tokenizer.vocabulary_size=100")
    learning = ("training.epochs=6", "training.learning_rate=3e-3", "training.threads=1", "training.precision=fp32")
    alone = "task.linear_weight=0"  # exports to transformers hold the network alone
    run_in(cache, "train", *task, *data, *SIZE, *learning, alone, f"run_dir={folder / 'run'}")
    return folder / "run"


def test_the_score_leads_the_report_and_chooses_the_checkpoint(fraud_run):
    report = report_of(fraud_run)
    test = report["splits"]["test"]
    assert (report["main_score"], report["checkpoint"]["chosen_by"]) == ("f1", "f1")
    assert test["positive_label"] == "fraud" and test["f1"] == test["per_class"]["fraud"]["f1"]
    assert test["f1_ci95"][0] <= test["f1"] <= test["f1_ci95"][1]
    assert report["baselines"]["majority"]["f1"] == 0


def test_the_threshold_fitted_on_validation_applies_to_every_prediction(command, fraud_run, tmp_path, printed):
    report = report_of(fraud_run)
    threshold = report["splits"]["test"]["threshold"]
    assert threshold == report["splits"]["validation"]["threshold"]
    assert report["splits"]["validation"]["per_class"]["fraud"]["precision"] >= 0.6
    with (fraud_run / "predictions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["predicted"] == "fraud") == (float(row["probability_fraud"]) >= threshold) for row in rows} == {True}
    answer = printed("predict", f"run={fraud_run}", f"text={rows[0]['text']}", "format=jsonl", "probabilities=all")
    assert answer["predicted"] == rows[0]["predicted"]
    command("export", f"run={fraud_run}", "path=there")
    fields = json.loads((tmp_path / "there" / "config.json").read_text(encoding="utf-8"))
    assert (fields["positive_label"], fields["thresholds"]) == ("fraud", {"fraud": threshold})
    fields["thresholds"]["fraud"] = 0.0
    (tmp_path / "there" / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    assert printed("predict", "run=there", "text=lunch garden meeting", "format=jsonl")["predicted"] == "fraud"


def test_the_temperature_fitted_on_validation_applies_wherever_the_model_is_read(command, fraud_run, tmp_path, printed):
    measured = report_of(fraud_run)["splits"]["test"]["calibration"]
    assert measured["temperature"] != 1 and {"ece", "ece_uncalibrated"} <= measured.keys()
    with (fraud_run / "predictions.csv").open(encoding="utf-8", newline="") as file:
        row = next(csv.DictReader(file))
    command("export", f"run={fraud_run}", "path=there")
    for run in (fraud_run, "there"):
        predicted = printed(
            "predict", f"run={run}", f"text={row['text']}", "format=jsonl", "probabilities=all", "precision=fp32"
        )
        assert predicted["probabilities"]["fraud"] == pytest.approx(float(row["probability_fraud"]), abs=2e-4)
    command("eval", f"run={fraud_run}", "split=test", "run_dir=scored", "precision=fp32")
    again = report_of(tmp_path / "scored")["splits"]["test"]["calibration"]
    assert again["ece"] == pytest.approx(measured["ece"], abs=1e-3)


def test_eval_on_other_rows_and_baselines_use_the_same_positive_label(command, fraud_run, tmp_path, printed):
    rows = "prize winner,fraud\n" * 12 + "lunch garden,ham\n" * 4  # here the other one is rarer
    (tmp_path / "new.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    command("eval", f"run={fraud_run}", "dataset=files", "dataset.path=new.csv", "run_dir=scored")
    assert report_of(tmp_path / "scored")["splits"]["all"]["positive_label"] == "fraud"
    write_rows(tmp_path / "rows.csv", 120)
    data = ("dataset=files", "dataset.path=rows.csv", "format=json")
    report = printed("baseline", "task=classification", "task.score=f1", *data)
    assert report["main_score"] == "f1" and report["baselines"]["majority"]["positive_label"] == "fraud"
