"""A comparison in words: a line for each setting, the same on screen and in Markdown, which no label can break."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.reports.comparison.screen import (
    MOST_FOLDERS,
    MOST_VALUES,
    cells,
    columns,
    escaped,
    headline,
    markdown,
    rows_of_table,
    show_comparison,
)


def printed(comparison, paths=()):
    file = io.StringIO()
    show_comparison(comparison, dict(paths), file)
    return file.getvalue()


def test_each_setting_has_a_cell_for_each_column(comparison):
    first, second = (cells(row, comparison) for row in comparison["settings"])
    assert len(first) == len(second) == len(columns(comparison))
    assert first == ["0.001", "2", "0.820", "0.010", "0.800 to 0.840", "the reference", "", "12.0"]
    assert second[4:7] == ["0.700 to 0.800 over rows", "-0.070 (-0.100 to -0.040)", "<0.001 worse"]


def test_a_difference_that_is_not_distinguishable_has_only_its_p_value(comparison):
    row = comparison["settings"][1]
    row["difference"] |= {"p_corrected": 0.2, "outcome": "not distinguishable"}
    assert cells(row, comparison)[6] == "0.200"
    row["difference"] |= {"p_corrected": None}
    assert cells(row, comparison)[6] == "-"


def test_a_single_setting_has_no_reference(comparison):
    comparison["settings"] = comparison["settings"][:1]
    assert cells(comparison["settings"][0], comparison)[5] == ""
    assert headline(comparison) == "Accuracy of 2 runs of films on test (1,200 rows): one setting"


def test_the_screen_names_differences_notes_runs_and_files(comparison):
    screen = printed(comparison, {"html": "there/compare.html"})
    assert "Accuracy of 3 runs of films on test (1,200 rows): 2 settings" in screen
    assert "training.learning_rate: 0.001 | 0.01" in screen and "One *seed* each" in screen
    assert "outputs/c" in screen and "html: there/compare.html" in screen


def test_only_some_of_many_values_and_runs_are_shown(comparison):
    comparison["differing"]["seed"] = ["1", "2"] * MOST_VALUES
    row = comparison["settings"][0]
    row["runs"] = [row["runs"][0] | {"folder": f"run{number}"} for number in range(MOST_FOLDERS + 5)]
    screen = printed(comparison)
    assert "seed: 1 | 2\n" in screen and "and 6 more" in screen


def test_markdown_has_the_table_and_the_settings_that_differ(comparison):
    text = markdown(comparison)
    assert "| learning\\_rate |" in text and "mini\\|small" in text and "One \\*seed\\* each." in text
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("|")}
    assert widths == {len(columns(comparison)) + 1, len(comparison["settings"]) + 2}


@given(st.lists(st.lists(st.text(), min_size=3, max_size=3), max_size=3))
def test_no_text_breaks_a_table_row(rows):
    for line in rows_of_table(["a", "b", "c"], rows):
        assert "\n" not in line and len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 4


@pytest.mark.parametrize("text", ["<b>", "a|b", "*x*", "[a](b)", "`x`", "a\nb"])
def test_text_is_escaped_in_markdown(text):
    assert not re.search(r"(?<!\\)[|*<\[`\n]", escaped(text))
