"""`--help`: every command shows its usage, its groups with their options, and each setting with its default and range."""

from dataclasses import fields

import pytest

from encoderlab.cli.help import EXAMPLES, print_help, settings_of
from encoderlab.cli.main import config_folder
from encoderlab.config.commands import SweepConfig
from encoderlab.config.schemas import COMMAND_CONFIGS
from encoderlab.training.config import TrainingConfig


@pytest.mark.parametrize("command", COMMAND_CONFIGS)
def test_the_help_of_a_command_has_its_usage_examples_and_settings(command, capsys):
    print_help(command, "What it does.", config_folder())
    shown = capsys.readouterr().out
    assert shown.startswith(f"encoderlab {command}: What it does.\n\nusage: encoderlab {command} ")
    assert all(example in shown for example, _ in EXAMPLES[command])
    assert "\nSettings (name=value), with their defaults:\n" in shown
    assert ("\nSettings of a sweep" in shown) == (command in ("train", "pretrain", "finetune", "distill"))


def test_a_group_is_shown_with_its_options_and_their_settings(capsys):
    print_help("train", "What it does.", config_folder())
    shown = capsys.readouterr().out
    line = next(line for line in shown.splitlines() if line.startswith("  dataset "))
    assert {"files", "hub", "sst2"} <= set(line.removeprefix("  dataset").replace(",", "").split())
    assert "\ndataset (dataset of kind files): " in shown
    assert "  training.steps=" in shown


def test_a_default_is_that_of_the_config_which_the_command_uses(capsys):
    print_help("train", "What it does.", config_folder())
    shown = capsys.readouterr().out
    assert "  training.epochs=null " in shown, "the field's own default is 3"
    assert "  model.n_layers=2 " in shown
    print_help("pretrain", "What it does.", config_folder())
    assert "  training.epochs=10 " in capsys.readouterr().out


def test_a_setting_is_shown_with_its_default_its_help_and_its_range():
    lines = dict(settings_of(TrainingConfig, "training.", skip=["seed"]))
    defaults = dict(name.removeprefix("training.").split("=", 1) for name in lines)
    assert defaults["compile"] == "auto"
    assert lines[f"training.warmup={defaults['warmup']}"].endswith(")"), "its range"
    assert all(lines.values())


def test_settings_without_a_default_are_shown_as_they_are_typed():
    assert [name for name, _ in settings_of(SweepConfig, "", skip=[])][:1] == [f"{fields(SweepConfig)[0].name}=null"]
