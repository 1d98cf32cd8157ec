"""Csv and tsv files: read unchanged, or refused in one line that names the row at fault and the remedy."""

import codecs
import csv
import gzip
import sys

import pandas as pd
import pytest
from backports import zstd
from hypothesis import example, given
from hypothesis import strategies as st

from encoderlab.data.examples import TextExample
from encoderlab.data.files.formats import Quoting
from encoderlab.errors import DataError, SettingError
from tests.data.files.written import FEW, ROWS, error_of, load, train_of, write


def test_the_named_columns_of_a_csv_file_are_read(tmp_path):
    file = write(tmp_path / "reviews.csv", 'id,review,stars\n1,"good, really",5\n2,bad,1\n3,,1\n')
    assert train_of(file, text="review", label="stars") == [("good, really", "5"), ("bad", "1"), ("", "1")]
    assert load(file, text="review", label="stars").labels == ["1", "5"]


def test_words_that_look_like_missing_values_stay_text(tmp_path):
    rows = [("NA", "None"), ("null", "nan"), ("nan", "None"), ("#N/A", "nan"), (" padded ", "nan"), ("007", "nan")]
    file = write(tmp_path / "rows.csv", "text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    assert train_of(file) == rows


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_not_part_of_the_first_column_name(tmp_path, encoding):
    file = write(tmp_path / "rows.csv", "text,label\nschön,a\r\nübel,b\n", encoding)
    assert train_of(file) == [("schön", "a"), ("übel", "b")]


def test_big_endian_utf_16_is_read(tmp_path):
    (tmp_path / "rows.csv").write_bytes(codecs.BOM_UTF16_BE + "text,label\nschön,a\nübel,b\n".encode("utf-16-be"))
    assert train_of(tmp_path / "rows.csv") == [("schön", "a"), ("übel", "b")]


@pytest.mark.parametrize("archive", [".gz", ".zst"])
@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.jsonl"])
def test_compressed_files_are_read(tmp_path, name, archive):
    content = {
        "rows.csv": "text,label\nx,a\ny,b\n",
        "rows.tsv": "text\tlabel\nx\ta\ny\tb\n",
        "rows.jsonl": '{"text": "x", "label": "a"}\n{"text": "y", "label": "b"}\n',
    }
    compress = gzip.compress if archive == ".gz" else zstd.compress
    (tmp_path / f"{name}{archive}").write_bytes(compress(content[name].encode()))
    assert train_of(tmp_path / f"{name}{archive}") == [("x", "a"), ("y", "b")]


def test_without_zstandard_the_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / "rows.csv.zst").write_bytes(zstd.compress(b"text,label\nx,a\ny,b\n"))
    monkeypatch.setitem(sys.modules, "backports", None)
    with pytest.raises(SettingError, match=r"backports\.zstd is not installed\. Run pip install 'encoderlab\[zstd\]'"):
        train_of(tmp_path / "rows.csv.zst")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.csv", 'text;label\n"a; b";x\nc, d;y\n'),
        ("rows.csv", '"text";"label"\n"a; b";"x"\n"c, d";"y"\n'),
        ("rows.csv", "text\tlabel\na; b\tx\nc, d\ty\n"),
        ("rows.tsv", 'text,label\na; b,x\n"c, d",y\n'),
        ("rows.csv", "text|label\na; b|x\nc, d|y\n"),
        ("rows.csv", 'sep=;\r\ntext;label\r\n"a; b";x\r\nc, d;y\r\n'),
        ("rows.csv", "sep=^\ntext^label\na; b^x\nc, d^y\n"),
    ],
)
def test_the_delimiter_is_the_one_that_gives_the_header_its_columns_or_the_one_excel_is_told(tmp_path, name, content):
    assert train_of(write(tmp_path / name, content), quoting=Quoting.double) == [("a; b", "x"), ("c, d", "y")]


def test_lines_are_counted_from_the_one_that_tells_excel_the_delimiter(tmp_path):
    assert error_of(write(tmp_path / "rows.csv", "sep=;\ntext;label\nx;a\ny\n")).startswith(
        "rows.csv, line 4 has 1 cell"
    )


def test_a_delimiter_can_be_chosen(tmp_path):
    file = write(tmp_path / "rows.csv", "text~label\nx,y~a\nz~b\n")
    assert train_of(file, delimiter="~") == [("x,y", "a"), ("z", "b")]
    semicolons = write(tmp_path / "semicolons.csv", "text;label\nx;a\nz;b\n")
    assert (
        train_of(semicolons, delimiter="semicolon") == train_of(semicolons, delimiter=";") == [("x", "a"), ("z", "b")]
    )
    with pytest.raises(
        SettingError, match="dataset.delimiter is 'two'. Allowed: auto, comma, semicolon, tab, pipe, or one character"
    ):
        load(file, delimiter="two")


def test_a_missing_column_is_reported_with_the_columns_of_the_delimiter_found(tmp_path):
    message = error_of(write(tmp_path / "rows.csv", "review;stars\nx;a\n"))
    assert message.startswith("The first line of rows.csv has no column 'text'. Allowed: review, stars.")


def test_the_name_of_a_single_column_can_contain_a_delimiter(tmp_path):
    file = write(tmp_path / "rows.csv", "a;b\nx\n")
    assert load(file, text="a;b", label=None).by_name["train"][0].text == "x"


def test_numbers_as_labels_are_ordered_as_numbers(tmp_path):
    file = write(tmp_path / "rows.csv", "text,label\n" + "".join(f"t{n},{n}\n" for n in (10, 9, -1, 2)))
    assert load(file).labels == ["-1", "2", "9", "10"]


def test_label_names_order_labels_or_name_numbers(tmp_path):
    words = write(tmp_path / "words.csv", "text,label\nx,good\ny,bad\n")
    numbers = write(tmp_path / "numbers.csv", "text,label\nx,1\ny,0\n")
    assert load(words, label_names=["good", "bad"]).labels == ["good", "bad"]
    assert [example.label for example in load(words, label_names=["good", "bad"]).by_name["train"]] == [0, 1]
    assert train_of(numbers, label_names=["negative", "positive"]) == [("x", "positive"), ("y", "negative")]


def test_pairs_of_texts_are_read(tmp_path):
    file = write(tmp_path / "pairs.csv", "a,b,same\nx,y,no\nz,z,yes\n")
    train = load(file, text="a", text_pair="b", label="same").by_name["train"]
    assert list(train) == [TextExample("x", "y", 0), TextExample("z", "z", 1)]


def test_texts_can_be_read_without_labels(tmp_path):
    splits = load(write(tmp_path / "corpus.txt", "one\n\nthree"), label=None)
    assert [example.text for example in splits.by_name["train"]] == ["one", "", "three"]
    assert splits.labels == [] and not splits.by_name["train"].labelled


def test_a_very_long_text_is_read(tmp_path):
    long = "word " * 100_000
    assert train_of(write(tmp_path / "rows.csv", f"text,label\n{long},a\nx,b\n"))[0][0] == long


def test_rows_of_several_chunks_keep_their_order(tmp_path):
    file = write(tmp_path / "rows.csv", "text,label\n" + "".join(f"t{n},{n % 2}\n" for n in range(25_003)))
    assert [text for text, _ in train_of(file)] == [f"t{n}" for n in range(25_003)]
    file.write_text(file.read_text() + "last,\n")
    assert "rows.csv, line 25005 has no label in column 'label'" in error_of(file)


def test_blank_lines_between_rows_of_several_columns_are_not_rows(tmp_path):
    assert train_of(write(tmp_path / "rows.csv", "text,label\n\nx,a\n\n\ny,b\n\n")) == [("x", "a"), ("y", "b")]


def test_line_ends_can_be_mixed_if_the_last_column_is_not_a_text(tmp_path):
    content = "text,label\nx,a\r\ny,b\n"
    assert train_of(write(tmp_path / "rows.csv", content)) == [("x", "a"), ("y", "b")]
    assert error_of(write(tmp_path / "rows.csv", content), label=None, text="label") == (
        "rows.csv, line 2 ends with a carriage return and a line feed, unlike the rows before. "
        "End all rows alike, and put cells that hold line ends in double quotes."
    )


def test_two_stray_quotes_never_merge_rows(tmp_path):
    file = write(tmp_path / "rows.csv", 'text,label\n"hello,pos\nfine,neg\nbad,neg\nhm,neg\ngood",pos\nlast,neg\n')
    assert error_of(file) == (
        "rows.csv, lines 2 to 6 are one quoted row, but each of them could also be a separate row. "
        "Set dataset.quoting=double if quotes enclose cells, dataset.quoting=literal if they mean nothing."
    )
    assert len(train_of(file, quoting=Quoting.literal)) == 6
    assert len(train_of(file, quoting=Quoting.double)) == 2


def test_a_quoted_text_can_span_several_lines(tmp_path):
    file = write(tmp_path / "rows.csv", 'text,label\n"Dear, all,\n\nit works, mostly\nbye",pos\nno,neg\n')
    assert train_of(file)[0] == ("Dear, all,\n\nit works, mostly\nbye", "pos")


@pytest.mark.parametrize("order", [["text", "label"], ["label", "text"], ["id", "text", "label"], ["text"]])
def test_line_breaks_in_quoted_cells_are_read_if_the_lines_cannot_be_rows(tmp_path, order):
    """Written as `csv.writer` and pandas do; the lines of some texts have as many cells as a row, those of others do
    not.
    """
    texts = ["a,b\nc,d", "first\n\nlast, line", "plain", "one\ntwo", 'a "word",\nx', "no\nno, no"]
    rows = [{"text": text, "label": "ab"[number % 2], "id": str(number)} for number, text in enumerate(texts)]
    pd.DataFrame(rows)[order].to_csv(tmp_path / "rows.csv", index=False)
    labelled = "label" in order
    train = load(tmp_path / "rows.csv", **({} if labelled else {"label": None})).by_name["train"]
    assert [example.text for example in train] == texts


def test_a_row_that_stray_quotes_may_have_merged_is_named_if_other_cells_have_line_breaks(tmp_path, capsys):
    file = write(tmp_path / "rows.csv", 'text,label\n"one\ntwo\nthree",a\n"Well, this,a\nfine,b\ngood",a\nlast,b\n')
    assert len(train_of(file)) == 3
    assert capsys.readouterr().err.endswith(
        "rows.csv, lines 5 to 7 are read as one row. Check that its quotes enclose a cell\n"
    )


def test_a_quote_at_the_start_of_a_tsv_cell_requires_dataset_quoting(tmp_path):
    file = write(tmp_path / "rows.tsv", 'text\tlabel\n"so" he said\ta\nx\tb\n')
    assert error_of(file) == (
        "rows.tsv, line 2 has a cell that begins with a quotation mark, which is ambiguous in tsv files. "
        "Set dataset.quoting=literal if it belongs to the text, dataset.quoting=double if it encloses the cell."
    )
    assert train_of(file, quoting=Quoting.literal)[0] == ('"so" he said', "a")
    quoted = write(tmp_path / "quoted.tsv", 'text\tlabel\n"a ""tab""\there"\ta\nx\tb\n')
    assert train_of(quoted, quoting=Quoting.double)[0] == ('a "tab"\there', "a")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "rows.csv is empty. Allowed: a first row with the names of the columns."),
        ("\n\n", "rows.csv, line 1 is empty. Allowed: a first row with the names of the columns."),
        ("text,label\n", "rows.csv has no rows. Choose a file with rows."),
        ("text,label,text\nx,a,b\n", "rows.csv has more than one column 'text'. Give each column a different name."),
        (
            "text,label\nx,a\ny,b,c\n",
            "rows.csv, line 3 has 3 cells, the header has 2. Allowed: one cell for each of text, label. "
            "Put a cell that contains a comma in double quotes.",
        ),
        (
            'text,label\n"x\ny",a\nz\n',
            "rows.csv, line 4 has 1 cell, the header has 2. Allowed: one cell for each of text, label. "
            "Complete or remove the row, or put a cell that contains a line break in double quotes.",
        ),
        (
            "texts,label\nx,a\n",
            "The first line of rows.csv has no column 'text'. Allowed: texts, label. Set dataset.text=texts.",
        ),
        (
            "a,label\nx,a\n",
            "The first line of rows.csv has no column 'text'. Allowed: a, label. Set dataset.text=COLUMN.",
        ),
        (
            f"{'a long review ' * 4},good\n{'another ' * 6},bad\n",
            f"The first line of rows.csv has no column 'text'. Allowed: {'a long review ' * 4}, good. Set dataset.text=COLUMN. "
            "If these are not column names, add a first line with the names.",
        ),
        (
            "Export\n\ntext,label\nx,a\n",
            "The first line of rows.csv has no column 'text'. Allowed: Export. Set dataset.text=COLUMN. "
            "If these are not column names, add a first line with the names.",
        ),
        ("text\nx\n", "The first line of rows.csv has no column 'label'. Allowed: text. Set dataset.label=COLUMN."),
        (
            "text ,label\nx,a\n",
            "The first line of rows.csv has no column 'text'. Allowed: text , label. Remove the spaces around 'text ' in the data.",
        ),
        (
            "my text,label\nx,a\n",
            "The first line of rows.csv has no column 'text'. Allowed: my text, label. Set 'dataset.text=my text'.",
        ),
        (
            "text,label\nx,a\ny,\n",
            "rows.csv, line 3 has no label in column 'label'. Fill it in, or set dataset.on_missing=drop to drop such rows.",
        ),
        (
            "text,label\nx,a\ny, \n",
            "rows.csv, line 3 has no label in column 'label'. Fill it in, or set dataset.on_missing=drop to drop such rows.",
        ),
        (
            "text,label\nx,a\ny,a\n",
            "The training rows have only the label 'a'. Allowed: at least two labels. Check dataset.label.",
        ),
        (
            "text,label\nx,a\ny\0,b\n",
            "rows.csv, line 3 contains a NUL byte. Allowed: text in UTF-8, UTF-16 with a byte-order mark, or Windows-1252.",
        ),
        (
            'text,label\nx,a\n"y,b\nz,a\n',
            'rows.csv, line 3 opens a quoted cell that never closes. Write a quote inside quotes as "", '
            "or set dataset.quoting=literal if quotes mean nothing here.",
        ),
        (
            'text,label\n"x"y,a\nz,b\n',
            'rows.csv, line 2 has a single quotation mark inside a quoted cell. Write a quote inside quotes as "", '
            "or set dataset.quoting=literal if quotes mean nothing here.",
        ),
        (
            "label,text\na,x\ry,z\nb,y\n",
            "rows.csv, line 2 ends with a carriage return, unlike the rows before. "
            "End all rows alike, and put cells that hold line ends in double quotes.",
        ),
    ],
)
def test_a_csv_file_that_cannot_be_trusted_is_refused_with_its_line(tmp_path, content, message):
    assert error_of(write(tmp_path / "rows.csv", content)) == message


def test_a_delimiter_that_leaves_the_header_whole_is_named(tmp_path):
    assert error_of(write(tmp_path / "rows.csv", "text,label\nx,a\n"), delimiter="semicolon") == (
        "The first line of rows.csv is a single cell, 'text,label'. Allowed: cells separated by ';'. "
        "Correct dataset.delimiter, or remove it."
    )


def test_an_extra_cell_in_a_tsv_file_is_refused(tmp_path):
    assert error_of(write(tmp_path / "rows.tsv", "text\tlabel\nx\ty\ta\n")) == (
        "rows.tsv, line 2 has 3 cells, the header has 2. Allowed: one cell for each of text, label. "
        "Put a cell that contains a tab in double quotes (with dataset.quoting=double)."
    )


def test_a_blank_line_in_a_single_column_is_refused(tmp_path):
    message = error_of(write(tmp_path / "rows.csv", "text\nx\n\ny\n"), label=None)
    assert message == 'rows.csv, line 3 is blank. Write an empty text as "", or remove the line.'


def test_a_truncated_gzip_file_is_refused(tmp_path):
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(b"text,label\n" + b"x,a\ny,b\n" * 1000)[:-12])
    assert error_of(tmp_path / "rows.csv.gz").startswith("rows.csv.gz is not a complete gzip file: ")
    (tmp_path / "rows.csv.gz").write_bytes(b"text,label\nx,a\n")
    assert error_of(tmp_path / "rows.csv.gz").startswith("rows.csv.gz is not a complete gzip file: Not a gzipped file")


def test_a_file_without_read_permission_is_refused(tmp_path, monkeypatch):
    file = write(tmp_path / "rows.csv", "text,label\nx,a\n")
    monkeypatch.setattr(type(file), "open", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    assert error_of(file) == "rows.csv cannot be read: Permission denied."


@FEW
@given(
    rows=ROWS,
    end=st.sampled_from(["\n", "\r\n"]),
    separator=st.sampled_from([",", "\t"]),
    quoting=st.sampled_from(Quoting),
    first=st.booleans(),
)
@example(rows=[("", "0"), ("\r", "1")], end="\n", separator=",", quoting=Quoting.auto, first=False)
@example(rows=[("", "0"), ("\r", "1")], end="\n", separator="\t", quoting=Quoting.auto, first=False)
def test_separated_rows_come_back_as_written_or_are_refused(tmp_path_factory, rows, end, separator, quoting, first):
    path = tmp_path_factory.mktemp("rows") / ("rows.csv" if separator == "," else "rows.tsv")
    order = (0, 1) if first else (1, 0)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, delimiter=separator, lineterminator=end)
        writer.writerows(
            [[("text", "label")[place] for place in order], *([row[place] for place in order] for row in rows)]
        )
    if quoting is Quoting.literal and '"' in path.read_text(encoding="utf-8"):
        return  # written with quotes and read without: not the same file
    try:
        assert train_of(path, quoting=quoting) == rows
    except DataError:
        assert len({label for _, label in rows}) < 2 or any(set(text) & set('"\n\r\t,') for text, _ in rows)
