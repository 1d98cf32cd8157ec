"""Errors a user reads: one line that says what is wrong, what is allowed and what to do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.errors import DataError, SettingError, TrainingError, UserError, closest

KINDS = [UserError, SettingError, DataError, TrainingError]


def test_an_error_says_what_is_wrong_what_is_allowed_and_what_to_do_in_one_line():
    error = SettingError("model.n_layers is 0", allowed="at least 1", remedy="Set model.n_layers=2")
    assert str(error) == "model.n_layers is 0. Allowed: at least 1. Set model.n_layers=2."


def test_unknown_parts_are_left_out():
    assert str(DataError("reviews.csv is empty")) == "reviews.csv is empty."
    assert (
        str(DataError("reviews.csv is empty", remedy="Use another file")) == "reviews.csv is empty. Use another file."
    )
    assert str(DataError("label is 'x'", allowed="a, b")) == "label is 'x'. Allowed: a, b."


sentences = st.text("ab .?!=", min_size=1, max_size=12)


@given(
    kind=st.sampled_from(KINDS),
    wrong=sentences,
    allowed=st.one_of(st.just(""), sentences),
    remedy=st.one_of(st.just(""), sentences),
)
def test_every_part_ends_like_a_sentence_and_none_is_changed(kind, wrong, allowed, remedy):
    error = kind(wrong, allowed=allowed, remedy=remedy)
    rest = str(error)
    for part in (wrong, f"Allowed: {allowed}" if allowed else "", remedy):
        if part:
            assert rest.startswith(part)
            rest = rest.removeprefix(part)
            if part[-1] not in ".?!":
                assert rest[0] == "."
                rest = rest[1:]
            rest = rest.removeprefix(" ") if rest else rest
    assert rest == ""
    assert (error.wrong, error.allowed, error.remedy) == (wrong, allowed, remedy)


def test_scripts_can_distinguish_the_kinds_of_mistakes():
    assert [kind.exit_code for kind in KINDS] == [1, 2, 3, 4]
    assert all(issubclass(kind, UserError) for kind in KINDS)


@pytest.mark.parametrize(
    ("typed", "meant"), [("n_layer", "n_layers"), ("dropuot", "dropout"), ("n_layers", "n_layers")]
)
def test_a_typo_is_recognised(typed, meant):
    assert closest(typed, ["n_layers", "dropout", "norm"]) == meant


def test_nothing_is_suggested_if_nothing_is_close():
    assert closest("zzz", ["n_layers", "dropout"]) == ""
    assert closest("zzz", []) == ""
