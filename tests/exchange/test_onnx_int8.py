"""Quantization of a graph: smaller weights, nearly the same outputs, and no messages."""

import logging

import numpy as np
import pytest
from numpy.testing import assert_allclose

from encoderlab.exchange.onnx_int8 import write_int8

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

WIDTH = 64


@pytest.fixture
def graph(tmp_path):
    """Return a graph of a table and a matrix product, with an outdated shape."""
    helper, draw = onnx.helper, np.random.default_rng(0)
    weights = {
        "table": draw.normal(size=(50, WIDTH)),
        "weight": draw.normal(size=(WIDTH, WIDTH)) * np.logspace(-2, 1, WIDTH),
    }
    stored = [onnx.numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["read"]),
        helper.make_node("MatMul", ["read", "weight"], ["out"]),
    ]
    ids = helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["rows"])
    out = helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, ["rows", WIDTH])
    stale = [helper.make_tensor_value_info("read", onnx.TensorProto.FLOAT, [3, 5])]
    made = helper.make_model(
        helper.make_graph(nodes, "g", [ids], [out], stored, value_info=stale),
        opset_imports=[helper.make_opsetid("", 20)],
    )
    made.ir_version = 10
    onnx.save(made, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def outputs(path):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"ids": np.arange(50)})[0]


def test_a_quarter_of_the_size_gives_nearly_the_same_outputs(graph, tmp_path, capfd):
    level = logging.getLogger().level
    exact = outputs_without_stale_shapes(graph)
    write_int8(graph, tmp_path / "small.onnx")
    assert (tmp_path / "small.onnx").stat().st_size < 0.45 * graph.stat().st_size
    found = outputs(tmp_path / "small.onnx")
    assert_allclose(found, exact, atol=0.03 * np.abs(exact).max())
    assert np.abs(found - exact).max() > 0
    assert capfd.readouterr() == ("", "") and logging.getLogger().level == level


def outputs_without_stale_shapes(path):
    model = onnx.load(path)
    weights = {one.name: onnx.numpy_helper.to_array(one) for one in model.graph.initializer}
    return weights["table"] @ weights["weight"]


def test_each_channel_has_a_scale_and_small_ones_stay_exact(graph, tmp_path):
    exact = outputs_without_stale_shapes(graph)
    write_int8(graph, tmp_path / "small.onnx")
    errors = np.abs(outputs(tmp_path / "small.onnx") - exact).max(0) / np.abs(exact).max(0)
    assert errors.max() < 0.05, "one scale for all would lose the smallest channels"
