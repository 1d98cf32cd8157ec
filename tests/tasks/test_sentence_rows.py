"""The rows of a pretraining run: pairs truncated to length, masked, and counted beforehand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.data.dataset import Pack
from encoderlab.data.token_store import memory_store
from encoderlab.data.tokenizers import WordPieceConfig
from encoderlab.tasks.config import PretrainingConfig, SecondSentence
from encoderlab.tasks.pretraining import Pretraining
from encoderlab.tasks.sentence_rows import SentenceRows

COLUMNS = {"input_ids": "uint16", "document": "uint32", "paragraph": "uint32"}
WORDS = ["under overtaken windows and understated overlays we wander"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return WordPieceConfig(vocabulary_size=100).build(lambda: iter(WORDS * 20), tmp_path_factory.mktemp("tokenizers"))


def rows_of(tokenizer, max_length=24, pack=Pack.segments, **task):
    draw = np.random.default_rng(0)
    sentences = [
        {"input_ids": draw.integers(0, tokenizer.vocabulary_size, draw.integers(1, 15)).tolist(), "document": (i // 9,)}
        for i in range(200)
    ]
    store = memory_store(COLUMNS, [sentence | {"paragraph": (i // 3,)} for i, sentence in enumerate(sentences)])
    return SentenceRows(store, Pretraining(PretrainingConfig(name="test", **task), tokenizer, [], max_length), pack)


@given(
    second=st.sampled_from(SecondSentence),
    pack=st.sampled_from(Pack),
    epoch=st.integers(0, 3),
    max_length=st.integers(5, 40),
    chosen=st.integers(0, 2**32 - 1),
    whole_words=st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_a_batch_has_the_announced_length_and_number_of_targets(
    tokenizer, second, pack, epoch, max_length, chosen, whole_words
):
    rows = rows_of(tokenizer, max_length, pack, second_sentence=second, whole_words=whole_words)
    drawn = rows.epoch(1, epoch)
    some = np.random.default_rng(chosen).integers(0, len(rows), 7)
    batch = drawn.gather(some, tokenizer.pad_id)
    real = (
        batch.input_ids.shape[1] * np.ones(7) if batch.attention_mask is None else batch.attention_mask.sum(1).numpy()
    )
    assert real.tolist() == drawn.lengths[some].tolist()
    assert batch.n_tokens == real.sum() and batch.input_ids.shape[1] <= max_length
    masked = drawn.prepare(batch)
    assert (batch.n_targets is None) == whole_words
    assert batch.n_targets in (None, len(masked.target_positions))


def test_the_truncated_fraction_counts_rows_longer_than_the_limit(tokenizer):
    rows = rows_of(tokenizer, max_length=20, pack=Pack.sentences)
    cut = [len(first) + len(second) > 17 for first, second in rows.epoch(0, 0).texts(np.arange(len(rows)))]
    assert 0 < np.mean(cut) < 1
    assert rows.truncated_share() == pytest.approx(np.mean(cut))
