"""Dirty files: each is read row by row as it stands, or refused in one line with its name and line; never another
count.
"""

import codecs
import csv
import gzip
import io
import json
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backports import zstd

from encoderlab.cli import main as cli
from encoderlab.data.files.files import FilesDataset, read_unlabelled
from encoderlab.data.files.formats import Dialect, Format
from encoderlab.errors import DataError, UserError

BOM, MEBIBYTE = codecs.BOM_UTF8, 2**20
AB = [("x", "a"), ("y", "b")]


@dataclass(frozen=True)
class Dirty:
    """A file as bytes (None: a folder of that name), the settings it is read with, and the verdict: rows, or words of
    the refusal.
    """

    file: str
    content: bytes | None
    verdict: list | str
    settings: dict = field(default_factory=dict)


UNLABELLED = {"label": None}


def parquet(columns, **options):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, **options)
    return file.getvalue()


def texts(*rows):
    """Rows without labels."""
    return [(row, None) for row in rows]


def of_csv(name, content, verdict, **settings):
    return name, Dirty("rows.csv", content.encode() if isinstance(content, str) else content, verdict, settings)


def of_jsonl(name, content, verdict, **settings):
    return name, Dirty("rows.jsonl", content.encode() if isinstance(content, str) else content, verdict, settings)


PARQUET = parquet({"text": ["x", "y"] * 500, "label": ["a", "b"] * 500})
NOT_UTF8 = pa.array([b"x", b"\xff\xfe"], pa.binary()).view(pa.string())
STRAY = "rows.csv, lines 2 to 5 are one quoted row, but each of them could also be a separate row"
ENDS = "unlike the rows before. End all rows alike"

CASES = dict(
    [
        # how bytes become characters
        of_csv("byte-order mark", BOM + b"text,label\nx,a\ny,b\n", AB),
        of_csv("two byte-order marks", BOM * 2 + b"text,label\nx,a\n", "no column 'text'. Allowed: \\ufefftext, label"),
        of_csv("UTF-16, little end first", codecs.BOM_UTF16_LE + "text,label\nx,a\ny,b\n".encode("utf-16-le"), AB),
        of_csv("UTF-16, big end first", codecs.BOM_UTF16_BE + "text,label\nx,a\ny,b\n".encode("utf-16-be"), AB),
        of_csv(
            "UTF-16 without a mark", "text,label\nx,a\n".encode("utf-16-le"), "rows.csv, line 1 contains a NUL byte"
        ),
        of_csv(
            "UTF-16 cut in a character",
            "text,label\nx,a\n".encode("utf-16") + b"a",
            "rows.csv, line 3 cannot be decoded as UTF-16",
        ),
        of_csv("UTF-32", "text,label\nx,a\n".encode("utf-32"), "rows.csv, line 1 contains a NUL byte"),
        of_csv("Latin-1", b"text,label\nx,a\ncaf\xe9,b\n", [("x", "a"), ("caf\xe9", "b")]),
        of_csv(
            "Windows-1252 far into the file",
            b"text,label\n" + b"x,a\n" * 9000 + b"\x80,b\n",
            [*[("x", "a")] * 9000, ("\u20ac", "b")],
        ),
        of_csv(
            "neither UTF-8 nor Windows-1252",
            b"text,label\nx,a\n\x81,b\n",
            "rows.csv, line 3 is neither UTF-8 nor Windows-1252",
        ),
        of_csv(
            "UTF-8 with a broken line",
            b"text,label\n\xc3\xa9,a\n\xe9,b\n",
            "rows.csv, line 3 cannot be decoded as UTF-8, but other lines can",
        ),
        of_csv(
            "Shift JIS, as is said",
            "text,label\n\u732b,a\n\u72ac,b\n".encode("shift_jis"),
            [("\u732b", "a"), ("\u72ac", "b")],
            encoding="shift_jis",
        ),
        of_csv(
            "another encoding than is said",
            b"text,label\nx,a\n\xe9,b\n",
            "rows.csv, line 3 cannot be decoded as UTF-8",
            encoding="utf-8",
        ),
        of_csv("NUL", b"text,label\nx,a\ny\0,b\n", "rows.csv, line 3 contains a NUL byte"),
        of_csv(
            "end-of-file mark of DOS", b"text,label\nx,a\ny,b\n\x1a", "rows.csv, line 4 has 1 cell, the header has 2"
        ),
        # how rows end
        of_csv("carriage returns", "text,label\rx,a\ry,b\r", AB),
        of_csv("carriage returns and line feeds", "text,label\r\nx,a\r\ny,b\r\n", AB),
        of_csv("no line end at the end", "text,label\nx,a\ny,b", AB),
        of_csv("mixed ends behind labels", "text,label\nx,a\r\ny,b\n", AB),
        of_csv(
            "mixed ends behind texts",
            "label,text\na,x\r\nb,y\n",
            f"rows.csv, line 2 ends with a carriage return and a line feed, {ENDS}",
        ),
        of_csv(
            "a carriage return too many",
            "text,label\nx,a\r\r\ny,b\n",
            f"rows.csv, line 2 ends with a carriage return, {ENDS}",
        ),
        of_csv(
            "a carriage return inside a text",
            "label,text\na,x\ry,z\nb,y\n",
            f"rows.csv, line 2 ends with a carriage return, {ENDS}",
        ),
        of_csv("line ends in quotes", 'text,label\n"x\ry\r\nz\n",a\ny,b\n', [("x\ry\r\nz\n", "a"), ("y", "b")]),
        of_csv("blank lines", "text,label\n\nx,a\n\n\ny,b\n\n", AB),
        of_csv("blank lines in a single column", "text\nx\n\ny\n", "rows.csv, line 3 is blank", **UNLABELLED),
        of_csv("a line of blanks", "text,label\nx,a\n  \ny,b\n", "rows.csv, line 3 has 1 cell"),
        of_csv(
            "other line ends of Unicode",
            "text,label\nx\u2028y\x85\x0c\x0b\x1c,a\nz,b\n",
            [("x\u2028y\x85\x0c\x0b\x1c", "a"), ("z", "b")],
        ),
        # quotes
        of_csv("stray quotes", 'text,label\n"hello,p\nfine,n\nbad,n\ngood",p\nx,n\n', STRAY),
        of_csv(
            "stray quotes around a label seen nowhere else",
            'text,label\n"hello,p\ngood",n\nx,m\n',
            "lines 2 to 3 are one quoted row",
        ),
        of_csv("stray quotes without labels", 'id,text\n1,"hello\n2,fine\n3,bad\n4,good"\n5,x\n', STRAY, **UNLABELLED),
        of_csv("stray quotes in a single column", 'text\n"hello\nfine\nbad\ngood"\nx\n', STRAY, **UNLABELLED),
        of_csv(
            "stray quotes, the second behind a comma",
            'label,text\np,"hello\nn,fine\np,"good\nn,x\n',
            "line 2 has a single quotation mark",
        ),
        of_csv(
            "paragraphs in quotes",
            'id,text\n1,"Dear, all,\n\nit works\nbye"\n2,no\n',
            texts("Dear, all,\n\nit works\nbye", "no"),
            **UNLABELLED,
        ),
        of_csv(
            "an unclosed quote",
            'text,label\nx,a\n"y,b\nz,a\n',
            "rows.csv, line 3 opens a quoted cell that never closes",
        ),
        of_csv("quotes inside cells", 'text,label\n5" disk,a\nsay ""y"",b\n', [('5" disk', "a"), ('say ""y""', "b")]),
        of_csv(
            "a cell that goes on behind its quotes",
            'text,label\n"x"y,a\nz,b\n',
            "rows.csv, line 2 has a single quotation mark",
        ),
        # columns
        of_csv("a cell too few", "text,label\nx,a\ny\n", "rows.csv, line 3 has 1 cell, the header has 2"),
        of_csv("a cell too many", "text,label\nx,a\ny,z,b\n", "rows.csv, line 3 has 3 cells, the header has 2"),
        of_csv(
            "a cell too many in every row",
            "text,label\n1,x,a\n2,y,b\n",
            "rows.csv, line 2 has 3 cells, the header has 2",
        ),
        of_csv("a separator at the end of every row", "text,label,\nx,a,\ny,b,\n", AB),
        of_csv(
            "a separator at the end of rows alone",
            "text,label\nx,a,\ny,b,\n",
            "rows.csv, line 2 has 3 cells, the header has 2",
        ),
        of_csv("two columns of one name", "id,id,text,label\n1,2,x,a\n", "rows.csv has more than one column 'id'"),
        of_csv("a blank in a name", "text, label\nx,a\n", "The first line of rows.csv has no column 'label'"),
        of_csv("semicolons", "text;label\nx, y;a\nz;b\n", [("x, y", "a"), ("z", "b")]),
        of_csv("tabs", "text\tlabel\nx\ta\ny\tb\n", AB),
        of_csv("Excel's first line", "sep=;\ntext;label\nx;a\ny;b\n", AB),
        of_csv(
            "a line break in front of the label of another row",
            'label,text\na,"x\nb,y"\nb,"z,\nw"\n',
            [("x\nb,y", "a"), ("z,\nw", "b")],
        ),
        of_csv(
            "a hundred thousand columns",
            ",".join(["text", "label", *map(str, range(100_000))]) + "\nx,a\n",
            "line 2 has 2 cells",
        ),
        of_csv("a header alone", "text,label\n", "rows.csv has no rows"),
        of_csv("nothing", "", "rows.csv is empty"),
        of_csv("a byte-order mark alone", BOM, "rows.csv is empty"),
        # texts
        of_csv(
            "words for nothing as texts",
            "text,label\nNA,a\nNone,b\nnull,a\nnan,b\n",
            [("NA", "a"), ("None", "b"), ("null", "a"), ("nan", "b")],
        ),
        of_csv(
            "words for nothing as labels",
            "text,label\nw,NA\nx,None\ny,null\nz,nan\n",
            [("w", "NA"), ("x", "None"), ("y", "null"), ("z", "nan")],
        ),
        of_csv(
            "empty and blank texts",
            "text,label\n,a\n  ,b\n\u3000,a\nw,b\n",
            [("", "a"), ("  ", "b"), ("\u3000", "a"), ("w", "b")],
        ),
        of_csv("a mebibyte in a line", f"text,label\n{'x' * MEBIBYTE},a\ny,b\n", [("x" * MEBIBYTE, "a"), ("y", "b")]),
        of_csv("numbers with zeros in front as texts", "text,label\n007,a\n1.50,b\n", [("007", "a"), ("1.50", "b")]),
        # labels
        of_csv("a missing label", "text,label\nx,a\ny,\nz,b\n", "rows.csv, line 3 has no label in column 'label'"),
        of_csv("a blank label", "text,label\nx,a\ny, \nz,b\n", "rows.csv, line 3 has no label in column 'label'"),
        of_csv(
            "one number in two forms",
            "text,label\nx,1.0\ny,0\nz,1\n",
            "line 2 has the label '1.0', and rows.csv, line 4 has '1'",
        ),
        of_csv(
            "labels but for white space",
            "text,label\nx,a\ny,b\nz,a \n",
            "line 2 has the label 'a', and rows.csv, line 4 has 'a '",
        ),
        of_csv(
            "a label out of range",
            "text,label\nx,0\ny,2\n",
            "rows.csv, line 3 has the label '2'",
            label_names=["n", "p"],
        ),
        of_csv(
            "floats for the numbers of names",
            "text,label\nx,0\ny,1.0\n",
            "rows.csv, line 3 has the label '1.0'",
            label_names=["n", "p"],
        ),
        of_csv("one class", "text,label\nx,a\ny,a\n", "The training rows have only the label 'a'"),
        of_csv(
            "labels with spoiling characters",
            "text,label\nx,\x1b[31ma\ny,\x1b[31ma \n",
            "line 2 has the label '\\x1b[31ma'",
        ),
        # JSON lines
        of_jsonl(
            "a name twice in an object",
            '{"text": "x", "label": "a", "text": "y"}\n',
            "rows.jsonl, line 1 is not JSON: a name occurs twice",
        ),
        of_jsonl("NaN for a label", '{"text": "x", "label": NaN}\n', "rows.jsonl, line 1 has NaN in column 'label'"),
        of_jsonl("null for a text", '{"text": null, "label": "a"}\n', "rows.jsonl, line 1 has null in column 'text'"),
        of_jsonl("null for a label", '{"text": "x", "label": null}\n', "rows.jsonl, line 1 has no label"),
        of_jsonl(
            "half a character", '{"text": "\\ud83d", "label": "a"}\n', "rows.jsonl, line 1 holds half a character"
        ),
        of_jsonl(
            "a character in two halves",
            '{"text": "\\ud83d\\ude00", "label": "a"}\n{"text": "y", "label": "b"}\n',
            [("\U0001f600", "a"), ("y", "b")],
        ),
        of_jsonl("an array", '["x", "a"]\n', "rows.jsonl, line 1 is not a JSON object"),
        of_jsonl(
            "an array of all rows",
            '[{"text": "x", "label": "a"},\n{"text": "y", "label": "b"}]\n',
            "rows.jsonl, line 1 is not JSON",
        ),
        of_jsonl(
            "nested a million times",
            '{"text": "x", "label": "a"}\n' + "[" * 10**6 + "\n",
            "rows.jsonl, line 2 is not JSON",
        ),
        of_jsonl(
            "a number of 10,000 digits",
            '{"text": "x", "label": %s}\n' % ("9" * 10_000),
            "rows.jsonl, line 1 is not JSON",
        ),
        of_jsonl(
            "two objects in a line",
            '{"text": "x", "label": "a"} {"text": "y", "label": "b"}\n',
            "rows.jsonl, line 1 is not JSON: Extra data",
        ),
        of_jsonl("a form feed between lines", '{"text": "x", "label": "a"}\n\x0c\n', "rows.jsonl, line 2 is not JSON"),
        of_jsonl("blank lines in JSON", '\n{"text": "x", "label": "a"}\r\n \n{"text": "y", "label": "b"}', AB),
        of_jsonl(
            "U+2028 in a text",
            '{"text": "x\u2028y\x85z", "label": "a"}\n{"text": "y", "label": "b"}\n',
            [("x\u2028y\x85z", "a"), ("y", "b")],
        ),
        of_jsonl(
            "a column that a row lacks",
            '{"text": "x", "label": "a"}\n{"txt": "y", "label": "b"}\n',
            "rows.jsonl, line 2 has no column 'text'",
        ),
    ]
)

OTHERS = {
    "a folder in place of a file": Dirty("rows.csv", None, "rows.csv is a folder", {"format": "csv"}),
    "an empty folder": Dirty("rows", None, "rows has no examples"),
    "gzip": Dirty("rows.csv.gz", gzip.compress(b"text,label\nx,a\ny,b\n"), AB),
    "gzip in two parts": Dirty("rows.csv.gz", gzip.compress(b"text,label\nx,a\n") + gzip.compress(b"y,b\n"), AB),
    "gzip cut off": Dirty(
        "rows.csv.gz",
        gzip.compress(b"text,label\n" + b"x,a\ny,b\n" * 99)[:-12],
        "rows.csv.gz is not a complete gzip file",
    ),
    "gzip with a wrong sum": Dirty(
        "rows.csv.gz", gzip.compress(b"text,label\nx,a\n")[:-8] + b"wrongsum", "rows.csv.gz is not a complete gzip file"
    ),
    "no gzip": Dirty("rows.csv.gz", b"text,label\nx,a\n", "rows.csv.gz is not a complete gzip file"),
    "gzip by another name": Dirty(
        "rows.csv", gzip.compress(b"text,label\nx,a\n", mtime=0), "rows.csv is compressed. Rename it to rows.csv.gz"
    ),
    "zst": Dirty("rows.csv.zst", zstd.compress(b"text,label\nx,a\ny,b\n"), AB),
    "zst cut off": Dirty(
        "rows.csv.zst",
        zstd.compress(b"text,label\n" + b"x,a\ny,b\n" * 99)[:-2],
        "rows.csv.zst is not a complete Zstandard file",
    ),
    "no zst": Dirty("rows.csv.zst", b"text,label\nx,a\n", "rows.csv.zst is not a complete Zstandard file"),
    "zst by another name": Dirty(
        "rows.csv", zstd.compress(b"text,label\nx,a\n"), "rows.csv is compressed. Rename it to rows.csv.zst"
    ),
    "Latin-1 in gzip": Dirty(
        "rows.csv.gz", gzip.compress(b"text,label\ncaf\xe9,a\nx,b\n"), [("caf\xe9", "a"), ("x", "b")]
    ),
    "a quote that opens a tab-separated cell": Dirty(
        "rows.tsv", b'text\tlabel\n"x\ta\ny\tb\n', "rows.tsv, line 2 has a cell that begins with"
    ),
    "quotes inside tab-separated cells": Dirty(
        "rows.tsv", b'text\tlabel\nx "q"\ta\ny\tb\n', [('x "q"', "a"), ("y", "b")]
    ),
    "parquet": Dirty("rows.parquet", PARQUET, AB * 500),
    "parquet cut off": Dirty("rows.parquet", PARQUET[:-20], "rows.parquet is not a readable parquet file"),
    "parquet with a page overwritten": Dirty(
        "rows.parquet", PARQUET[:6] + b"\xff" * 9 + PARQUET[15:], "rows.parquet is not a readable parquet file"
    ),
    "no parquet": Dirty("rows.parquet", b"text,label\nx,a\n", "rows.parquet is not a readable parquet file"),
    "parquet without a text": Dirty(
        "rows.parquet", parquet({"text": ["x", None], "label": ["a", "b"]}), "rows.parquet, row 2 has no value"
    ),
    "parquet without a label": Dirty(
        "rows.parquet", parquet({"text": ["x", "y"], "label": ["a", None]}), "rows.parquet, row 2 has no label"
    ),
    "parquet with NaN for a label": Dirty(
        "rows.parquet", parquet({"text": ["x", "y"], "label": [1.0, float("nan")]}), "row 2 has no label"
    ),
    "parquet whose texts are no UTF-8": Dirty(
        "rows.parquet", parquet({"text": NOT_UTF8, "label": ["a", "b"]}), "rows.parquet, row 2 has invalid text"
    ),
    "parquet of bytes": Dirty(
        "rows.parquet", parquet({"text": [b"x"], "label": ["a"]}), "Column 'text' holds binary, not text"
    ),
    "parquet of dictionaries": Dirty(
        "rows.parquet",
        parquet({"text": pa.array(["x", "y"]).dictionary_encode(), "label": pa.array(["a", "b"]).dictionary_encode()}),
        AB,
    ),
    "parquet of string views": Dirty(
        "rows.parquet", parquet({"text": pa.array(["x", "y"], pa.string_view()), "label": ["a", "b"]}), AB
    ),
    "parquet of nested lists": Dirty(
        "rows.parquet", parquet({"text": [[["x"]]], "label": [["a"]]}), "'text' holds list<element: list<"
    ),
    "parquet of lists with a hole": Dirty(
        "rows.parquet",
        parquet({"text": [["x"], ["y", None]], "label": [["a"], ["b", "a"]]}),
        "row 2 has a missing word",
    ),
    "parquet of lists of another length": Dirty(
        "rows.parquet",
        parquet({"text": [["x"], ["y", "z"]], "label": [["a"], ["b"]]}),
        "rows.parquet, row 2 has 2 words and 1 labels",
    ),
    "lines with other ends of Unicode": Dirty(
        "rows.txt",
        "a\x0cb\x0bc\u2028d\u2029e\x85f\x1c\n\ng\r\nh".encode(),
        texts("a\x0cb\x0bc\u2028d\u2029e\x85f\x1c", "", "g", "h"),
        UNLABELLED,
    ),
    "a carriage return inside a line": Dirty(
        "rows.txt", b"a\nb\rc\n", "rows.txt, line 2 ends with a carriage return alone", UNLABELLED
    ),
    "lines of a Macintosh": Dirty("rows.txt", b"a\r\rb", texts("a", "", "b"), UNLABELLED),
    "blank lines alone": Dirty("rows.txt", b"\n \n", texts("", " "), UNLABELLED),
    "an empty text file": Dirty("rows.txt", b"", "rows.txt has no rows", UNLABELLED),
    "CoNLL with a word alone": Dirty("rows.conll", b"EU B\nrejects\n", "rows.conll, line 2 has 1 columns. Allowed: 2"),
    "CoNLL with an empty word": Dirty("rows.conll", b"EU\tB\n\tO\n", "rows.conll, line 2 has an empty column among 2"),
    "CoNLL with a no-break space for a word": Dirty(
        "rows.conll", "EU B\n\u00a0\nx O\n".encode(), "rows.conll, line 2 has 1 columns"
    ),
    "CoNLL with odd white space": Dirty(
        "rows.conll",
        "EU\u00a0x B\r\n\u2028 O\r\n \t\r\nx O".encode(),
        [(("EU\u00a0x", "\u2028"), ("B", "O")), (("x",), ("O",))],
    ),
    "CoNLL with a word that begins a comment": Dirty("rows.conll", b"# O\nEU B\n", [(("#", "EU"), ("O", "B"))]),
}
ALL = CASES | OTHERS


def written(case, folder):
    path = folder / case.file
    if case.content is None:
        path.mkdir()
    else:
        path.write_bytes(case.content)
    return path


def settings_of(case):
    return case.settings | ({"format": Format[case.settings["format"]]} if "format" in case.settings else {})


def rows_of(splits):
    """Return each training row as it was read."""
    names = splits.labels
    for example in splits.by_name["train"]:
        if hasattr(example, "words"):
            yield example.words, tuple(names[label] for label in example.labels)
        else:
            yield example.text, None if example.label is None else names[example.label]


@pytest.mark.parametrize("name", ALL)
def test_a_dirty_file_is_read_verbatim_or_refused_in_one_line(name, tmp_path):
    case = ALL[name]
    path = written(case, tmp_path)
    try:
        read = list(rows_of(FilesDataset(path=str(path), validation_fraction=0, **settings_of(case)).load(tmp_path)))
    except UserError as refused:
        assert isinstance(refused, DataError) and refused.exit_code == 3
        assert str(refused).isprintable()
        assert isinstance(case.verdict, str), f"refused: {refused}"
        assert case.verdict in str(refused).replace(f"{tmp_path}/", "")
    else:
        assert read == case.verdict


# Files whose only fault is in their labels, or that no prediction reads: without labels they are read.
LABELS = (
    "label",
    "a blank in a name",
    "one class",
    "one number",
    "floats",
    "words for nothing as labels",
    "null for a label",
    "NaN",
    "10,000 digits",
    "parquet of lists of another",
)


@pytest.mark.parametrize(
    "name", [name for name, case in ALL.items() if case.file != "rows" and not any(word in name for word in LABELS)]
)
def test_predictions_read_the_same_rows_or_refuse_the_same_files(name, tmp_path):
    case = ALL[name]
    path = written(case, tmp_path)
    words = case.file.endswith(".conll") or "lists" in name
    try:
        split = read_unlabelled(
            path,
            text=case.settings.get("text", "text" if not case.file.endswith(".conll") else "0"),
            text_pair=None,
            words=words,
            dialect=Dialect(encoding=case.settings.get("encoding", "auto")),
        )
        read = [" ".join(example.words) if words else example.text for example in split]
    except DataError as refused:
        assert isinstance(case.verdict, str), f"refused: {refused}"
    else:
        assert not isinstance(case.verdict, str), f"read as {read[:10]}"
        assert read == [" ".join(text) if words else text for text, _ in case.verdict]


TYPED = [
    "byte-order mark",
    "UTF-16, big end first",
    "UTF-8 with a broken line",
    "NUL",
    "carriage returns",
    "mixed ends behind texts",
    "stray quotes",
    "a cell too many in every row",
    "words for nothing as texts",
    "empty and blank texts",
    "a missing label",
    "one number in two forms",
    "nested a million times",
    "gzip cut off",
    "parquet whose texts are no UTF-8",
    "CoNLL with a no-break space for a word",
]
SMALL = (
    "model=tiny",
    "model.n_layers=1",
    "model.d_model=8",
    "model.n_heads=1",
    "model.max_length=16",
    "training=smoke",
    "training.steps=1",
)


@pytest.mark.parametrize("name", [TYPED[0], *(pytest.param(name, marks=pytest.mark.slow) for name in TYPED[1:])])
def test_the_command_line_trains_on_every_row_or_ends_with_code_3_and_one_line(
    name, tmp_path, monkeypatch, capsys, tmp_path_factory
):
    case = ALL[name]
    written(case, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENCODERLAB_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    task = "tagging" if case.file.endswith(".conll") else "classification"
    files = (f"dataset.train={case.file}", f"dataset.validation={case.file}", f"dataset.test={case.file}")
    arguments = (
        f"task={task}",
        "dataset=files",
        *files,
        *SMALL,
        "tokenizer.min_frequency=1",
        "baselines=false",
        "run_dir=run",
    )
    monkeypatch.setattr("sys.argv", ["encoderlab", "train", *arguments])
    try:
        cli.main()
    except SystemExit as ended:
        assert isinstance(case.verdict, str), capsys.readouterr().err
        assert ended.code == 3
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("encoderlab: ") and case.verdict in line
        assert [path.name for path in tmp_path.iterdir()] == [case.file]
    else:
        report = json.loads((tmp_path / "run" / "report.json").read_text())
        assert report["splits"]["test"]["n"] == len(case.verdict)
        with (tmp_path / "run" / "predictions.csv").open(newline="", encoding="utf-8") as file:
            assert [(row["text"], row["label"]) for row in csv.DictReader(file)] == case.verdict
