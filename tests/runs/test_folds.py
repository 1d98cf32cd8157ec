"""Cross-validation: a run for each fold in one folder, of which finished ones are never repeated."""

import pytest

from encoderlab.config.commands import RunConfig
from encoderlab.data.built_in import BracketsDataset
from encoderlab.data.tokenizer_config import SymbolsConfig
from encoderlab.errors import SettingError
from encoderlab.network.config import ModelConfig
from encoderlab.reports.folds import OUT_OF_FOLD
from encoderlab.runs.folds import cross_validate
from encoderlab.runs.requested import requested_run
from encoderlab.runs.run import Run
from encoderlab.system.processes import SINGLE_PROCESS
from encoderlab.tasks.classification import ClassificationConfig
from encoderlab.training.config import TrainingConfig

DATASET = BracketsDataset(train_rows=12, validation_rows=6, test_rows=4, pairs=4)


class Folds:
    """A command that trains each fold instantly, up to the one that fails."""

    def __init__(self, failing=None):
        self.failing, self.trained, self.reported = failing, [], []

    def train(self, config, processes):
        assert processes.stay, "a process that left after a fold would be missing from the next"
        assert config.folds is None and config.resume is None
        self.trained.append(config.dataset.fold)
        run = Run(config.run_dir)
        (run.checkpoints_folder / "step-1").mkdir(parents=True, exist_ok=True)
        if config.dataset.fold == self.failing:
            raise KeyboardInterrupt
        run.report_file.write_text("{}", encoding="utf-8")

    def report(self, run, data, folded, runs):
        self.reported.append((data, folded, runs))
        run.report_file.write_text("{}", encoding="utf-8")


@pytest.fixture
def validated(monkeypatch):
    def run(config, folds):
        monkeypatch.setattr("encoderlab.runs.folds.report_folds", folds.report)
        return cross_validate(requested_run(config, SINGLE_PROCESS), SINGLE_PROCESS, folds.train)

    return run


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = ClassificationConfig(name="brackets")
    return RunConfig(
        "cache",
        task,
        DATASET,
        SymbolsConfig(),
        ModelConfig(),
        TrainingConfig(),
        folds=3,
        run_dir="all",
        baselines=False,
    )


def test_each_fold_is_a_run_and_all_are_reported_together(config, validated, capsys):
    folds = Folds()
    run = validated(config, folds)
    assert folds.trained == ["1/3", "2/3", "3/3"] and run.finished
    ((data, folded, runs),) = folds.reported
    assert [of_fold.folder for of_fold in runs] == [run.fold(number) for number in (1, 2, 3)]
    assert data.by_name.keys() == {OUT_OF_FOLD}
    assert len(folded.whole) == len(folded.folds) == 12
    assert "The test split (4 rows) is not used" in capsys.readouterr().err


def test_the_same_command_line_resumes_and_keeps_finished_folds(config, validated, capsys):
    stopped, resumed = Folds(failing="2/3"), Folds()
    with pytest.raises(KeyboardInterrupt):
        validated(config, stopped)
    assert "Resume with: encoderlab train resume=all" in capsys.readouterr().err
    validated(config, resumed)
    assert (stopped.trained, resumed.trained) == (["1/3", "2/3"], ["2/3", "3/3"])
    assert "Fold 1 of 3 is finished" in capsys.readouterr().err
    with pytest.raises(SettingError, match="finished"):
        validated(config, resumed)
