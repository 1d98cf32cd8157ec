"""Only a folder with a graph and its run's settings counts as our own exported graph."""

import json

import pytest

from encoderlab.runs.folders.graph_files import GRAPH_FILES, MODEL_TYPE, is_graph


def folder_of(path, config=None, without=None):
    for name in GRAPH_FILES:
        (path / name).write_bytes(b"{}")
    (path / "config.json").write_text(
        json.dumps({"model_type": MODEL_TYPE}) if config is None else config, encoding="utf-8"
    )
    if without is not None:
        (path / without).unlink()
    return path


def test_a_complete_folder_with_our_settings_is_a_graph(tmp_path):
    assert is_graph(folder_of(tmp_path))


@pytest.mark.parametrize("missing", GRAPH_FILES)
def test_a_folder_that_lacks_a_file_is_not(tmp_path, missing):
    assert not is_graph(folder_of(tmp_path, without=missing))


@pytest.mark.parametrize("config", ["{}", '{"model_type": "bert"}', "[]", "{", ""])
def test_another_programs_folder_or_a_damaged_one_is_not(tmp_path, config):
    assert not is_graph(folder_of(tmp_path, config))


def test_a_missing_folder_is_not(tmp_path):
    assert not is_graph(tmp_path / "nowhere")
