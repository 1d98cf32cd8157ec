"""The files of a Transformers folder: weights of any precision, in one file or several, and damage named in one line."""

import json

import pytest
import safetensors.torch
import torch

from encoderlab.errors import DataError
from encoderlab.exchange.huggingface import read_huggingface
from encoderlab.exchange.weights import COMPACT, read_weights
from tests.exchange.bert_folders import assert_read_as_before, rewrite, saved, stored, theirs_of


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_other_precisions_become_float32(bert, dtype):
    weights = {name: weight.to(dtype) for name, weight in stored(bert).items()}
    rewrite(bert, weights)
    found = read_huggingface(bert).weights["encoder.embeddings.token.weight"]
    assert found.dtype == torch.float32
    assert torch.equal(found, weights["bert.embeddings.word_embeddings.weight"].float())


def test_sharded_weights_are_merged(bert):
    def cut(folder):
        weights = stored(folder)
        (folder / "model.safetensors").unlink()
        for number in (0, 1):
            part = {name: weight for place, (name, weight) in enumerate(weights.items()) if place % 2 == number}
            safetensors.torch.save_file(part, folder / f"model-{number}.safetensors")
        placed = {name: f"model-{place % 2}.safetensors" for place, name in enumerate(weights)}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))

    assert_read_as_before(bert, cut)


def half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def pickled(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"anything")


def index_of(content):
    def write(folder):
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors.index.json").write_text(json.dumps(content))

    return write


def as_integers(folder):
    weights = stored(folder)
    weights["bert.pooler.dense.bias"] = weights["bert.pooler.dense.bias"].to(torch.int8)
    rewrite(folder, weights)


def twice(folder):
    weights = stored(folder)
    weights["pooler.dense.bias"] = weights["bert.pooler.dense.bias"]
    rewrite(folder, weights)


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (pickled, r"has its weights only as pytorch_model\.bin, .* Allowed: model\.safetensors\. .*save_pretrained"),
        (lambda folder: (folder / "model.safetensors").unlink(), r"has no weights\. Allowed: model\.safetensors"),
        (lambda folder: half(folder / "model.safetensors"), r"model\.safetensors is damaged"),
        (lambda folder: half(folder / "config.json"), r"config\.json is damaged"),
        (lambda folder: (folder / "config.json").write_text("[]"), r"config\.json is damaged: it is not an object"),
        (lambda folder: (folder / "config.json").unlink(), r"There is no config\.json in .*save_pretrained"),
        (index_of({"weight_map": {"a": "../model.safetensors"}}), r"weight_map names no files next to it"),
        (index_of({"weight_map": {"a": "pytorch_model.bin"}}), r"weight_map names no files next to it"),
        (index_of({"weight_map": {"a": "gone.safetensors"}}), r"gone\.safetensors is damaged: No such file"),
        (as_integers, r"bert\.pooler\.dense\.bias is of type torch\.int8"),
        (twice, r"has two weights named bert\.pooler\.dense\.bias"),
    ],
)
def test_an_unreadable_folder_is_refused_in_one_line(bert, damage, line):
    damage(bert)
    with pytest.raises(DataError, match=line) as refused:
        read_huggingface(bert)
    assert str(bert) in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("scale", [lambda scale: None, lambda scale: scale[1:], lambda scale: scale.int()])
def test_compact_storage_is_read_as_float32_and_refused_without_a_scale_for_each_row(tmp_path, scale):
    """Store as scripts/make_encoder does: 8-bit rows with a scale each, everything else in 16 bits."""
    file, draw = tmp_path / "model.safetensors", torch.Generator().manual_seed(0)
    table, bias = torch.randn(7, 16, generator=draw), torch.randn(16, generator=draw).half()
    scales = table.abs().amax(1) / 127
    whole = {"table": (table / scales[:, None]).round().to(torch.int8), "table.scale": scales, "bias": bias}
    safetensors.torch.save_file(whole, file, COMPACT)
    read = read_weights(file)
    assert read.keys() == {"table", "bias"} and torch.equal(read["bias"], bias.float())
    assert read["table"].dtype == torch.float32 and ((read["table"] - table).abs() <= 0.501 * scales[:, None]).all()
    damaged = {name: weight for name, weight in (whole | {"table.scale": scale(scales)}).items() if weight is not None}
    safetensors.torch.save_file(damaged, file, COMPACT)
    with pytest.raises(DataError, match="is damaged: .*table"):
        read_weights(file)


@pytest.mark.parametrize(
    ("architecture", "lost", "named"),
    [
        ("BertForSequenceClassification", "classifier.", r"classifier\.weight"),
        ("BertForTokenClassification", "classifier.", r"classifier\.weight"),
        ("DistilBertForSequenceClassification", "classifier.", r"classifier\.weight"),
        ("BertForMaskedLM", "cls.predictions.", r"cls\.predictions\.transform\.dense\.weight"),
        ("DistilBertForMaskedLM", "vocab_", r"vocab_transform\.weight"),
        ("BertForPreTraining", "cls.predictions.", r"cls\.predictions\.transform\.dense\.weight"),
        ("BertForPreTraining", "cls.seq_relationship.", r"cls\.seq_relationship\.weight"),
        ("BertForSequenceClassification", "bert.pooler.", r"bert\.pooler\.dense"),
        ("BertForMaskedLM", "bert.encoder.layer.1.output.", r"bert\.encoder\.layer\.1\.output"),
    ],
)
def test_weights_that_the_named_architecture_needs_are_never_drawn_at_random(tmp_path, architecture, lost, named):
    folder = saved(theirs_of(architecture), tmp_path)
    rewrite(folder, {name: weight for name, weight in stored(folder).items() if not name.startswith(lost)})
    with pytest.raises(DataError, match=named):
        read_huggingface(folder)
