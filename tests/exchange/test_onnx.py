"""A model as an ONNX graph: the same outputs in onnxruntime for every architecture and any batch, or a refusal."""

import pytest
import torch

from encoderlab.errors import DataError
from encoderlab.exchange.onnx import WholeModel, largest_difference, write_graph
from encoderlab.network.config import Activation, Norm, NormPosition, Pairs, Pooling, Positions

onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
pytestmark = pytest.mark.usefixtures("symbolic_sizes")

MODERN = {
    "n_layers": 2,
    "positions": Positions.rotary,
    "norm": Norm.rms,
    "norm_position": NormPosition.pre,
    "activation": Activation.geglu,
    "bias": False,
    "pooling": Pooling.mean,
    "segments": 0,
}
ODD = {
    "positions": Positions.sinusoidal,
    "activation": Activation.relu,
    "pooling": Pooling.relu_pooler,
    "d_head": 6,
}
SHAPES = {
    "modern": (MODERN | {"token_classes": None}, ["logits"]),
    "notebook": (ODD | {"token_classes": None}, ["logits"]),
    "pretrained": (
        {
            "n_layers": 2,
            "positions": Positions.learned,
            "pooling": Pooling.pooler,
            "vocabulary": True,
            "token_classes": None,
        },
        ["last_hidden_state", "logits", "sequence_logits"],
    ),
    "pairs": ({"n_layers": 2, "pooling": Pooling.mean, "pairs": Pairs.separate, "token_classes": None}, ["logits"]),
    "no head": ({"n_layers": 1, "sequence_classes": None, "token_classes": None}, ["last_hidden_state"]),
}


def with_random_head(model):
    """Give the model random weights, even in the head that starts at zero."""
    if model.separates_pairs:
        torch.nn.init.normal_(model.sequence_head.weight)
    return model


@pytest.fixture(
    scope="module",
    params=["no head", *(pytest.param(name, marks=pytest.mark.slow) for name in SHAPES if name != "no head")],
)
def written(request, make_model, tmp_path_factory, symbolic_sizes):
    """Write a model of each architecture; return it with its graph and the names of its outputs."""
    settings, outputs = SHAPES[request.param]
    whole = WholeModel(with_random_head(make_model(**settings)).eval()).eval()
    path = tmp_path_factory.mktemp("graph") / "model.onnx"
    write_graph(whole, path)
    return whole, path, outputs


def test_every_architecture_gives_the_same_outputs_for_every_batch_size_and_length(written):
    whole, path, outputs = written
    assert whole.outputs == outputs
    assert largest_difference(whole, path, 12, 13) < 1e-5
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [given.name for given in session.get_inputs()] == whole.inputs
    assert all(given.shape == ["batch", "length"] for given in session.get_inputs())
    assert [given.name for given in session.get_outputs()] == outputs
    assert path.parent.glob("*").__next__() == path


def test_a_graph_is_written_for_onnxruntime_1_17_and_later(written):
    import onnx

    _, path, _ = written
    graph = onnx.load(path)
    opsets = {one.domain: one.version for one in graph.opset_import}
    assert graph.ir_version <= 9 and opsets[""] <= 20


def test_a_graph_with_other_weights_is_noticed(written, make_model):
    whole, path, _ = written
    before = {name: weight.clone() for name, weight in whole.state_dict().items()}
    for weight in whole.parameters():
        weight.data.mul_(1.01)
    with pytest.raises(DataError, match="The ONNX graph is wrong"):
        largest_difference(whole, path, 12, 13)
    whole.load_state_dict(before)
