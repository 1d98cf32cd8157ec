"""Building a tokenizer from texts, a folder or the hub: the same vocabulary in every process, and refusals."""

import json
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import tokenizers
import transformers
from huggingface_hub.errors import RevisionNotFoundError
from tokenizers import models

from encoderlab.data.tokenizers import config as tokenizer_config
from encoderlab.data.tokenizers.config import PretrainedConfig, SymbolsConfig, WordPieceConfig
from encoderlab.data.tokenizers.tokenizer import Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.shipped import shipped_folder
from tests.data.tokenizers.texts import AWKWARD, TEXTS


def test_case_is_kept_on_request(tmp_path):
    cased = WordPieceConfig(vocabulary_size=300, lowercase=False).build(lambda: TEXTS, tmp_path)
    assert cased.pieces(cased.encode(["The"])[0]) == ["The"]
    assert cased.encode(["The"]) != cased.encode(["the"])


def test_rare_pieces_are_not_learned(tmp_path):
    texts = ["abab abab abab xyxy"]
    often = WordPieceConfig(min_frequency=3).build(lambda: texts, tmp_path)
    ever = WordPieceConfig(min_frequency=1).build(lambda: texts, tmp_path)
    assert often.encode(["abab xyxy"])[0][1:] == [often.unk_id]
    assert len(ever.encode(["abab xyxy"])[0]) == 2


def test_the_vocabulary_size_is_a_limit_even_if_there_are_more_characters(tmp_path):
    texts = ["".join(chr(0x4E00 + n) + chr(0x0430 + n % 32) for n in range(500))] * 2
    assert WordPieceConfig(vocabulary_size=100).build(lambda: texts, tmp_path).vocabulary_size <= 100


TRAIN = """
import sys
from pathlib import Path
from encoderlab.data.tokenizers.config import WordPieceConfig
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


@pytest.mark.parametrize("texts", [[], ["", "  "], ["a"]])
def test_training_on_no_text_is_refused_and_leaves_nothing_behind(texts, tmp_path):
    with pytest.raises(DataError) as refused:
        WordPieceConfig().build(lambda: texts, tmp_path)
    assert str(refused.value) == (
        "There is no text to train a tokenizer on. Allowed: texts in which a character occurs 2 times. "
        "Use more rows, or tokenizer=bert_base_uncased."
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vocabulary_size": 99}, "tokenizer.vocabulary_size is 99. Allowed: at least 100."),
        ({"min_frequency": 0}, "tokenizer.min_frequency is 0."),
    ],
)
def test_settings_out_of_range_are_refused(values, message):
    with pytest.raises(SettingError) as refused:
        WordPieceConfig(**values)
    assert message in str(refused.value)


def test_other_symbols_can_be_chosen():
    tokenizer = SymbolsConfig(symbols="ab").build(lambda: [], Path("never written"))
    assert (tokenizer.vocabulary_size, tokenizer.encode(["ab1"])) == (7, [[5, 6, 1]])


@pytest.mark.parametrize("listed", ["", "aba"])
def test_symbols_listed_twice_or_not_at_all_are_refused(listed):
    with pytest.raises(SettingError) as refused:
        SymbolsConfig(symbols=listed)
    assert f"tokenizer.symbols is {listed!r}. Allowed: one character or more, each once." in str(refused.value)


def test_a_pretrained_tokenizer_without_the_special_tokens_we_need_is_refused(tmp_path):
    backend = tokenizers.Tokenizer(models.WordLevel({"<unk>": 0, "a": 1}, unk_token="<unk>"))
    transformers.PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>").save_pretrained(tmp_path)
    with pytest.raises(DataError) as refused:
        PretrainedConfig(name=str(tmp_path)).build(lambda: [], tmp_path)
    assert (
        f"tokenizer.name={tmp_path} lacks special tokens that are needed: pad_token, cls_token, sep_token. Allowed: tokenizers with"
        in str(refused.value)
    )


def test_the_name_of_a_shipped_encoder_gives_its_tokenizer_without_asking_the_hub(tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizer_config, "hub_answers", lambda endpoint: pytest.fail("asked the hub"))
    tokenizer = PretrainedConfig(name="mini-en").build(lambda: [], tmp_path)
    assert tokenizer.fingerprint == Tokenizer.load(shipped_folder("mini-en") / "tokenizer.json").fingerprint


def test_a_slow_tokenizer_is_refused(tmp_path):
    transformers.ByT5Tokenizer().save_pretrained(tmp_path)
    with pytest.raises(DataError) as refused:
        PretrainedConfig(name=str(tmp_path)).build(lambda: [], tmp_path)
    assert f"tokenizer.name={tmp_path} has no fast tokenizer. Allowed: a name or folder with a tokenizer.json." in str(
        refused.value
    )


def test_a_folder_without_a_tokenizer_is_refused_in_one_line(tmp_path):
    with pytest.raises(DataError) as refused:
        PretrainedConfig(name=str(tmp_path)).build(lambda: [], tmp_path)
    assert f"tokenizer.name={tmp_path} has no tokenizer that can be read (" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_hub_that_answers_with_an_error_counts_as_unreachable(tmp_path, monkeypatch):
    def failing(*_, **__):
        raise OSError("500 Server Error")

    monkeypatch.setattr(tokenizer_config, "hub_answers", lambda endpoint: True)
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", failing)
    with pytest.raises(
        DataError, match="tokenizer.name=nobody/nothing is not in the cache, and the hub cannot be reached"
    ):
        PretrainedConfig(name="nobody/nothing").build(lambda: [], tmp_path)


BUILD = """
import json, sys
from pathlib import Path
from encoderlab.data.tokenizers.config import PretrainedConfig
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


def test_a_name_unknown_to_the_hub_is_refused(hub, tmp_path):
    code, message = build_elsewhere("nobody/nothing", hub, tmp_path)
    assert code == 3
    assert message.startswith(
        "tokenizer.name=nobody/nothing is not a folder, and not on the hub (or needs a login). Allowed: a folder"
    )


def test_an_impossible_name_is_refused(hub, tmp_path):
    code, message = build_elsewhere("./no/such folder", hub, tmp_path)
    assert code == 3
    assert message.startswith("tokenizer.name=./no/such folder is neither a folder nor a valid name on the hub.")


def test_a_revision_unknown_to_the_hub_is_refused(tmp_path, monkeypatch):
    def missing(*_, **__):
        raise RevisionNotFoundError("404", response=MagicMock())

    monkeypatch.setattr(tokenizer_config, "hub_answers", lambda endpoint: True)
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", missing)
    with pytest.raises(
        DataError, match="tokenizer.name=owner/name has no revision v9. Allowed: a branch, tag or commit of it."
    ):
        PretrainedConfig(name="owner/name", revision="v9").build(lambda: [], tmp_path)


@pytest.mark.slow
def test_an_unreachable_hub_is_refused(tmp_path):
    code, message = build_elsewhere("google-bert/bert-base-uncased", "http://127.0.0.1:9", tmp_path)
    assert code == 3
    assert message.startswith(
        "tokenizer.name=google-bert/bert-base-uncased is not in the cache, and the hub cannot be reached."
    )
