"""Tokenizers: no special tokens from a user's text, words and characters found again, and files that other libraries
open.
"""

import json
import pickle

import pytest
import tokenizers
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers

from encoderlab.data.tokenizers.config import PretrainedConfig, SymbolsConfig, WordPieceConfig
from encoderlab.data.tokenizers.tokenizer import BERT_SPECIALS, Tokenizer
from encoderlab.errors import DataError
from tests.data.tokenizers.texts import AWKWARD, SPECIALS, TEXTS


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory):
    return WordPieceConfig(vocabulary_size=200).build(lambda: TEXTS, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def symbols(tmp_path_factory):
    return SymbolsConfig().build(lambda: [], tmp_path_factory.mktemp("cache"))


@pytest.fixture(params=["wordpiece", "symbols"])
def tokenizer(request):
    return request.getfixturevalue(request.param)


def test_special_tokens_of_our_own_vocabularies_have_the_first_ids(tokenizer):
    ids = [tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id]
    assert ids == [0, 1, 2, 3, 4]
    assert tokenizer.pieces(ids) == SPECIALS


def test_wordpiece_splits_a_known_word_as_the_paper_does(wordpiece):
    assert wordpiece.vocabulary_size <= 200
    pieces = wordpiece.pieces(wordpiece.encode(["Pieces of a fox, unbelievably merged"])[0])
    assert pieces[0] == "pieces"
    assert all(piece.startswith("##") for piece in pieces if piece in ("##y", "##ly"))
    assert "".join(piece.removeprefix("##") for piece in pieces) == "piecesofafox,unbelievablymerged"


def test_every_listed_symbol_is_a_token_and_anything_else_is_unknown(symbols):
    assert symbols.pieces(symbols.encode(["(12)[]{}<>"])[0]) == list("(12)[]{}<>")
    assert symbols.pieces(symbols.encode(["1a\n "])[0]) == ["1", "[UNK]", "[UNK]", "[UNK]"]
    assert symbols.encode_words([list("0739")])[0] == (symbols.encode(["0739"])[0], [0, 1, 2, 3])


@settings(max_examples=50, deadline=None)
@given(texts=st.lists(st.lists(st.one_of(st.text(max_size=12), st.sampled_from(SPECIALS))).map(" ".join), max_size=4))
def test_no_text_becomes_a_special_token_and_texts_do_not_affect_each_other(wordpiece, symbols, texts):
    for tokenizer in (wordpiece, symbols):
        together = tokenizer.encode(texts)
        assert together == [tokenizer.encode([text])[0] for text in texts]
        forbidden = {tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id}
        assert all(forbidden.isdisjoint(ids) and max(ids, default=0) < tokenizer.vocabulary_size for ids in together)


@settings(max_examples=50, deadline=None)
@given(texts=st.lists(st.one_of(st.text(max_size=30), st.sampled_from(AWKWARD)), max_size=4))
def test_the_flat_ids_are_those_of_each_text_concatenated(wordpiece, symbols, texts):
    for tokenizer in (wordpiece, symbols):
        flat, lengths = tokenizer.encode_flat(texts)
        ids = tokenizer.encode(texts)
        assert flat.tolist() == [id_ for text in ids for id_ in text]
        assert lengths.tolist() == [len(text) for text in ids]
        assert flat.dtype == "uint16"


def test_a_pickled_tokenizer_still_reads_no_special_tokens_in_a_text(tokenizer):
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.encode(AWKWARD + SPECIALS) == tokenizer.encode(AWKWARD + SPECIALS)
    assert again.encode_words([SPECIALS]) == tokenizer.encode_words([SPECIALS])
    assert (again.specials, again.fingerprint) == (tokenizer.specials, tokenizer.fingerprint)


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(
        st.lists(st.one_of(st.text(max_size=6), st.sampled_from(["fox", "don't", "[SEP]", "\u200b", " "]))), max_size=4
    )
)
def test_every_word_has_a_piece_and_pieces_keep_the_order_of_the_words(wordpiece, symbols, rows):
    for tokenizer in (wordpiece, symbols):
        for row, (ids, places) in zip(rows, tokenizer.encode_words(rows), strict=True):
            assert len(ids) == len(places)
            assert places == sorted(places)
            assert sorted(set(places)) == list(range(len(row)))
            assert {tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id}.isdisjoint(ids)
            for place, word in enumerate(row):
                own = [id_ for id_, of in zip(ids, places, strict=True) if of == place]
                assert own == (tokenizer.encode([word])[0] or [tokenizer.unk_id])


def test_a_vocabulary_that_splits_text_into_special_tokens_gives_unknown_instead(tmp_path):
    backend = tokenizers.Tokenizer(
        models.WordLevel({token: n for n, token in enumerate([*SPECIALS, "hello"])}, unk_token="[UNK]")
    )
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = Tokenizer(backend, BERT_SPECIALS)
    assert tokenizer.encode(["hello [SEP] [MASK]"]) == [[5, 1, 1]]
    assert tokenizer.encode_words([["hello", "[CLS]"]]) == [([5, 1], [0, 1])]


def test_long_texts_are_not_truncated_and_short_ones_not_padded(wordpiece):
    assert [len(ids) for ids in wordpiece.encode(["fox " * 5000, "fox"])] == [
        5000 * len(wordpiece.encode(["fox"])[0]),
        len(wordpiece.encode(["fox"])[0]),
    ]


def test_saving_and_loading_changes_nothing(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "model" / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "model" / "tokenizer.json")
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.encode(AWKWARD) == tokenizer.encode(AWKWARD)
    assert (loaded.vocabulary_size, loaded.specials) == (tokenizer.vocabulary_size, tokenizer.specials)
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"tokenizer.json", "tokenizer_config.json"}


def test_special_tokens_with_other_names_survive_saving(tmp_path):
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "hello"]
    backend = tokenizers.Tokenizer(models.WordLevel({token: n for n, token in enumerate(tokens)}, unk_token="<unk>"))
    backend.add_special_tokens(tokens[:4])
    named = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>"}
    Tokenizer(backend, named).save(tmp_path / "tokenizer.json")
    for loaded in (
        Tokenizer.load(tmp_path / "tokenizer.json"),
        PretrainedConfig(name=str(tmp_path)).build(lambda: [], tmp_path),
    ):
        assert (loaded.cls_id, loaded.pad_id, loaded.sep_id, loaded.unk_id, loaded.mask_id) == (0, 1, 2, 3, None)


def test_special_tokens_written_by_transformers_as_objects_or_null_are_found(wordpiece, tmp_path):
    wordpiece.save(tmp_path / "tokenizer.json")
    config = {"cls_token": {"content": "[CLS]", "lstrip": False}, "mask_token": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert (loaded.cls_id, loaded.pad_id, loaded.mask_id) == (2, 0, None)
    assert loaded.fingerprint != wordpiece.fingerprint
    (tmp_path / "tokenizer_config.json").unlink()
    assert Tokenizer.load(tmp_path / "tokenizer.json").fingerprint == wordpiece.fingerprint


def test_a_missing_tokenizer_is_refused(tmp_path):
    with pytest.raises(DataError) as refused:
        Tokenizer.load(tmp_path / "tokenizer.json")
    assert f"There is no tokenizer at {tmp_path / 'tokenizer.json'}. Allowed: a tokenizer.json." in str(refused.value)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "3", '{"model": {}}', '{"version": "1.0", "model": {"type": "WordPiece"}}', b"\xff\xfe"]
)
def test_a_damaged_tokenizer_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for opens in (
        lambda: Tokenizer.load(path),
        lambda: PretrainedConfig(name=str(tmp_path)).build(lambda: [], tmp_path),
    ):
        with pytest.raises(DataError) as refused:
            opens()
        assert str(refused.value).startswith(f"{path} is damaged or not a tokenizer (")
        assert str(refused.value).endswith("). Allowed: a tokenizer.json. Delete it and create it again.")
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", ["", "3"])
def test_a_damaged_tokenizer_config_is_refused(wordpiece, tmp_path, content):
    wordpiece.save(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer_config.json").write_text(content)
    with pytest.raises(DataError) as refused:
        Tokenizer.load(tmp_path / "tokenizer.json")
    assert f"{tmp_path}/tokenizer_config.json is damaged or not a tokenizer (" in str(refused.value)
    assert "Allowed: a tokenizer_config.json." in str(refused.value)


def test_texts_that_are_not_valid_unicode_are_refused_with_their_start(tokenizer):
    undecodable = b"caf\xe9 ".decode("utf-8", errors="surrogateescape") + "x" * 100
    for encode in (
        lambda: tokenizer.encode(["good", undecodable]),
        lambda: tokenizer.encode_words([["good"], ["a", undecodable]]),
    ):
        with pytest.raises(DataError) as refused:
            encode()
        assert str(refused.value) == (
            f"The text 'caf\\udce9 {'x' * 35}' is not valid Unicode. Allowed: text in UTF-8. "
            "Convert it, for instance with iconv -f CP1252 -t UTF-8."
        )
        assert str(refused.value).encode()
    with pytest.raises(TypeError):
        tokenizer.encode([None, 3])


def test_transformers_and_tokenizers_open_the_file_and_join_pairs_as_bert_does(wordpiece, tmp_path):
    path = tmp_path / "tokenizer.json"
    wordpiece.save(path)
    one, other = wordpiece.encode(["the quick fox", "barks"])
    ids = [2, *one, 3, *other, 3]
    segments = [0] * (len(one) + 2) + [1] * (len(other) + 1)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path))
    folder = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for theirs in (fast("the quick fox", "barks", return_token_type_ids=True), folder("the quick fox", "barks")):
        assert (theirs["input_ids"], theirs["token_type_ids"]) == (ids, segments)
    raw = tokenizers.Tokenizer.from_file(str(path)).encode("the quick fox", "barks")
    assert (raw.ids, raw.type_ids) == (ids, segments)
    assert (folder.pad_token_id, folder.mask_token_id) == (0, 4)
    assert folder.decode(one) == "the quick fox"


def test_the_fingerprint_is_sixteen_hexadecimal_digits(tokenizer):
    assert len(tokenizer.fingerprint) == 16
    int(tokenizer.fingerprint, 16)


@given(text=st.text(max_size=40))
def test_spans_locate_the_pieces_in_the_original_characters(text):
    words = ["film", "##s", "un", "##able", "a", "b", ",", "ab"]
    backend = tokenizers.Tokenizer(
        models.WordPiece({piece: i for i, piece in enumerate([*BERT_SPECIALS.values(), *words])})
    )
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer = Tokenizer(backend, BERT_SPECIALS)
    for original in (text, f"Films, {text}"):
        spans = tokenizer.spans(original)
        assert len(spans) == len(tokenizer.encode([original])[0])
        assert [word for word, _, _ in spans] == sorted(word for word, _, _ in spans)
        assert all(0 <= begin <= end <= len(original) for _, begin, end in spans)
    assert [(word, original[begin:end]) for word, begin, end in spans[:3]] == [(0, "Film"), (0, "s"), (1, ",")]
