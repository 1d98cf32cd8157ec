"""An encoder without a task: its texts and pairs are encoded like those of any task."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.data.tokenizers.config import SymbolsConfig
from encoderlab.errors import DataError
from encoderlab.tasks.classification import Classification
from encoderlab.tasks.config import ClassificationConfig
from encoderlab.tasks.encoding import Encoding, EncodingConfig

TOKENIZER = SymbolsConfig().build(lambda: [], Path())
texts = st.text("0123456789()", max_size=20)


def task_of(tokenizer=TOKENIZER):
    return Encoding(EncodingConfig(name="encoder"), tokenizer, [], 16)


@given(rows=st.lists(st.builds(TextExample, texts, st.one_of(st.none(), texts)), max_size=8))
def test_texts_and_pairs_are_read_as_for_a_classification(rows):
    assert task_of().encode(rows) == Classification(ClassificationConfig(name="c"), TOKENIZER, ["a", "b"], 16).encode(
        rows
    )


def test_many_texts_are_tokenised_together(monkeypatch):
    calls = []
    encode = TOKENIZER.encode
    monkeypatch.setattr(TOKENIZER, "encode", lambda texts: calls.append(len(texts)) or encode(texts))
    task_of().encode([TextExample("1", "2" if row % 2 else None) for row in range(10)])
    assert calls == [10, 5]


def test_words_and_predictions_are_refused():
    with pytest.raises(DataError, match="reads texts, but these are sequences of words"):
        task_of().encode([WordsExample(("1",))])
    with pytest.raises(DataError, match="encoder is an encoder without a head.*finetune init_from"):
        task_of().metrics()
