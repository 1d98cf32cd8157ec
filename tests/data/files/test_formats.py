"""Which format a file has, and paths that are not files."""

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


def test_files_and_folders_are_not_mistaken_for_each_other(tmp_path):
    folder = tmp_path / "data.csv"
    folder.mkdir()
    assert error_of(folder, format=Format.csv) == "data.csv is a folder. Allowed: a csv file. Choose the file inside it."
    file = write(tmp_path / "rows.csv", "text,label\nx,a\n")
    message = "rows.csv is a file. Allowed: a folder with one sub-folder per label. Remove dataset.format."
    assert error_of(file, format=Format.folder) == message


def test_a_compressed_parquet_file_is_refused(tmp_path):
    message = error_of(write(tmp_path / "rows.parquet.gz", ""))
    assert message.startswith("rows.parquet.gz is compressed. Allowed: csv, tsv, jsonl, txt or conll in .gz or .zst. Run gunzip ")
