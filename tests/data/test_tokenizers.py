"""Tokenizers: no special tokens from a user's text, the same vocabulary in every process, files that other libraries open."""

import json
import os
import pickle
import subprocess
import sys

import pytest
import tokenizers
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, models, normalizers, pre_tokenizers

from encoderlab.data.tokenizer_config import PretrainedConfig, SymbolsConfig, WordPieceConfig
from encoderlab.data.tokenizers import BERT_SPECIALS, Tokenizer
from encoderlab.errors import DataError

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


TEXTS = [
    "The quick brown fox jumps over the lazy dog, and the dog barks.",
    "Tokenizers split words into pieces: unbelievable, believable, unbelieving!",
    "Crème brûlée costs 12.50 in Zürich; 東京 is far away. Don't ask why.",
    "Pieces that occur often are merged; pieces that occur once are not.",
] * 5


AWKWARD = [
    "",
    "   ",
    "hello world",
    "Héllo WÖRLD",
    "don't stop-believing",
    "東京 tower",
    "a\u200bb\x00c\tnew\nline",
    "antidisestablishmentarianism" * 5,
    "😀 emoji",
    "#hash ##ing ## #",
    "1,234.56%",
]


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory):
    return WordPieceConfig(vocabulary_size=200).build(lambda: TEXTS, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def symbols(tmp_path_factory):
    return SymbolsConfig().build(lambda: [], tmp_path_factory.mktemp("cache"))


@pytest.fixture(params=["wordpiece", "symbols"])
def tokenizer(request):
    return request.getfixturevalue(request.param)


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


def test_the_vocabulary_size_is_a_limit_even_if_there_are_more_characters(tmp_path):
    texts = ["".join(chr(0x4E00 + n) + chr(0x0430 + n % 32) for n in range(500))] * 2
    assert WordPieceConfig(vocabulary_size=100).build(lambda: texts, tmp_path).vocabulary_size <= 100


TRAIN = """
import sys
from pathlib import Path
from encoderlab.data.tokenizer_config import WordPieceConfig
texts = [f"{a}{b}{c} {c}{a} {b}{c}" for a in "abcdefgh" for b in "ijklmnop" for c in "qrstuvwx"]  # ties everywhere
WordPieceConfig(vocabulary_size=150).build(lambda: texts, Path(sys.argv[1]))
print(next(Path(sys.argv[1]).rglob("tokenizer.json")).read_text())
"""


def test_training_gives_the_same_file_in_every_process(tmp_path):
    answers = []
    for n in (1, 2, 3):
        environment = {**os.environ, "PYTHONHASHSEED": str(n), "RAYON_NUM_THREADS": str(n)}
        call = [sys.executable, "-c", TRAIN, str(tmp_path / str(n))]
        answers.append(subprocess.run(call, env=environment, capture_output=True, text=True, check=True).stdout)
    assert answers[0] == answers[1] == answers[2]
    assert len(json.loads(answers[0])["model"]["vocab"]) == 150


def test_a_trained_tokenizer_is_reused_only_for_the_same_texts_and_settings(tmp_path, monkeypatch):
    first = WordPieceConfig(vocabulary_size=200).build(lambda: iter(TEXTS), tmp_path)
    assert WordPieceConfig(vocabulary_size=120).build(lambda: TEXTS, tmp_path).fingerprint != first.fingerprint
    assert (
        WordPieceConfig(vocabulary_size=200).build(lambda: [*TEXTS, "other words, other words"], tmp_path).fingerprint
        != first.fingerprint
    )
    monkeypatch.setattr(WordPieceConfig, "_train", lambda *_: pytest.fail("trained again"))
    assert WordPieceConfig(vocabulary_size=200).build(lambda: TEXTS, tmp_path).fingerprint == first.fingerprint


@pytest.mark.parametrize("file", ["tokenizer.json", "tokenizer_config.json"])
def test_a_damaged_tokenizer_in_the_cache_is_rebuilt_with_a_line_that_says_so(tmp_path, capsys, file):
    first = WordPieceConfig(vocabulary_size=200).build(lambda: TEXTS, tmp_path)
    cached = next(tmp_path.rglob(file))
    cached.write_bytes(cached.read_bytes()[:20])
    assert WordPieceConfig(vocabulary_size=200).build(lambda: TEXTS, tmp_path).fingerprint == first.fingerprint
    assert "rebuilt" in capsys.readouterr().err
    assert WordPieceConfig(vocabulary_size=200).build(lambda: TEXTS, tmp_path).fingerprint == first.fingerprint
    assert capsys.readouterr().err == ""


BUILD = """
import json, sys
from pathlib import Path
from encoderlab.data.tokenizer_config import PretrainedConfig
from encoderlab.errors import UserError
name, texts = sys.argv[1], json.loads(sys.argv[2])
try:
    tokenizer = PretrainedConfig(name=name).build(lambda: [], Path("unused"))
except UserError as error:
    print(json.dumps([error.exit_code, str(error)]))
    sys.exit()
import transformers
theirs = transformers.AutoTokenizer.from_pretrained(name, local_files_only=True)(texts)["input_ids"]
ours = [[tokenizer.cls_id, *ids, tokenizer.sep_id] for ids in tokenizer.encode(texts)]
print(json.dumps([ours, theirs, tokenizer.vocabulary_size, tokenizer.mask_id]))
"""


def build_elsewhere(name, endpoint, home, texts=()):
    """Return what BUILD prints in a process where HF_ENDPOINT and HF_HOME are set before huggingface_hub is imported."""
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_ETAG_TIMEOUT": "2"}
    call = [sys.executable, "-c", BUILD, name, json.dumps(list(texts))]
    return json.loads(subprocess.run(call, env=environment, capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size"), [("google-bert/bert-base-uncased", 30_522), ("distilbert/distilbert-base-cased", 28_996)]
)
def test_ids_equal_those_of_transformers_with_and_without_the_hub(hub, tmp_path, name, size):
    ours, theirs, vocabulary_size, mask_id = build_elsewhere(name, hub, tmp_path, AWKWARD)
    assert ours == theirs
    assert (vocabulary_size, mask_id) == (size, 103)
    assert build_elsewhere(name, "http://127.0.0.1:9", tmp_path, AWKWARD) == [ours, theirs, vocabulary_size, mask_id]


PIECES = [
    "a", "b", "the", "The", "é", "e", "##a", "##b", "##e", "##é", "ing", "##ing", "東", "##東", "σ", "##σ", "ς", "##ς", "i", "##i", "\u0301",
]  # fmt: skip
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
    "a", "b", "the", "The", "THE", "é", "É", "e\u0301", "ing", "aing", "東京", "Σ", "ΣΑΣ", "İ", "\u0301", "\u0338", "≠", "K", "a" * 101,
]  # fmt: skip
BLANKS = [" ", " ", "  ", "\n", "\t", "\xa0", "\u3000", "\x00", "\x1c", "\u200b", "\ufffd", "\r\n", ""]
WORDY = st.lists(st.sampled_from(PARTS + PUNCTUATION + BLANKS + SPECIALS), max_size=15).map("".join) | st.text(
    max_size=20
)


BERTS = {name: {"normalizer": normalizer} if normalizer else {} for name, normalizer in NORMALIZERS.items()}
BACKENDS = {  # BERT's, of which each word is encoded once, and others, of which it cannot be
    **BERTS,
    "a token of its own": {"token": AddedToken("the b")},
    "other words": {"pre_tokenizer": pre_tokenizers.Metaspace()},
    "other characters": {"normalizer": normalizers.Sequence([normalizers.Replace(" ", "a")])},
    "other pieces": {"model": models.WordLevel({token: id_ for id_, token in enumerate(SPECIALS)}, "[UNK]")},
}


def backend_of(changes):
    vocabulary = {token: id_ for id_, token in enumerate([*SPECIALS, *PIECES, *PUNCTUATION])}
    backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", continuing_subword_prefix="##"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.add_special_tokens(SPECIALS)
    for part, value in changes.items():
        backend.add_tokens([value]) if part == "token" else setattr(backend, part, value)
    backend.encode_special_tokens = True
    return backend


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request):
    return backend_of(BACKENDS[request.param])


@settings(deadline=None, max_examples=150)
@given(texts=st.lists(WORDY, max_size=5))
def test_ids_equal_those_of_the_library(backend, texts):
    tokenizer = Tokenizer(backend, BERT_SPECIALS)
    expected = [encoding.ids for encoding in backend.encode_batch(texts, add_special_tokens=False)]
    assert tokenizer.encode(texts) == tokenizer.encode(texts) == expected  # the second time all words are known


@pytest.mark.parametrize("name", BACKENDS)
def test_each_word_is_encoded_once_if_and_only_if_no_token_looks_beyond_it(name):
    tokenizer = Tokenizer(backend_of(BACKENDS[name]), BERT_SPECIALS)
    tokenizer.encode(["the b"])
    words = tokenizer._by_words
    assert (words is not None and b"the" in words._known) == (name in BERTS)


def folder_of(tmp_path, tokenizer, **specials):
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **specials).save_pretrained(tmp_path)
    return tmp_path


def without_special_tokens(tmp_path):
    backend = tokenizers.Tokenizer(models.WordLevel({"<unk>": 0, "a": 1}, unk_token="<unk>"))
    folder_of(tmp_path, backend, unk_token="<unk>")


@pytest.mark.parametrize(
    ("make", "fragment"),
    [
        (without_special_tokens, "lacks special tokens that are needed: pad_token, cls_token, sep_token"),
        (lambda path: transformers.ByT5Tokenizer().save_pretrained(path), "has no fast tokenizer"),
        (lambda path: None, "cannot be read"),
        (lambda path: (path / "tokenizer.json").write_bytes(b"\xff\xfe"), "tokenizer.json is damaged"),
        (lambda path: (path / "tokenizer.json").write_text('{"model": {}}'), "tokenizer.json is damaged"),
    ],
)
def test_a_folder_without_a_usable_tokenizer_is_refused_in_one_line(tmp_path, make, fragment):
    make(tmp_path)
    with pytest.raises(DataError, match=fragment) as refused:
        PretrainedConfig(name=str(tmp_path)).build(lambda: [], tmp_path)
    assert str(tmp_path) in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.slow
def test_a_name_that_is_nowhere_is_refused(hub, tmp_path):
    for name, endpoint in (("nobody/nothing", hub), ("./no/such folder", hub), ("some/name", "http://127.0.0.1:9")):
        code, message = build_elsewhere(name, endpoint, tmp_path)
        assert code == 3 and message.startswith(f"tokenizer.name={name} ") and "\n" not in message


def test_texts_that_are_not_valid_unicode_are_refused(tokenizer):
    undecodable = b"caf\xe9 ".decode("utf-8", errors="surrogateescape")
    for encode in (
        lambda: tokenizer.encode(["good", undecodable]),
        lambda: tokenizer.encode_words([["a", undecodable]]),
    ):
        with pytest.raises(DataError, match="not valid Unicode"):
            encode()


def test_no_text_to_train_on_is_refused_and_leaves_nothing_behind(tmp_path):
    with pytest.raises(DataError, match="no text to train a tokenizer on"):
        WordPieceConfig().build(lambda: ["", " ", "a"], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_id_beyond_any_table_is_refused_before_memory_is_reserved(symbols, tmp_path):
    symbols.save(tmp_path / "tokenizer.json")
    content = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    content["model"]["vocab"]["a"] = 2**31
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match="id 2,147,483,648"):
        Tokenizer.load(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("file", ["tokenizer.json", "tokenizer_config.json"])
def test_an_enormous_tokenizer_file_is_refused_before_it_is_read(wordpiece, tmp_path, file):
    wordpiece.save(tmp_path / "tokenizer.json")
    with (tmp_path / file).open("r+b") as opened:
        opened.truncate(2**40)  # sparse: it takes no space
    with pytest.raises(DataError, match="bytes"):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_a_regular_expression_that_backtracks_without_end_is_refused_in_one_line():
    backend = tokenizers.Tokenizer(models.WordLevel({text: id_ for id_, text in enumerate(BERT_SPECIALS.values())}))
    backend.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex("(a+)+$"), "isolated")
    tokenizer, text = Tokenizer(backend, BERT_SPECIALS), "a" * 40 + "b"
    encode = (tokenizer.encode, tokenizer.encode_flat, lambda texts: tokenizer.encode_words([texts]))
    for attempt in (*encode, lambda texts: tokenizer.spans(texts[0])):
        with pytest.raises(DataError, match="rules fail on a text") as refused:
            attempt([text])
        assert "\n" not in str(refused.value)
