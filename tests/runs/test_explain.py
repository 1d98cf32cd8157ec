"""Word importance: a word's score is the effect of hiding it, whatever else is requested, and belongs to its text."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.config.commands import AttentionConfig
from encoderlab.data.built_in import BracketsDataset
from encoderlab.data.examples import TextExample, texts_of
from encoderlab.data.token_store import repeated, tokenize_examples
from encoderlab.errors import DataError
from encoderlab.models.explain import selected_examples, word_importance
from encoderlab.network.config import Activation, Norm, NormPosition, Pooling, Positions
from encoderlab.tasks.classification import ClassificationConfig
from encoderlab.tasks.pretraining import PretrainingConfig
from encoderlab.tasks.sequences import longest_first
from encoderlab.tasks.tagging import TaggingConfig
from encoderlab.tasks.task import Windows
from encoderlab.tasks.vectors import EncodingConfig
from tests.runs.small_model import LABELS, TOKENIZER, model_of

pytestmark = pytest.mark.usefixtures("one_thread")
SHAPES = [
    {"positions": Positions.learned, "pooling": Pooling.mean, "norm_position": NormPosition.pre, "segments": 2},
    {
        "positions": Positions.rotary,
        "norm": Norm.rms,
        "activation": Activation.geglu,
        "pooling": Pooling.cls,
        "bias": False,
    },
    {
        "pooling": Pooling.pooler,
        "dropout": 0.5,
        "attention_dropout": 0.5,
    },
]
digits = st.text("0123456789ab", min_size=1, max_size=14)
LONG = TextExample("0123456789ab73a")


def scores_of(importance):
    return np.array([word.score for word in importance.words])


def odds_of(model, example, label, hidden=()):
    """Return the log-odds of a label for a text, or a pair, of which tokens are hidden: each a text and a position."""
    store = repeated(tokenize_examples([example], TOKENIZER), 1)
    for text, position in hidden:
        store[("first", "second")[text]].values[position] = TOKENIZER.mask_id
    model.network.eval()
    with torch.inference_mode():
        prediction = model.network(model.task.rows(store).gather(np.array([0]), TOKENIZER.pad_id))
    probability = prediction.sequence_logits.double().softmax(-1)[0, LABELS.index(label)]
    return float(torch.log(probability) - torch.log1p(-probability))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_score_is_the_change_of_the_log_odds_without_the_word(shape):
    model = model_of(**shape)
    example = TextExample("12ab", "73")
    (importance,) = word_importance(model, [example])
    before = odds_of(model, example, importance.label)
    for word in importance.words:
        spans = enumerate(TOKENIZER.spans(texts_of(example)[word.text]))
        hidden = [(word.text, place) for place, (_, begin, _) in spans if word.begin <= begin < word.end]
        assert len(hidden) == 1
        after = odds_of(model, example, importance.label, hidden)
        assert word.score == pytest.approx(before - after, abs=2e-4)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_a_word_is_hidden_in_every_window_that_reads_it(pooling):
    task = ClassificationConfig(name="long", windows=Windows(pooling))
    model = model_of(task, max_length=8, pooling=Pooling.mean)
    (importance,) = word_importance(model, [LONG])
    assert [(word.begin, word.end) for word in importance.words] == [(n, n + 1) for n in range(15)]
    shared = 4  # [CLS] 0 1 2 3 4: in the first two windows
    ids = model.rows([LONG]).gather(np.array([0]), TOKENIZER.pad_id).input_ids
    assert (ids == TOKENIZER.encode([LONG.text])[0][shared]).sum() == 2
    before = odds_of(model, LONG, importance.label)
    expected = before - odds_of(model, LONG, importance.label, [(0, shared)])
    assert importance.words[shared].score == pytest.approx(expected, abs=2e-4)


def test_a_very_long_text_loses_neighbouring_words_together(monkeypatch):
    monkeypatch.setattr("encoderlab.models.explain.MOST_OCCLUSIONS", 2)
    model = model_of()
    text = TextExample("1234")
    (importance,) = word_importance(model, [text])
    hidden = [(0, 0), (0, 1)]
    change = odds_of(model, text, importance.label) - odds_of(model, text, importance.label, hidden)
    assert [word.score for word in importance.words[:2]] == pytest.approx([change / 2] * 2, abs=2e-4)
    assert len(importance.words) == 4


@given(text=st.text("0123456789ab xy", max_size=16), pair=st.none() | st.text("0123456789ab ", max_size=16))
@settings(max_examples=30)
def test_every_word_stands_for_its_characters(text, pair):
    example = TextExample(text, pair)
    (importance,) = word_importance(model_of(), [example])
    lengths = [len(TOKENIZER.spans(one)) for one in texts_of(example)]
    kept = [min(lengths[0], 10)] if pair is None else np.concatenate(longest_first(*np.array(lengths)[:, None], 9))
    begins = []
    for number, of_text in enumerate(texts_of(example)):
        begins += [(number, begin) for _, begin, _ in TOKENIZER.spans(of_text)[: int(kept[number])]]
    assert [(word.text, word.begin) for word in importance.words] == begins
    assert [word.text for word in importance.words] == sorted(word.text for word in importance.words)


def test_of_two_classes_one_opposes_the_other_and_the_likeliest_is_explained():
    model = model_of(labels=LABELS[:2])
    examples = [TextExample("12ab"), TextExample("3")]
    up, down = (word_importance(model, examples, labels=[label] * 2) for label in LABELS[:2])
    for one, other, likeliest in zip(up, down, word_importance(model, examples), strict=True):
        assert sum(one.probabilities.values()) == pytest.approx(1) and one.probabilities == other.probabilities
        np.testing.assert_allclose(scores_of(one), -scores_of(other), atol=1e-3)
        assert likeliest.label == max(likeliest.probabilities, key=likeliest.probabilities.get)


@pytest.mark.parametrize("task", [TaggingConfig(name="t"), PretrainingConfig(name="w"), EncodingConfig(name="bert")])
def test_a_model_that_does_not_label_texts_is_refused(task):
    with pytest.raises(DataError, match="finetune"):
        word_importance(model_of(task, labels=["a", "b"]), [TextExample("1")])


def test_rows_are_named_by_their_split_and_missing_ones_refused(tmp_path):
    dataset = BracketsDataset(train_rows=20, validation_rows=6, test_rows=4, pairs=5)
    model = model_of()
    model.config.dataset = dataset

    def names(**selection):
        return list(selected_examples(AttentionConfig(cache_dir=str(tmp_path), run="outputs/a", **selection), model))

    assert names() == ["validation-0"]
    assert names(split="test", rows=[3, 1]) == ["test-3", "test-1"]
    for row in (4, -1):
        with pytest.raises(DataError, match="0 to 3"):
            names(split="test", rows=[row])
