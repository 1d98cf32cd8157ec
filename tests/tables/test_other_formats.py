"""Files that hold no table, or whose name says something else than their content: each named, with the way out."""

import gzip
import io
import tarfile
import zipfile

import pytest

from encoderlab.data.files import FilesDataset
from encoderlab.errors import DataError

CSV = "text,label\n" + "".join(f"the parcel of case {row},{'good' if row % 2 else 'bad'}\n" for row in range(12))


def archive():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("rows.csv", CSV)
    return file.getvalue()


def tar():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as packed:
        member = tarfile.TarInfo("rows.csv")
        member.size = len(CSV)
        packed.addfile(member, io.BytesIO(CSV.encode()))
    return file.getvalue()


OTHERS = {
    "rows.zip": (archive(), r"zip archive of rows\.csv"),
    "rows.csv": (archive(), r"zip archive of rows\.csv"),
    "rows.tar": (tar(), "tar archive"),
    "rows.xls": (b"<html><body><table><tr><td>text</td></tr></table></body></html>", "HTML"),
    "rows.xlsx": (CSV.encode(), r"no workbook. Name it rows\.csv"),
    "rows.ods": (b"%PDF-1.7\n", "PDF"),
    "rows.tsv": (gzip.compress(CSV.encode()), r"compressed by gzip"),
    "rows.csv.gz": (CSV.encode(), r"Name it rows\.csv"),
    "rows.bib": (b"% mine\n@article{a, title={One}}", "BibTeX"),
    "rows.mbox": (b"From ann@x.org Mon May  1 10:00:00 2026\nSubject: a\n\nhello\n", "mailbox"),
    "rows.eml": (b"From: ann@x.org\nSubject: a\n\nhello\n", "e-mail"),
    "rows.xml": (b"<rows><row/></rows>", "XML"),
    "rows.yml": (b"- text: a\n", "YAML"),
    "rows.pkl": (b"\x80\x04\x95", "pickle"),
    "rows.sav": (b"$FL2@(#) SPSS DATA FILE", r"not a readable \.sav file"),
    "rows.dta": (b"<stata_dta><header>", r"not a readable \.dta file"),
    "r.csv": (b'"text" "label"\n"1" "the parcel" "good"\n"2" "a parcel" "bad"\n', r"R's write\.table.*row\.names"),
    "r.txt": (b'"text" "stars"\n"the parcel" 5\n"a parcel" 1\n', r"R's write\.table.*row\.names"),
    "empty.csv": (b"", r"empty\.csv is empty"),
    "empty.parquet": (b"", r"empty\.parquet is empty"),
    "empty.jsonl": (b"\xef\xbb\xbf", r"empty\.jsonl is empty"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_holds_no_table_is_named(name, tmp_path):
    content, message = OTHERS[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        FilesDataset(path=str(tmp_path / name)).load(tmp_path / "cache")


@pytest.mark.parametrize("name", ["rows.csv.GZ", "ROWS.CSV.gz", "rows.TSV.Gz"])
def test_names_in_capitals_are_read_like_others(name, tmp_path):
    content = CSV.replace(",", "\t") if "tsv" in name.lower() else CSV
    (tmp_path / name).write_bytes(gzip.compress(content.encode()))
    data = FilesDataset(path=str(tmp_path / name), validation_fraction=0.0).load(tmp_path / "cache")
    assert len(data.by_name["train"]) == 12 and data.labels == ["bad", "good"]


def test_texts_that_begin_like_a_page_or_a_letter_are_texts(tmp_path):
    lines = ["text,label", "<html> is a tag,good", "From: me,bad"] * 1
    (tmp_path / "rows.csv").write_text("\n".join([*lines, *lines[1:]]))
    assert FilesDataset(path=str(tmp_path / "rows.csv"), validation_fraction=0.0).load(tmp_path / "cache").labels
