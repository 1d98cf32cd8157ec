"""Which run `resume` means, and which of its settings may change."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import yaml

from encoderlab.config.commands import RunConfig, settings_to_dict
from encoderlab.data.built_in import BracketsDataset
from encoderlab.data.tokenizers import SymbolsConfig
from encoderlab.errors import DataError, SettingError
from encoderlab.model.config import ModelConfig
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.records import Beginning, run_folder, run_to_resume
from encoderlab.tasks.config import ClassificationConfig
from encoderlab.training.config import TrainingConfig


def config_of(**changes):
    config = RunConfig(
        "cache",
        ClassificationConfig(name="brackets"),
        BracketsDataset(),
        SymbolsConfig(),
        ModelConfig(),
        TrainingConfig(),
    )
    training = {name: changes.pop(name) for name in ("epochs", "learning_rate", "log_every") if name in changes}
    return replace(config, training=replace(config.training, **training), **changes)


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Return a run folder as left by a stopped run."""
    monkeypatch.chdir(tmp_path)

    def begin(root="outputs/train/brackets/run", command="train", **changes):
        folder = RunFolder(tmp_path / root)
        folder.root.mkdir(parents=True)
        folder.config.write_text(yaml.safe_dump(settings_to_dict(config_of(**changes))), encoding="utf-8")
        record = {"command": command, "dataset": {"splits": {"train": {"fingerprint": "f"}}}}
        folder.environment.write_text(json.dumps(record), encoding="utf-8")
        return folder

    return begin


def resumed(config, explicit, command):
    """Resume a run as the command line does: its own settings below the explicit overrides, then its folder."""
    run = run_to_resume(config, command, explicit)
    return run and run_to_resume(run[0], command)


def test_a_run_that_resumes_nothing_is_a_new_one():
    assert resumed(config_of(), [], "train") is None


def test_a_resumed_run_keeps_its_settings_except_for_allowed_overrides(started):
    folder = started(epochs=3.0, learning_rate=0.005)
    typed = config_of(resume=str(folder.root), epochs=7.0, log_every=3)
    config, found = resumed(typed, ["resume", "training.epochs", "training.log_every"], "train")
    assert found.root == folder.root
    assert (config.training.epochs, config.training.log_every, config.training.learning_rate) == (7.0, 3, 0.005)


def test_what_was_composed_at_first_may_be_typed_again_after_a_change(started):
    folder = started(epochs=7.0, log_every=3)
    record = json.loads(folder.environment.read_text(encoding="utf-8"))
    composed = settings_to_dict(config_of(epochs=4.0, log_every=9))
    folder.environment.write_text(json.dumps(record | {"composed": composed}), encoding="utf-8")
    typed = config_of(resume=str(folder.root), epochs=4.0, log_every=9)
    config, _ = resumed(typed, ["resume", "training.epochs", "training.log_every"], "train")
    assert (config.training.epochs, config.training.log_every) == (4.0, 9)


def test_another_learning_rate_makes_another_run(started):
    folder = started(learning_rate=0.005)
    typed = config_of(resume=str(folder.root), learning_rate=0.1)
    with pytest.raises(SettingError, match="training.learning_rate=0.1 .*0.005"):
        resumed(typed, ["resume", "training.learning_rate"], "train")
    resumed(typed, ["resume"], "train")  # it was not typed: the run's own counts


def test_a_command_line_may_leave_open_what_the_run_has_decided_or_repeat_the_decision(started):
    folder = started(learning_rate=0.005)
    record = json.loads(folder.environment.read_text())
    composed = {"training": {"learning_rate": None}}
    folder.environment.write_text(json.dumps(record | {"composed": composed}), encoding="utf-8")
    for rate in (None, 0.005):
        typed = config_of(resume=str(folder.root), learning_rate=rate)
        config, _ = resumed(typed, ["resume", "training.learning_rate"], "train")
        assert config.training.learning_rate == 0.005


def test_a_finished_run_another_commands_run_and_another_folder_are_refused(started):
    folder = started()
    config = config_of(resume=str(folder.root))
    with pytest.raises(SettingError, match="encoderlab train"):
        resumed(config, ["resume"], "pretrain")
    with pytest.raises(SettingError, match="run_dir"):
        resumed(replace(config, run_dir="elsewhere"), ["resume", "run_dir"], "train")
    folder.report.write_text("{}")
    with pytest.raises(SettingError, match="finished"):
        resumed(config, ["resume"], "train")


@pytest.mark.parametrize("damaged", ["config.yaml", "environment.json"])
@pytest.mark.parametrize("content", [None, "[", "[1]", '{"command": "eval"}'])
def test_a_folder_without_a_readable_run_is_refused(started, damaged, content):
    folder = started()
    path = folder.root / damaged
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises((DataError, SettingError)):
        resumed(config_of(resume=str(folder.root)), ["resume"], "train")


def test_auto_resumes_the_latest_unfinished_run_of_the_same_settings_or_starts_one(started, capsys):
    other, mine, done = started(seed=5), started("outputs/train/brackets/b"), started("outputs/train/brackets/c")
    done.report.write_text("{}")
    _, found = run_to_resume(config_of(resume="auto"), "train")
    assert found.root.resolve() == mine.root
    _, found = run_to_resume(config_of(resume="auto", seed=5), "train")
    assert found.root.resolve() == other.root
    assert run_to_resume(config_of(resume="auto", seed=9), "train") is None
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_changed_rows_are_refused(started):
    folder = started()
    config, run = resumed(config_of(resume=str(folder.root)), ["resume"], "train")

    def opened(fingerprint):
        corpus = SimpleNamespace(fingerprints=lambda: {"train": fingerprint})
        return run_folder(Beginning({}, run), config, "train", corpus)

    with pytest.raises(DataError, match="train"), opened("g"):
        pass
    with opened("f") as unchanged:
        assert unchanged == run
