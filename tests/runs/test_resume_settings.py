"""What a run records before it starts is enough to repeat it, says what it ran on, and decides which run `resume` means and
which of its settings may change.
"""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

from encoderlab.config.commands import RunConfig
from encoderlab.config.schemas import settings_from_dict, settings_to_dict
from encoderlab.data.built_in import BracketsDataset
from encoderlab.data.tokenizer_config import SymbolsConfig
from encoderlab.errors import DataError, SettingError
from encoderlab.network.config import ModelConfig, Norm
from encoderlab.runs.record import record_start
from encoderlab.runs.requested import requested_run
from encoderlab.runs.run import Run
from encoderlab.runs.summary import run_facts
from encoderlab.system.device import Compute
from encoderlab.system.processes import SINGLE_PROCESS
from encoderlab.tasks.classification import ClassificationConfig
from encoderlab.training.config import Keep, TrainingConfig

CPU = Compute(torch.device("cpu"), torch.bfloat16, 3, "test")


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


@pytest.fixture
def config(tmp_path):
    return RunConfig(
        cache_dir=str(tmp_path / "cäche"),
        task=ClassificationConfig(name="brackets"),
        dataset=BracketsDataset(train_rows=20, validation_rows=6, test_rows=4, pairs=5),
        tokenizer=SymbolsConfig(symbols="()[]{}<>#: -'\"\\"),
        model=ModelConfig(norm=Norm.rms, norm_epsilon=1e-12),
        training=TrainingConfig(epochs=0.25, keep=Keep.last, clip_norm=None),
        seed=4,
        run_dir=str(tmp_path),
    )


def test_the_recorded_settings_are_those_of_the_run(run, config):
    record_start(run.folder, config, CPU, data=config.dataset.load(run.folder, config.task.target))
    plain = yaml.safe_load(run.config_file.read_text(encoding="utf-8"))
    assert settings_from_dict(plain, RunConfig) == config
    assert plain["training"]["epochs"] == 0.25
    assert plain["model"]["norm"] == "rms"
    assert "cäche" in run.config_file.read_text(encoding="utf-8")


def test_the_data_are_recorded_with_origin_counts_and_fingerprints(run, config):
    data = config.dataset.load(run.folder, config.task.target)
    record_start(run.folder, config, CPU, data=data)
    recorded = json.loads(run.environment_file.read_text(encoding="utf-8"))["dataset"]
    assert recorded["labels"] == ["unbalanced", "balanced"]
    assert recorded["origin"]["source"] == "generated"
    assert recorded["origin"]["pairs"] == 5
    assert recorded["splits"]["train"]["rows"] == 20
    assert {name: split["fingerprint"] for name, split in recorded["splits"].items()} == data.fingerprints()


def test_a_report_lists_the_settings_that_were_typed_or_differ_from_the_commands_own(run, config, monkeypatch):
    monkeypatch.setattr("sys.argv", ["python"])  # a run that was started from Python
    record_start(run.folder, config, CPU, data=config.dataset.load(run.folder, config.task.target))
    from_python = run_facts(run)["settings"]
    assert from_python["dataset.train_rows"] == 20 and from_python["training.keep"] == "last"
    assert not {"run_dir", "dropout", "model.n_layers", "dataset.schema"} & set(from_python)
    record = json.loads(run.environment_file.read_text(encoding="utf-8"))
    record |= {"overrides": ["experiment=a", "seed=4", "run_dir=/home/jo/run"]}
    record["resumed"] = [{"overrides": ["resume=/home/jo/run", "training.epochs=0.25"]}]
    run.environment_file.write_text(json.dumps(record), encoding="utf-8")
    assert run_facts(Run(run.folder))["settings"] == {"experiment": "a", "seed": 4, "training.epochs": 0.25}


def resumable(**changes):
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
        run = Run(tmp_path / root)
        run.folder.mkdir(parents=True)
        run.config_file.write_text(yaml.safe_dump(settings_to_dict(resumable(**changes))), encoding="utf-8")
        record = {"command": command, "dataset": {"splits": {"train": {"fingerprint": "f"}}}}
        record["hardware"] = {"cores": os.cpu_count(), "threads": 3, "processes": 1}
        run.environment_file.write_text(json.dumps(record), encoding="utf-8")
        return run

    return begin


def settings_of(config, explicit=None):
    """Return the settings with which a run goes on, or with which a new one starts."""
    return requested_run(config, SINGLE_PROCESS, explicit).config


def test_a_resumed_run_keeps_its_settings_except_for_allowed_overrides(started):
    run = started(epochs=3.0, learning_rate=0.005)
    typed = resumable(resume=str(run.folder), epochs=7.0, log_every=3)
    config = settings_of(typed, ["resume", "training.epochs", "training.log_every"])
    assert config.resume == config.run_dir == str(run.folder)
    assert (config.training.epochs, config.training.log_every, config.training.learning_rate) == (7.0, 3, 0.005)


def test_what_was_composed_at_first_may_be_typed_again_after_a_change(started):
    run = started(epochs=7.0, log_every=3)
    record = json.loads(run.environment_file.read_text(encoding="utf-8"))
    composed = settings_to_dict(resumable(epochs=4.0, log_every=9))
    run.environment_file.write_text(json.dumps(record | {"composed": composed}), encoding="utf-8")
    typed = resumable(resume=str(run.folder), epochs=4.0, log_every=9)
    config = settings_of(typed, ["resume", "training.epochs", "training.log_every"])
    assert (config.training.epochs, config.training.log_every) == (4.0, 9)


def test_a_command_line_may_leave_open_what_the_run_has_decided_or_repeat_the_decision(started):
    run = started(learning_rate=0.005)
    record = json.loads(run.environment_file.read_text())
    composed = {"training": {"learning_rate": None}}
    run.environment_file.write_text(json.dumps(record | {"composed": composed}), encoding="utf-8")
    for rate in (None, 0.005):
        typed = resumable(resume=str(run.folder), learning_rate=rate)
        config = settings_of(typed, ["resume", "training.learning_rate"])
        assert config.training.learning_rate == 0.005


@pytest.mark.parametrize("damaged", ["config.yaml", "environment.json"])
@pytest.mark.parametrize("content", [None, "[", "[1]", '{"command": "eval"}'])
def test_a_folder_without_a_readable_run_is_refused(started, damaged, content):
    run = started()
    path = run.folder / damaged
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises((DataError, SettingError)):
        settings_of(resumable(resume=str(run.folder)), ["resume"])


def test_auto_resumes_the_latest_unfinished_run_of_the_same_settings_or_starts_one(started, capsys):
    other, mine, done = started(seed=5), started("outputs/train/brackets/b"), started("outputs/train/brackets/c")
    done.report_file.write_text("{}")
    assert Path(settings_of(resumable(resume="auto")).resume).resolve() == mine.folder
    assert Path(settings_of(resumable(resume="auto", seed=5)).resume).resolve() == other.folder
    assert settings_of(resumable(resume="auto", seed=9)).resume is None
    assert len(capsys.readouterr().err.splitlines()) == 3


@pytest.mark.parametrize(("cores", "threads"), [(0, 3), (1, None)])
def test_a_run_keeps_its_threads_on_the_same_machine_only(started, cores, threads):
    run = started()
    record = json.loads(run.environment_file.read_text(encoding="utf-8"))
    record["hardware"]["cores"] += cores
    run.environment_file.write_text(json.dumps(record), encoding="utf-8")
    requested = requested_run(resumable(resume=str(run.folder)), SINGLE_PROCESS, ["resume"])
    assert requested.threads == threads
    assert requested.config.training.threads is None, "what is decided anew elsewhere is no setting of the run"
