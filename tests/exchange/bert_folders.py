"""Folders of Transformers models with random weights, and our own models exported to such folders."""

import json
from pathlib import Path

import safetensors.torch
import torch
import transformers

from encoderlab.exchange.config_json import HuggingFaceModel
from encoderlab.exchange.huggingface import read_huggingface, to_huggingface
from encoderlab.network.config import HeadSizes, ModelConfig, Pooling
from encoderlab.network.heads import EncoderWithHeads

VOCABULARY = 13


HEADS = {
    "AutoModelForSequenceClassification": HeadSizes(sequence_classes=3),
    "AutoModelForTokenClassification": HeadSizes(token_classes=3),
    "AutoModelForMaskedLM": HeadSizes(vocabulary=True),
    "BertForPreTraining": HeadSizes(sequence_classes=2, vocabulary=True),
    "AutoModel": HeadSizes(),
}


def theirs_of(
    architecture, *, n_layers=2, n_heads=2, width=4, d_ff=24, max_length=12, relu=False, tied=True, seed=0, **more
):
    """Return a Transformers model with random weights, including biases and norms, which usually start at 0 and 1."""
    torch.manual_seed(seed)
    activation = "relu" if relu and "Masked" not in architecture and "Pre" not in architecture else "gelu"
    same = {
        "vocab_size": VOCABULARY,
        "max_position_embeddings": max_length,
        "tie_word_embeddings": tied,
        "num_labels": 3,
        **more,
    }
    if architecture.startswith("Distil"):
        sizes = {
            "n_layers": n_layers,
            "n_heads": n_heads,
            "dim": n_heads * width,
            "hidden_dim": d_ff,
            "activation": activation,
        }
        config = transformers.DistilBertConfig(**sizes, **same)
    else:
        names = ("num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size", "hidden_act")
        sizes = dict(zip(names, (n_layers, n_heads, n_heads * width, d_ff, activation), strict=True))
        config = transformers.BertConfig(**sizes, **same)
    model = getattr(transformers, architecture)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model


def saved(model, folder, **options):
    model.save_pretrained(folder, **options)
    return Path(folder)


def drawn(heads, seed=0, **settings):
    """Return a model of ours with random weights."""
    config = ModelConfig(
        **{"d_model": 8, "d_ff": 12, "max_length": 12, "dropout": 0.0, "pooling": Pooling.pooler, **settings}
    )
    torch.manual_seed(seed)
    model = EncoderWithHeads(config, VOCABULARY, 0, heads).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return config, model


def exported(config, heads, weights, folder, labels=("sad", "nützlich", "glad")):
    """Write a Transformers folder as `encoderlab export` does, but without the tokenizer."""
    classes = heads.sequence_classes or heads.token_classes or 0
    named = list(labels)[:classes]
    fields, theirs = to_huggingface(HuggingFaceModel(config, heads, weights, named, VOCABULARY), pad_id=0)
    (folder / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    safetensors.torch.save_file(theirs, folder / "model.safetensors", metadata={"format": "pt"})
    return fields, theirs


def stored(folder):
    return safetensors.torch.load_file(folder / "model.safetensors")


def rewrite(folder, weights=None, **fields):
    """Change the folder's weights or values of its config.json (None removes the key)."""
    if weights is not None:
        safetensors.torch.save_file(
            {name: weight.clone().contiguous() for name, weight in weights.items()}, folder / "model.safetensors"
        )
    path = folder / "config.json"
    content = json.loads(path.read_text(encoding="utf-8")) | fields
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}), encoding="utf-8")


def assert_read_as_before(folder, change):
    before = read_huggingface(folder).weights
    change(folder)
    after = read_huggingface(folder).weights
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
