"""encoderlab pretrain task=contrastive: texts of one label come nearer, in one set or several, and nothing else moves."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
import yaml

from encoderlab.errors import DataError, SettingError
from encoderlab.models.pretrained import load_pretrained
from encoderlab.network.config import Pairs, Pooling
from encoderlab.system.processes import Interrupted
from tests.run_files import journal_of, report_of

OWN = ("task=contrastive", "init_from=mini-en", "dataset=files", "dataset.path=rows.csv", "training.threads=1")
SHORT = (*OWN, "training.steps=12", "training.learning_rate=0.01", "training.log_every=1")
TOKENS = "encoder.embeddings.token.weight"


@pytest.fixture
def rows(tmp_path, shipped):
    """Write rows of two sets, and some without a label, for runs that start from the stand-in encoder."""
    draw = np.random.default_rng(0)
    signs = {"films": {"good": "warm", "bad": "dull"}, "numbers": {"seven": "7", "ten": "ten", "none": "nothing"}}
    table = [["text", "label", "kind"]]
    for kind, sign_of in signs.items():
        for label, sign in sign_of.items():
            for _ in range(40):
                words = [*draw.choice(["a", "and", "film", "of", "mess", "with", "witty"], 4), sign]
                table.append([" ".join(draw.permutation(words)), label, kind])
    table += [[" ".join(draw.choice(["a", "film", "empty", "number"], 3 + n % 9)), "", ""] for n in range(40)]
    with (tmp_path / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(table)


SETS = ("task.set_column=kind", "dataset.on_missing=keep", "training.batch_size=32", "task.compared_rows=16")


def weights(folder):
    return safetensors.torch.load_file(f"{folder}/model/model.safetensors")


@pytest.mark.slow
def test_texts_of_one_label_come_nearer_and_other_commands_start_from_the_run(command, rows, tmp_path):
    command("pretrain", *SHORT, *SETS, "training.steps=60", "run_dir=run")
    report = report_of("run")
    scores = report["splits"]["validation"]
    assert scores["label_accuracy"] > scores["label_accuracy_before"] + 0.1
    assert -1 <= scores["sequence_cosine"] <= 1
    assert report["main_score"] == "label_accuracy" and report["command"] == "pretrain"
    assert Path("run/report.html").is_file()
    card = Path("run/model/README.md").read_text(encoding="utf-8")
    assert "feature-extraction" in card and "encoderlab embed" in card and "Predicts a number" not in card
    logged = [line for line in journal_of("run") if "loss_contrast" in line]
    assert {"loss_teacher_sequence", "loss_teacher_token"} <= logged[0].keys()
    assert np.mean([line["loss_contrast"] for line in logged[-9:]]) < logged[0]["loss_contrast"]

    # It is an encoder whose first token is the vector of a text.
    start = load_pretrained("run")
    assert (start.shape.pooling, start.shape.pairs, start.labels) == (Pooling.cls, Pairs.separate, [])
    assert torch.equal(weights("run")[TOKENS], load_pretrained("mini-en").weights[TOKENS].float())
    (tmp_path / "texts.txt").write_text("a warm film\na dull mess\n", encoding="utf-8")
    command("embed", "run=run", "input=texts.txt", "output=vectors.npy")
    command("embed", "run=run", "input=texts.txt", "output=first.npy", "pooling=cls")
    assert np.array_equal(np.load("vectors.npy"), np.load("first.npy"))
    finetune = ("task=classification", "dataset=files", "dataset.path=rows.csv", "dataset.on_missing=drop")
    command("finetune", *finetune, "init_from=run", "training.steps=2", "baselines=false", "run_dir=finetuned")
    assert report_of("finetuned")["init_from"] == "run"
    settings = yaml.safe_load(Path("finetuned/config.yaml").read_text(encoding="utf-8"))
    assert settings["model"]["pooling"] == "cls"
    with pytest.raises(DataError, match="predicts nothing"):
        command("predict", "run=run", "text=film")
    with pytest.raises(DataError, match="cannot be scored without it"):
        command("eval", "run=run")


@pytest.mark.slow
def test_a_stopped_run_continues_as_if_it_had_never_stopped(command, rows, stop_after):
    line = ("pretrain", *SHORT, *SETS, "model.dropout=0.1", "task.compared_labels=2")
    command(*line, "run_dir=whole")
    stop_after(5)
    with pytest.raises(Interrupted):
        command(*line, "run_dir=stopped")
    stop_after(-1)
    command("pretrain", "resume=stopped")
    assert journal_of("stopped") == journal_of("whole")
    assert all(torch.equal(weight, weights("whole")[name]) for name, weight in weights("stopped").items())


def test_a_run_does_not_resume_beside_another_starting_encoder(command, rows, shipped, tmp_path, stop_after):
    mine = shutil.copytree(shipped, tmp_path / "mine")
    stop_after(5)
    with pytest.raises(Interrupted):
        command("pretrain", *SHORT, f"init_from={mine}", "dataset.on_missing=drop", "run_dir=run")
    stop_after(-1)
    content = (mine / "model.safetensors").read_bytes()
    (mine / "model.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (mine / "manifest.json").unlink()
    with pytest.raises(DataError, match=f"init_from={mine} have changed"):
        command("pretrain", "resume=run")


def test_one_set_without_other_texts_needs_nothing_but_a_file(command, rows):
    command("pretrain", *SHORT, "dataset.on_missing=drop", "run_dir=run")
    environment = json.loads(Path("run/environment.json").read_text(encoding="utf-8"))
    assert environment["dataset"]["splits"]["train"]["unlabelled"] == 0
    assert "loss_teacher_token" in journal_of("run")[0]


@pytest.mark.parametrize(
    ("header", "rows_of_file", "more", "error", "named"),
    [
        ("text,label", ["warm {n},a", "cold {n},a"], (), DataError, "only the label 'a'"),
        ("text,label", ["warm {n},"], ("dataset.on_missing=keep",), DataError, "no labels"),
        ("text,label", ["warm {n},a", "cold {n},"], ("dataset.on_missing=error",), DataError, "has no label"),
        ("text,pair,label", ["warm {n},film,a", "cold {n},book,b"], ("dataset.text_pair=pair",), DataError, "pairs"),
        ("text,label,set", ["warm {n},a,x", "cold {n},b,y"], ("task.set_column=set",), DataError, "set 'x'"),
        ("text,label,set", ["warm {n},a,x", "cold {n},b,x"], ("task.set_column=sets",), DataError, "'sets'"),
        ("text,label", ["warm {n},a", "cold {n},b"], ("training.accumulate=3",), SettingError, "task.compared_rows"),
        ("text,label", ["warm {n},a", "cold {n},b"], ("model.pooling=pooler",), SettingError, "model.pooling=pooler"),
        ("text,label", ["warm {n},a", "cold {n},b"], ("init_from=null", "model=tiny"), SettingError, "init_from="),
    ],
)
def test_rows_and_settings_that_do_not_fit_are_refused(
    command, shipped, tmp_path, header, rows_of_file, more, error, named
):
    table = [row.format(n=n) for n in range(20) for row in rows_of_file]
    (tmp_path / "rows.csv").write_text("\n".join([header, *table]) + "\n", encoding="utf-8")
    with pytest.raises(error, match=named):
        command("pretrain", *OWN, *more, "dataset.validation_fraction=0.5", "run_dir=run")
    assert not Path("run").exists()
