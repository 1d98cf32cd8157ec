"""Sequences: [CLS] a [SEP] or [CLS] a [SEP] b [SEP], never longer than the model's limit, the longer text truncated
first.
"""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.data.tokenizers import SymbolsConfig
from encoderlab.errors import SettingError
from encoderlab.runs.task import build_task
from encoderlab.tasks.config import ClassificationConfig, TaggingConfig
from encoderlab.tasks.sequences import join, longest_first

TOKENIZER = SymbolsConfig().build(lambda: [], Path())
CLS, SEP, PAD = TOKENIZER.cls_id, TOKENIZER.sep_id, TOKENIZER.pad_id
pieces = st.lists(st.integers(5, 22), max_size=40)
lengths = st.integers(0, 60)


def cut_piece_by_piece(first, second, room):
    """The rule of BERT's own code: drop the last piece of the longer text until both fit."""
    while first + second > max(room, 0):
        if first > second:
            first -= 1
        else:
            second -= 1
    return first, second


@given(first=lengths, second=lengths, room=st.integers(-3, 130))
def test_truncated_pairs_use_exactly_the_available_length(first, second, room):
    kept = longest_first(first, second, room)
    assert sum(kept) == min(first + second, max(room, 0))
    assert 0 <= kept[0] <= first
    assert 0 <= kept[1] <= second


@given(first=lengths, second=lengths, more=st.integers(0, 9))
def test_two_texts_that_fit_are_not_truncated(first, second, more):
    assert longest_first(first, second, first + second + more) == (first, second)


@given(first=lengths, second=lengths, room=st.integers(0, 130))
def test_the_shorter_text_keeps_half_of_the_length_or_all_of_itself(first, second, room):
    assert min(longest_first(first, second, room)) >= min(first, second, room // 2)


@given(first=lengths, second=lengths, room=st.integers(-3, 130))
def test_truncating_at_once_equals_dropping_tokens_of_the_longer_text_one_by_one(first, second, room):
    assert longest_first(first, second, room) == cut_piece_by_piece(first, second, room)


@given(first=pieces, max_length=st.integers(2, 45), label=st.one_of(st.none(), st.integers(0, 5)))
def test_a_text_is_enclosed_in_cls_and_sep_and_loses_only_its_end(first, max_length, label):
    encoded = join(TOKENIZER, first, None, max_length, label)
    assert encoded.input_ids == [CLS, *first[: max_length - 2], SEP]
    assert encoded.token_type_ids == [0] * len(encoded.input_ids)
    assert encoded.truncated == (len(first) > max_length - 2)
    assert encoded.label == label
    assert encoded.token_labels is None


@given(first=pieces, second=pieces, max_length=st.integers(3, 90))
def test_a_pair_keeps_its_special_tokens_its_limit_and_its_segments(first, second, max_length):
    encoded = join(TOKENIZER, first, second, max_length)
    ids, segments = encoded.input_ids, encoded.token_type_ids
    assert ids[0] == CLS
    assert ids[-1] == SEP
    assert ids.count(SEP) == 2
    assert len(ids) == len(segments) <= max_length
    border = ids.index(SEP) + 1
    assert segments == [0] * border + [1] * (len(ids) - border)
    assert ids[1 : border - 1] == first[: border - 2]
    assert ids[border:-1] == second[: len(ids) - border - 1]
    assert encoded.truncated == (len(first) + len(second) + 3 > max_length)


def test_an_empty_text_is_still_a_sequence():
    assert join(TOKENIZER, [], None, 10).input_ids == [CLS, SEP]
    assert join(TOKENIZER, [], [], 10).input_ids == [CLS, SEP, SEP]
    assert join(TOKENIZER, [], [], 10).token_type_ids == [0, 0, 1]


@given(text=st.text("(){}[]<>", max_size=8), pair=st.text("(){}[]<>", max_size=8))
@settings(max_examples=20)
def test_an_empty_second_text_is_still_marked(text, pair):
    assert (
        join(TOKENIZER, TOKENIZER.encode([text])[0], TOKENIZER.encode([pair])[0], 64).token_type_ids.count(1)
        == len(pair) + 1
    )


@pytest.mark.parametrize(
    ("task", "max_length", "shortest", "example"),
    [
        (ClassificationConfig(name="pairs"), 4, 5, TextExample("()", "[]")),
        (TaggingConfig(name="words"), 2, 3, WordsExample(("1", "2"))),
        (TaggingConfig(name="words", special_tokens=False), 0, 1, WordsExample(("1", "2"))),
    ],
)
def test_a_model_without_room_for_an_ordinary_token_is_refused(task, max_length, shortest, example):
    with pytest.raises(SettingError, match=f"model.max_length={max_length} leaves no room.*at least {shortest}"):
        build_task(task, TOKENIZER, ["a", "b"], max_length)
    encoded = build_task(task, TOKENIZER, ["a", "b"], shortest).encode([example])[0]
    assert len(encoded.input_ids) == shortest
    assert {CLS, SEP}.issuperset(encoded.input_ids) is False
