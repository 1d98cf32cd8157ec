"""encoderlab finetune: from a run's model/ folder to another run that records where it came from; and what it refuses."""

import json

import pytest
import safetensors.torch
import torch
import yaml

from encoderlab.config.commands import RunConfig
from encoderlab.config.schemas import settings_from_dict
from encoderlab.errors import SettingError
from encoderlab.models.folder import read_model
from encoderlab.system.processes import Interrupted
from tests.run_files import journal_of, report_of

QUICK = ("task=brackets", "training=smoke", "training.threads=1", "baselines=false", "dataset.limit=200")


def weights_of(folder):
    return safetensors.torch.load_file(folder / "model" / "model.safetensors")


def test_a_run_is_finetuned_and_every_file_names_its_encoder(command, brackets_run, tmp_path, capsys):
    command("finetune", *QUICK, f"init_from={brackets_run}", "seed=5")
    (folder,) = (tmp_path / "outputs" / "finetune" / "brackets").iterdir()
    report = report_of(folder)
    assert (report["command"], report["init_from"], report["task"], report["seed"]) == (
        "finetune",
        brackets_run.name,
        "brackets",
        5,
    )
    assert f"From {brackets_run}: " in capsys.readouterr().err
    settings = yaml.safe_load((folder / "config.yaml").read_text())
    assert settings["init_from"] == str(brackets_run)
    pretrained = yaml.safe_load((brackets_run / "config.yaml").read_text())["model"]
    assert settings["model"] == pretrained | {"max_length": 32, "dropout": 0.1}  # as its rows need; finetuning's own


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
def test_a_resumed_finetuning_keeps_its_decided_length(command, stop_after, brackets_run, tmp_path):
    typed = ("finetune", *LEFT_OPEN, f"init_from={brackets_run}", "training.patience=null")
    command(*typed, "run_dir=whole")
    stop_after(7)
    with pytest.raises(Interrupted):
        command(*typed, "run_dir=run")
    stop_after(-1)
    command(*typed, "run_dir=run", "resume=auto")
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


@pytest.mark.parametrize(
    ("setting", "named"),
    [("tokenizer.symbols='()'", "tokenizer=as_pretrained"), ("training.freeze_layers=2", "has 1 layers")],
)
def test_settings_that_do_not_fit_the_encoder_are_refused_and_leave_nothing(
    command, brackets_run, tmp_path, setting, named
):
    with pytest.raises(SettingError, match=named):
        command("finetune", *QUICK, f"init_from={brackets_run}", setting)
    assert list(tmp_path.iterdir()) == []


def test_without_init_from_it_starts_from_the_shipped_encoder(command, shipped, no_network, tmp_path, capsys):
    command("finetune", *QUICK, "tokenizer=as_pretrained", "dataset.limit=100", "training.steps=2", "run_dir=run")
    assert report_of(tmp_path / "run")["init_from"] == "mini-en"
    assert "From mini-en: " in capsys.readouterr().err
    assert "base_model: mini-en" in (tmp_path / "run" / "model" / "README.md").read_text(encoding="utf-8")


def few(tmp_path, labels, each, *further):
    """Write rows whose only word tells the label, and return the words of a short run on them."""
    rows = [f"the number {n} and {row},number-{n}" for n in range(100, 100 + labels) for row in range(each)]
    for name in ("train", "test"):
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    data = ("task=classification", "dataset=files", "dataset.train=train.csv", "dataset.test=test.csv")
    return ("finetune", *data, "training.steps=1", "training.threads=1", "baselines=false", "run_dir=run", *further)


@pytest.mark.slow
@pytest.mark.parametrize("typed", [(), ("dataset.validation_fraction=0.1",)], ids=["default", "a fraction as typed"])
def test_few_rows_are_all_trained_on_unless_a_fraction_is_typed(command, tmp_path, typed):
    command(*few(tmp_path, 2, 20, *typed))
    report = report_of(tmp_path / "run")
    settings = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert ("validation" in report["splits"]) == bool(typed)
    assert report["checkpoint"]["chosen_by"] == "last step", "four rows are too few to choose by"
    assert settings["dataset"]["validation_fraction"] == (0.1 if typed else 0.0)
    command("eval", "run=run", "split=train")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("each", "typed", "expected"),
    [
        (20, (), ("random", 1)),
        (20, ("training.batching=length", "training.freeze_layers=0"), ("length", 0)),
        (260, (), ("length", 0)),
    ],
    ids=["few", "few, as typed", "many"],
)
def test_few_rows_are_batched_at_random_and_train_the_upper_layers_unless_typed(
    command, tmp_path, each, typed, expected
):
    command(*few(tmp_path, 2, each, *typed))
    training = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["training"]
    assert (training["batching"], training["freeze_layers"]) == expected
    notes = report_of(tmp_path / "run")["notes"]
    assert any("training.freeze_layers" in note for note in notes) == (expected[1] > 0)


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "compared"), [((), True), (("training.contrast_weight=0",), False)])
def test_few_rows_of_a_label_are_drawn_together_unless_that_is_switched_off(command, tmp_path, typed, compared):
    line = [*few(tmp_path, 2, 20, *typed), "training.steps=3", "training.log_every=1"]
    command(*line)
    assert all(("loss_contrast" in entry) == compared for entry in journal_of(tmp_path / "run") if "loss" in entry)
    notes = report_of(tmp_path / "run")["notes"]
    assert any("training.contrast_weight" in note for note in notes) == compared


@pytest.mark.slow
def test_few_rows_of_a_rare_label_train_the_upper_layers(command, tmp_path):
    line = few(tmp_path, 2, 300)
    rows = (tmp_path / "train.csv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "train.csv").write_text("\n".join([*rows[:301], *rows[-20:]]) + "\n", encoding="utf-8")
    command(*line, "dataset.validation_fraction=0.2")
    settings = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert (settings["training"]["batching"], settings["training"]["freeze_layers"]) == ("random", 1)


@pytest.mark.slow
@pytest.mark.parametrize(("labels", "linear"), [(50, True), (49, False)])
def test_the_head_of_many_labels_with_few_rows_starts_at_a_linear_model(command, tmp_path, labels, linear):
    command(*few(tmp_path, labels, 4, "training.learning_rate=1e-9"))
    report = report_of(tmp_path / "run")
    assert (report["splits"]["test"]["accuracy"] > 0.5) == linear
    assert any("logistic regression" in note for note in report["notes"]) == linear


def test_the_head_for_pairs_starts_at_a_linear_model_and_learns_slowly(command, tmp_path):
    words = ("tea", "rain", "a goal", "the vote", "my bank card", "a song", "snow in May", "two tickets")
    rows = [f"{a},{b},{'same' if a == b else 'other'}" for a in words for b in (a, words[words.index(a) - 1])]
    (tmp_path / "pairs.csv").write_text("\n".join(["a,b,label", *rows]) + "\n", encoding="utf-8")
    columns = ("dataset.text=a", "dataset.text_pair=b", "dataset.validation_fraction=0")
    files = [f"dataset.{split}={tmp_path / 'pairs.csv'}" for split in ("train", "test")]
    steps = ("training.steps=1", "baselines=false", f"run_dir={tmp_path / 'run'}")
    command("finetune", "task=classification", "dataset=files", *files, *columns, *steps)
    report = report_of(tmp_path / "run")
    assert report["splits"]["test"]["accuracy"] > 0.8
    settings = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert settings["training"]["learning_rate"] == pytest.approx(1e-4)


@pytest.mark.slow
def test_a_linear_model_is_fitted_neither_for_a_dry_run_nor_again_for_a_resumed_run(
    command, tmp_path, monkeypatch, stop_after
):
    line, fits = [one.replace("steps=1", "steps=2") for one in few(tmp_path, 50, 4)], []
    monkeypatch.setattr("encoderlab.recipes.finetuning.set_linear_head", lambda *run: fits.append(run))
    command(*line, "dry_run=true")
    assert not fits
    stop_after(1)
    with pytest.raises(Interrupted):
        command(*line)
    stop_after(-1)
    command("finetune", "resume=run")
    assert len(fits) == 1
    assert any("logistic regression" in note for note in report_of(tmp_path / "run")["notes"])


@pytest.mark.slow
def test_twelve_rows_are_all_trained_on_and_folds_are_proposed(command, shipped, tmp_path):
    texts = ["warm", "witty", "a film", "ten of ten", "and wise", "dull", "empty", "a mess", "nothing", "else"]
    rows = [f"{text},{'good' if number < 5 else 'bad'}" for number, text in enumerate(texts)]
    rows += ["so so,neither", "number 7,neither"]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    command("finetune", "rows.csv", "training.threads=1", "run_dir=run")
    report = report_of(tmp_path / "run")
    assert list(report["splits"]) == ["train"] and report["splits"]["train"]["n"] == 12
    assert report["baselines"] == {} and report["verdict"] is None, "nothing is compared on rows that were trained on"
    assert any("folds=5" in note for note in report["notes"])
    command("finetune", "rows.csv", "training.threads=1", "folds=5", "run_dir=folds", "baselines=false")
    assert report_of(tmp_path / "folds")["command"] == "finetune"


@pytest.mark.slow
def test_an_interrupted_run_on_very_few_rows_resumes(command, stop_after, shipped, tmp_path):
    rows = [f"{word} {number},{word}" for number in range(6) for word in ("warm", "dull")]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    line = ("finetune", "rows.csv", "training.threads=1", "run_dir=run")
    stop_after(3)
    with pytest.raises(Interrupted):
        command(*line)
    stop_after(-1)
    command(*line, "resume=auto")  # the same line, as a restarted process repeats it
    assert report_of(tmp_path / "run")["scored_split"] == "train"
