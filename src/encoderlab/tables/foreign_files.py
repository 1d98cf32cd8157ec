"""What encoderlab does not read, and the way out: some exports of annotation tools, and files of other formats."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from encoderlab.errors import DataError

_COMPRESSED = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd", ".bz2": b"BZh"}
_WORKBOOKS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # a zip, or Microsoft's older container
_AS_TABLE = "Save the rows as a table, such as csv, with a column for the texts and one for the labels"
_UNPACK = "Unpack it, and name the table in it"

_AS_XLSX = "Open it in a spreadsheet program and save it as xlsx or csv"
_HEADER = r"(Return-Path|Received|Delivered-To|MIME-Version|From|To|Subject|Date|Message-ID): .*\r?\n[A-Za-z-]+: "

# What a file begins with, what it then is, and what to do. The first that fits counts.
_BINARY = (
    (rb"\x1f\x8b", "compressed by gzip", "Add .gz to its name, such as rows.csv.gz"),
    (rb"\x28\xb5\x2f\xfd", "compressed by zstd", "Add .zst to its name, such as rows.csv.zst"),
    (rb"BZh[1-9]1AY&SY", "compressed by bzip2", "Add .bz2 to its name, such as rows.csv.bz2"),
    (rb"\xfd7zXZ", "compressed by xz", "Unpack it with xz -d, or compress it with gzip"),
    (rb"7z\xbc\xaf", "a 7z archive", _UNPACK),
    (rb"Rar!\x1a", "a rar archive", _UNPACK),
    (rb"[^\0]{1,100}\0[\s\S]{156,}?ustar", "a tar archive", "Unpack it with tar -xf, and name the table in it"),
    (rb"PAR1", "a parquet file", "Name it .parquet"),
    (rb"ARROW1", "an Arrow file", "Name it .arrow"),
    (rb"%PDF-", "a PDF", _AS_TABLE),
    (rb"\xd0\xcf\x11\xe0", "a workbook or document of an older Office", "Name it .xls if it is a workbook"),
    (rb"SQLite format 3\0", "an SQLite database", "Export the table as csv, in sqlite3 by .mode csv"),
    (rb"\x80[\x02-\x05]", "a pickle of Python, which may run code", "Save it as csv or parquet with its program"),
)
_PAGES = (
    (rb"(?i)(?:\xef\xbb\xbf)?\s*(<!doctype html|<html|<table|<head|<meta|<body)", "an HTML page", _AS_XLSX),
    (rb"\s*<\?xml[\s\S]*schemas-microsoft-com:office:spreadsheet", "XML of Excel 2003", _AS_XLSX),
)
_TEXT = (
    (rb"\{\\rtf", "a text with formatting (RTF)", _AS_TABLE),
    *_PAGES,
    (rb"\s*<", "XML", f"{_AS_TABLE}, in pandas by read_xml and to_csv"),
    (rb"From \S+ .*\n(\S+:|>From)", "a mailbox (mbox)", f"{_AS_TABLE}, in Python by the module mailbox"),
    (_HEADER.encode(), "an e-mail", _AS_TABLE),
    (rb"\s*(%.*\n\s*)*@[A-Za-z]+\s*\{", "a BibTeX file", "Export the references as csv"),
    (rb"WARC/", "a web archive (WARC)", _AS_TABLE),
)
AS_R_WRITES_CSV = "In R, save it by write.csv(data, 'rows.csv', row.names = FALSE)"
# A header of quoted names with blanks between them, and a row that begins in the same way.
_TABLE_OF_R = rb"""(?:\xef\xbb\xbf)?"[^"\r\n]*"(?: "[^"\r\n]*")+\r?\n(?:"[^"\r\n]*"|-?[0-9.]+|NA) ["0-9N-]"""
_BY_SUFFIX = {
    ".yaml": ("YAML", "Save it as JSON: an array of objects"),
    ".yml": ("YAML", "Save it as JSON: an array of objects"),
    ".docx": ("a document of Word", _AS_TABLE),
    ".arff": ("a file of Weka", "Save it as csv, in Weka by Save... and the file type CSV"),
    ".sql": ("a dump of SQL", "Export the table as csv"),
    ".md": ("Markdown", "Save its table as csv"),
    ".avro": ("a file of Avro", "Save it as parquet or csv"),
    ".orc": ("a file of ORC", "Save it as parquet, in pyarrow by orc.read_table and parquet.write_table"),
    ".h5": ("a file of HDF5", "Save it as parquet or csv, in pandas by read_hdf and to_parquet"),
    ".npy": ("an array of NumPy", _AS_TABLE),
    ".npz": ("arrays of NumPy", _AS_TABLE),
    ".pkl": ("a pickle of Python, which may run code", "Save it as csv or parquet"),
    ".rds": ("a file of R", AS_R_WRITES_CSV),
    ".rdata": ("a file of R", AS_R_WRITES_CSV),
    ".xz": ("compressed by xz", "Unpack it with xz -d, or compress it with gzip"),
    ".numbers": ("a workbook of Numbers", "Export it as xlsx or csv"),
    ".gsheet": ("a link to a Google sheet", "Download the sheet as xlsx or csv"),
}

# What annotation tools write, and the export that is read instead.
_CONLL = "as CoNLL 2002 (in WebAnno and INCEpTION: Export, format CoNLL 2002)"
_BRAT = "with brat's own tools/anntoconll.py FILE.txt, and read it with dataset.text=3 dataset.label=0"
_SPACY = 'write a line of JSON for each doc: {"text": [t.text for t in doc], "label": [tags of its words]}'
_EXPORTS = {
    ".ann": ("brat's standoff format", _BRAT),
    ".xmi": ("UIMA CAS XMI", _CONLL),
    ".spacy": ("spaCy's DocBin", f"In Python, {_SPACY}"),
}


def refuse_brat(path: Path) -> None:
    """Raise DataError, with the export that works, for texts beside which brat keeps their annotations."""
    if path.is_dir():
        annotated = next((entry for entry in sorted(path.iterdir()) if entry.suffix == ".ann"), None)
        if annotated is not None:
            _refuse_export(annotated, *_EXPORTS[".ann"])
    elif path.suffix == ".txt" and path.with_suffix(".ann").is_file():
        _refuse_export(path, "the text of brat's standoff format", _BRAT)


def refuse_other_exports(path: Path) -> None:
    """Raise DataError, with the export that works, for what annotation tools write and nobody else reads as a table."""
    if not path.is_file():  # a folder, or a pipe, which can be read once
        return
    if path.suffix.lower() in _EXPORTS:
        _refuse_export(path, *_EXPORTS[path.suffix.lower()])
    if path.suffix.lower() not in (".tsv", ".txt", ".json", ".xml", ".conll"):
        return
    try:
        with path.open("rb") as file:
            start = file.read(2**12).lstrip(b"\xef\xbb\xbf \r\n")
    except OSError:
        return  # whoever reads it says so
    if start.startswith(b"#FORMAT=WebAnno TSV"):
        _refuse_export(path, "WebAnno TSV", _CONLL)
    if b"xmi:XMI" in start or start.startswith(b"{") and b'"%TYPES"' in start:
        _refuse_export(path, "UIMA CAS", _CONLL)


def _refuse_export(path: Path, name: str, remedy: str) -> None:
    way_out = remedy if remedy.startswith("In Python") else f"Export it {remedy}"
    raise DataError(f"{path} is {name}, which is not read", remedy=way_out)


def refuse_other(path: Path, *, is_workbook: bool = False, is_binary: bool = False, is_known: bool = True) -> None:
    """Raise DataError for an empty file, or one that is something else than its name says or that is not read at all.

    `is_workbook` and `is_binary` say what its name or the user says it is, `is_known` whether that is read.
    """
    if not path.is_file():
        return
    with path.open("rb") as file:
        start = file.read(2**12)
    if not start.lstrip(b"\xef\xbb\xbf"):
        raise DataError(f"{path} is empty", remedy="Choose another file, or save this one again")
    packed = _COMPRESSED.get(path.suffix.lower())
    if packed is not None:
        if not start.startswith(packed):
            remedy = f"Name it {path.with_suffix('').name}"
            raise DataError(f"{path} is not compressed, though its name says so", remedy=remedy)
        return
    if is_binary or (is_workbook and start.startswith(_WORKBOOKS)):
        return
    what, remedy = _what(path, start, may_be_text=is_known and not is_workbook)
    if not what and path.suffix.lower() in (".csv", ".tsv", ".json", ".jsonl"):
        pages = ((kind, way_out) for pattern, kind, way_out in _PAGES if re.match(pattern, start))
        what, remedy = next(pages, ("", ""))
    if not what and not is_workbook and re.match(_TABLE_OF_R, start):
        what, remedy = "a table with blanks between its cells, as R's write.table writes it", AS_R_WRITES_CSV
    if what:
        raise DataError(f"{path} is {what}", remedy=remedy)
    if is_workbook:
        remedy = (
            f"Name it {path.with_suffix('.csv').name}, or {path.with_suffix('.tsv').name} if tabs separate the cells"
        )
        raise DataError(f"{path} is a text file, and no workbook", remedy=remedy)


def _what(path: Path, start: bytes, *, may_be_text: bool) -> tuple[str, str]:
    """Return what a file is, and the way out; two empty texts if it may be what its name says."""
    if start.startswith(b"PK\x03\x04"):
        return _what_in_zip(path)
    if not may_be_text and path.suffix.lower() in _BY_SUFFIX:
        return _BY_SUFFIX[path.suffix.lower()]
    for pattern, what, remedy in _BINARY + (() if may_be_text else _TEXT):
        if re.match(pattern, start):
            return what, remedy
    return "", ""


def _what_in_zip(path: Path) -> tuple[str, str]:
    """Return what a zip is, and the way out."""
    try:
        with zipfile.ZipFile(path) as file:
            names = [name for name in file.namelist() if not name.endswith("/")]
    except zipfile.BadZipFile:
        return "a damaged zip archive", "Save it again"
    if any(name.startswith("xl/") for name in names):
        return "a workbook", "Name it .xlsx"
    if "word/document.xml" in names:
        return "a document of Word", _AS_TABLE
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"a zip archive of {shown}", _UNPACK
