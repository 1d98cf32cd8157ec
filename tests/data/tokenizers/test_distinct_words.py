"""Looking words up gives the ids of tokenising whole texts, and is used only for tokenizers of which that is true."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, models, normalizers, pre_tokenizers

from encoderlab.data.tokenizers import distinct_words
from encoderlab.data.tokenizers.distinct_words import DistinctWords, word_by_word

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [
    "a",
    "b",
    "the",
    "The",
    "é",
    "e",
    "##a",
    "##b",
    "##e",
    "##é",
    "ing",
    "##ing",
    "東",
    "##東",
    "σ",
    "##σ",
    "ς",
    "##ς",
    "i",
    "##i",
    "\u0301",
]
PUNCTUATION = [".", ",", "|", "(", ")", "-", "'", '"', "~", "…"]
NORMALIZERS = {
    "none": None,
    "uncased": normalizers.BertNormalizer(lowercase=True),
    "cased": normalizers.BertNormalizer(lowercase=False),
    "uncased with accents": normalizers.BertNormalizer(lowercase=True, strip_accents=False),
    "unclean": normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False
    ),
}
PARTS = [
    "a",
    "b",
    "the",
    "The",
    "THE",
    "é",
    "É",
    "e\u0301",
    "ing",
    "aing",
    "東京",
    "Σ",
    "ΣΑΣ",
    "İ",
    "\u0301",
    "\u0338",
    "≠",
    "K",
    "a" * 101,
]
BLANKS = [" ", " ", "  ", "\n", "\t", "\xa0", "\u3000", "\x00", "\x1c", "\u200b", "\ufffd", "\r\n", ""]
TEXTS = st.lists(st.sampled_from(PARTS + PUNCTUATION + BLANKS + SPECIALS), max_size=15).map("".join) | st.text(
    max_size=20
)


def backend_of(normalizer):
    vocabulary = {token: id_ for id_, token in enumerate([*SPECIALS, *PIECES, *PUNCTUATION])}
    backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", continuing_subword_prefix="##"))
    if normalizer is not None:
        backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.add_special_tokens(SPECIALS)
    backend.encode_special_tokens = True
    return backend


@pytest.fixture(scope="module", params=NORMALIZERS)
def backend(request):
    return backend_of(NORMALIZERS[request.param])


def plainly(backend, texts):
    return [encoding.ids for encoding in backend.encode_batch(texts, add_special_tokens=False)]


def split(flat, lengths):
    return [part.tolist() for part in np.split(flat, np.cumsum(lengths)[:-1])] if len(lengths) else []


@settings(deadline=None, max_examples=200)
@given(texts=st.lists(TEXTS, max_size=5))
def test_ids_equal_those_of_whole_texts(backend, texts):
    assert word_by_word(backend)
    words = DistinctWords(backend, "uint16")
    for _ in range(2):  # the second time all words are known
        assert split(*words.encode(texts)) == plainly(backend, texts)


def test_words_are_cached_up_to_a_limit(backend, monkeypatch):
    monkeypatch.setattr(distinct_words, "_BYTES_KEPT", 100)
    words = DistinctWords(backend, "uint16")
    for number in range(50):
        texts = [f"a{number} b{number} the", "ab"]
        assert split(*words.encode(texts)) == plainly(backend, texts)
        assert sum(map(len, words._known)) <= 100 + sum(map(len, texts))


def test_threads_share_the_cache(backend, monkeypatch):
    monkeypatch.setattr(distinct_words, "_BYTES_KEPT", 50)
    words = DistinctWords(backend, "uint16")
    batches = [[f"a{number} b{number % 7} the", "ab"] for number in range(200)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(words.encode, batches))
    assert [split(*one) for one in found] == [plainly(backend, batch) for batch in batches]


def with_token_of_its_own(backend):
    backend.add_tokens([AddedToken("the b")])


def with_other_words(backend):
    backend.pre_tokenizer = pre_tokenizers.Metaspace()


def with_other_characters(backend):
    backend.normalizer = normalizers.Sequence([normalizers.Replace(" ", "a"), normalizers.BertNormalizer()])


def with_other_pieces(backend):
    backend.model = models.BPE({"a": 0, "[UNK]": 1}, [], unk_token="[UNK]")


@pytest.mark.parametrize("change", [with_token_of_its_own, with_other_words, with_other_characters, with_other_pieces])
def test_tokenizers_that_may_look_beyond_a_word_are_excluded(change):
    backend = backend_of(NORMALIZERS["cased"])
    change(backend)
    assert not word_by_word(backend)
