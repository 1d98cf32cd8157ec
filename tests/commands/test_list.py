"""encoderlab list: every option with a line that describes it."""

import pytest

from encoderlab.cli.main import config_folder
from encoderlab.commands.list import GROUPS, list_configs, options_of
from encoderlab.errors import SettingError


@pytest.mark.parametrize("group", GROUPS)
def test_every_option_has_a_line(group, capsys):
    options = options_of(config_folder(), group)
    assert options and all(options.values())
    list_configs(config_folder(), [group])
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == f"{group}="
    assert [line.split()[0] for line in lines] == list(options)


def test_shipped_encoders_are_listed_with_their_size(shipped, capsys):
    list_configs(config_folder(), ["encoders"])
    output = capsys.readouterr().out
    assert "mini-en" in output and "1 layers x 16" in output


def test_an_unknown_group_suggests_the_closest():
    with pytest.raises(SettingError, match="encoderlab list model"):
        list_configs(config_folder(), ["modle"])
