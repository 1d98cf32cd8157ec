"""The overview: every command, in a line that fits a terminal."""

from importlib.util import find_spec

import pytest

from encoderlab.cli.overview import COMMANDS, OVERVIEW
from encoderlab.config.schemas import COMMAND_CONFIGS


def test_it_lists_every_command_that_takes_settings():
    assert COMMAND_CONFIGS.keys() <= COMMANDS.keys()


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_exists_and_is_one_sentence_in_one_line(name):
    assert find_spec(f"encoderlab.commands.{name}") or find_spec(f"encoderlab.cli.{name}")
    assert COMMANDS[name].endswith(".") and "\n" not in COMMANDS[name] and len(COMMANDS[name]) <= 90


def test_its_examples_use_existing_commands():
    lines = [line.split() for line in OVERVIEW.splitlines() if line.startswith("  encoderlab ")]
    assert lines and {line[1] for line in lines} <= {*COMMANDS, "COMMAND"}
