"""The flow of every command that trains: anything invalid is refused before there is a folder, and a dry run leaves
none.
"""

import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest

from encoderlab.config.commands import RunConfig
from encoderlab.data.sources.generated import BracketsDataset
from encoderlab.data.tokenizers.config import SymbolsConfig
from encoderlab.errors import SettingError
from encoderlab.model.config import ModelConfig
from encoderlab.runs.corpora.corpus import Corpus
from encoderlab.runs.fitting.training_run import Prepared, Training, refuse_endless, run_training
from encoderlab.runs.folders.folder import RunFolder
from encoderlab.runs.folders.resume import read_settings
from encoderlab.system.processes import SINGLE_PROCESS
from encoderlab.system.signals import Interrupted
from encoderlab.tasks.config import ClassificationConfig
from encoderlab.training.config import TrainingConfig
from tests.runs.small_assembly import assembly_of, labelled_rows

pytestmark = pytest.mark.usefixtures("one_thread")
DATASET = BracketsDataset(train_rows=8, validation_rows=6, test_rows=4, pairs=4)


class Recorded(Training):
    """A command that trains on a few rows and records which methods are called with which folder."""

    command = "train"

    def __init__(self, cache, refused=()):
        self.cache, self.refused, self.calls, self.stopped = cache, refused, [], False

    def check(self, config):
        self.calls.append("check")
        if config.seed in self.refused:
            raise SettingError(f"seed={config.seed} is refused")

    def prepare(self, config, pretrained, processes):
        self.calls.append("prepare")
        assembly = assembly_of(training=config.training, initializer_range=0.02)
        return Prepared(assembly, Corpus.load(config.dataset, self.cache), {"train": labelled_rows(12)})

    def show_dry_run(self, prepared):
        self.calls.append("show_dry_run")

    def begin(self, prepared):
        self.calls.append("begin")

    def train_before(self, folder):
        self.calls.append("train_before")
        assert folder.config.is_file() and folder.environment.is_file()
        assert "report" in self.calls or not folder.metrics.exists()

    def report(self, prepared, fitted, folder, trackers):
        self.calls.append("report")
        if self.stopped:
            raise Interrupted(15)
        assert fitted.checkpoint["step"] == 2
        folder.report.write_text("{}", encoding="utf-8")


@pytest.fixture
def config_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def config(**changes):
        model, training = ModelConfig(n_layers=1, d_model=8, n_heads=2), TrainingConfig(steps=2, batch_size=6)
        return RunConfig(
            "cache", ClassificationConfig(name="digits"), DATASET, SymbolsConfig(), model, training, **changes
        )

    return config


def test_a_run_calls_each_part_in_turn_and_records_the_settings_decided_for_it(config_of, tmp_path, capsys):
    training = Recorded(tmp_path / "cache")
    folder = run_training(training, config_of(), SINGLE_PROCESS)
    assert training.calls == ["check", "prepare", "begin", "train_before", "report"]
    assert folder.finished and folder.root.parent.parts[-3:] == ("outputs", "train", "digits")
    settings = read_settings(folder, RunConfig).training
    assert settings.learning_rate is not None and settings.accumulate == 1
    errors = capsys.readouterr().err
    assert " parameters" in errors and f"Run folder {folder.root}" in errors


def test_initial_weights_are_computed_again_only_if_a_run_was_stopped_before_its_first_checkpoint(config_of, tmp_path):
    training = Recorded(tmp_path / "cache")
    training.stopped = True
    with pytest.raises(Interrupted):
        run_training(training, config_of(run_dir="run"), SINGLE_PROCESS)
    recorded = read_settings(RunFolder(tmp_path / "run"), RunConfig)
    for resume in ("run", "auto"):
        with pytest.raises(Interrupted):
            run_training(training, replace(recorded, resume=resume), SINGLE_PROCESS)
    assert training.calls.count("begin") == 1 and training.calls.count("report") == 3
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    training.stopped = False
    assert run_training(training, replace(recorded, resume="run"), SINGLE_PROCESS).finished
    assert training.calls.count("begin") == 2


def test_a_dry_run_prints_its_estimate_and_leaves_no_folder(config_of, tmp_path):
    training = Recorded(tmp_path / "cache")
    assert run_training(training, config_of(dry_run=True), SINGLE_PROCESS) is None
    assert training.calls == ["check", "prepare", "show_dry_run"]
    assert not (tmp_path / "outputs").exists()


def test_settings_are_refused_before_any_data_is_read_and_leave_no_folder(config_of, tmp_path):
    training = Recorded(tmp_path / "cache", refused=[3])
    with pytest.raises(SettingError, match="seed=3"):
        run_training(training, config_of(seed=3), SINGLE_PROCESS)
    with pytest.raises(SettingError, match="trackers"):
        run_training(training, config_of(trackers=["nobody"]), SINGLE_PROCESS)
    assert "prepare" not in training.calls and list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_a_run_is_refused_at_once(config_of, tmp_path):
    taken = RunFolder(tmp_path / "taken")
    taken.root.mkdir()
    taken.config.write_text("seed: 1\n")
    training = Recorded(tmp_path / "cache")
    with pytest.raises(SettingError, match="already holds an unfinished run.*resume it with resume=taken"):
        run_training(training, config_of(run_dir="taken"), SINGLE_PROCESS)
    assert training.calls == []


@pytest.mark.parametrize(
    ("streams", "length", "refused"), [(True, {}, True), (True, {"steps": 9}, False), (False, {}, False)]
)
def test_a_stream_needs_a_number_of_steps_or_a_budget(streams, length, refused):
    training = SimpleNamespace(**({"steps": None, "budget": None} | length))
    config = SimpleNamespace(dataset=SimpleNamespace(is_stream=streams), training=training)
    if not refused:
        refuse_endless(config)
        return
    with pytest.raises(SettingError, match="Set training.steps=100000, or training.budget=12h"):
        refuse_endless(config)
