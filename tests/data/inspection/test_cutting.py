"""How a tokenizer splits texts, counted on texts with known tokens."""

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers

from encoderlab.data.inspection.cutting import cutting_of, first_words
from encoderlab.data.tokenizers import BERT_SPECIALS, Tokenizer


def tokenizer_of(model, pre_tokenizer):
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizer
    return Tokenizer(backend, BERT_SPECIALS)


@pytest.fixture(scope="module")
def wordpiece():
    vocabulary = {
        piece: id_ for id_, piece in enumerate([*BERT_SPECIALS.values(), "un", "##known", "fox", "a", "##a", "."])
    }
    return tokenizer_of(models.WordPiece(vocabulary, unk_token="[UNK]"), pre_tokenizers.BertPreTokenizer())


def test_pieces_words_and_unknown_pieces_are_counted_over_all_texts(wordpiece):
    cutting = cutting_of(wordpiece, ["fox unknown fox.", "zebra", "a a"])  # 1 + 2 + 2, 1 (unknown), 1 + 1
    assert cutting.vocabulary_size == 11
    assert cutting.pieces_per_word == pytest.approx(8 / 6)
    assert cutting.whole_words == pytest.approx(
        3 / 6
    )  # fox, a, a; an unknown word is not whole, and "fox." is two pieces
    assert cutting.unknown_pieces == pytest.approx(1 / 8)
    assert (cutting.pieces_median, cutting.pieces_max) == (2, 5)


def test_a_word_counts_as_whole_only_as_one_piece_after_a_space():
    pieces = [*BERT_SPECIALS.values(), "f", "o", "x", "Ġ", "Ġf", "Ġfo", "Ġfox"]
    merges = [("Ġ", "f"), ("Ġf", "o"), ("Ġfo", "x")]
    bpe = models.BPE({piece: id_ for id_, piece in enumerate(pieces)}, merges, unk_token="[UNK]")
    tokenizer = tokenizer_of(bpe, pre_tokenizers.ByteLevel(add_prefix_space=False))
    tokenizer._backend.decoder = decoders.ByteLevel()
    assert cutting_of(tokenizer, ["fox fox"]).whole_words == 1
    assert cutting_of(tokenizer, ["fox fox"]).pieces_per_word == 2  # the first one as f, o, x


def test_counting_no_text_at_all_divides_by_nothing(wordpiece):
    assert cutting_of(wordpiece, ["\u200b"]).unknown_pieces in (0, 1)


@given(texts=st.lists(st.text("ab .\n", max_size=12), max_size=8), most=st.integers(1, 10))
@settings(deadline=None)
def test_the_first_texts_with_words_are_taken_until_there_are_enough(texts, most):
    chosen = first_words(iter(texts), most)
    with_words = [text for text in texts if text.split()]
    assert chosen == with_words[: len(chosen)]
    words = [len(text.split()) for text in chosen]
    assert sum(words[:-1]) < most
    assert sum(words) >= most or chosen == with_words
