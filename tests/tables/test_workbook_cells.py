"""Cells of workbooks as programs write them: line breaks, merged cells, formulas, errors, dates among words, strays."""

import datetime
import zipfile

import openpyxl
import pandas as pd
import pytest
import xlsxwriter

from encoderlab.data.files import FilesDataset, read_unlabelled
from encoderlab.errors import DataError

TEXTS = [f"the parcel of case {row} has come" for row in range(12)]


def written(path, rows, merged=(), formats=()):
    """Write rows with XlsxWriter, below the names text and label."""
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet("Rows")
        for number, row in enumerate([("text", "label", "more"), *rows]):
            for column, value in enumerate(row):
                style = book.add_format({"num_format": formats[column]}) if column < len(formats) and number else None
                sheet.write(number, column, value, style)
        for place, value in merged:
            sheet.merge_range(place, value)
    return path


def train(path, tmp_path, **settings):
    """Return the rows of a workbook, all of which are training rows."""
    data = FilesDataset(path=str(path), validation_fraction=0.0, **settings).load(tmp_path / "cache")
    return [(row.text, data.labels[row.label]) for row in data.by_name["train"]]


def carried(path):
    """Return the further cells of the rows of a workbook, as `predict` copies them."""
    return list(read_unlabelled(path, text="text", text_pair=None, words=False).carried)


def test_escaped_characters_are_what_they_stand_for(tmp_path):
    texts = ["first\r\nsecond", "literal _x000D_ and _x005F_", "a\tb", "plain"]
    path = written(
        tmp_path / "a.xlsx", [(text, label) for text, label in zip(texts, ["p\r", "n", "p", "n"], strict=True)]
    )
    assert [text for text, _ in train(path, tmp_path)] == texts
    assert [label for _, label in train(path, tmp_path)] == ["p", "n", "p", "n"]


@pytest.mark.parametrize("program", ["XlsxWriter", "openpyxl"])
def test_the_label_of_merged_cells_counts_for_each_of_their_rows(program, tmp_path, capsys):
    path = tmp_path / "a.xlsx"
    if program == "XlsxWriter":
        written(path, [(text, "") for text in TEXTS], merged=[("B2:B7", "in"), ("B8:B13", "out")])
    else:
        book = openpyxl.Workbook()
        for row in [("text", "label"), *((text, ["in", "out"][row // 6]) for row, text in enumerate(TEXTS))]:
            book.active.append(row)
        book.active.merge_cells("B2:B7")
        book.active.merge_cells("B8:B13")
        book.save(path)
    assert [label for _, label in train(path, tmp_path)] == ["in"] * 6 + ["out"] * 6
    assert "merged" in capsys.readouterr().err


def test_blank_cells_that_are_not_merged_stay_blank(tmp_path, capsys):
    rows = [(text, "in" if row % 2 else "out" if row % 3 else "") for row, text in enumerate(TEXTS)]
    path = written(tmp_path / "a.xlsx", rows, merged=[("C2:C5", "a note")])
    assert len(train(path, tmp_path)) == 10 and "merged" not in capsys.readouterr().err


@pytest.mark.parametrize("program", ["XlsxWriter", "openpyxl"])
def test_labels_that_no_program_has_calculated_are_refused_as_formulas(program, tmp_path):
    path = tmp_path / "a.xlsx"
    formulas = [f'=IF(C{row}>3,"in","out")' for row in range(2, 14)]
    rows = [(text, formula, row) for row, (text, formula) in enumerate(zip(TEXTS, formulas, strict=True))]
    if program == "XlsxWriter":
        written(path, rows)
    else:
        pd.DataFrame(rows, columns=["text", "label", "more"]).to_excel(path, index=False, engine="openpyxl")
    with pytest.raises(DataError, match="row 2 has a formula in column 'label'"):
        train(path, tmp_path, text="text", label="label")
    assert carried(path)[3]["more"] == 3


def test_formulas_with_values_are_these_values(tmp_path):
    with xlsxwriter.Workbook(tmp_path / "a.xlsx") as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["text", "label", "more"])
        for row, text in enumerate(TEXTS, start=1):
            sheet.write_formula(row, 0, f'="{text}"', None, text)
            sheet.write_formula(row, 1, '=IF(1>2,"in","out")', None, "in" if row % 2 else "out")
            sheet.write_formula(row, 2, '=""', None, "")
    assert train(tmp_path / "a.xlsx", tmp_path) == [
        (text, "out" if row % 2 else "in") for row, text in enumerate(TEXTS)
    ]


def test_an_error_is_refused_as_a_label_and_copied_otherwise(tmp_path):
    with xlsxwriter.Workbook(tmp_path / "a.xlsx") as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["text", "label", "more"])
        for row, text in enumerate(TEXTS, start=1):
            sheet.write_row(row, 0, [text, "in" if row % 2 else "out"])
        sheet.write_formula(3, 2, "=VLOOKUP(9,A1:B2,1)", None, "#N/A")
        sheet.write_formula(5, 1, "=1/0", None, "#DIV/0!")
    with pytest.raises(DataError, match="row 6 has the error #DIV/0! in column 'label'"):
        train(tmp_path / "a.xlsx", tmp_path)
    assert [row["more"] for row in carried(tmp_path / "a.xlsx")][:4] == [None, None, "#N/A", None]


def test_dates_times_and_durations_are_texts_among_words(tmp_path):
    cells = [datetime.date(2026, 3, 1), datetime.datetime(2026, 3, 1, 9, 30), datetime.time(9, 30), "1-3", 2.0, "2"]
    shown = ["2026-03-01", "2026-03-01T09:30:00", "09:30:00", "1-3", "2", "2"]
    formats = {datetime.date: "yyyy-mm-dd", datetime.datetime: "yyyy-mm-dd hh:mm", datetime.time: "hh:mm"}
    with xlsxwriter.Workbook(tmp_path / "a.xlsx") as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["text", "label", "copy"])
        for row, value in enumerate([*cells, *cells], start=1):
            style = book.add_format({"num_format": formats[type(value)]}) if type(value) in formats else None
            sheet.write(row, 0, f"text {row}")
            sheet.write(row, 1, value, style)
            sheet.write(row, 2, value, style)
        sheet.write(14, 0, "text 14")
        sheet.write(14, 2, datetime.timedelta(hours=30, minutes=5), book.add_format({"num_format": "[h]:mm:ss"}))
    assert [label for _, label in train(tmp_path / "a.xlsx", tmp_path)][:6] == shown
    assert [row["copy"] for row in carried(tmp_path / "a.xlsx")] == [*shown, *shown, "30:05:00"]


def test_numbers_that_a_sheet_rounds_are_named(tmp_path, capsys):
    rows = [(text, "in" if row % 2 else "out", 1234567890123456789 + row) for row, text in enumerate(TEXTS)]
    path = written(tmp_path / "a.xlsx", rows)
    carried(path)
    assert "'more' has numbers of more than 15 digits" in capsys.readouterr().err
    path = written(tmp_path / "b.xlsx", [(text, label, str(more)) for text, label, more in rows])
    assert carried(path)[1]["more"] == "1234567890123456790" and "15 digits" not in capsys.readouterr().err


@pytest.mark.parametrize("place", ["E900000", "ZZ5", "XFD1048576"])
def test_a_stray_cell_far_away_changes_nothing_and_fills_no_memory(place, tmp_path):
    rows = [(text, "in" if row % 2 else "out") for row, text in enumerate(TEXTS)]
    path = written(tmp_path / "plain.xlsx", rows)
    digits = "".join(filter(str.isdigit, place))
    stray = f'<row r="{digits}"><c r="{place}" t="b"><v>1</v></c></row></sheetData>'
    with zipfile.ZipFile(path) as plain, zipfile.ZipFile(tmp_path / "a.xlsx", "w", zipfile.ZIP_DEFLATED) as file:
        for name in plain.namelist():
            content = plain.read(name)
            file.writestr(name, content.replace(b"</sheetData>", stray.encode()) if "sheet1" in name else content)
    assert train(tmp_path / "a.xlsx", tmp_path) == rows


def test_a_workbook_that_is_cut_short_is_refused(tmp_path):
    path = written(tmp_path / "a.xlsx", [(text, "in") for text in TEXTS])
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(DataError, match="not a readable workbook"):
        train(path, tmp_path)


def test_numbers_that_are_shown_with_leading_zeros_keep_them(tmp_path):
    rows = [(text, [1, 2, 12][row % 3], row) for row, text in enumerate(TEXTS)]
    path = written(tmp_path / "a.xlsx", rows, formats=("General", "000", "00000"))
    assert {label for _, label in train(path, tmp_path)} == {"001", "002", "012"}
    assert [cells["more"] for cells in carried(path)][:2] == ["00000", "00001"]
    plain = written(tmp_path / "b.xlsx", rows, formats=("General", "0", "0.00"))
    assert {label for _, label in train(plain, tmp_path)} == {"1", "2", "12"}
