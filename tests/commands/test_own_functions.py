"""A score and a loss of one's own, by their dotted names, and what else a study asks of scores."""

import csv
import math
from pathlib import Path

import pytest
from sklearn.metrics import cohen_kappa_score, fbeta_score

from encoderlab.errors import SettingError
from tests.run_files import report_of

MINE = '''
import torch


def hits(labels, predicted):
    """The share of the rows that are right."""
    return (labels == predicted).mean()


def penalised(logits, targets):
    """Cross entropy, and a penalty on large logits."""
    losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    return losses + 0.1 * logits.square().mean(1)


def bare(labels, predicted):
    return 1.0


def summed(logits, targets):
    """One number for all rows."""
    return logits.sum()


def words(labels, predicted):
    """No number."""
    return "many"
'''
TINY = ("task=brackets", "model=tiny", "training=smoke", "training.steps=4", "dataset.limit=120", "baselines=false")


@pytest.fixture
def train(command, request):
    """Train beside a module of one's own, whose name no other test uses."""
    module = f"mine_{abs(hash(request.node.name))}"
    Path(f"{module}.py").write_text(MINE, encoding="utf-8")

    def run(*arguments):
        command("train", *TINY, *(argument.replace("mine:", f"{module}:") for argument in arguments), "run_dir=run")
        return report_of(Path("run"))

    return run


def rows_of(run):
    with Path(run, "predictions.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_score_of_ones_own_leads_the_report_and_is_named_in_it(train):
    report = train("task.score=mine:hits", "baselines=true")
    test = report["splits"]["test"]
    assert report["main_score"] == "hits" and test["hits"] == pytest.approx(test["accuracy"])
    assert test["hits_ci95"][0] < test["hits"] < test["hits_ci95"][1]
    assert report["checkpoint"]["chosen_by"] == "hits"
    majority = report["baselines"]["majority"]
    assert majority["hits"] == pytest.approx(majority["accuracy"])
    assert any("mine_" in note and "The share of the rows that are right." in note for note in report["notes"])


def test_a_loss_of_ones_own_is_trained_and_named(train, command):
    report = train("task.loss=mine:penalised")
    assert any("Cross entropy, and a penalty on large logits." in note for note in report["notes"])
    weights = Path("run/model/model.safetensors").read_bytes()
    command("train", *TINY, "run_dir=plain")
    assert weights != Path("plain/model/model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("task.score=mine:bare", "docstring"),
        ("task.score=mine:nothing", "nothing"),
        ("task.score=nowhere_at_all:f", "nowhere_at_all"),
        ("task.score=mine:words", "words"),
        ("task.loss=mine:summed", "do not take the mean"),
        ("task.loss=focal", "module:function"),
        ("task.score=acuracy", "Did you mean accuracy"),
        ("task.score=f_beta", "task.beta=2"),
    ],
)
def test_a_function_that_does_not_fit_is_refused(train, setting, named):
    with pytest.raises(SettingError, match=named):
        train(setting)
    assert not Path("run").exists()


def test_a_model_with_a_score_of_ones_own_predicts_without_it(train, command, capsys):
    train("task.score=mine:hits")
    next(Path().glob("mine_*.py")).unlink()
    command("predict", "run=run", "text=(())")
    assert "predicted" in capsys.readouterr().out


def test_kappa_f_beta_and_the_loss_of_each_row_are_those_of_the_predictions(train):
    report = train("task.score=f_beta", "task.beta=2", "training.steps=20")
    test = report["splits"]["test"]
    rows = rows_of("run")
    labels, predicted = ([row[name] for row in rows] for name in ("label", "predicted"))
    assert test["cohen_kappa"] == pytest.approx(cohen_kappa_score(labels, predicted))
    positive = test["positive_label"]
    assert test["f_beta"] == pytest.approx(fbeta_score(labels, predicted, beta=2, pos_label=positive))
    assert test["f_beta_ci95"][0] <= test["f_beta"] <= test["f_beta_ci95"][1]
    losses = [float(row["loss"]) for row in rows]
    chances = [float(row[f"probability_{row['label']}"]) for row in rows]
    assert losses == pytest.approx([-math.log(chance) for chance in chances], abs=1e-4)


@pytest.mark.parametrize(("setting", "value"), [("task.label_smoothing", 0.2), ("task.focal_gamma", 2.0)])
def test_another_form_of_the_loss_trains_another_model_and_reports_the_same_loss(train, command, setting, value):
    report = train(f"{setting}={value}")
    command("train", *TINY, "run_dir=plain")
    weights = [Path(run, "model/model.safetensors").read_bytes() for run in ("run", "plain")]
    assert weights[0] != weights[1]
    losses = [float(row["loss"]) for row in rows_of("run")]
    assert report["splits"]["test"]["loss"] == pytest.approx(sum(losses) / len(losses), abs=1e-4)
