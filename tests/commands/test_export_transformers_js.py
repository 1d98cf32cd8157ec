"""Exported graphs in transformers.js: it opens the folders as they are, and predicts what the run does.

Needs Node, and the library in node_modules of this repository, or of the folder that NODE_MODULES names:
npm install --no-save --ignore-scripts @huggingface/transformers
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from encoderlab.config.commands import OpenRunConfig
from encoderlab.models.folder import open_model
from encoderlab.training.config import Precision

pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(os.environ.get("NODE_MODULES", ROOT / "node_modules")) / "@huggingface" / "transformers"
MODULE = LIBRARY / "dist" / "transformers.node.mjs"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("symbolic_sizes"),
    pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node"),
    pytest.mark.skipif(not MODULE.is_file(), reason=f"there is no {MODULE}: see the head of this file"),
]
PROGRAM = """
const { env, pipeline, AutoTokenizer, AutoModelForSequenceClassification } = await import(process.argv[2]);
const [task, folder, texts] = JSON.parse(process.argv[3]);
env.allowRemoteModels = false;
env.localModelPath = process.cwd() + "/";
let answers = [];
if (task === "pairs") {
  const tokenizer = await AutoTokenizer.from_pretrained(folder);
  const model = await AutoModelForSequenceClassification.from_pretrained(folder);
  for (const [first, second] of texts) {
    const inputs = await tokenizer(first, { text_pair: second, return_token_type_ids: true });
    answers.push((await model(inputs)).logits.tolist()[0]);
  }
} else {
  const read = await pipeline(task, folder);
  const settings = task === "feature-extraction" ? { pooling: "mean" } : { top_k: null };
  for (const text of texts) {
    const answer = await read(text, settings);
    answers.push(task === "feature-extraction" ? answer.tolist()[0] : answer);
  }
}
console.log(JSON.stringify(answers));
"""


def answers_in_node(task, folder, texts):
    """Return what transformers.js answers for each text, with its defaults."""
    arguments = [MODULE.as_uri(), json.dumps([task, folder, texts])]
    done = subprocess.run(
        ["node", "--input-type=module", "-", *arguments], input=PROGRAM, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def opened(run):
    """Return the model of a run, in the precision of its export."""
    return open_model(OpenRunConfig(cache_dir="cache", run=str(run), device="cpu", precision=Precision.fp32, threads=1))


@pytest.fixture(scope="module")
def reviews_run(tmp_path_factory, cache, run_in):
    """A run that was finetuned from the shipped encoder, on texts of up to a dozen tokens."""
    folder = tmp_path_factory.mktemp("reviews")
    praise = ["warm", "wise", "funny", "fresh"]
    blame = ["cold", "long", "dull", "stale"]
    rows = []
    for number in range(160):
        words = praise if number % 2 else blame
        rows.append(f"A {words[number % 4]} film number {number},{'good' if number % 2 else 'bad'}")
    (folder / "reviews.csv").write_text("\n".join(["review,stars", *rows]) + "\n", encoding="utf-8")
    columns = ("dataset.text=review", "dataset.label=stars")
    data = ("task=classification", "dataset=files", f"dataset.path={folder / 'reviews.csv'}", *columns)
    run_in(cache, "finetune", *data, "training.steps=30", "training.threads=1", f"run_dir={folder / 'run'}")
    return folder / "run"


TEXTS = [
    f"{start} {word} film of {number}" for start in ("A", "No") for word in ("wise", "dull") for number in range(30)
]


def test_texts_are_classified_as_by_the_run_in_32_and_in_8_bits(command, reviews_run):
    ours = opened(reviews_run).predict(TEXTS)
    for form, least in (("onnx", 1.0), ("int8", 0.99)):
        command("export", f"run={reviews_run}", f"format={form}", f"path={form}")
        theirs = answers_in_node("text-classification", form, TEXTS)
        agree = [mine["predicted"] == its[0]["label"] for mine, its in zip(ours, theirs, strict=True)]
        assert np.mean(agree) >= least
        if form == "onnx":
            for mine, its in zip(ours, theirs, strict=True):
                assert {one["label"]: one["score"] for one in its} == pytest.approx(mine["probabilities"], abs=1e-4)


def test_texts_much_longer_than_the_training_texts_are_read(command, reviews_run):
    command("export", f"run={reviews_run}", "format=onnx", "path=there")
    (answer,) = answers_in_node("text-classification", "there", ["A wise film. " * 300])
    assert answer[0]["score"] > 0.5


def test_vectors_of_an_encoder_without_heads_are_those_of_embed(command, reviews_run):
    command("export", f"run={reviews_run}", "format=onnx", "heads=false", "path=there")
    theirs = np.array(answers_in_node("feature-extraction", "there", TEXTS[:5]))
    assert np.abs(theirs - opened(reviews_run).embed(TEXTS[:5], "mean")).max() < 1e-4


def test_pairs_are_read_as_pairs(command, pairs_run):
    command("export", f"run={pairs_run}", "format=onnx", "path=there")
    pairs = [("title 1", "body 2"), ("title 3 4", "body")]
    for mine, logits in zip(opened(pairs_run).predict(pairs), answers_in_node("pairs", "there", pairs), strict=True):
        odds = np.exp(logits)
        assert list(odds / odds.sum()) == pytest.approx(list(mine["probabilities"].values()), abs=1e-4)
