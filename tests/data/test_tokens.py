"""Texts as ids: tokenised once, whole, whatever is read of them later, and tokenised again if the store is damaged."""

import numpy as np
import pyarrow as pa
import pytest

from encoderlab.data import token_store
from encoderlab.data.data import Data
from encoderlab.data.examples import Split, TextExample, WordsExample
from encoderlab.data.token_store import tokenize_examples
from encoderlab.data.tokenizer_config import SymbolsConfig
from encoderlab.errors import DataError
from encoderlab.tasks.classification import ClassificationConfig
from encoderlab.tasks.multilabel import MultilabelConfig
from encoderlab.tasks.task import Windows

SYMBOLS = "0123456789"
TEXTS = ["0123456789012345", "7", "", "31415926", "27182818284590"]
PAIRS = ["99", "0123456789", "5", "", "1"]
WORDS = [["01", "2", "345"], [], ["6", "78"]]
LABELS = [0, 1, 1, 0, 1]


def data_of(texts=TEXTS, labels=LABELS, pairs=None):
    columns = {"text": texts, "label": labels}
    if pairs is not None:
        columns["text_pair"] = pairs
    return Data({"train": Split(pa.table(columns))}, ["no", "yes"])


@pytest.fixture
def encoded(monkeypatch):
    """Return a list of all texts that have been tokenised."""
    texts = []
    encode = token_store._block

    def counting(examples, *arguments, **settings):
        texts.extend(examples)
        return encode(examples, *arguments, **settings)

    monkeypatch.setattr(token_store, "_block", counting)
    return texts


def tokenizer_of(symbols=SYMBOLS):
    return SymbolsConfig(symbols=symbols).build(list, None)


def batch_of(data, cache, max_length=16, tokenizer=None, task=ClassificationConfig, **settings):
    """Return all training rows as one batch of a task, from the store in `cache`: what a run reads of them."""
    tokenizer = tokenizer or tokenizer_of()
    rows = task(name="t", **settings).build(tokenizer, data.labels, max_length)
    rows = rows.rows(data.tokenize("train", tokenizer, cache), data.split("train").targets())
    batch = rows.gather(np.arange(len(rows)), tokenizer.pad_id)
    return batch.input_ids.tolist(), batch.token_type_ids.tolist(), batch.labels.tolist()


@pytest.mark.parametrize("pairs", [None, PAIRS])
def test_a_store_holds_the_texts_whole_without_special_tokens(tmp_path, pairs):
    store = data_of(pairs=pairs).tokenize("train", tokenizer_of(), tmp_path)
    columns = {"first": TEXTS} | ({} if pairs is None else {"second": pairs})
    assert store.columns.keys() == columns.keys()
    for name, texts in columns.items():
        ids, lengths = store[name].gather(np.arange(len(texts)))
        assert lengths.tolist() == [len(text) for text in texts]
        assert ids.tolist() == [id_ for of_text in tokenizer_of().encode(texts) for id_ in of_text]


def test_a_store_of_words_knows_where_each_word_begins(tmp_path):
    data = Data({"train": Split(pa.table({"words": WORDS, "labels": [[0, 1, 0], [], [1, 1]]}))}, ["no", "yes"])
    store = data.tokenize("train", tokenizer_of(), tmp_path)
    assert store["word_starts"].gather(np.array([2, 0]))[0].tolist() == [0, 1, 0, 2, 3]
    assert store["first"].lengths().tolist() == [6, 0, 3]


def test_new_examples_are_tokenised_as_those_of_a_split(tmp_path):
    stored = data_of(pairs=PAIRS).tokenize("train", tokenizer_of(), tmp_path)
    examples = [TextExample(first, second) for first, second in zip(TEXTS, PAIRS, strict=True)]
    held = tokenize_examples(examples, tokenizer_of())
    for name in ("first", "second"):
        assert held[name].values.tolist() == stored[name].values.tolist()
        assert held[name].offsets.tolist() == stored[name].offsets.tolist()
    words = tokenize_examples([WordsExample(tuple(row)) for row in WORDS], tokenizer_of())
    assert words["word_starts"].values.tolist() == [0, 2, 3, 0, 1]


def test_each_text_is_tokenised_once_whatever_is_read_of_it(tmp_path, encoded):
    whole = batch_of(data_of(), tmp_path)
    assert len(encoded) == len(TEXTS)
    cut = batch_of(data_of(), tmp_path, max_length=8)
    in_windows = batch_of(data_of(), tmp_path, max_length=8, windows=Windows.mean)
    of_sets = batch_of(data_of(labels=[(0,), (1,), (0, 1), (), (0,)]), tmp_path, task=MultilabelConfig)
    other_labels = batch_of(data_of(labels=[1, 1, 1, 0, 0]), tmp_path)
    assert len(encoded) == len(TEXTS), "another length, other windows, another task or other labels need no new store"
    assert len(list((tmp_path / "tokens").iterdir())) == 1
    assert [len(ids[0]) for ids in (whole[0], cut[0], in_windows[0])] == [16, 8, 8]
    assert len(in_windows[0]) > len(cut[0]) == len(TEXTS)
    assert of_sets[2][2] == [1, 1] and other_labels[2] == [1, 1, 1, 0, 0]


def test_other_texts_and_another_tokenizer_get_a_store_of_their_own(tmp_path, encoded):
    batches = [
        batch_of(data_of(), tmp_path),
        batch_of(data_of(texts=TEXTS[::-1]), tmp_path),
        batch_of(data_of(pairs=PAIRS), tmp_path),
        batch_of(data_of(), tmp_path, tokenizer=tokenizer_of("9876543210")),
    ]
    assert len(encoded) == 4 * len(TEXTS)
    assert len({str(batch) for batch in batches}) == 4


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def grow_an_offset(path):
    offsets = np.fromfile(path, np.int64)
    offsets[2] += 1
    offsets.tofile(path)


def write_as_an_earlier_version(path):
    path.write_text('{"columns": {"input_ids": "uint16", "label": "int32"}}', encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("first.bin", flip_a_bit),
        ("first.offsets.bin", flip_a_bit),
        ("first.offsets.bin", grow_an_offset),
        ("second.bin", flip_a_bit),
        ("store.json", write_as_an_earlier_version),
        ("manifest.json", lambda path: path.unlink()),
    ],
)
def test_a_damaged_store_is_rebuilt_with_a_line_and_gives_the_same_batches(tmp_path, encoded, capsys, name, damage):
    before = batch_of(data_of(pairs=PAIRS), tmp_path)
    [folder] = (tmp_path / "tokens").iterdir()
    damage(folder / name)
    capsys.readouterr()
    assert batch_of(data_of(pairs=PAIRS), tmp_path) == before
    assert len(encoded) == 2 * len(TEXTS)
    assert capsys.readouterr().err.splitlines() == [f"The token store {folder} is damaged and is being rebuilt."]
    assert batch_of(data_of(pairs=PAIRS), tmp_path) == before
    assert len(encoded) == 2 * len(TEXTS) and not capsys.readouterr().err


def test_a_store_of_another_version_is_never_read(tmp_path, monkeypatch):
    expected = batch_of(data_of(), tmp_path / "new")
    encode = token_store._block

    def with_other_ids(*arguments, **settings):
        block = encode(*arguments, **settings)
        return {name: (numbers[::-1], counts) for name, (numbers, counts) in block.items()}

    with monkeypatch.context() as patch:
        patch.setattr(token_store, "STORE_VERSION", token_store.STORE_VERSION - 1)
        patch.setattr(token_store, "_block", with_other_ids)
        assert batch_of(data_of(), tmp_path) != expected
    assert batch_of(data_of(), tmp_path) == expected


def test_a_text_that_is_not_valid_unicode_is_refused_and_leaves_no_store(tmp_path):
    with pytest.raises(DataError):
        tokenize_examples([TextExample("\ud800")], tokenizer_of())
    assert not list(tmp_path.iterdir())
