"""Labels by thresholds: the package, predict.py and the page's JavaScript choose the same one for any probabilities."""

import json
import shutil
import subprocess

import numpy as np
import pytest
import tokenizers
from tokenizers import models

pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

from encoderlab.apps.exporting import card
from encoderlab.apps.exporting.onnx_predict import prediction
from encoderlab.metrics.texts import predict_from

LABELS = ["billing", "delivery", "fraud", "other"]
THRESHOLDS = [
    {},
    {"fraud": 0.3},
    {"fraud": 0.3, "billing": 0.5},
    {"other": 0.0},
    {"fraud": 1.0},
    dict.fromkeys(LABELS, 0.6),
    {"billing": 0.1, "delivery": 0.2, "fraud": 0.15, "other": 0.9},
]
READ = tokenizers.Tokenizer(models.WordLevel({"a": 0}, unk_token="a")).encode("a")
NODE_PROGRAM = """
const [graphs, logits] = JSON.parse(process.argv[1]);
console.log(JSON.stringify(graphs.map((graph) => logits.map((row) => predictionOf(graph, row).predicted[0]))));
"""


@pytest.fixture(scope="module")
def chosen():
    """Logits, and what the package predicts for them with each of the THRESHOLDS."""
    logits = np.random.default_rng(0).normal(0, 1.5, (200, len(LABELS)))
    odds = np.exp(logits)
    probabilities = odds / odds.sum(1, keepdims=True)
    predicted = []
    for thresholds in THRESHOLDS:
        known = {LABELS.index(label): threshold for label, threshold in thresholds.items()}
        predicted.append([LABELS[id_] for id_ in predict_from(probabilities, known)])
    return logits, predicted


def graph_of(thresholds):
    kind = {"answers_for": "texts", "problem_type": "single_label_classification"}
    return kind | {"id2label": dict(enumerate(LABELS)), "thresholds": thresholds}


def test_a_label_is_predicted_from_its_threshold_on_and_never_below_while_others_are_free():
    probabilities = np.array([[0.35, 0.25, 0.4], [0.5, 0.2, 0.3], [0.1, 0.85, 0.05]])
    assert predict_from(probabilities, {0: 0.3}).tolist() == [0, 0, 1]
    assert predict_from(probabilities, {2: 0.5}).tolist() == [0, 0, 1]
    assert predict_from(probabilities, {0: 0.3, 2: 0.2}).tolist() == [2, 0, 1], "the most times its threshold"


def test_the_program_predicts_what_the_package_predicts(chosen):
    logits, expected = chosen
    for thresholds, labels in zip(THRESHOLDS, expected, strict=True):
        graph = graph_of(thresholds)
        assert [prediction(graph, READ, row)["predicted"] for row in logits] == labels


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node")
def test_the_page_predicts_what_the_package_predicts(chosen):
    logits, expected = chosen
    program = (card.TEMPLATES / "web.js").read_text(encoding="utf-8")
    start = program.index("function predictionOf")
    own = program[start : program.index("\n}\n", start) + 3]
    given = json.dumps([[graph_of(thresholds) for thresholds in THRESHOLDS], logits.tolist()])
    done = subprocess.run(["node", "-e", own + NODE_PROGRAM, "--", given], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected
