"""Reference lists for screening, RIS and PubMed's nbib, as a table of titles, abstracts and ASReview's decisions."""

import pytest

from encoderlab.data.files import FilesDataset
from encoderlab.errors import DataError

ROWS = 12


def ris(row):
    title, abstract = ("T1", "N2") if row % 2 else ("TI", "AB")
    lines = ["TY  - JOUR", f"{title}  - Training {row}", f"{abstract}  - Background: a trial", "      on two lines."]
    lines += ["Link to the full text: https://x.org", f"N1  - ASReview_{'relevant' if row % 3 == 0 else 'irrelevant'}"]
    return "\n".join([*lines, "ER  - ", ""])


def load(path, tmp_path, **settings):
    data = FilesDataset(path=str(path), validation_fraction=0.0, **settings).load(tmp_path / "cache")
    return data, list(data.by_name["train"])


def test_ris_has_titles_abstracts_and_decisions(tmp_path):
    (tmp_path / "a.ris").write_text("\n".join(map(ris, range(ROWS))))
    data, rows = load(tmp_path / "a.ris", tmp_path, text=["title", "abstract"], label="included")
    assert rows[1].text == "Training 1 | Background: a trial on two lines."
    assert [data.labels[row.label] for row in rows] == ["0" if row % 3 else "1" for row in range(ROWS)]


def test_references_that_nobody_has_screened_are_left_out(tmp_path, capsys):
    unseen = "TY  - JOUR\nTI  - Another\nER  - \n"
    (tmp_path / "a.ris").write_text("\n".join([*map(ris, range(ROWS)), unseen]))
    _, rows = load(tmp_path / "a.ris", tmp_path, text=["title", "abstract"], label="included")
    assert len(rows) == ROWS and "1 of 13 rows have no label" in capsys.readouterr().err


def test_nbib_has_titles_over_several_lines(tmp_path):
    from encoderlab.data.files import read_unlabelled

    one = "PMID- {}\nTI  - Effect of training on\n      recall {}\nAB  - BACKGROUND: one.\nAU  - Doe A\n"
    (tmp_path / "a.nbib").write_text("\n".join(one.format(300 + row, row) for row in range(3)))
    split = read_unlabelled(tmp_path / "a.nbib", text=["title", "abstract"], text_pair=None, words=False)
    assert [row.text for row in split][1] == "Effect of training on recall 1 | BACKGROUND: one."
    assert [row["pmid"] for row in split.carried] == ["300", "301", "302"]


def test_a_file_without_references_is_refused(tmp_path):
    (tmp_path / "a.ris").write_text("nothing to see\n")
    with pytest.raises(DataError, match="no references"):
        load(tmp_path / "a.ris", tmp_path, text="title", label="included")
