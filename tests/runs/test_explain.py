"""Word importance: a word's score is the effect of hiding it, whatever else is requested, and belongs to its text."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.config.commands import AttentionConfig
from encoderlab.data.built_in import BracketsDataset
from encoderlab.data.examples import TextExample
from encoderlab.errors import DataError
from encoderlab.model.config import Activation, Norm, NormPosition, Pooling, Positions
from encoderlab.runs.explain import selected_examples, spans_of, word_importance
from encoderlab.tasks.config import ClassificationConfig, PretrainingConfig, TaggingConfig, Windows
from encoderlab.tasks.rows import hold_encoded
from encoderlab.tasks.texts import EncodingConfig
from tests.runs.small_assembly import LABELS, TOKENIZER, assembly_of

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


def odds_of(assembly, encoded, label):
    """Return the log-odds of a label for one sequence of ids."""
    rows = hold_encoded([encoded], TOKENIZER.vocabulary_size, assembly.task.heads)
    assembly.model.eval()
    with torch.inference_mode():
        prediction = assembly.model(rows.gather(np.array([0]), TOKENIZER.pad_id))
    probability = prediction.sequence_logits.double().softmax(-1)[0, LABELS.index(label)]
    return float(torch.log(probability) - torch.log1p(-probability))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_score_is_the_change_of_the_log_odds_without_the_word(shape):
    assembly, text = assembly_of(**shape), TextExample("12ab", "73")
    (importance,) = word_importance(assembly, [text])
    (encoded,) = assembly.task.encode([text])
    spans, before = spans_of(TOKENIZER, text, encoded), odds_of(assembly, encoded, importance.label)
    for word in importance.words:
        hidden = [s is not None and s.text == word.text and word.begin <= s.begin < word.end for s in spans]
        ids = [TOKENIZER.mask_id if hide else id_ for id_, hide in zip(encoded.input_ids, hidden, strict=True)]
        after = odds_of(assembly, replace(encoded, input_ids=ids), importance.label)
        assert word.score == pytest.approx(before - after, abs=2e-4)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_a_word_is_hidden_in_every_window_that_reads_it(pooling):
    task = ClassificationConfig(name="long", windows=Windows(pooling))
    assembly = assembly_of(task, max_length=8, pooling=Pooling.mean)
    (importance,) = word_importance(assembly, [LONG])
    (encoded,) = assembly.task.encode([LONG])
    assert [(word.begin, word.end) for word in importance.words] == [(n, n + 1) for n in range(15)]
    ids, shared = np.array(encoded.input_ids), 5  # [CLS] 0 1 2 3 4: in the first two windows
    assert (ids == ids[shared]).sum() == 2
    hidden = replace(encoded, input_ids=np.where(ids == ids[shared], TOKENIZER.mask_id, ids).tolist())
    expected = odds_of(assembly, encoded, importance.label) - odds_of(assembly, hidden, importance.label)
    assert importance.words[shared - 1].score == pytest.approx(expected, abs=2e-4)


def test_a_very_long_text_loses_neighbouring_words_together(monkeypatch):
    monkeypatch.setattr("encoderlab.runs.explain.MOST_OCCLUSIONS", 2)
    assembly, text = assembly_of(), TextExample("1234")
    (importance,) = word_importance(assembly, [text])
    (encoded,) = assembly.task.encode([text])
    hidden = replace(encoded, input_ids=[encoded.input_ids[0], *[TOKENIZER.mask_id] * 2, *encoded.input_ids[3:]])
    change = odds_of(assembly, encoded, importance.label) - odds_of(assembly, hidden, importance.label)
    assert [word.score for word in importance.words[:2]] == pytest.approx([change / 2] * 2, abs=2e-4)
    assert len(importance.words) == 4


@given(text=st.text("0123456789ab xy", max_size=16), pair=st.none() | st.text("0123456789ab ", max_size=16))
@settings(max_examples=30)
def test_every_word_stands_for_its_characters(text, pair):
    example = TextExample(text, pair)
    (importance,) = word_importance(assembly_of(), [example])
    (encoded,) = assembly_of().task.encode([example])
    spans = [(one.text, one.begin) for one in spans_of(TOKENIZER, example, encoded) if one is not None]
    assert [(word.text, word.begin) for word in importance.words] == spans
    assert [word.text for word in importance.words] == sorted(word.text for word in importance.words)


def test_of_two_classes_one_opposes_the_other_and_the_likeliest_is_explained():
    assembly = assembly_of(labels=LABELS[:2])
    examples = [TextExample("12ab"), TextExample("3")]
    up, down = (word_importance(assembly, examples, labels=[label] * 2) for label in LABELS[:2])
    for one, other, likeliest in zip(up, down, word_importance(assembly, examples), strict=True):
        assert sum(one.probabilities.values()) == pytest.approx(1) and one.probabilities == other.probabilities
        np.testing.assert_allclose(scores_of(one), -scores_of(other), atol=1e-3)
        assert likeliest.label == max(likeliest.probabilities, key=likeliest.probabilities.get)


@pytest.mark.parametrize("task", [TaggingConfig(name="t"), PretrainingConfig(name="w"), EncodingConfig(name="bert")])
def test_a_model_that_does_not_label_texts_is_refused(task):
    with pytest.raises(DataError, match="finetune"):
        word_importance(assembly_of(task, labels=["a", "b"]), [TextExample("1")])


def test_rows_are_named_by_their_split_and_missing_ones_refused(tmp_path):
    assembly = assembly_of()
    dataset = BracketsDataset(train_rows=20, validation_rows=6, test_rows=4, pairs=5)
    config = SimpleNamespace(task=assembly.config.task, dataset=dataset)
    run = SimpleNamespace(config=config, task=assembly.task, known_origin=assembly)

    def names(**selection):
        return list(selected_examples(AttentionConfig(cache_dir=str(tmp_path), run="outputs/a", **selection), run))

    assert names() == ["validation-0"]
    assert names(split="test", rows=[3, 1]) == ["test-3", "test-1"]
    for row in (4, -1):
        with pytest.raises(DataError, match="0 to 3"):
            names(split="test", rows=[row])
