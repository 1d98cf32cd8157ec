"""The shipped encoder as users meet it: found by name, offline, verified, and refused in one line if it is damaged."""

import json
import shutil

import numpy as np
import pytest

from encoderlab.errors import DataError
from encoderlab.models.pretrained import load_pretrained

OPENING = {
    "finetune": ["finetune", "task=brackets"],
    "embed": ["embed", "input=texts.txt", "output=vectors.npy"],
    "predict": ["predict", "run=mini-en", "text=fox"],
}


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "texts.txt").write_text("a warm film\na mess\n", encoding="utf-8")


def damage(path):
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("line", OPENING.values(), ids=OPENING)
def test_a_damaged_encoder_is_refused_wherever_it_is_opened(command, shipped, texts, line):
    damage(shipped / "model.safetensors")
    with pytest.raises(
        DataError, match=r"model\.safetensors is damaged: .*its SHA-256 differs.*Reinstall encoderlab \(pip"
    ):
        command(*line)


def test_it_reads_pairs_separately_and_also_starts_runs_on_single_texts(command, shipped, tmp_path):
    rows = "".join(f"a {word} film {n},{word}\n" for n in range(20) for word in ("warm", "dull"))
    (tmp_path / "rows.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    short = ("training.steps=1", "training.threads=1", "baselines=false")
    command("finetune", "task=classification", "dataset=files", "dataset.path=rows.csv", *short, "run_dir=run")
    config = json.loads((tmp_path / "run" / "model" / "config.json").read_text(encoding="utf-8"))
    assert (
        load_pretrained("mini-en").config.model.pairs.value == "separate"
        and config["encoderlab"]["model"]["pairs"] == "joint"
    )


def test_a_path_means_a_folder_of_the_same_name(shipped, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine = shutil.copytree(shipped, tmp_path / "mini-en")
    config = json.loads((mine / "config.json").read_text(encoding="utf-8"))
    config["encoder"]["model"]["dropout"] = 0.5
    (mine / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (mine / "manifest.json").unlink()  # a changed file would be refused as damaged
    assert load_pretrained("mini-en").config.model.dropout == 0.1
    assert load_pretrained("./mini-en").config.model.dropout == 0.5


def test_a_misspelled_name_is_not_looked_up_on_the_hub(command, shipped, no_network):
    with pytest.raises(
        DataError,
        match=r"^init_from=mini_en is neither a shipped encoder nor a folder.*Did you mean init_from=mini-en\?$",
    ):
        command("finetune", "task=brackets", "init_from=mini_en")
    with pytest.raises(DataError, match=r"^run=mini_en does not exist\. Did you mean run=mini-en\?$"):
        command("eval", "run=mini_en")


def test_embed_uses_it_by_default(command, shipped, texts, no_network, tmp_path):
    command("embed", "input=texts.txt", "output=default.npy")
    command("embed", f"run={shipped}", "input=texts.txt", "output=named.npy")
    found = np.load(tmp_path / "default.npy")
    assert found.shape == (2, 16) and np.isfinite(found).all()
    np.testing.assert_array_equal(found, np.load(tmp_path / "named.npy"))


def test_it_predicts_nothing_and_has_no_rows(command, shipped):
    with pytest.raises(DataError, match="mini-en is an encoder without a head and predicts nothing"):
        command("predict", "run=mini-en", "text=fox")
    with pytest.raises(DataError, match="mini-en is a model without a run"):
        command("attention", "run=mini-en")


def test_list_shows_it_and_explains_the_other_choices(command, shipped, capsys):
    command("list", "encoders")
    first, *others = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[1:]]
    assert first == ["mini-en", "A stand-in of drawn weights."]
    assert [name for name, _ in others] == ["outputs/...", "FOLDER", "OWNER/NAME"]
    damage(shipped / "model.safetensors")
    with pytest.raises(DataError, match="is damaged: .*its SHA-256 differs"):
        command("list", "encoders")
