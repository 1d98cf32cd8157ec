"""Every task trains and predicts on a card that is only pretended: no tensor is left behind on the CPU, none is read as
an array on the card, and none is float64 on MPS.
"""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.pretended_card import pretended
from tests.run_files import report_of

FILLERS = ["a", "and", "film", "of", "mess", "with", "witty", "empty"]
SHORT = ("training.precision=fp32", "training.steps=2", "training.threads=1", "training.log_every=1", "baselines=false")
SHAPE = ("model.n_layers=1", "model.d_model=16", "model.n_heads=2", "model.d_ff=32", "model.max_length=24")
FILES = "dataset=files"
FROM_DOCUMENTS = (FILES, "dataset.path=documents.txt", "training.batch_size=4", *SHAPE)
PREDICT = ("predict", "run=run", "input=two.csv", "output=predicted.csv")
LINES = {  # what trains each task, and what then predicts with it
    "pretraining": (("pretrain", *FROM_DOCUMENTS, "tokenizer.vocabulary_size=100"), ()),
    "classification": (("finetune", "two.csv", "task.threshold=f1", "task.class_weights=balanced"), PREDICT),
    "multilabel": (("finetune", "task=multilabel", FILES, "dataset.path=several.csv"), PREDICT),
    "regression": (("finetune", "task=regression", FILES, "dataset.path=numbers.csv"), PREDICT),
    "tagging": (
        ("finetune", "task=tagging", FILES, "dataset.path=tags.jsonl", "dataset.text=words", "dataset.label=labels"),
        ("predict", "run=run", "text=a warm film"),
    ),
    "contrastive": (
        (
            *("pretrain", "task=contrastive", "init_from=mini-en", FILES, "dataset.path=two.csv"),
            *("training.batch_size=32", "task.compared_rows=16"),
        ),
        ("embed", "run=run", "input=two.csv", "output=vectors.npy"),
    ),
    "vectors": (
        (
            *("distill", "task=teacher_vectors", *FROM_DOCUMENTS, "teacher=mini-en", "tokenizer=as_pretrained"),
            "start=embeddings",
        ),
        ("embed", "run=run", "input=two.csv", "output=vectors.npy"),
    ),
}


@pytest.fixture
def rows(tmp_path):
    """Write rows for each task, in whose texts one word tells the label."""
    draw = np.random.default_rng(0)
    signs = ["warm" if row % 3 else "dull" for row in range(120)]
    texts = [" ".join(draw.permutation([*draw.choice(FILLERS, 5), sign])) for sign in signs]
    labels = {
        "two": ["good" if sign == "warm" else "bad" for sign in signs],
        "several": [json.dumps(["good"] * (sign == "warm") + ["odd"] * (row % 2)) for row, sign in enumerate(signs)],
        "numbers": [(sign == "warm") + 0.1 * (row % 3) for row, sign in enumerate(signs)],
    }
    for name, column in labels.items():
        with (tmp_path / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("text", "label"), *zip(texts, column, strict=True)])
    tagged = [text.split() for text in texts]
    lines = [{"words": words, "labels": ["B-x" if word == "warm" else "O" for word in words]} for words in tagged]
    (tmp_path / "tags.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    sentences = [f"{text.capitalize()}." for text in texts]
    paragraphs = [" ".join(sentences[start : start + 3]) for start in range(0, len(sentences), 3)]
    documents = ["\n".join(paragraphs[start : start + 2]) for start in range(0, len(paragraphs), 2)]
    (tmp_path / "documents.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")


@pytest.mark.usefixtures("rows", "shipped", "plots_not_laid_out", "one_thread")
@pytest.mark.parametrize("kind", ["cuda", "mps"])
@pytest.mark.parametrize("task", LINES)
def test_a_task_trains_and_predicts_on_a_card(command, task, kind):
    train, predict = LINES[task]
    with pretended(kind):
        command(*train, *SHORT, "run_dir=run")
        if predict:
            command(*predict)
    environment = json.loads(Path("run/environment.json").read_text(encoding="utf-8"))
    assert environment["hardware"]["device"].startswith(kind)
    assert report_of("run")["checkpoint"]["step"] == 2


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_a_pretended_card_refuses_what_a_card_refuses(kind):
    with pretended(kind):
        here, there = torch.ones(2), torch.ones(2, device=kind)
        assert (here.device.type, there.device.type) == ("cpu", kind)
        assert (there * 2 + torch.ones(())).device == torch.device(kind, 0)
        assert there.cpu().device.type == "cpu" and there.cpu().numpy().tolist() == [1.0, 1.0]
        with pytest.raises(RuntimeError, match="same device"):
            here + there
        with pytest.raises(TypeError, match="numpy"):
            there.numpy()
        if kind == "mps":
            with pytest.raises(TypeError, match="float64"):
                there.double()
        else:
            assert there.double().device == there.device
