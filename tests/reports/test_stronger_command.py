"""The next command after a baseline that was not beaten: the same rows, from an encoder that is worth more."""

import pytest

from encoderlab.reports.stronger_command import stronger_command

FILES = ["task=classification", "dataset=files", "dataset.path=my reviews.csv", "dataset.label=stars"]


def report(command="train", outcome="below", init_from=None):
    return {"command": command, "task": "docs", "init_from": init_from, "verdict": {"outcome": outcome}}


@pytest.mark.parametrize("outcome", ["below", "not distinguishable"])
def test_from_scratch_the_same_rows_are_finetuned(outcome):
    typed = [*FILES, "model=tiny", "training.epochs=4", "seed=1", "run_dir=mine"]
    line = "encoderlab finetune task=classification dataset=files 'dataset.path=my reviews.csv' dataset.label=stars"
    assert stronger_command(report(outcome=outcome), {"overrides": typed}) == line


@pytest.mark.parametrize("typed", [[], ["experiment=docs"], ["model=mini"]])
def test_a_task_that_was_not_typed_is_named(typed):
    assert stronger_command(report(), {"overrides": typed}) == "encoderlab finetune task=docs"


def test_after_finetuning_a_larger_encoder_comes_next_until_there_is_none():
    finetuned = report("finetune", init_from="runs/mine")
    line = "encoderlab finetune task=sst2 init_from=sentence-transformers/all-MiniLM-L6-v2"
    assert stronger_command(finetuned, {"overrides": ["task=sst2", "init_from=runs/mine"]}) == line
    larger = report("finetune", init_from="sentence-transformers/all-MiniLM-L6-v2")
    assert stronger_command(larger, {"overrides": ["task=sst2"]}) == f"{line} adapt=5m"
    assert stronger_command(larger | {"adapted_for": "9m"}, {"overrides": ["task=sst2"]}) is None


@pytest.mark.parametrize(
    ("found", "record"),
    [
        (report(outcome="above"), {"overrides": []}),
        (report() | {"verdict": None}, {"overrides": []}),  # no baseline was scored
        (report(), {"overrides": None}),  # started from Python
        (report(command="distill"), {"overrides": []}),
    ],
)
def test_nothing_is_said_where_there_is_nothing_better_to_type(found, record):
    assert stronger_command(found, record) is None
