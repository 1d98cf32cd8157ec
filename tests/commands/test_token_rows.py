"""Training only the rows of the token table that occur: the model is the one that training the whole table gives."""

import json

import pytest
import safetensors.torch
import torch

from encoderlab.errors import DataError
from encoderlab.system import tensor_files
from encoderlab.system.processes import Interrupted
from encoderlab.training import occurring_rows
from encoderlab.training.checkpoint import checkpoints
from tests.exchange.family_folders import folder_of
from tests.exchange.transformers_folders import folder_of_type
from tests.run_files import journal_of, report_of

pytestmark = pytest.mark.usefixtures("same_threads")
TABLE = "encoder.embeddings.token.weight"
# Weights decay so much, and gradients are clipped so far, that leaving out either is seen.
HARSH = ("training.weight_decay=0.5", "training.learning_rate=0.02", "training.clip_norm=0.05")
SHORT = ("training.steps=8", "training.batch_size=16", "training.evaluate_every=3", "training.log_every=1")
LINE = ("task=classification", "dataset=files", *HARSH, *SHORT, "training.threads=1", "training.precision=fp32")
# Words of the stand-in encoder; those of validation and test do not occur in training.
WORDS = {"train": ("a warm film", "a dull mess"), "validation": ("witty", "empty"), "test": ("number", "nothing")}


@pytest.fixture
def trained_rows(monkeypatch):
    """Return a function that sets which rows are trained, also of a small table: those that occur, or all.

    The table is kept in a file meanwhile, as a large one is.
    """

    def choose(which):
        fewest = {"occurring": 1, "all": 10**9}[which]
        monkeypatch.setattr(occurring_rows, "FEWEST_LEFT_OUT", fewest)
        monkeypatch.setattr(occurring_rows, "LEAST_SHARE_LEFT_OUT", 0.0)
        monkeypatch.setattr(tensor_files, "WORTH_SETTING_ASIDE", 0)

    return choose


@pytest.fixture
def files(shipped, tmp_path):
    """Write rows of each split, and return the settings that read them."""
    for name, words in WORDS.items():
        lines = [f"{words[row % 2]} {'a ' * (row % 5)},{'no' if row % 2 else 'yes'}" for row in range(48)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")
    return tuple(f"dataset.{name}={tmp_path / name}.csv" for name in WORDS)


@pytest.fixture
def both(command, trained_rows, files):
    """Train a command line on all rows of the table and on those that occur: in the folders all and occurring."""

    def train(*settings):
        for which in ("all", "occurring"):
            trained_rows(which)
            command("finetune", *LINE, *files, "baselines=false", "training.keep=last", *settings, f"run_dir={which}")

    return train


def weights_of(folder):
    return safetensors.torch.load_file(f"{folder}/model/model.safetensors")


def assert_same(one, other, rtol=2e-5):
    """Assert that two runs have the same weights, losses, norms of gradients and scores, but for rounding."""
    mine, theirs = weights_of(one), weights_of(other)
    assert mine.keys() == theirs.keys()
    for name, weight in mine.items():
        torch.testing.assert_close(weight, theirs[name], rtol=rtol, atol=1e-6, msg=name)
    for line, same in zip(journal_of(one), journal_of(other), strict=True):
        for name, value in line.items():
            assert same[name] == (pytest.approx(value, rel=1e-4) if isinstance(value, float) else value), name
    assert report_of(one)["model"] == report_of(other)["model"]
    loss = report_of(other)["splits"]["test"]["loss"]
    assert report_of(one)["splits"]["test"]["loss"] == pytest.approx(loss, rel=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("training.layer_decay=0.5", "training.schedule=linear", "training.warmup=0.4"),
        ("training.optimizer=muon",),
        ("training.precision=bf16",),
        ("training.accumulate=2", "training.weight_decay=0"),
    ],
    ids=["adamw", "layer-wise rates", "muon", "bf16", "micro-batches without decay"],
)
def test_the_model_is_that_of_training_the_whole_table(both, shipped, settings):
    both(*settings)
    assert_same("occurring", "all")
    assert any(line.get("gradient_norm", 0) > 0.05 for line in journal_of("all")), "gradients are clipped"
    before = safetensors.torch.load_file(shipped / "model.safetensors")[TABLE]
    changed = (weights_of("occurring")[TABLE] != before).all(dim=1)
    if "training.weight_decay=0" in settings:
        assert changed.sum() < len(before) / 2
    else:
        assert changed.sum() >= len(before) - 1, "all are decayed, but padding is zero"


def test_a_checkpoint_holds_the_rows_that_occur_and_their_ids(both):
    both("training.keep_state=true")
    step = "checkpoints/step-8/model.safetensors"
    whole, small = safetensors.torch.load_file(f"all/{step}"), safetensors.torch.load_file(f"occurring/{step}")
    ids = small["encoder.embeddings.token.ids"]
    assert len(ids) == len(small[TABLE]) < len(whole[TABLE]) / 2
    torch.testing.assert_close(small[TABLE], whole[TABLE][ids])
    state = torch.load("occurring/checkpoints/step-8/state.pt", weights_only=True)
    assert max(moment.get("exp_avg").shape[0] for moment in state["optimizer"]["state"].values()) < len(whole[TABLE])


@pytest.mark.parametrize("rows_of_the_rest", ["occurring", "all"])
def test_a_run_resumes_as_if_it_had_never_stopped(
    command, stop_after, trained_rows, files, rows_of_the_rest, monkeypatch
):
    line = ("finetune", *LINE, *files, "baselines=false", "training.keep=best")
    trained_rows(rows_of_the_rest)
    command(*line, "run_dir=whole")
    trained_rows("occurring" if rows_of_the_rest == "occurring" else "all")
    stop_after(5)
    with pytest.raises(Interrupted):
        command(*line, "run_dir=run")
    stop_after(-1)
    trained_rows("occurring")
    command("finetune", "resume=run")
    if rows_of_the_rest == "occurring":
        differing = [
            name for name, weight in weights_of("run").items() if not torch.equal(weight, weights_of("whole")[name])
        ]
        assert not differing
        assert journal_of("run") == journal_of("whole")
    else:  # the checkpoint has the whole table
        assert_same("run", "whole")


def test_a_checkpoint_with_the_rows_of_other_texts_is_refused(command, stop_after, trained_rows, files, tmp_path):
    trained_rows("occurring")
    stop_after(5)
    with pytest.raises(Interrupted):
        command("finetune", *LINE, *files, "baselines=false", "run_dir=run")
    stop_after(-1)
    newest = checkpoints(tmp_path / "run" / "checkpoints")[-1]
    weights = safetensors.torch.load_file(newest / "model.safetensors")
    weights["encoder.embeddings.token.ids"][-1] += 1
    safetensors.torch.save_file(weights, newest / "model.safetensors")
    manifest = json.loads((newest / "manifest.json").read_text())
    from encoderlab.system.files import sha256_of

    manifest["sha256"]["model.safetensors"] = sha256_of(newest / "model.safetensors")
    (newest / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="does not match the run's config: .*rows of other texts"):
        command("finetune", "resume=run")


def test_the_head_alone_leaves_the_table_as_it_was(command, trained_rows, shipped, tmp_path):
    for name in ("train", "validation", "test"):
        rows = [f"{('a warm film', 'a dull mess')[row % 2]} {'a ' * (row % 7)},{row % 2}" for row in range(80)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    splits = [f"dataset.{name}={name}.csv" for name in ("train", "validation", "test")]
    too_fast = ("training.learning_rate=0.9", "training.weight_decay=0.5", "training.epochs=2")  # nothing is learned
    trained_rows("occurring")
    command("finetune", "task=classification", "dataset=files", *splits, *too_fast, "baselines=false", "run_dir=run")
    assert report_of("run")["checkpoint"]["head_alone"]["kept"]
    before = safetensors.torch.load_file(shipped / "model.safetensors")[TABLE]
    assert torch.equal(weights_of("run")[TABLE], before)


def test_a_dry_run_and_a_run_say_how_many_rows_are_trained(command, trained_rows, files, capsys):
    trained_rows("occurring")
    command("finetune", *LINE, *files, "dry_run=true")
    said = capsys.readouterr().out
    assert "rows of the token table are trained, those that occur" in said
    trained_rows("all")
    command("finetune", *LINE, *files, "dry_run=true")
    parameters = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Parameters")]
    assert parameters == [line for line in said.splitlines() if line.startswith("Parameters")]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["electra", "xlm-roberta", "mpnet", "modernbert", "albert", "deberta-v2"])
def test_encoders_of_every_family_train_the_rows_that_occur(both, tmp_path, family):
    write = folder_of_type if family in ("albert", "deberta-v2") else folder_of
    write(family, tmp_path / "encoder")
    both(f"init_from={tmp_path / 'encoder'}", "training.learning_rate=0.002")
    assert_same("occurring", "all", rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["regression", "multilabel", "pairs", "tagging"])
def test_every_kind_of_task_trains_the_rows_that_occur(command, trained_rows, shipped, tmp_path, kind):
    name = {"pairs": "classification"}.get(kind, kind)
    path = tmp_path / ("rows.conll" if kind == "tagging" else "rows.csv")
    header, row = {
        "regression": ("text,label", "a warm film {number},{n}"),
        "multilabel": ("text,label", 'a dull mess {number},"{n}"'),
        "pairs": ("text,text_pair,label", "a warm film {number},a dull mess,{n}"),
        "tagging": ("", "warm B-X\ndull O\nfilm{n} O\n"),
    }[kind]
    lines = [row.format(n=number % 3, number=number) for number in range(90)]
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    pair = ("dataset.text_pair=text_pair",) if kind == "pairs" else ()
    line = ("finetune", f"task={name}", "dataset=files", f"dataset.path={path}", *pair, "dataset.test_fraction=0.2")
    for which in ("all", "occurring"):
        trained_rows(which)
        command(*line, *HARSH, *SHORT, "training.precision=fp32", "training.keep=last", "training.threads=1",
                "baselines=false", f"run_dir={which}")  # fmt: skip
    assert_same("occurring", "all", rtol=1e-3)
