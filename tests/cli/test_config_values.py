"""The values of the shipped configs, as help and docs show them, are those that Hydra composes."""

import pytest

from encoderlab.api import compose
from encoderlab.cli.config_values import chosen_configs, values_of
from encoderlab.cli.main import config_folder


def test_a_dataset_that_follows_the_task_has_its_name():
    assert chosen_configs(config_folder(), "train")["dataset"] == "docs"
    assert chosen_configs(config_folder(), "finetune")["training"] == "finetuning"
    assert "cache_dir" not in chosen_configs(config_folder(), "train")


def test_a_command_may_have_no_groups():
    assert chosen_configs(config_folder(), "verify") == {}


def test_values_of_a_config_that_extends_another_are_those_of_both():
    schema, values = values_of(config_folder(), "model", "scratch")
    assert schema == "model"
    assert (values["n_layers"], values["pooling"]) == (2, "mean")


@pytest.mark.parametrize("command", ["train", "pretrain", "finetune"])
def test_the_values_shown_are_those_that_hydra_composes(command):
    composed = compose(command=command).training
    _, values = values_of(config_folder(), "training", chosen_configs(config_folder(), command)["training"])
    for name, value in values.items():
        assert getattr(getattr(composed, name), "name", getattr(composed, name)) == value
