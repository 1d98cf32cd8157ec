"""The settings of a run next to their defaults, which readers of a report look for first."""

import pytest

from encoderlab.runs.folder import RunFolder
from encoderlab.runs.folders.chosen_settings import chosen_settings

CONFIG = """
cache_dir: /cache
run_dir: here
task: {schema: classification, name: films, score: f1_macro}
dataset: {schema: files, path: films.csv, text: text}
training: {schema: training, epochs: 3.0, batch_size: 64}
seed: 3
"""


@pytest.fixture
def settings(tmp_path):
    folder = RunFolder(tmp_path)
    folder.config.write_text(CONFIG, encoding="utf-8")
    return {one.name: one for one in chosen_settings(folder, "train")}


def test_settings_are_compared_with_the_defaults_of_the_chosen_kind(settings):
    differing = {name for name, one in settings.items() if one.differs}
    assert {"task.name", "task.score", "dataset", "dataset.path", "seed"} <= differing
    assert not differing & {"dataset.text", "training"}
    assert (settings["task.score"].value, settings["task.score"].default) == ("f1_macro", "accuracy")
    assert settings["dataset.path"].required or settings["dataset.path"].default is None


def test_output_folders_are_left_out(settings):
    assert not {"cache_dir", "run_dir", "resume"} & settings.keys()
