"""Excel workbooks: the same rows as when saved as csv, or refused with the sheet and the row."""

import datetime

import openpyxl
import pytest

from encoderlab.data.files.files import read_unlabelled
from encoderlab.errors import DataError
from tests.data.files.written import error_of, load, train_of


def workbook(path, **sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_cells_are_texts_and_whole_numbers_have_no_decimal_point(tmp_path):
    rows = [
        ["text", "label"],
        ["good, really\nyes", 1],
        ["NA", 2.0],
        [2.5, 1],
        [None, 2],
        [True, 1],
        [None, None],
        [datetime.date(2026, 1, 2), 2],
    ]
    file = workbook(tmp_path / "rows.xlsx", rows=rows)
    expected = ["good, really\nyes", "NA", "2.5", "", "true", "2026-01-02T00:00:00"]
    assert train_of(file) == list(zip(expected, "121212", strict=True))


def test_the_sheet_is_the_one_with_the_columns_or_the_one_named(tmp_path):
    rows = [["text", "label"], ["x", "a"], ["y", "b"]]
    file = workbook(tmp_path / "rows.xlsx", notes=[["nothing here"]], data=rows)
    assert train_of(file) == [("x", "a"), ("y", "b")]
    twice = workbook(tmp_path / "twice.xlsx", first=rows, second=[*rows, ["z", "b"]])
    assert error_of(twice) == "twice.xlsx has the columns on 2 sheets. Allowed: first, second. Set dataset.sheet=NAME."
    assert len(train_of(twice, sheet="second")) == 3
    assert error_of(twice, sheet="third").startswith("twice.xlsx has no sheet 'third'. Allowed: first, second.")


def test_incomplete_or_damaged_workbooks_are_refused_with_sheet_and_row(tmp_path):
    head = ["text", "label"]
    assert error_of(workbook(tmp_path / "a.xlsx", rows=[head, ["x", "a"], ["y", None]])).startswith(
        "a.xlsx, sheet rows, line 3 has no label"
    )
    assert "a.xlsx, sheet rows has no column 'txt'. Allowed: text, label." in error_of(tmp_path / "a.xlsx", text="txt")
    assert "line 2 holds the error #N/A" in error_of(workbook(tmp_path / "b.xlsx", rows=[head, ["#N/A", "a"]]))
    (tmp_path / "c.xlsx").write_bytes(b"text,label\n")
    assert error_of(tmp_path / "c.xlsx").startswith("c.xlsx is not a readable Excel workbook")


def test_new_texts_are_read_from_a_workbook(tmp_path):
    file = workbook(tmp_path / "rows.xlsx", rows=[["id", "text"], [1, "x"], [2, "y"]])
    assert [example.text for example in read_unlabelled(file, text="text", text_pair=None, words=False)] == ["x", "y"]


def test_without_openpyxl_the_extra_is_named(tmp_path, monkeypatch):
    file = workbook(tmp_path / "rows.xlsx", rows=[["text", "label"], ["x", "a"]])
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(Exception, match=r"openpyxl is not installed\. Run pip install 'encoderlab\[excel\]'"):
        load(file)


def test_a_workbook_that_decompresses_to_too_much_is_refused(tmp_path, monkeypatch):
    file = workbook(tmp_path / "rows.xlsx", rows=[["text", "label"], ["x" * 30_000, "a"]])
    monkeypatch.setattr("encoderlab.data.files.spreadsheets.most_unpacked", lambda _: 1000)
    with pytest.raises(DataError, match="unpacks to more than 1,000 bytes"):
        load(file)
