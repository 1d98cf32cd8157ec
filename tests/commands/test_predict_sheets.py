"""Predictions in an Excel sheet, which holds 15 digits, 32,767 characters of a text, few control characters, and a
million rows.
"""

import csv
import json

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from encoderlab.errors import DataError


def sheet_of(path):
    header, *rows = [[cell.value for cell in row] for row in openpyxl.load_workbook(path).worksheets[0].iter_rows()]
    return header, [[str(value) if isinstance(value, int) else value for value in row] for row in rows]


IDS = ["1794030472427835393", "1000000000000000", "999999999999999"]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_ids_keep_all_their_digits_in_every_format(command, brackets_run, tmp_path, ending):
    rows = [{"id": int(id_), "zip": "00123", "text": "( )"} for id_ in IDS]
    new = tmp_path / f"new.{ending}"
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), new)
    elif ending == "jsonl":
        new.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        new.write_text("id,zip,text\n" + "".join(f"{row['id']},{row['zip']},( )\n" for row in rows))
    read = {
        "csv": lambda path: [[*row.values()] for row in csv.DictReader(path.open(newline=""))],
        "jsonl": lambda path: [[*json.loads(line).values()] for line in path.open()],
        "parquet": lambda path: [[*row.values()] for row in pq.read_table(path).to_pylist()],
        "xlsx": lambda path: sheet_of(path)[1],
    }
    for output, rows_of in read.items():
        command("predict", f"run={brackets_run}", new, f"output=out.{output}")
        written = rows_of(tmp_path / f"out.{output}")
        assert [(str(row[0]), row[1]) for row in written] == [(id_, "00123") for id_ in IDS], output


def test_what_a_sheet_cannot_hold_is_replaced_and_counted(command, brackets_run, tmp_path, capsys):
    texts = ["(\v)", "(\x1b[31m)", "(\ufffe)", "( " * 20_000, "😀" * 20_000, "(\r\n)\r(", "=1+1", "_x000D_"]
    lines = [json.dumps({"text": text, "a\vb": 10**15, "c": n}) for n, text in enumerate(texts)]
    (tmp_path / "new.jsonl").write_text("\n".join(lines))
    command("predict", f"run={brackets_run}", "new.jsonl", "output=out.xlsx")
    said = capsys.readouterr().err
    header, rows = sheet_of(tmp_path / "out.xlsx")
    assert header[:3] == ["text", "a\ufffdb", "c"] and [row[2] for row in rows] == [*map(str, range(8))]
    shown = [str(row[0]) for row in rows]
    assert shown[:3] == ["(\ufffd)", "(\ufffd[31m)", "(\ufffd)"]
    assert len(shown[3]) == 32_767 and shown[4] == "😀" * 16_383
    assert shown[5:7] == ["(\n)\n(", "=1+1"] and [row[1] for row in rows] == 8 * [str(10**15)]
    assert "4 cells" in said and "2 cells" in said and "8 cells" in said


@pytest.mark.parametrize("row", [["a", 1, "( )", 2, "b", "c"], [None, 1, "( )", None, None, "c"]])
def test_columns_with_repeated_names_or_none_come_back_in_order(command, brackets_run, tmp_path, row):
    book = openpyxl.Workbook()
    book.active.append(["note", None, "text", "note", None])
    for _ in range(3):
        book.active.append(row)
    book.save(tmp_path / "new.xlsx")
    command("predict", f"run={brackets_run}", "new.xlsx", "output=out.xlsx")
    header, *rows = openpyxl.load_workbook(tmp_path / "out.xlsx").active.values
    assert [name or "" for name in header[:6]] == ["note", "", "text", "note.1", "column_5", "column_6"]
    assert [[*cells[:6]] for cells in rows] == 3 * [row]


def test_the_same_rows_are_the_same_bytes(command, brackets_run, tmp_path):
    (tmp_path / "new.csv").write_text("id,text\n1,( )\n")
    for name in ("one.xlsx", "two.xlsx"):
        command("predict", f"run={brackets_run}", "new.csv", f"output={name}")
    assert (tmp_path / "one.xlsx").read_bytes() == (tmp_path / "two.xlsx").read_bytes()


def test_too_many_rows_for_a_sheet_are_refused_before_the_first_prediction(
    command, brackets_run, tmp_path, monkeypatch
):
    (tmp_path / "new.txt").write_text("( )\n" * 1_048_576)
    monkeypatch.setattr("encoderlab.models.model.Model.outputs", lambda *_: pytest.fail("a row was predicted"))
    with pytest.raises(DataError, match=r"1,048,576 rows.*csv"):
        command("predict", f"run={brackets_run}", "new.txt", "output=out.xlsx")
    assert not (tmp_path / "out.xlsx").exists()


def test_a_column_without_predictions_in_its_first_rows_is_still_one_of_numbers(command, brackets_run, tmp_path):
    lines = ["\n"] * 5000 + ["( )\n"]
    (tmp_path / "new.txt").write_text("".join(lines))
    command("predict", f"run={brackets_run}", "new.txt", "output=out.parquet", "probabilities=all")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.schema.field("probability").type == table.schema.field("probability_balanced").type == pa.float64()
    assert table["predicted"].null_count == 5000
