"""finetune keeps the head alone on the frozen encoder if validation says that it is better, or if it was asked for."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import safetensors.torch
import torch
import yaml

from encoderlab.config.commands import FinetuneConfig
from encoderlab.errors import SettingError
from encoderlab.models.pretrained import load_pretrained
from encoderlab.recipes.finetuning import wants_linear_head
from encoderlab.recipes.head_alone import can_be_fitted
from encoderlab.system.processes import Interrupted, Processes
from encoderlab.tasks.classification import ClassificationConfig
from encoderlab.training.checkpoint import checkpoints
from encoderlab.training.config import Sharding, TrainingConfig
from tests.run_files import report_of

SHORT = ("training.epochs=2", "training.threads=1", "baselines=false")


def weights_of(folder):
    return safetensors.torch.load_file(folder / "model" / "model.safetensors")


@pytest.fixture
def line(shipped, tmp_path):
    """Write texts whose words tell their label, and return a command line that learns them."""
    for name, rows in (("train", 120), ("validation", 60), ("test", 40)):
        lines = [f"{('a warm and witty film', 'a dull empty mess')[row % 2]} {row},{row % 2}" for row in range(rows)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")
    files = [f"dataset.{name}={name}.csv" for name in ("train", "validation", "test")]
    return ("finetune", "task=classification", "dataset=files", *files, *SHORT)


def encoder_is(folder, encoder):
    """Return whether the weights of a run's encoder are those of the encoder in the other folder."""
    before = safetensors.torch.load_file(encoder / "model.safetensors")
    after = weights_of(folder)
    return all(torch.equal(before[name][: len(after[name])], after[name]) for name in after if "encoder" in name)


def test_the_head_alone_is_kept_where_it_is_better_on_validation(command, line, shipped, tmp_path):
    command(*line, "training.learning_rate=1e-9", "run_dir=run")  # finetuning learns nothing
    report = report_of(tmp_path / "run")
    checkpoint = report["checkpoint"]
    compared = checkpoint.pop("head_alone")
    assert checkpoint == {"step": 0, "chosen_by": "accuracy", "chosen_on": "validation"}
    assert compared["kept"] and compared["accuracy"] > compared["finetuned_accuracy"]
    assert compared["leads_by"] == pytest.approx(compared["accuracy"] - compared["finetuned_accuracy"])
    assert report["splits"]["validation"]["accuracy"] == pytest.approx(compared["accuracy"])
    assert any("head alone" in note for note in report["notes"])
    assert "head alone" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert encoder_is(tmp_path / "run", shipped)
    command("eval", "run=run", "split=test", "run_dir=again")
    assert report_of(tmp_path / "again")["splits"]["test"]["accuracy"] == report["splits"]["test"]["accuracy"]


@pytest.mark.slow
def test_the_finetuned_model_is_kept_where_it_is_better(command, line, shipped, tmp_path):
    for name in ("train", "validation", "test"):  # which of two words comes first is nothing that a mean vector says
        rows = [
            f"warm {'a ' * (row // 8)}dull,0" if row % 2 else f"dull {'a ' * (row // 8)}warm,1" for row in range(96)
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    command(*line, "training.learning_rate=0.01", "training.epochs=60", "training.patience=null", "run_dir=run")
    report = report_of(tmp_path / "run")
    compared = report["checkpoint"]["head_alone"]
    assert compared["finetuned_accuracy"] > compared["accuracy"]
    assert not compared["kept"] and report["checkpoint"]["step"] > 0
    assert any("finetuned model is kept" in note for note in report["notes"])
    assert not encoder_is(tmp_path / "run", shipped)


def test_of_equal_scores_the_model_of_the_lowest_loss_is_kept(command, line, tmp_path, capsys):
    command(*line, "training.learning_rate=0.01", "training.epochs=20", "run_dir=run")
    assert "head alone" in capsys.readouterr().err.partition("step ")[0], "its score comes before the first evaluation"
    compared = report_of(tmp_path / "run")["checkpoint"]["head_alone"]
    assert compared["accuracy"] == compared["finetuned_accuracy"] == 1
    losses = compared["calibrated_loss"]
    assert losses.keys() == {"finetuned", "head_alone", "average"}
    assert losses[compared["kept_model"]] == min(losses.values())


def test_the_average_of_two_level_models_is_a_model_like_any_other(command, line, shipped, tmp_path, monkeypatch):
    losses = iter((0.3, 0.2, 0.1))  # of the finetuned model, the head alone and their average
    monkeypatch.setattr("encoderlab.recipes.head_alone.calibrated_loss", lambda *_: next(losses))
    command(*line, "training.learning_rate=0.01", "training.epochs=20", "run_dir=run")
    report = report_of(tmp_path / "run")
    assert report["checkpoint"]["head_alone"]["kept_model"] == "average"
    assert report["checkpoint"]["step"] > 0 and report["splits"]["test"]["accuracy"] == 1
    assert not encoder_is(tmp_path / "run", shipped)
    command("eval", "run=run", "split=test", "run_dir=again")
    assert report_of(tmp_path / "again")["splits"]["test"]["accuracy"] == report["splits"]["test"]["accuracy"]


def test_of_two_level_models_the_finetuned_one_is_kept_as_it_was_trained(command, line, tmp_path, monkeypatch):
    losses = iter((0.1, 0.2, 0.3))  # of the finetuned model, the head alone and their average
    monkeypatch.setattr("encoderlab.recipes.head_alone.calibrated_loss", lambda *_: next(losses))
    command(*line, "training.learning_rate=0.01", "training.epochs=20", "run_dir=run")
    checkpoint = report_of(tmp_path / "run")["checkpoint"]
    assert checkpoint["head_alone"]["kept_model"] == "finetuned"
    kept = safetensors.torch.load_file(tmp_path / "run" / "model" / "model.safetensors")
    trained = safetensors.torch.load_file(
        tmp_path / "run" / "checkpoints" / f"step-{checkpoint['step']}" / "model.safetensors"
    )
    encoder = [name for name in trained.keys() & kept.keys() if name.startswith("encoder.layers")]
    assert encoder and all(torch.equal(kept[name], trained[name]) for name in encoder)


@pytest.mark.slow
def test_a_resumed_run_keeps_what_the_whole_one_keeps(command, line, stop_after, tmp_path):
    slow = (*line, "training.learning_rate=1e-9")
    command(*slow, "run_dir=whole")
    stop_after(3)
    with pytest.raises(Interrupted):
        command(*slow, "run_dir=run")
    stop_after(-1)
    command(*slow, "run_dir=run", "resume=auto")
    whole, resumed = report_of(tmp_path / "whole"), report_of(tmp_path / "run")
    assert whole["checkpoint"] == resumed["checkpoint"] and whole["notes"] == resumed["notes"]
    resumed_weights = weights_of(tmp_path / "run")
    assert all(torch.equal(weight, resumed_weights[name]) for name, weight in weights_of(tmp_path / "whole").items())


def test_checkpoints_leave_out_frozen_weights_which_a_resumed_run_reads_again(command, line, stop_after, tmp_path):
    frozen = (*line, "training.freeze_layers=1", "training.learning_rate=0.01")
    command(*frozen, "run_dir=whole")
    stop_after(3)
    with pytest.raises(Interrupted):
        command(*frozen, "run_dir=run")
    stop_after(-1)
    newest = checkpoints(tmp_path / "run" / "checkpoints")[-1]
    saved = safetensors.torch.load_file(newest / "model.safetensors")
    assert not any(name.startswith("encoder.layers.0.") for name in saved)
    command(*frozen, "run_dir=run", "resume=auto")
    resumed = weights_of(tmp_path / "run")
    assert all(torch.equal(weight, resumed[name]) for name, weight in weights_of(tmp_path / "whole").items())


def test_all_layers_frozen_ask_for_the_head_alone_which_takes_no_step(command, line, shipped, tmp_path, capsys):
    command(*line, "training.freeze_layers=all", "run_dir=run")
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
    report = report_of(tmp_path / "run")
    assert report["checkpoint"]["step"] == 0 and report["checkpoint"]["chosen_on"] is None
    assert report["checkpoint"]["head_alone"]["kept"] and report["splits"]["test"]["accuracy"] == 1
    assert encoder_is(tmp_path / "run", shipped)
    settings = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text(encoding="utf-8"))
    assert settings["training"]["freeze_layers"] == "all"
    command("predict", "run=run", "text=a dull empty mess")
    assert "1" in capsys.readouterr().out


def test_a_task_without_classes_trains_its_head_alone_in_steps(command, line, shipped, tmp_path):
    numbers = [word.replace("classification", "regression") for word in line]
    command(*numbers, "training.freeze_layers=all", "run_dir=run")
    assert report_of(tmp_path / "run")["checkpoint"]["step"] > 0
    assert encoder_is(tmp_path / "run", shipped)


@pytest.mark.parametrize("typed", ["training.steps=2", "training.keep=last"])
def test_a_trial_and_a_run_that_keeps_the_last_weights_compare_nothing(command, line, tmp_path, typed):
    command(*line, typed, "run_dir=run")
    assert "head_alone" not in report_of(tmp_path / "run")["checkpoint"]


@pytest.mark.slow
def test_pairs_that_are_read_separately_have_a_head_alone_too(command, line, tmp_path):
    for name in ("train", "validation", "test"):
        texts = (tmp_path / f"{name}.csv").read_text(encoding="utf-8").splitlines()[1:]
        pairs = [f"{text.split(',')[0]},a warm and witty film,{text.split(',')[1]}" for text in texts]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,other,label", *pairs]) + "\n", encoding="utf-8")
    pair = ("dataset.text=text", "dataset.text_pair=other", "dataset.label=label")
    command(*line, *pair, "training.learning_rate=1e-9", "run_dir=run")
    assert json.dumps(report_of(tmp_path / "run")["checkpoint"]["head_alone"]["accuracy"]) == "1.0"


@pytest.fixture
def few_rows(line, tmp_path):
    """Return the command line with 40 training rows, of which none are held out."""
    lines = (tmp_path / "train.csv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "train.csv").write_text("\n".join(lines[:41]) + "\n", encoding="utf-8")
    return tuple(word for word in line if "validation" not in word)


def test_without_validation_rows_folds_say_that_the_head_alone_is_better(command, few_rows, shipped, tmp_path):
    command(*few_rows, "training.learning_rate=1e-9", "run_dir=run")
    report = report_of(tmp_path / "run")
    checkpoint = report["checkpoint"]
    assert (checkpoint["step"], checkpoint["chosen_on"]) == (0, "cross-validation")
    assert checkpoint["head_alone"]["kept"]
    assert any("folds" in note for note in report["notes"])
    assert encoder_is(tmp_path / "run", shipped)


def test_without_validation_rows_the_finetuned_model_is_kept_within_noise(command, few_rows, tmp_path):
    command(*few_rows, "training.learning_rate=0.01", "training.epochs=20", "run_dir=run")
    report = report_of(tmp_path / "run")
    assert report["checkpoint"] == {"step": 40, "chosen_by": "last step", "chosen_on": None}
    assert any("finetuned model is kept" in note for note in report["notes"])


@pytest.mark.slow
def test_folds_change_no_step_of_the_run_and_a_resumed_run_has_none(command, few_rows, stop_after, tmp_path):
    learns = (*few_rows, "training.learning_rate=0.01", "training.epochs=10")
    command(*learns, "training.keep=last", "run_dir=without")
    command(*learns, "run_dir=whole")
    stop_after(7)
    with pytest.raises(Interrupted):
        command(*learns, "run_dir=run")
    stop_after(-1)
    command(*learns, "run_dir=run", "resume=auto")
    weights = weights_of(tmp_path / "whole")
    for name in ("without", "run"):
        others = weights_of(tmp_path / name)
        assert all(torch.equal(weight, others[part]) for part, weight in weights.items())
    assert report_of(tmp_path / "run")["notes"] == report_of(tmp_path / "whole")["notes"]


@pytest.mark.parametrize(("sharding", "size"), [("none", 2), ("full", 1), ("full", 2)])
def test_no_linear_model_is_fitted_to_what_several_processes_shard(shipped, sharding, size):
    start = load_pretrained("mini-en")
    task = ClassificationConfig(name="films")
    training = TrainingConfig(sharding=Sharding[sharding], freeze_layers=0)
    config = FinetuneConfig("cache", task, start.config.dataset, start.config.tokenizer, start.shape, training)
    model = replace(start, config=config, processes=Processes(size=size))
    data = SimpleNamespace(split=lambda name: range(60))
    model.network.separates_pairs = True  # so that it wants to start at a linear model
    assert can_be_fitted(model) == wants_linear_head(model, data) == (sharding == "none" or size == 1)
    if sharding == "full":
        model = replace(model, config=replace(config, training=replace(training, freeze_layers="all")))
        if size == 1:
            assert can_be_fitted(model)
        else:
            with pytest.raises(SettingError, match=r"freeze_layers=all .* Set training\.sharding=none"):
                can_be_fitted(model)
