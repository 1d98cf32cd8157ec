"""What the first lines of a csv file show about its grammar, as programs write it."""

import pytest

from encoderlab.data.files import FilesDataset
from encoderlab.errors import DataError

TEXTS = ["The parcel came late, and nobody answers", "It works well", "Awful food", "A lovely little shop"]
ROWS = [(f"{TEXTS[n % 4]} ({n})", ("good", "bad")[n % 2]) for n in range(16)]


def read(tmp_path, content, name="rows.csv"):
    (tmp_path / name).write_text(content, encoding="utf-8")
    data = FilesDataset(path=str(tmp_path / name), validation_fraction=0.0).load(tmp_path / "cache")
    return [(row.text, data.labels[row.label]) for row in data.by_name["train"]]


def lines(form, rows=ROWS):
    return "".join(form.format(*row) + "\n" for row in rows)


QUOTED = '"{}",{}'
PLAIN = "text,label\n"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(
            "# Exported by a tool, on 2026-03-02, all rows\n# query: a\n" + PLAIN + lines(QUOTED), id="comments"
        ),
        pytest.param("# Exported by a tool, on 2026-03-02\n" + PLAIN + lines(QUOTED), id="a comment as wide as rows"),
        pytest.param(
            PLAIN + lines(QUOTED, ROWS[:8]) + "\ufeff" + PLAIN + lines(QUOTED, ROWS[8:]), id="two files, one appended"
        ),
        pytest.param("text, label\n".replace(", l", ",l") + lines('"{}", "{}"'), id="blanks before quotes"),
        pytest.param(PLAIN + lines("'{}','{}'"), id="single quotes"),
        pytest.param("text^label\n" + lines("{}^{}"), id="another separator"),
        pytest.param(PLAIN + lines(QUOTED) + "  \n,\n \n", id="lines of blanks"),
        pytest.param("sep=;\n" + "text;label\n" + lines("{};{}"), id="Excel's first line"),
    ],
)
def test_the_rows_are_what_the_program_wrote(content, tmp_path):
    assert read(tmp_path, content) == ROWS


@pytest.mark.parametrize("header", ["#,text,label", "#id,text,label"])
def test_a_header_may_begin_with_the_sign_of_comments(header, tmp_path):
    numbered = "".join(f'{n},"{text}",{label}\n' for n, (text, label) in enumerate(ROWS))
    assert read(tmp_path, f"{header}\n{numbered}") == ROWS


def test_a_text_may_hold_what_looks_like_a_blank_before_a_quote(tmp_path):
    rows = [('He said, "no", again', "good"), ("fine", "bad"), ("so, so", "bad")]
    content = "text,label\n" + "".join('"{}",{}\n'.format(text.replace('"', '""'), label) for text, label in rows)
    assert read(tmp_path, content) == rows


def test_labels_in_several_columns_of_one_name_are_gathered(tmp_path):
    rows = "".join(f"the parcel of case {n},{('ui', 'api')[n % 2]},{'urgent' if n % 3 else ''}\n" for n in range(12))
    (tmp_path / "jira.csv").write_text("Description,Labels,Labels\n" + rows)
    given = {"path": str(tmp_path / "jira.csv"), "text": "Description", "label": "Labels", "validation_fraction": 0.0}
    data = FilesDataset(**given).load(tmp_path / "cache", "label_set")
    assert data.labels == ["api", "ui", "urgent"]
    first, second, *_ = data.by_name["train"]
    assert [data.labels[label] for label in first.label] == ["ui"]
    assert [data.labels[label] for label in second.label] == ["api", "urgent"]


@pytest.mark.parametrize("last", ["Total,16\n", ",\nLegend: what good means,see the handbook\nTotal,16\n"])
def test_a_total_or_a_note_below_the_rows_is_named_with_its_line(last, tmp_path, capsys):
    read(tmp_path, PLAIN + lines(QUOTED) + last)
    line = len(ROWS) + 2 + last.startswith(",")
    assert f"line {line} " in capsys.readouterr().err
    read(tmp_path, PLAIN + lines(QUOTED), "whole.csv")
    assert "line" not in capsys.readouterr().err


def test_numbers_of_rows_without_a_name_are_explained(tmp_path):
    rows = "".join(f'"{number}"\t"{text}"\t"{label}"\n' for number, (text, label) in enumerate(ROWS, start=1))
    with pytest.raises(DataError, match=r"row\.names = FALSE"):
        read(tmp_path, '"text"\t"label"\n' + rows, "rows.tsv")
