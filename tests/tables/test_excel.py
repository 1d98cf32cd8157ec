"""Excel and gzip files made to fill the memory or the disk, or with a stray cell far away, are read or refused at once."""

import gzip
import zipfile

import pandas as pd
import pytest

from encoderlab.data.files import read_unlabelled
from encoderlab.errors import DataError

LAST = '<row r="{0}"><c r="XFD{0}"><v>1</v></c></row></sheetData>'


def workbook(path, **replaced):
    """Write two rows to a workbook, and replace parts of its XML."""
    pd.DataFrame({"text": ["x", "y"], "label": ["a", "b"]}).to_excel(
        path.with_suffix(".plain.xlsx"), index=False, engine="openpyxl"
    )
    with zipfile.ZipFile(path.with_suffix(".plain.xlsx")) as plain, zipfile.ZipFile(path, "w", 8) as file:
        for part in plain.namelist():
            content = plain.read(part).decode()
            for old, new in replaced.values():
                content = content.replace(old, new, 1)
            file.writestr(part, content)
    return path


def texts(path):
    return [example.text for example in read_unlabelled(path, text="text", text_pair=None, words=False)]


def test_stray_cells_in_the_last_places_of_a_sheet_change_nothing(tmp_path):
    strays = {"first": ("</row>", '<c r="XFD1"><v>1</v></c></row>'), "last": ("</sheetData>", LAST.format(2**20))}
    assert texts(workbook(tmp_path / "a.xlsx", **strays)) == ["x", "y"]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("row", "</sheetData>", LAST.format(999_999_999_999)),
        ("cell", "<t>x</t>", f"<t>{'x' * 40_000}</t>"),
        ("bomb", "</sheetData>", f'<row r="4">{"<c/>" * 20_000_000}</row></sheetData>'),
        ("a row of many cells", "</sheetData>", f'<row r="4">{"<c/>" * 2_000_000}</row></sheetData>'),
    ],
)
def test_what_excel_never_writes_is_refused(name, old, new, tmp_path):
    with pytest.raises(DataError, match=r"a\.xlsx"):
        texts(workbook(tmp_path / "a.xlsx", **{name: (old, new)}))


def test_rows_may_share_a_text_up_to_a_size_of_the_whole_sheet(tmp_path, monkeypatch):
    rows = "".join(f'<row r="{row}"><c r="A{row}" t="s"><v>0</v></c></row>' for row in range(4, 100)) + "</sheetData>"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    kinds = f'<Override PartName="/xl/sharedStrings.xml" ContentType="{kind}"/></Types>'
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings"
    relations = f'<Relationship Id="rId99" Type="{relation}" Target="sharedStrings.xml"/></Relationships>'
    replaced = {"rows": ("</sheetData>", rows), "kinds": ("</Types>", kinds)}
    path = workbook(tmp_path / "a.xlsx", **replaced, relations=("</Relationships>", relations))
    with zipfile.ZipFile(path, "a") as file:
        namespace = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
        file.writestr("xl/sharedStrings.xml", f'<sst xmlns="{namespace}"><si><t>{"x" * 999}</t></si></sst>')
    assert texts(path)[2:] == ["x" * 999] * 96
    monkeypatch.setattr("encoderlab.tables.workbooks._MOST_CHARACTERS", 90_000)
    with pytest.raises(DataError, match="row 94 is larger"):
        texts(path)


def test_a_gzip_file_of_nothing_but_short_rows_is_refused_and_a_large_one_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("encoderlab.tables.formats._MUCH", 1_000_000)
    bomb, large = tmp_path / "bomb.txt.gz", tmp_path / "large.txt.gz"
    bomb.write_bytes(gzip.compress(b"x\n" * 1_000_000))
    with pytest.raises(DataError, match=r"bomb\.txt\.gz unpacks to more than 100 times"):
        texts(bomb)
    large.write_bytes(gzip.compress(b"".join(b"%d\n" % n for n in range(200_000))))
    assert len(texts(large)) == 200_000 and "unpacks to 1 MB" in capsys.readouterr().err
