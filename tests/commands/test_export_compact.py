"""export format=compact: our own folder in less space, opened like any other, with a card that states what that
changes.
"""

import csv
import io
import re

import numpy as np
import pytest
import safetensors.torch
import torch
import transformers

from encoderlab.errors import DataError, SettingError
from encoderlab.runs.models.pretrained import load_pretrained
from encoderlab.runs.models.saved_model import read_model
from encoderlab.system.files import sha256_of


def probabilities(command, capsys, run):
    capsys.readouterr()
    command("predict", f"run={run}", "text=((()))", "threads=1", "precision=fp32")
    return [float(cell) for cell in next(csv.reader(io.StringIO(capsys.readouterr().out.splitlines()[1])))[2:]]


def test_a_compact_run_predicts_as_before(command, brackets_run, tmp_path, capsys):
    before = probabilities(command, capsys, brackets_run)
    command("export", f"run={brackets_run}", "format=compact", "path=small")
    path, summary = capsys.readouterr().out.splitlines()
    assert path == "small"
    assert re.fullmatch(
        r"weights: [\d.]+ MB reduced to [\d.]+ MB; on 8 sentences a vector changes by .*%.*, a probability by .*",
        summary,
    )
    weights = [folder / "model.safetensors" for folder in (brackets_run / "model", tmp_path / "small")]
    assert weights[1].stat().st_size < 0.6 * weights[0].stat().st_size
    assert probabilities(command, capsys, "small") == pytest.approx(before, abs=0.01)
    command("verify", "run=small")
    assert capsys.readouterr().out.startswith("good  model")


def test_a_compact_tagging_run_predicts_words(command, reverse_run, capsys):
    command("export", f"run={reverse_run}", "format=compact", "path=small")
    assert "a probability by at most" in capsys.readouterr().out
    command("predict", "run=small", "text=1 2 3")
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_an_exported_encoder_holds_nothing_else_of_the_run(command, pairs_run, tmp_path, capsys):
    command("export", f"run={pairs_run}", "format=compact", "heads=false", "path=boxes/mine")
    assert "probability" not in capsys.readouterr().out
    folder = tmp_path / "boxes" / "mine"
    assert str(pairs_run.parent) not in (folder / "config.json").read_text(encoding="utf-8")
    stored = safetensors.torch.load_file(folder / "model.safetensors")
    assert all(name.startswith("encoder.") for name in stored)
    saved = read_model(folder)
    assert (saved.config.task.name, saved.config.dataset, saved.labels) == ("mine", None, [])
    assert (saved.config.model.pooling.value, saved.config.model.name) == ("mean", "mine")
    whole = read_model(pairs_run / "model").weights
    assert all(torch.allclose(weight, whole[name], atol=0.01) for name, weight in saved.weights.items())
    assert load_pretrained(str(folder)).heads.sequence_classes is None


def test_an_exported_encoder_gives_the_runs_vectors(command, pairs_run, tmp_path):
    (tmp_path / "texts.txt").write_text("title 3\nbody 5\n", encoding="utf-8")
    command("export", f"run={pairs_run}", "format=compact", "heads=false", "path=mine")
    for run, name in ((pairs_run, "before"), ("mine", "after")):
        command("embed", f"run={run}", "input=texts.txt", f"output={name}.npy")
    before, after = (np.load(tmp_path / f"{name}.npy") for name in ("before", "after"))
    assert 0 < np.abs(before - after).max() < 0.02 * np.abs(before).max()


def test_its_card_has_hashes_and_the_given_text(command, brackets_run, tmp_path):
    (tmp_path / "card.md").write_text("# Mine\n\nAll about it.\n", encoding="utf-8")
    command("export", f"run={brackets_run}", "format=compact", "heads=false", "path=small", "card=card.md")
    card = (tmp_path / "small" / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# Mine\n\nAll about it.\n\n## Storage\n")
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert f"| {name} | `{sha256_of(tmp_path / 'small' / name)}` |" in card


def test_transformers_opens_the_exported_encoder(command, pairs_run):
    command("export", f"run={pairs_run}", "format=huggingface", "heads=false", "path=theirs")
    assert isinstance(transformers.AutoModel.from_pretrained("theirs"), transformers.BertModel)


def test_impossible_exports_are_refused(command, brackets_run, pairs_run, tmp_path):
    with pytest.raises(SettingError, match="heads=false does not work with format=onnx, which writes the heads too"):
        command("export", f"run={brackets_run}", "format=onnx", "heads=false", "path=there")
    with pytest.raises(DataError, match=r"card=nowhere\.md cannot be read: No such file"):
        command("export", f"run={brackets_run}", "format=compact", "card=nowhere.md", "path=there")
    command("export", f"run={pairs_run}", "format=huggingface", "heads=false", "path=theirs")
    with pytest.raises(SettingError, match=r"run=theirs is not an encoderlab run.*Use heads=false"):
        command("export", "run=theirs", "format=compact", "path=there")
    assert not (tmp_path / "there").exists()
