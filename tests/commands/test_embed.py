"""encoderlab embed: the encoder's own vectors, one row for each text in order."""

import io
import json
import sys

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, BertConfig, BertForSequenceClassification

from encoderlab.data.tokenizer_config import WordPieceConfig
from encoderlab.errors import SettingError

TEXTS = [
    "the quick brown fox",
    "",
    "a dog",
    "the lazy dog and the quick fox jump over the brown dog",
    "unheard-of words ☂",
    "fox",
]
PAIRS = [("the quick fox", "a lazy dog"), ("a dog", ""), ("jump over", "the brown dog and the quick brown fox")]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A small BERT of random weights in a folder, as transformers saves it."""
    folder = tmp_path_factory.mktemp("bert")
    tokenizer = WordPieceConfig(vocabulary_size=120).build(lambda: TEXTS * 3, folder / "cache")
    tokenizer.save(folder / "model" / "tokenizer.json")
    torch.manual_seed(0)
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40}
    config = BertConfig(
        vocab_size=tokenizer.vocabulary_size, max_position_embeddings=32, initializer_range=0.3, **sizes
    )
    model = BertForSequenceClassification(config)
    for parameter in model.parameters():  # biases and norms too, which start at 0 and 1
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder / "model")
    return folder / "model"


def theirs(bert, texts, pairs=None):
    """Return Transformers' vectors of all tokens, [texts, longest, d_model], and which tokens are real."""
    inputs = AutoTokenizer.from_pretrained(bert)(
        texts, pairs, padding=True, truncation=True, max_length=32, return_tensors="pt"
    )
    with torch.no_grad():
        hidden = AutoModel.from_pretrained(bert).eval()(**inputs).last_hidden_state
    return hidden.numpy(), inputs["attention_mask"].bool().numpy()


def mean(hidden, real):
    return (hidden * real[:, :, None]).sum(1) / real.sum(1, keepdims=True)


def typed(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_mean_vectors_equal_those_of_transformers_in_the_files_order(command, bert, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "encoderlab.models.inputs.ROWS_AT_A_TIME", 4
    )  # so that some rows share a chunk, and some do not
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    command("embed", f"run={bert}", "input=texts.txt", "output=vectors.npy")
    found = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, mean(*theirs(bert, TEXTS)), atol=1e-5)


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_vectors_after_a_layer_are_those_of_transformers(command, bert, tmp_path, layer):
    inputs = AutoTokenizer.from_pretrained(bert)(TEXTS, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        hidden = AutoModel.from_pretrained(bert).eval()(**inputs, output_hidden_states=True).hidden_states[layer]
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    command("embed", f"run={bert}", "input=texts.txt", "output=vectors.npy", f"layer={layer}")
    found = np.load(tmp_path / "vectors.npy")
    np.testing.assert_allclose(found, mean(hidden.numpy(), inputs["attention_mask"].bool().numpy()), atol=1e-5)
    with pytest.raises(SettingError, match="2 layers"):
        command("embed", f"run={bert}", "input=texts.txt", "output=more.npy", "layer=3")


def test_cls_vectors_and_vectors_of_length_one(command, bert, tmp_path, monkeypatch):
    hidden, real = theirs(bert, TEXTS)
    for settings, expected in {("pooling=cls",): hidden[:, 0], ("normalize=true",): mean(hidden, real)}.items():
        typed(monkeypatch, "\n".join(TEXTS))
        output = tmp_path / f"{settings[0]}.npy"
        command("embed", f"run={bert}", f"output='{output}'", *settings)
        found = np.load(output)
        if settings == ("normalize=true",):
            expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_pairs_are_read_together_with_their_segments(command, bert, tmp_path):
    rows = [json.dumps({"a": a, "b": b}) for a, b in PAIRS]
    (tmp_path / "pairs.jsonl").write_text("\n".join(rows))
    command("embed", f"run={bert}", "input=pairs.jsonl", "text_column=a", "text_pair_column=b", "output=pairs.npy")
    expected = mean(*theirs(bert, *map(list, zip(*PAIRS, strict=True))))
    np.testing.assert_allclose(np.load(tmp_path / "pairs.npy"), expected, atol=1e-5)


def test_a_run_on_pairs_reads_pairs_from_a_file_and_single_texts_from_lines(command, pairs_run, tmp_path, monkeypatch):
    rows = [(f"title {n}", f"body {n % 3}") for n in range(5)]
    (tmp_path / "rows.csv").write_text("\n".join(map(",".join, [("title", "body"), *rows])) + "\n")
    command("embed", f"run={pairs_run}", "input=rows.csv", "output=pairs.npy")
    command("embed", f"run={pairs_run}", "input=rows.csv", "text_column=title", "output=titles.npy")
    typed(monkeypatch, "\n".join(title for title, _ in rows))
    command("embed", f"run={pairs_run}", "output=lines.npy")
    pairs, titles, lines = (np.load(tmp_path / f"{name}.npy") for name in ("pairs", "titles", "lines"))
    np.testing.assert_allclose(lines, titles, atol=1e-6)
    assert len(pairs) == 5 and not np.allclose(pairs, lines, atol=1e-3)
