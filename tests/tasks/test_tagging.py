"""Tagging: one target for each word, at its first token, and predictions for words."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.batch import Batch, Prediction
from encoderlab.data.examples import WordsExample
from encoderlab.data.tokenizers import SymbolsConfig, WordPieceConfig
from encoderlab.errors import SettingError
from encoderlab.tasks.config import Decoding, TaggingConfig, TaggingScore
from encoderlab.tasks.texts import Tagging

TOKENIZER = SymbolsConfig().build(lambda: [], Path())  # every character of a word is a piece
LABELS = ["noun", "verb", "other"]


def task_of(tokenizer=TOKENIZER, max_length=16, labels=LABELS, **settings):
    return Tagging(TaggingConfig(name="test", **settings), tokenizer, labels, max_length)


def batch_of(positions, rows, length, labels=None):
    ids = torch.ones(rows, length, dtype=torch.long)
    answers = None if labels is None else torch.tensor(labels)
    return Batch(
        ids, ids, None, torch.arange(rows), torch.tensor(positions, dtype=torch.long), None, answers, rows * length
    )


words_and_labels = st.lists(st.tuples(st.text("0123456789(!", min_size=1, max_size=4), st.integers(0, 2)), max_size=12)


@settings(deadline=None)
@given(row=words_and_labels, max_length=st.integers(3, 40), special_tokens=st.booleans())
def test_every_word_whose_first_piece_fits_has_one_target_at_that_piece(row, max_length, special_tokens):
    words, labels = tuple(word for word, _ in row), tuple(label for _, label in row)
    encoded = task_of(max_length=max_length, special_tokens=special_tokens).encode([WordsExample(words, labels)])[0]
    before = after = int(special_tokens)
    expected, place = {}, before
    for word, label in row:
        if place < max_length - after:
            expected[place] = label
        place += len(word)
    assert encoded.token_labels == expected
    assert list(encoded.token_labels) == sorted(encoded.token_labels)
    firsts = TOKENIZER.encode([word[0] for word in words[: len(expected)]])
    assert [[encoded.input_ids[place]] for place in encoded.token_labels] == firsts
    assert len(encoded.input_ids) == min(place + after, max_length)
    assert encoded.truncated == (place + after > max_length)
    assert encoded.label is None


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(words_and_labels, max_size=5))
def test_a_row_is_encoded_the_same_alone_and_among_others(rows):
    examples = [WordsExample(tuple(word for word, _ in row), tuple(label for _, label in row)) for row in rows]
    assert task_of().encode(examples) == [task_of().encode([example])[0] for example in examples]


def test_a_word_of_several_pieces_has_its_target_at_the_first(tmp_path):
    tokenizer = WordPieceConfig(vocabulary_size=100).build(lambda: ["unwanted wanted ant"] * 3 + ["xyz"] * 2, tmp_path)
    words = ("unwantedant", "  ", "xyzxyz", "ant")
    encoded = task_of(tokenizer, 60).encode([WordsExample(words, (0, 1, 2, 0))])[0]
    assert list(encoded.token_labels.values()) == [0, 1, 2, 0]
    first_pieces = tokenizer.pieces(encoded.input_ids[place] for place in encoded.token_labels)
    assert [word.startswith(piece) or piece == "[UNK]" for word, piece in zip(words, first_pieces, strict=True)] == [
        True
    ] * 4
    others = set(range(1, len(encoded.input_ids) - 1)) - set(encoded.token_labels)
    assert others
    assert all(piece.startswith("##") for piece in tokenizer.pieces(encoded.input_ids[place] for place in others))


def test_predictions_are_a_label_for_each_word_read_row_by_row():
    batch = batch_of([0, 2, 7, 8], rows=4, length=3)  # two words in row 0, none in row 1, two in row 2, none in row 3
    answers = task_of().predictions(Prediction(token_logits=torch.eye(3)[[1, 2, 0, 0]]), batch)
    assert [answer.labels for answer in answers] == [("verb", "other"), (), ("noun", "noun"), ()]
    assert all(answer.probabilities is None for answer in answers)


BIO = ["O", "B-x", "I-x"]


def test_without_entities_the_score_is_token_accuracy_and_entity_scores_are_refused():
    assert task_of().main_score == task_of().metrics().main_score == "token_accuracy"
    with pytest.raises(
        SettingError, match="task.score=entity_f1 needs BIO or BIOES labels.* Set task.score=token_accuracy."
    ):
        task_of(score=TaggingScore.entity_f1)


def test_predicted_and_scored_entities_are_valid_sequences():
    logits = torch.tensor([[1.0, 0.9, 0.0], [0.0, 0.5, 2.0], [0.0, 2.0, 1.0]])  # word by word: O I-x, and B-x
    batch = batch_of([0, 2, 4], rows=2, length=3, labels=[1, 2, 1])
    task = task_of(labels=BIO)
    answers = task.predictions(Prediction(token_logits=logits), batch)
    assert [answer.labels for answer in answers] == [("B-x", "I-x"), ("B-x",)]
    chances = logits.softmax(-1)
    assert answers[0].word_confidences == pytest.approx([chances[0, 1].item(), chances[1, 2].item()])
    metrics = task.metrics()
    metrics.keep(metrics.columns(Prediction(token_logits=logits), batch))
    assert metrics.scores().values["entity_f1"] == 1
    plain = task_of(labels=BIO, decoding=Decoding.argmax).predictions(Prediction(token_logits=logits), batch)
    assert plain[0].labels == ("O", "I-x")
    with pytest.raises(SettingError, match="task.decoding=valid needs BIO or BIOES labels.* Set task.decoding=argmax."):
        task_of(decoding=Decoding.valid)
