"""A dry run of a small model: counts, memory and time of the whole run from its first steps."""

import math

import pytest

import encoderlab.runs.dry_run as module
from encoderlab.runs.dry_run import dry_run
from encoderlab.training.config import Batching, Compile, TrainingConfig
from encoderlab.training.optimizer import freeze
from tests.runs.small_assembly import assembly_of, labelled_rows

pytestmark = pytest.mark.usefixtures("one_thread")


def estimated(train=30, test=10, **training):
    rows = {"train": labelled_rows(train), "test": labelled_rows(test)}
    assembly = assembly_of(
        training=TrainingConfig(**{"batch_size": 4, "device": "cpu", "threads": 1, "compile": Compile.never} | training)
    )
    assembly = assembly.settled(rows["train"])
    return assembly, dry_run(assembly, rows)


def test_the_whole_run_is_counted_from_its_first_steps():
    assembly, found = estimated(steps=20)
    steps, time = found["steps"], found["time"]
    assert (steps["total"], steps["per_epoch"], steps["batch_size"]) == (20, math.ceil(30 / 4), 4)
    assert steps["epochs"] == 20 / steps["per_epoch"]
    assert (time["warm_up_steps"], time["measured_steps"]) == (3, 17)
    assert 0 < time["step"] < time["total"] and found["rows"] == {"train": 30, "test": 10}
    n = assembly.model.n_parameters
    assert (
        found["model"]["parameters"]
        == found["model"]["learning"]
        == sum(found["model"]["parameters_by_part"].values())
        == n
    )
    assert found["memory"]["checkpoint"] == 12 * n
    assert {"loss", "accuracy"} <= set(found["figures"]["test"])


def test_tokens_and_padding_are_those_of_the_rows():
    assembly, found = estimated(epochs=2.0, batching=Batching.random)
    tokens = int(labelled_rows(30).lengths.sum())
    assert found["steps"]["tokens"] == pytest.approx(2 * tokens)
    assert 0 < found["padding_fraction"] < 1


@pytest.mark.parametrize(("steps", "warm_up"), [(1, 0), (2, 0), (3, 1), (4, 2)])
def test_a_short_run_is_measured_in_the_steps_it_has(steps, warm_up):
    time = estimated(steps=steps)[1]["time"]
    assert time["warm_up_steps"] == warm_up and time["warm_up_steps"] + time["measured_steps"] == steps


def test_a_long_run_is_measured_in_some_of_its_steps(monkeypatch):
    monkeypatch.setattr(module, "MEASURED", 5)
    found = estimated(steps=5000)[1]
    assert (found["time"]["warm_up_steps"], found["time"]["measured_steps"]) == (3, 5)
    assert found["steps"]["total"] == 5000


def test_a_budget_ends_the_run_after_as_many_steps_as_it_allows(monkeypatch):
    monkeypatch.setattr(module, "MEASURED", 5)
    found = estimated(budget="2m")[1]
    assert found["steps"]["budget"] == "2m" and found["time"]["measured_steps"] == 5
    assert found["steps"]["total"] == pytest.approx(120 / found["time"]["step"], rel=0.01)


def test_frozen_layers_do_not_learn():
    rows = {"train": labelled_rows(12), "test": labelled_rows(6)}
    assembly = assembly_of(training=TrainingConfig(batch_size=4, steps=3, device="cpu", threads=1)).settled(
        rows["train"]
    )
    freeze(assembly.model, TrainingConfig(freeze_layers=1))
    found = dry_run(assembly, rows)["model"]
    assert 0 < found["learning"] < found["parameters"]
