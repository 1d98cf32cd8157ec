"""A graph used like a model: the same logits from any batch, split into parts that fit, and refused for everything
else.
"""

import numpy as np
import pytest
import torch

from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.exchange import onnx
from encoderlab.exchange.onnx import GraphModel, WholeModel
from encoderlab.tasks.classification import ClassificationConfig
from encoderlab.tasks.tagging import TaggingConfig
from encoderlab.tasks.task import Windows
from tests.runs.small_model import model_of

pytestmark = pytest.mark.usefixtures("same_threads")
TASKS = {
    "texts": ClassificationConfig(name="digits"),
    "windows": ClassificationConfig(name="digits", windows=Windows.mean),
    "words": TaggingConfig(name="digits"),
}


class Session:
    """A stand-in for onnxruntime's session: it computes what a model's graph would, and counts its inputs."""

    def __init__(self, model):
        with_vectors = model.sequence_head is not None
        self.whole, self.tokens = WholeModel(model.eval(), with_vectors=with_vectors).eval(), []

    def get_inputs(self):
        return [type("Input", (), {"name": name}) for name in self.whole.inputs]

    def get_outputs(self):
        return [type("Output", (), {"name": name}) for name in self.whole.outputs]

    def run(self, outputs, columns):
        self.tokens.append(columns["input_ids"].size)
        with torch.no_grad():
            values = self.whole(*(torch.from_numpy(columns[name]) for name in self.whole.inputs))
        return [dict(zip(self.whole.outputs, values, strict=True))[name].numpy() for name in outputs]


@pytest.fixture
def opened(monkeypatch, tmp_path):
    """Return a model with its graph and its session, for texts or words."""

    def make(kind):
        model = model_of(TASKS[kind])
        session = Session(model.network)
        monkeypatch.setattr(onnx, "_session", lambda path, threads: session)
        return model, GraphModel(tmp_path / "model.onnx", model.network), session

    return make


@pytest.mark.parametrize("kind", TASKS)
def test_predictions_are_those_of_the_model_for_rows_of_any_length(opened, kind, monkeypatch):
    monkeypatch.setattr(onnx, "TOKENS_AT_A_TIME", 30)
    model, graph, session = opened(kind)
    texts = ["0", "0123", "ab" * 9, "9876543", "1b"] * 3
    examples = [WordsExample(tuple(text)) if kind == "words" else TextExample(text) for text in texts]
    rows = model.rows(examples)
    batch = rows.prepare(rows.gather(np.arange(len(rows)), model.tokenizer.pad_id))
    with torch.no_grad():
        wanted, found = model.network(batch), graph(batch)
    for name in ("sequence_logits", "token_logits", "sequence_vectors"):
        mine, its = getattr(wanted, name), getattr(found, name)
        assert (mine is None and its is None) or torch.allclose(mine, its, atol=1e-5)
    assert len(session.tokens) > 1 and max(session.tokens) <= 30
    assert graph.n_parameters == model.network.n_parameters
