"""encoderlab finetune: from a run's model/ folder to another run that records where it came from; and what it refuses."""

import json
import re

import pytest
import safetensors.torch
import torch
import yaml

from encoderlab.config.commands import RunConfig
from encoderlab.config.composing import settings_from_dict
from encoderlab.errors import DataError, SettingError
from encoderlab.runs.saved_model import read_model
from encoderlab.system.signals import Interrupted
from tests.experiment_models import BRACKETS_MODEL
from tests.run_files import report_of

QUICK = ("task=brackets", "training=smoke", "training.threads=1", "baselines=false", "dataset.limit=200")


def weights_of(folder):
    return safetensors.torch.load_file(folder / "model" / "model.safetensors")


def test_a_run_is_finetuned_and_every_file_names_its_encoder(command, brackets_run, tmp_path, capsys):
    command("finetune", *QUICK, f"init_from={brackets_run}", "seed=5")
    (folder,) = (tmp_path / "outputs" / "finetune" / "brackets").iterdir()
    report = report_of(folder)
    assert (report["command"], report["init_from"], report["task"], report["seed"]) == (
        "finetune",
        str(brackets_run),
        "brackets",
        5,
    )
    assert f"finetuned from `{brackets_run}` by `encoderlab finetune`" in (folder / "model" / "README.md").read_text()
    assert f"From {brackets_run}: " in capsys.readouterr().err
    settings = yaml.safe_load((folder / "config.yaml").read_text())
    assert settings["init_from"] == str(brackets_run)
    pretrained = yaml.safe_load((brackets_run / "config.yaml").read_text())["model"]
    assert settings["model"] == pretrained | {"max_length": 32, "dropout": 0.1}  # as its rows need; finetuning's own


def test_a_run_from_scratch_is_marked_as_such(brackets_run):
    assert report_of(brackets_run)["init_from"] is None
    assert "trained from scratch by `encoderlab train`" in (brackets_run / "model" / "README.md").read_text()


@pytest.mark.slow
def test_a_run_folder_and_its_model_folder_are_the_same_start(command, brackets_run, tmp_path):
    for name, start in (("a", brackets_run), ("b", brackets_run / "model")):
        command("finetune", *QUICK, f"init_from={start}", f"run_dir={name}")
    first, second = weights_of(tmp_path / "a"), weights_of(tmp_path / "b")
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.slow
def test_a_finetuned_run_is_opened_like_any_other_and_can_be_finetuned_again(command, brackets_run, tmp_path, capsys):
    command("finetune", *QUICK, f"init_from={brackets_run}", "run_dir=once", "model.dropout=0.3")
    assert read_model(tmp_path / "once" / "model").config.model.dropout == 0.3
    saved = json.loads((tmp_path / "once" / "model" / "config.json").read_text())["encoderlab"]
    assert type(settings_from_dict(saved, RunConfig)) is RunConfig
    command("finetune", *QUICK, "init_from=once", "run_dir=twice")
    command("eval", "run=twice", "split=test")
    capsys.readouterr()
    command("predict", "run=twice", "text=(())")
    assert "balanced" in capsys.readouterr().out


def test_frozen_layers_are_those_of_the_pretrained_encoder(command, brackets_run, tmp_path):
    command(
        "finetune",
        *QUICK,
        f"init_from={brackets_run}",
        "training.freeze_layers=1",
        "training.layer_decay=0.5",
        "run_dir=run",
    )
    before, after = weights_of(brackets_run), weights_of(tmp_path / "run")
    encoder = [name for name in before if name.startswith(("encoder.embeddings", "encoder.layers"))]
    assert all(torch.equal(before[name], after[name]) for name in encoder)
    assert not torch.equal(before["sequence_head.weight"], after["sequence_head.weight"])
    frozen = sum(before[name].numel() for name in encoder)
    assert (
        f"{frozen:,} parameters were frozen: training.freeze_layers=1, and the embeddings"
        in report_of(tmp_path / "run")["notes"]
    )


def test_freezing_and_layer_decay_work_from_scratch_too(command, tmp_path):
    command("train", *QUICK, *BRACKETS_MODEL, "training.freeze_layers=1", "training.layer_decay=0.5", "run_dir=run")
    assert any("were frozen" in note for note in report_of(tmp_path / "run")["notes"])


@pytest.mark.slow
def test_a_classifier_starts_a_tagging_run(command, reverse_run, tmp_path):
    command(
        *("finetune", "task=reverse", "training=smoke", "training.threads=1", "baselines=false", "dataset.limit=100"),
        *(f"init_from={reverse_run}", "run_dir=run"),
    )
    assert 0 <= report_of(tmp_path / "run")["splits"]["test"]["token_accuracy"] <= 1


@pytest.mark.slow
def test_texts_longer_than_the_pretrained_encoder_reads_are_counted(command, pairs_run, tmp_path):
    rows = "\n".join(f"{'word ' * 300}{n},{n % 2}" for n in range(60))
    (tmp_path / "long.csv").write_text(f"text,label\n{rows}\n")
    own = (
        "task=classification",
        "dataset=files",
        "dataset.path=long.csv",
        "training=smoke",
        "baselines=false",
        "run_dir=run",
    )
    command("finetune", *own, f"init_from={pairs_run}")
    reads = read_model(pairs_run / "model").config.model.max_length
    note = f"100.0% of the rows of train were truncated to model.max_length={reads} tokens"
    assert any(note in line for line in report_of(tmp_path / "run")["notes"])


LENGTH = (
    "training.batch_size=16",
    "training.min_steps=24",
    "training.max_epochs=3",
    "training.evaluations=4",
    "training.keep=last",
)
LEFT_OPEN = ("task=brackets", "dataset.limit=160", "training.threads=1", "baselines=false", *LENGTH)


def length_of(folder):
    """Return the settings of a run that determine its length."""
    training = yaml.safe_load((folder / "config.yaml").read_text())["training"]
    return [training[name] for name in ("epochs", "evaluate_every", "patience")]


@pytest.mark.slow
def test_the_width_of_the_encoder_decides_the_learning_rate(command, brackets_run, tmp_path, capsys):
    command("finetune", *LEFT_OPEN, f"init_from={brackets_run}", "training.steps=1", "run_dir=run")
    assert re.search(r"training\.learning_rate=0\.001, suited to an encoder of width \d+", capsys.readouterr().err)
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["training"]["learning_rate"] == 1e-3
    command(
        "finetune",
        *LEFT_OPEN,
        f"init_from={brackets_run}",
        "training.steps=1",
        "training.learning_rate=auto",
        "run_dir=same",
    )
    assert weights_of(tmp_path / "run").keys() == weights_of(tmp_path / "same").keys()


def test_the_rows_decide_the_length_of_a_finetuning_which_is_printed_and_recorded(
    command, brackets_run, tmp_path, capsys
):
    command("finetune", *LEFT_OPEN, f"init_from={brackets_run}", "training.patience=9", "run_dir=run")
    length = (
        "2 epochs, 20 steps of 16 rows; evaluated every 5 steps, and stopped after 9 evaluations without a better score"
    )
    assert length in capsys.readouterr().err.splitlines()
    assert length_of(tmp_path / "run") == [2, 5, 9]
    journal = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in journal if line["kind"] == "evaluation"] == [5, 10, 15, 20]


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "patience"), [((), 4), (("training.patience=null", "training.steps=8"), None)])
def test_finetuning_stops_early_by_default(command, brackets_run, tmp_path, typed, patience):
    rate = ("training.learning_rate=1e-30", "training.warmup=0")  # nothing gets better
    command(
        "finetune", *LEFT_OPEN, f"init_from={brackets_run}", *rate, "training.evaluate_every=1", *typed, "run_dir=run"
    )
    stopped = [
        note for note in report_of(tmp_path / "run")["notes"] if note.startswith("Stopped early at step 5 of 20")
    ]
    assert len(stopped) == (not typed)
    assert length_of(tmp_path / "run")[2] == patience


@pytest.mark.parametrize(("least", "chosen_by"), [(160, "accuracy"), (161, "last step")])
def test_too_few_validation_rows_neither_choose_a_checkpoint_nor_stop_a_run(
    command, brackets_run, tmp_path, capsys, least, chosen_by
):
    typed = (
        "training.keep=best",
        "training.patience=1",
        "training.learning_rate=1e-30",
        f"training.min_validation_rows={least}",
    )
    command("finetune", *LEFT_OPEN, f"init_from={brackets_run}", *typed, "run_dir=run")
    too_few = "160 validation rows: too few to choose a checkpoint, so the last is kept"
    assert (too_few in capsys.readouterr().err) == (chosen_by == "last step")
    report = report_of(tmp_path / "run")
    assert report["checkpoint"]["chosen_by"] == chosen_by
    assert (report["checkpoint"]["step"] == 20) == (chosen_by == "last step")


@pytest.mark.slow
@pytest.mark.parametrize("resume", ["run", "auto"])
def test_a_resumed_finetuning_keeps_its_decided_length(command, stop_after, brackets_run, tmp_path, resume):
    typed = ("finetune", *LEFT_OPEN, f"init_from={brackets_run}", "training.patience=null")
    command(*typed, "run_dir=whole")
    stop_after(7)
    with pytest.raises(Interrupted):
        command(*typed, "run_dir=run")
    stop_after(-1)
    named = ["finetune", f"init_from={brackets_run}", "resume=run"]
    command(*(named if resume == "run" else [*typed, "run_dir=run", "resume=auto"]))
    assert length_of(tmp_path / "run") == [2, 5, None]
    whole, resumed = weights_of(tmp_path / "whole"), weights_of(tmp_path / "run")
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


@pytest.mark.parametrize(
    ("start", "reads"),
    [
        pytest.param("train model=tiny model.n_layers=1 model.d_model=16", 62, marks=pytest.mark.slow),
        pytest.param("finetune init_from={pairs}", 32, marks=pytest.mark.slow),
        ("finetune init_from={pairs} model.max_length=20", 20),
    ],
)
def test_the_maximum_length_follows_the_rows_and_is_recorded(command, pairs_run, tmp_path, start, reads):
    rows = "\n".join(f"{'1 ' * 57}{n // 10} {n % 10} {n % 2},{n % 2}" for n in range(60))
    (tmp_path / "rows.csv").write_text(f"text,label\n{rows}\n")
    own = (
        "task=classification",
        "dataset=files",
        "dataset.path=rows.csv",
        "training=smoke",
        "baselines=false",
        "run_dir=run",
    )
    command(*start.format(pairs=pairs_run).split(), *own)
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["model"]["max_length"] == reads
    assert read_model(tmp_path / "run" / "model").config.model.max_length == reads
    command("eval", "run=run")


REFUSED = [
    (["model=tiny"], r"^model\.n_layers is 2, but 1 in the pretrained encoder\. Set model=as_pretrained"),
    (
        ["tokenizer.symbols='()'"],
        r"^The tokenizer symbols \(chosen by you or by task=brackets\) is not .*: 7 tokens, not 23\. Use tokenizer=as_pretrained\.$",
    ),
    (["training.freeze_layers=2"], r"^training\.freeze_layers is 2, but the encoder has 1 layers"),
    (["task=pretraining"], r"^task=pretraining has no labels to learn\. Run encoderlab pretrain\.$"),
    (
        ["task=pretraining", "dataset=articles"],
        r"^task=pretraining has no labels to learn\. Run encoderlab pretrain\.$",
    ),
    (["training.layer_decay=0"], r"^training\.layer_decay is 0\.0\. Allowed: more than 0, at most 1"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_settings_that_do_not_fit_the_encoder_are_refused_and_leave_nothing(
    command, brackets_run, tmp_path, change, message
):
    with pytest.raises(SettingError, match=message):
        command("finetune", *QUICK, f"init_from={brackets_run}", *change)
    assert list(tmp_path.iterdir()) == []


def test_more_positions_than_learned_are_refused_before_the_data_is_read(command, pairs_run):
    with pytest.raises(
        SettingError, match=r"^model\.max_length is 1000, but the pretrained encoder has only \d+ positions\."
    ):
        command(
            "finetune",
            "task=classification",
            "dataset=files",
            "dataset.path=nowhere.csv",
            f"init_from={pairs_run}",
            "model.max_length=1000",
        )


def test_an_unfinished_run_is_refused(command, tmp_path):
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "config.yaml").write_text("")
    with pytest.raises(
        DataError, match=r"^init_from=unfinished is not a model folder\. Allowed: the folder of a finished run"
    ):
        command("finetune", *QUICK, "init_from=unfinished")


def test_without_init_from_it_starts_from_the_shipped_encoder(command, shipped, no_network, tmp_path, capsys):
    command("finetune", *QUICK, "tokenizer=as_pretrained", "dataset.limit=100", "training.steps=2", "run_dir=run")
    assert report_of(tmp_path / "run")["init_from"] == "mini-en"
    assert "From mini-en: " in capsys.readouterr().err
    assert "base_model" not in (tmp_path / "run" / "model" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("task", [("task=pretraining",), ("task=pretraining", "dataset=articles"), ("task=wikipedia",)])
def test_train_refuses_texts_without_labels(command, task):
    with pytest.raises(SettingError, match=r"^task=\w+ has no labels to learn\. Run encoderlab pretrain\.$"):
        command("train", *task)
