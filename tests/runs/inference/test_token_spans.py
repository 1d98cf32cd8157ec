"""Each token stands for the characters it came from."""

import pytest

from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.data.tokenizers.config import WordPieceConfig
from encoderlab.runs.inference.token_spans import spans_of, texts_of
from encoderlab.runs.task import build_task
from encoderlab.tasks.config import ClassificationConfig, TaggingConfig

TEXTS = ["unhappy people are unhappy", "people run happily"] * 3


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return WordPieceConfig(vocabulary_size=100, min_frequency=1).build(
        lambda: TEXTS, tmp_path_factory.mktemp("tokenizers")
    )


def cut(tokenizer, config, example, max_length=64):
    """Return the characters of each token; None for [CLS] and [SEP]."""
    task = build_task(config, tokenizer, ["a", "b"], max_length)
    (encoded,) = task.encode([example])
    spans = spans_of(tokenizer, example, encoded)
    assert len(spans) == len(encoded.input_ids)
    return [span and texts_of(example)[span.text][span.begin : span.end] for span in spans], spans


def test_the_tokens_of_a_pair_cover_both_texts():
    assert texts_of(TextExample("a b", "c")) == ("a b", "c")
    assert texts_of(WordsExample(("a", "b"))) == ("a b",)


def test_the_pieces_of_a_text_joined_are_its_words(tokenizer):
    example = TextExample("People, unhappily!", "run people")
    pieces, spans = cut(tokenizer, ClassificationConfig(name="t"), example)
    assert pieces[0] is None and pieces[-1] is None
    for number, text in enumerate(texts_of(example)):
        assert "".join(
            piece for piece, span in zip(pieces, spans, strict=True) if span and span.text == number
        ) == text.replace(" ", "")


def test_truncated_text_has_no_token(tokenizer):
    pieces, _ = cut(
        tokenizer, ClassificationConfig(name="t"), TextExample("people run people run people run"), max_length=6
    )
    assert [piece for piece in pieces if piece] == ["people", "run", "people", "run"]


def test_each_piece_of_a_given_word_stands_for_the_whole_word(tokenizer):
    _, spans = cut(tokenizer, TaggingConfig(name="t"), WordsExample(("people", "unhappily", "run"), (0, 1, 0)))
    found = {(span.word, span.begin, span.end) for span in spans if span}
    assert found == {(0, 0, 6), (1, 7, 16), (2, 17, 20)}
