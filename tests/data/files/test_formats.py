"""Which format a file has, and paths that are not files."""

import pytest

from encoderlab.data.files.formats import Format
from tests.data.files.written import error_of, train_of, write


def test_a_missing_file_is_refused_and_the_closest_name_suggested(tmp_path):
    write(tmp_path / "reviews.csv", "text,label\n")
    message = error_of(tmp_path / "review.csv")
    assert message == "review.csv does not exist. Did you mean reviews.csv?"
    assert "no-folder/x.csv does not exist. Paths start from " in error_of(tmp_path / "no-folder" / "x.csv").replace(
        "x.csv", "no-folder/x.csv", 1
    )


def test_a_name_without_a_known_extension_is_refused_until_the_format_is_set(tmp_path):
    file = write(tmp_path / "rows.dat", "text,label\nx,a\ny,b\n")
    assert error_of(file).startswith("The extension of rows.dat does not tell its format. Allowed: .csv, .tsv, ")
    assert len(train_of(file, format=Format.csv)) == 2


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("rows.json", "rename it to .jsonl"), ("rows.xls", "Save it as .xlsx or .csv."), ("rows.zip", "Unpack it.")],
)
def test_a_well_known_format_that_is_not_read_comes_with_a_way_out(tmp_path, name, remedy):
    assert remedy in error_of(write(tmp_path / name, "[]"))


@pytest.mark.parametrize(
    "content", ['[{"text": "x", "label": "a"}]', '[\n {"text": "x", "label": "a"}\n]', '{\n "text": "x"\n}']
)
def test_json_that_is_not_in_lines_comes_with_a_conversion(tmp_path, content):
    message = error_of(write(tmp_path / "rows.jsonl", content))
    assert message.startswith("rows.jsonl, line 1 is not") and "jq -c" in message


@pytest.mark.parametrize(
    ("beginning", "message"),
    [
        (b"PK\x03\x04\xff", "rows.csv is an Excel workbook or a zip file. Rename it to .xlsx, or unpack it."),
        (b"\xd0\xcf\x11\xe0", "rows.csv is an old Excel or Word file. Save it as .xlsx, .csv or .txt."),
        (b"\x1f\x8b\xff", "rows.csv is compressed. Rename it to rows.csv.gz."),
    ],
)
def test_other_formats_under_the_name_of_a_table_are_recognised(tmp_path, beginning, message):
    (tmp_path / "rows.csv").write_bytes(beginning + bytes(range(256)))
    assert error_of(tmp_path / "rows.csv") == message


def test_files_and_folders_are_not_mistaken_for_each_other(tmp_path):
    folder = tmp_path / "data.csv"
    folder.mkdir()
    assert (
        error_of(folder, format=Format.csv) == "data.csv is a folder. Allowed: a csv file. Choose the file inside it."
    )
    file = write(tmp_path / "rows.csv", "text,label\nx,a\n")
    message = "rows.csv is a file. Allowed: a folder with one sub-folder per label. Remove dataset.format."
    assert error_of(file, format=Format.folder) == message


def test_a_compressed_parquet_file_is_refused(tmp_path):
    message = error_of(write(tmp_path / "rows.parquet.gz", ""))
    assert message.startswith(
        "rows.parquet.gz is compressed. Allowed: csv, tsv, jsonl, txt or conll in .gz or .zst. Run gunzip "
    )
