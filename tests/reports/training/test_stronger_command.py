"""The command suggested if a baseline was not beaten: the same rows, from a better encoder if one is available."""

import pytest

from encoderlab.reports.training.stronger_command import LARGER, stronger_command

FILES = ["task=classification", "dataset=files", "dataset.path=my reviews.csv", "dataset.label=stars"]
TEXTS = {"tokenizer": {"schema": "wordpiece"}, "dataset": {"schema": "files"}}
MINI_EN, TINY = 11_000_000, 900_000  # parameters


def report(command="train", outcome="below", init_from=None, parameters=MINI_EN, **more):
    model = {"parameters": parameters}
    return {
        "command": command,
        "task": "docs",
        "init_from": init_from,
        "verdict": {"outcome": outcome},
        "model": model,
    } | more


def line_after(found, typed, settings=TEXTS, online=True, argv=()):
    """Return the line with or without MiniLM at hand; the shipped encoder always is."""
    return stronger_command(
        found, {"overrides": typed, "argv": argv}, settings, lambda name: online or name == "mini-en"
    )


@pytest.mark.parametrize("outcome", ["below", "not distinguishable"])
@pytest.mark.parametrize("online", [True, False])
def test_after_training_from_scratch_finetuning_the_shipped_encoder_is_suggested(outcome, online):
    typed = [*FILES, "model=tiny", "training.epochs=4", "seed=1", "run_dir=mine"]
    line = "encoderlab finetune task=classification dataset=files 'dataset.path=my reviews.csv' dataset.label=stars"
    assert line_after(report(outcome=outcome), typed, online=online) == line


@pytest.mark.parametrize("typed", [[], ["experiment=docs"], ["model=mini"]])
def test_a_task_set_by_default_is_named(typed):
    assert line_after(report(), typed) == "encoderlab finetune task=docs"


def test_after_the_shipped_encoder_a_larger_one_is_suggested_and_then_adaptation():
    line = f"encoderlab finetune task=sst2 init_from={LARGER}"
    assert line_after(report("finetune", init_from="mini-en"), ["task=sst2"]) == line
    larger = report("finetune", init_from=LARGER, parameters=22_800_000)
    assert line_after(larger, ["task=sst2", f"init_from={LARGER}"]) == f"{line} adapt=5m"
    assert line_after(larger | {"adapted_for": "9m"}, ["task=sst2"]) is None


def test_without_a_larger_encoder_adapting_the_shipped_one_is_suggested():
    finetuned = report("finetune", init_from="mini-en")
    assert line_after(finetuned, ["task=sst2"], online=False) == "encoderlab finetune task=sst2 adapt=5m"
    assert line_after(finetuned | {"adapted_for": "5m"}, ["task=sst2", "adapt=5m"], online=False) is None


def test_after_a_users_own_encoder_the_shipped_one_is_suggested_unless_it_is_smaller():
    own = report("finetune", init_from="runs/mine", parameters=TINY)
    assert line_after(own, ["task=sst2", "init_from=runs/mine"]) == "encoderlab finetune task=sst2"
    large = report("finetune", init_from="runs/mine", parameters=110_000_000)
    line = "encoderlab finetune task=sst2 init_from=runs/mine adapt=5m"
    assert line_after(large, ["task=sst2", "init_from=runs/mine"]) == line


def test_without_any_encoder_nothing_is_suggested():
    assert stronger_command(report(), {"overrides": []}, TEXTS, lambda name: False) is None


@pytest.mark.parametrize(
    ("found", "typed", "changes"),
    [
        (report(outcome="above"), [], {}),
        (report() | {"verdict": None}, [], {}),  # no baseline was scored
        (report(), None, {}),  # started from Python
        (
            report(),
            [],
            {"argv": ["encoderlab train", "--config-dir=mine"]},
        ),  # what the line would mean without it is not known
        (report(command="distill"), [], {}),
        (report(), [], {"settings": TEXTS | {"tokenizer": {"schema": "symbols"}}}),
        (report(), [], {"settings": TEXTS | {"dataset": {"schema": "brackets"}}}),
    ],
)
def test_nothing_is_suggested_if_nothing_better_is_known(found, typed, changes):
    assert line_after(found, typed, **changes) is None
