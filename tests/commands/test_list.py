"""encoderlab list: every option with a line that describes it."""

import pytest

from encoderlab.cli.main import config_folder
from encoderlab.commands.list import GROUPS, list_configs, options_of


@pytest.mark.parametrize("group", GROUPS)
def test_every_option_has_a_line(group, capsys):
    options = options_of(config_folder(), group)
    assert options and all(options.values())
    list_configs(config_folder(), [group])
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == f"{group}="
    assert [line.split()[0] for line in lines] == list(options)


def test_list_has_a_help(capsys):
    list_configs(config_folder(), ["--help"])
    assert "usage: encoderlab list [task]" in capsys.readouterr().out
