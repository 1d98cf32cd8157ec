"""encoderlab embed: the encoder's own vectors, one row for each text in order, and an index next to them."""

import io
import json
import sys

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, BertConfig, BertForSequenceClassification

from encoderlab.data.tokenizers import WordPieceConfig
from encoderlab.errors import DataError, SettingError

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


def index(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_mean_vectors_equal_those_of_transformers_in_the_files_order(command, bert, tmp_path, monkeypatch):
    monkeypatch.setattr("encoderlab.runs.predict.ROWS_AT_A_TIME", 4)  # so that some rows share a chunk, and some do not
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    command("embed", f"run={bert}", "input=texts.txt", "output=vectors.npy")
    found = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, mean(*theirs(bert, TEXTS)), atol=1e-5)
    assert index(tmp_path / "vectors.index.jsonl") == [{"row": n, "text": text} for n, text in enumerate(TEXTS)]


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


def test_token_vectors_follow_text_by_text_with_their_pieces(command, bert, tmp_path, monkeypatch, capsys):
    typed(monkeypatch, "\n".join(TEXTS))
    command("embed", f"run={bert}", "output=tokens.npy", "tokens=true")
    found, (hidden, real) = np.load(tmp_path / "tokens.npy"), theirs(bert, TEXTS)
    np.testing.assert_allclose(found, hidden[real], atol=1e-5)
    tokenizer = AutoTokenizer.from_pretrained(bert)
    start = 0
    for row, line in enumerate(index(tmp_path / "tokens.index.jsonl")):
        pieces = tokenizer.convert_ids_to_tokens(tokenizer(TEXTS[row])["input_ids"])
        assert line == {"row": row, "start": start, "tokens": pieces, "text": TEXTS[row]}
        start += len(pieces)
    assert start == len(found)
    assert f"{start} vectors of 24 numbers of 6 texts: tokens.npy" in capsys.readouterr().err


def test_pairs_are_read_together_with_their_segments(command, bert, tmp_path):
    rows = [json.dumps({"a": a, "b": b}) for a, b in PAIRS]
    (tmp_path / "pairs.jsonl").write_text("\n".join(rows))
    command("embed", f"run={bert}", "input=pairs.jsonl", "text_column=a", "text_pair_column=b", "output=pairs.npy")
    expected = mean(*theirs(bert, *map(list, zip(*PAIRS, strict=True))))
    np.testing.assert_allclose(np.load(tmp_path / "pairs.npy"), expected, atol=1e-5)
    assert index(tmp_path / "pairs.index.jsonl")[0] == {"row": 0, "text": PAIRS[0][0], "text_pair": PAIRS[0][1]}


def test_a_split_of_a_run_on_pairs_gives_pairs_and_its_lines_single_texts(command, pairs_run, tmp_path, monkeypatch):
    command("embed", f"run={pairs_run}", "split=test", "output=test.npy")
    lines = index(tmp_path / "test.index.jsonl")
    assert len(lines) == len(np.load(tmp_path / "test.npy")) == 16
    assert all(set(line) == {"row", "text", "text_pair"} for line in lines)
    rows = "\n".join(f"{line['text']},{line['text_pair']}" for line in lines)
    (tmp_path / "same.csv").write_text(f"title,body\n{rows}\n")
    command("embed", f"run={pairs_run}", "input=same.csv", "output=same.npy")
    np.testing.assert_allclose(np.load(tmp_path / "same.npy"), np.load(tmp_path / "test.npy"), atol=1e-6)
    command("embed", f"run={pairs_run}", "input=same.csv", "text_column=title", "output=titles.npy")
    typed(monkeypatch, "\n".join(line["text"] for line in lines))
    command("embed", f"run={pairs_run}", "output=lines.npy")
    np.testing.assert_allclose(np.load(tmp_path / "lines.npy"), np.load(tmp_path / "titles.npy"), atol=1e-6)
    assert not np.allclose(np.load(tmp_path / "lines.npy"), np.load(tmp_path / "test.npy"), atol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["output=out.csv"], SettingError, "output=out.csv does not end in .npy"),
        (["output=out.npy", "input=a.txt", "split=test"], SettingError, "input and split are given together"),
        (["output=out.npy", "tokens=true", "pooling=cls"], SettingError, "pooling=cls reduces a text to one vector"),
        (["output=out.npy", "input=empty.txt"], DataError, "empty.txt has no rows"),
        (["output=out.npy", "input=latin.txt", "encoding=utf-8"], DataError, "latin.txt cannot be decoded"),
        (["output=out.npy", "split=tset"], DataError, "split=tset is not in this dataset"),
    ],
)
def test_invalid_input_is_refused_and_leaves_nothing(command, brackets_run, tmp_path, arguments, error, message):
    (tmp_path / "empty.txt").touch()
    (tmp_path / "latin.txt").write_bytes(b"fine\ncaf\xe9\n")
    with pytest.raises(error, match=message):
        command("embed", f"run={brackets_run}", *arguments)
    assert {path.name for path in tmp_path.iterdir()} == {"empty.txt", "latin.txt"}
