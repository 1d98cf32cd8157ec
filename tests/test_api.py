"""encoderlab from Python: the same runs, predictions and errors as on the command line."""

import csv
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import encoderlab
from encoderlab.cli import main as cli
from encoderlab.config.commands import PretrainConfig
from encoderlab.data.built_in import ReverseDataset
from encoderlab.errors import SettingError

SMALL = (
    "model.n_layers=1",
    "model.d_model=16",
    "model.n_heads=2",
    "training=smoke",
    "training.steps=3",
    "baselines=false",
)
TEXTS = ["(())", "(()", "()()"]


@pytest.fixture(scope="module")
def brackets(tmp_path_factory):
    """A run trained from Python."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("brackets"))
        run = encoderlab.train(encoderlab.compose("task=brackets", "dataset.limit=100", *SMALL))
        run.folder = run.folder.resolve()
        yield run


def test_nothing_heavy_is_loaded_before_it_is_needed():
    code = (
        "import sys, encoderlab; assert 'torch' not in sys.modules; encoderlab.compose; assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = encoderlab.trian


def test_dir_shows_what_can_be_called():
    assert {"load", "train", "finetune", "TextClassifier"} <= {*dir(encoderlab)}


def test_composed_settings_equal_those_of_the_command_line_and_can_be_changed():
    config = encoderlab.compose("task=reverse", "training.learning_rate=0.01")
    assert (config.task.name, type(config.dataset), config.training.learning_rate) == ("reverse", ReverseDataset, 0.01)
    assert replace(config, seed=3).seed == 3
    assert isinstance(encoderlab.compose(command="pretrain"), PretrainConfig)


@pytest.mark.slow
def test_the_run_equals_that_of_the_command_line(brackets, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cli.run(["train", "task=brackets", "dataset.limit=100", *SMALL, "run_dir=run"])
    other = encoderlab.Run("run")
    assert other.report["splits"] == brackets.report["splits"]
    assert other.model.predict(TEXTS) == brackets.model.predict(TEXTS)


def test_predictions_and_vectors_equal_those_of_the_commands(brackets, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    run = f"run={brackets.folder}"
    cli.run(["predict", run, f"input={tmp_path}/texts.txt", "probabilities=all"])
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    answers = brackets.model.predict(TEXTS)
    assert [row["predicted"] for row in rows] == [answer["predicted"] for answer in answers]
    for row, answer in zip(rows, answers, strict=True):
        assert float(row["probability_balanced"]) == pytest.approx(answer["probabilities"]["balanced"], rel=1e-5)
    cli.run(
        ["embed", run, f"input={tmp_path}/texts.txt", f"output={tmp_path}/vectors.npy", "pooling=cls", "normalize=true"]
    )
    np.testing.assert_array_equal(np.load(tmp_path / "vectors.npy"), brackets.model.embed(TEXTS, "cls", normalize=True))
    assert set(answers[0]["probabilities"]) == set(brackets.model.labels)


def test_a_model_folder_also_predicts_but_has_no_report(brackets):
    model = encoderlab.load(brackets.folder / "model")
    assert model.predict(TEXTS) == brackets.model.predict(TEXTS)
    assert model.predict([]) == []
    assert model.predict(TEXTS[0]) == model.predict(TEXTS[:1])
    with pytest.raises(SettingError, match=r"has no report.json. Allowed: the folder of a finished run"):
        _ = encoderlab.Run(brackets.folder / "model").report


@pytest.mark.parametrize(
    "mistaken",
    [
        lambda: encoderlab.compose(5),
        lambda: encoderlab.compose(["task=brackets"]),
        lambda: encoderlab.train("task=brackets"),
        lambda: encoderlab.finetune(encoderlab.compose("task=brackets")),
        lambda: encoderlab.train(encoderlab.compose("task=brackets", "init_from=run", command="finetune")),
        lambda: encoderlab.train(replace(encoderlab.compose("task=brackets"), seed="x")),
    ],
)
def test_settings_of_other_commands_are_refused(tmp_path, monkeypatch, mistaken):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingError):
        mistaken()
    assert list(tmp_path.iterdir()) == []
