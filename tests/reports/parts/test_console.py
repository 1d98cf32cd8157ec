"""The elements of every screen: plain text unless on a terminal, and no control sequences from the data."""

import io

import pytest

from encoderlab.reports.parts import console as parts


def printed(show):
    file = io.StringIO()
    show(parts.console_on(file))
    return file.getvalue()


def test_labels_and_paths_are_shown_literally():
    screen = printed(lambda console: parts.line(console, "run", "outputs/[bold]a/:smile: 1"))
    assert screen == "run: outputs/[bold]a/:smile: 1\n"


def test_no_control_character_reaches_the_terminal():
    screen = printed(lambda console: parts.listing(console, "labels", ["a\x1b[31mb", "\x07"]))
    assert "\x1b" not in screen and "\x07" not in screen
    assert len(screen.splitlines()) == 3


def test_a_line_to_copy_is_never_wrapped_and_an_empty_one_not_printed():
    long = "encoderlab train " * 40
    assert long.strip() in printed(lambda console: parts.listing(console, "next", [long]))
    assert printed(lambda console: parts.line(console, "nothing", "")) == ""
    assert printed(lambda console: parts.listing(console, "nothing", [])) == ""


@pytest.mark.parametrize(("value", "words"), [(None, "-"), (1234567, "1,234,567"), (1234.56, "1,234.6"), (0, "0")])
def test_counts_and_measured_numbers_are_written_for_people(value, words):
    assert parts.number(value) == words


def test_a_score_is_shown_with_its_interval_if_it_has_one():
    scores = {"accuracy": 0.5, "accuracy_ci95": [0.4, 0.6], "loss": 0.25}
    assert parts.with_interval(scores, "loss") == "0.250"
    assert [piece in parts.with_interval(scores, "accuracy") for piece in ("0.500", "0.400", "0.600")] == [True] * 3
    assert parts.words_of("roc_auc") == "ROC AUC"


def test_only_measured_figures_of_speed_are_shown():
    assert parts.speed({"tokens_per_second": 1234.5, "padding_fraction": None}) == "1,234 tokens/s"
    assert parts.speed({}) == ""
