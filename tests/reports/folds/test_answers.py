"""The predictions of all folds in one table: every row in the order of the file, with its place."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from encoderlab.data.examples import Folded, Split
from encoderlab.errors import DataError
from encoderlab.reports.folds.answers import out_of_fold_answers, write_answers

NAMES = ["bad", "good"]
HEAD = "text,label,predicted,probability_bad,probability_good,line\n"


def cross_validation(tmp_path, where, rows=("a", "b", "c", "d"), folds=(2, 1, 1, 2)):
    """Two folds whose predictions.csv contain `rows`, and a carried column with the name of one of ours."""
    split = Split(pa.table({"text": list(rows), "label": [0] * len(rows)}), where)
    runs = []
    for number in (1, 2):
        of_fold = [row for row, fold in zip(rows, folds, strict=True) if fold == number]
        lines = [
            f'"{row}","bad","good",{0.1 if row == "c" else 0.6},{0.9 if row == "c" else 0.4},"x{row}"\n'
            for row in of_fold
        ]
        path = tmp_path / f"{number}.csv"
        path.write_text(HEAD + "".join(lines), encoding="utf-8")
        runs.append(SimpleNamespace(predictions=path))
    corpus = SimpleNamespace(labels=NAMES)
    return SimpleNamespace(runs=runs, folded=Folded(split, np.array(folds)), corpus=corpus)


def test_rows_come_in_the_order_of_the_file_with_fold_and_line(tmp_path):
    table = out_of_fold_answers(cross_validation(tmp_path, lambda row: f"rows.csv, line {row + 2}"))
    assert table["text"].tolist() == ["a", "b", "c", "d"] and table["fold"].tolist() == [2, 1, 1, 2]
    assert table["line"].tolist() == [2, 3, 4, 5] and table["input_line"].tolist() == ["xa", "xb", "xc", "xd"]
    assert "file" not in table


def test_with_several_files_each_row_names_its_file(tmp_path):
    wheres = ["a.csv, line 2", "a.csv, lines 3 to 5", "b.csv, line 2", "c.txt"]
    table = out_of_fold_answers(cross_validation(tmp_path, wheres.__getitem__))
    assert table["file"].tolist() == ["a.csv", "a.csv", "b.csv", "c.txt"] and table["line"].tolist() == [2, 3, 2, ""]


def test_a_fold_that_lost_rows_is_refused(tmp_path):
    folds = cross_validation(tmp_path, None)
    folds.runs[0].predictions.write_text(HEAD, encoding="utf-8")
    with pytest.raises(DataError, match=r"does not contain the 2 rows of its fold"):
        out_of_fold_answers(folds)


def test_a_table_is_written_with_quoted_texts_and_unquoted_numbers(tmp_path):
    table = out_of_fold_answers(cross_validation(tmp_path, None))
    write_answers(tmp_path / "all.csv", table)
    assert '1,3,"c","bad","good",0.1,0.9,"xc"' in (tmp_path / "all.csv").read_text(encoding="utf-8")
