"""Workbooks whose cells are so far apart that their sheet would fill the memory, in formats that are not looked into."""

import zipfile

import pytest

from encoderlab.data.files import read_unlabelled
from encoderlab.errors import DataError
from encoderlab.tables.workbook_trial import refuse_without_memory

CONTENT = (
    '<?xml version="1.0"?><office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:spreadsheet>'
    '<table:table table:name="a">{}</table:table></office:spreadsheet></office:body></office:document-content>'
)
MANIFEST = (
    '<?xml version="1.0"?><manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
    '<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml"/></manifest:manifest>'
)
ROW = "<table:table-row>{}</table:table-row>"
CELL = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'


def written(path, rows):
    with zipfile.ZipFile(path, "w") as parts:
        parts.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        parts.writestr("META-INF/manifest.xml", MANIFEST)
        parts.writestr("content.xml", CONTENT.format("".join(rows)))
    return path


def test_a_workbook_of_libreoffice_is_read(tmp_path):
    rows = [ROW.format(CELL.format(text)) for text in ("text", "warm", "wise")]
    rows.append('<table:table-row table:number-rows-repeated="1048573"><table:table-cell/></table:table-row>')
    split = read_unlabelled(written(tmp_path / "a.ods", rows), text="text", text_pair=None, words=False)
    assert [row.text for row in split] == ["warm", "wise"]


def test_what_takes_too_much_memory_is_refused_by_the_trial(tmp_path, monkeypatch):
    rows = [ROW.format(CELL.format(text)) for text in ("text", "warm")]
    far = [
        '<table:table-row table:number-rows-repeated="2000"><table:table-cell/></table:table-row>',
        ROW.format('<table:table-cell table:number-columns-repeated="5000"/>' + CELL.format("far")),
    ]
    monkeypatch.setattr("encoderlab.tables.workbook_trial._MOST", 200_000_000)  # less than the grid of the second
    refuse_without_memory(written(tmp_path / "a.ods", rows))
    with pytest.raises(DataError, match="csv"):
        refuse_without_memory(written(tmp_path / "b.ods", [*rows, *far]))
