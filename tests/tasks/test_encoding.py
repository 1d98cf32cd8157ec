"""An encoder without a task: its texts and pairs are encoded like those of any task."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from encoderlab.data.examples import TextExample
from encoderlab.data.tokenizers import SymbolsConfig
from encoderlab.tasks.config import ClassificationConfig
from encoderlab.tasks.texts import Classification, Encoding, EncodingConfig

TOKENIZER = SymbolsConfig().build(lambda: [], Path())
texts = st.text("0123456789()", max_size=20)


def task_of(tokenizer=TOKENIZER):
    return Encoding(EncodingConfig(name="encoder"), tokenizer, [], 16)


@given(rows=st.lists(st.builds(TextExample, texts, st.one_of(st.none(), texts)), max_size=8))
def test_texts_and_pairs_are_read_as_for_a_classification(rows):
    assert task_of().encode(rows) == Classification(ClassificationConfig(name="c"), TOKENIZER, ["a", "b"], 16).encode(
        rows
    )
