"""Commands on a device with little memory: training continues in smaller parts, with the same predictions and scores."""

import shutil

import numpy as np
import pytest
import torch

from encoderlab.network.encoder import Encoder
from encoderlab.training.batches import MemoryTooSmallError


@pytest.fixture
def little_memory(monkeypatch):
    """A device with memory for so many tokens at a time, padding included."""
    encode, refused = Encoder.encode, []

    def leave(tokens):
        def encode_in_little(encoder, input_ids, *further, **named):
            if input_ids.numel() > tokens:
                refused.append(input_ids.numel())
                raise torch.OutOfMemoryError("CUDA out of memory")
            return encode(encoder, input_ids, *further, **named)

        monkeypatch.setattr(Encoder, "encode", encode_in_little)
        return refused

    return leave


def predicted(command, run, rows):
    command("predict", f"run={run}", "input=texts.csv", f"output={rows}", "probabilities=all")
    return np.genfromtxt(rows, delimiter=",", skip_header=1, usecols=(-2, -1))


@pytest.fixture
def texts(tmp_path):
    lines = ["text", *("()" * (1 + n % 9) for n in range(60))]
    (tmp_path / "texts.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_predictions_are_the_same_without_a_message(command, brackets_run, texts, little_memory, tmp_path, capsys):
    whole = predicted(command, brackets_run, tmp_path / "whole.csv")
    errors = capsys.readouterr().err
    refused = little_memory(100)
    assert predicted(command, brackets_run, tmp_path / "halves.csv") == pytest.approx(whole, abs=1e-5)
    assert refused
    assert capsys.readouterr().err == errors.replace("whole.csv", "halves.csv")


def test_vectors_are_the_same_with_little_memory(command, brackets_run, texts, little_memory, tmp_path):
    command("embed", f"run={brackets_run}", "input=texts.csv", "output=whole.npy")
    refused = little_memory(100)
    command("embed", f"run={brackets_run}", "input=texts.csv", "output=halves.npy")
    assert refused
    assert np.load(tmp_path / "halves.npy") == pytest.approx(np.load(tmp_path / "whole.npy"), abs=1e-5)


def test_a_single_text_that_does_not_fit_is_reported(command, brackets_run, little_memory):
    little_memory(3)
    with pytest.raises(MemoryTooSmallError, match="too small for a batch of 1 x 12 tokens"):
        command("predict", f"run={brackets_run}", "text=()()()()()")


@pytest.mark.parametrize("kind", ["train", pytest.param("pretrain", marks=pytest.mark.slow)])
def test_a_training_run_continues_in_smaller_micro_batches(command, little_memory, tmp_path, kind, capsys):
    documents = "\n\n".join(" ".join(f"word{n % 7} tree{n % 5} house{n % 3}." for _ in range(4)) for n in range(40))
    (tmp_path / "documents.txt").write_text(documents, encoding="utf-8")
    data = {
        "train": ("task=brackets", "dataset.limit=200"),
        "pretrain": ("dataset=files", "dataset.path=documents.txt", "tokenizer.vocabulary_size=100", "baselines=false"),
    }[kind]
    little = (
        "model.n_layers=1",
        "model.d_model=16",
        "model.n_heads=2",
        "model.max_length=24",
        "training=smoke",
        "training.threads=1",
    )
    refused = little_memory(75)
    command(kind, *data, *little, "training.accumulate=null", "run_dir=run")
    assert refused
    errors = capsys.readouterr().err
    assert "encoderlab: out of memory; " in errors


@pytest.mark.slow
def test_an_explicit_accumulation_is_not_changed(command, little_memory, tmp_path):
    little_memory(75)
    little = ("model.n_layers=1", "model.d_model=16", "model.n_heads=2", "training=smoke", "training.threads=1")
    with pytest.raises(MemoryTooSmallError, match="in 1 micro-batch. Set training.accumulate=2"):
        command("train", "task=brackets", "dataset.limit=200", *little, "training.accumulate=1", "run_dir=run")


@pytest.mark.slow
def test_a_resumed_run_keeps_its_smaller_micro_batches(command, little_memory, stopped, capsys):
    little_memory(75)
    little = ("model.n_layers=1", "model.d_model=16", "model.n_heads=2", "training=smoke", "training.threads=1")
    stopped("task=brackets", "dataset.limit=200", *little, "run_dir=run", step=20)
    assert "out of memory; " in capsys.readouterr().err
    command("train", "resume=run")
    assert "out of memory; " not in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_that_was_killed_before_its_first_checkpoint_uses_less_memory_too(
    command, little_memory, stopped, capsys
):
    little = ("model.n_layers=1", "model.d_model=16", "model.n_heads=2", "training=smoke", "training.threads=1")
    stopped("task=brackets", "dataset.limit=200", *little, "run_dir=run", step=20)
    shutil.rmtree("run/checkpoints")
    little_memory(75)
    command("train", "resume=run")
    assert "out of memory; " in capsys.readouterr().err
