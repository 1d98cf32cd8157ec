"""The table of settings is cached, rebuilt when the source changes, and never fails a command."""

import json

import pytest

from encoderlab.cli import settings_table as tables
from encoderlab.cli.help import settings_of
from encoderlab.cli.settings_table import FILE, make_table, settings_table
from encoderlab.config.schemas import COMMAND_CONFIGS, SCHEMAS


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ENCODERLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_table_has_every_setting_that_help_shows():
    table = make_table()
    for command, schema in COMMAND_CONFIGS.items():
        shown = {name.partition("=")[0] for name, _ in settings_of(schema, "", skip=table.groups[command])}
        assert set(table.commands[command]) == shown
    for (group, option), schema in SCHEMAS.items():
        shown = {name.partition("=")[0] for name, _ in settings_of(schema, f"{group}.", skip=[])}
        assert set(table.schemas[group][option]) == shown


def test_a_cached_table_equals_the_one_that_was_built(cache, monkeypatch):
    made = settings_table()
    monkeypatch.setattr(tables, "make_table", lambda: pytest.fail("made again"))
    assert settings_table() == made


@pytest.mark.parametrize("kept", ["", "[]", "{}", '{"source": "of another version"}', None])
def test_a_damaged_or_outdated_table_is_rebuilt(cache, kept):
    made = settings_table()
    kept = json.dumps({"source": json.loads((cache / FILE).read_text())["source"]}) if kept is None else kept
    (cache / FILE).write_text(kept)
    assert settings_table() == made
    assert json.loads((cache / FILE).read_text())["commands"].keys() == COMMAND_CONFIGS.keys()


def test_a_cache_that_cannot_be_written_is_ignored(cache):
    cache.write_text("a file where a folder should be")
    assert settings_table() == make_table()
