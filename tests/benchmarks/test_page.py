"""RESULTS.md: tables are rewritten, prose stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import page
from benchmarks.growth import AXES
from benchmarks.jobs import JOBS
from encoderlab.errors import DataError

PAGE = "# Title\n\nBefore.\n\n<!-- begin one -->\nold\ntable\n<!-- end one -->\n\nBetween.\n<!-- begin two --><!-- end two -->\nAfter.\n"
prose = st.text().filter(lambda text: "<!--" not in text)


def test_a_table_is_replaced_between_its_markers_and_all_else_stays():
    found = page.with_tables(PAGE, {"one": "new"})
    assert found == PAGE.replace("old\ntable", "new")


@given(prose, prose, prose, st.text().filter(lambda text: "-->" not in text))
def test_any_prose_is_kept(before, between, after, table):
    markers = "{}<!-- begin one -->\n{}\n<!-- end one -->{}<!-- begin two -->\nkept\n<!-- end two -->{}"
    written = page.with_tables(markers.format(before, "old", between, after), {"one": table})
    assert written == markers.format(before, table, between, after)
    assert page.with_tables(written, {"one": table}) == written


def test_a_table_without_markers_is_refused():
    with pytest.raises(DataError, match="no place for three.*begin three"):
        page.with_tables(PAGE, {"three": "new"})


def test_the_page_has_markers_for_every_table():
    names = [*JOBS, *(f"growth_{axis}" for axis in AXES), "gpu"]
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.with_tables(text, dict.fromkeys(names, "x")).count("\nx\n") >= len(names)


def test_kept_figures_are_read_back(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "FOLDER", tmp_path / "results")
    assert page.kept() == {}
    page.keep("one", {"rounds": [1.5]})
    assert page.kept() == {"one": {"rounds": [1.5]}}
