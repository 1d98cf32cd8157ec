"""Excel files made to fill the memory or the disk, or with a stray cell far away, are read or refused at once."""

import zipfile

import pandas as pd
import pytest

from encoderlab.data.files import read_unlabelled
from encoderlab.errors import DataError

LAST = '<row r="{0}"><c r="XFD{0}"><v>1</v></c></row></sheetData>'


def workbook(path, **replaced):
    """Write two rows to a workbook, and replace parts of its XML."""
    pd.DataFrame({"text": ["x", "y"], "label": ["a", "b"]}).to_excel(path.with_suffix(".plain.xlsx"), index=False)
    with zipfile.ZipFile(path.with_suffix(".plain.xlsx")) as plain, zipfile.ZipFile(path, "w", 8) as file:
        for part in plain.namelist():
            content = plain.read(part).decode()
            for old, new in replaced.values():
                content = content.replace(old, new)
            file.writestr(part, content)
    return path


def texts(path):
    return [example.text for example in read_unlabelled(path, text="text", text_pair=None, words=False)]


def test_a_stray_cell_in_the_last_place_of_a_sheet_changes_nothing(tmp_path):
    assert texts(workbook(tmp_path / "a.xlsx", stray=("</sheetData>", LAST.format(2**20)))) == ["x", "y"]


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
