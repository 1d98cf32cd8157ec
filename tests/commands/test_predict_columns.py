"""Predictions beside the columns of the file: each one comes back, in order, whatever its name and type."""

import csv
import json
from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def table_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return header, rows


def test_repeated_and_unnamed_columns_come_back_in_order(command, brackets_run, tmp_path, capfd):
    (tmp_path / "new.csv").write_text(",note,text,note,,x\n0,a,( ),b,c,d\n1,e,),f,,h\n")
    command("predict", f"run={brackets_run}", "new.csv", "output=out.csv")
    header, rows = table_of(tmp_path / "out.csv")
    assert [row[:6] for row in rows] == [["0", "a", "( )", "b", "c", "d"], ["1", "e", ")", "f", "", "h"]]
    assert header[1:4:2] == ["note", "note.1"] and header[2] == "text"
    assert len({*header}) == len(header) == 8
    (said,) = (line for line in capfd.readouterr().err.splitlines() if "'note.1'" in line)
    assert "new.csv" in said


def test_a_repeated_column_of_texts_is_chosen_by_its_own_name(command, brackets_run, tmp_path):
    (tmp_path / "new.csv").write_text("id,text,text\n1,( ),(\n")
    command("predict", f"run={brackets_run}", "new.csv", "text_column=text.1", "output=out.csv")
    command("predict", f"run={brackets_run}", "text=(", "output=one.csv")
    (row,) = table_of(tmp_path / "out.csv")[1]
    assert row[:3] == ["1", "( )", "("] and row[3:] == table_of(tmp_path / "one.csv")[1][0][1:]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_predictions_of_predictions_lose_no_column(command, brackets_run, tmp_path, ending):
    names = ["text", "probability_balanced", "predicted", "input_predicted", "probability", "probabilities", "label"]
    (tmp_path / "new.csv").write_text(f"{','.join(names)}\n( ),a,b,c,d,e,f\n")
    line = ("predict", f"run={brackets_run}", "probabilities=all")
    command(*line, "new.csv", "output=out.csv")
    command(*line, "out.csv", f"output=again.{ending}")
    first, (values,) = table_of(tmp_path / "out.csv")
    assert values[:7] == ["( )", *"abcdef"] and len({*first}) == len(first) == 11
    read = {
        "csv": lambda path: dict(zip(table_of(path)[0], table_of(path)[1][0], strict=True)),
        "jsonl": lambda path: json.loads(path.read_text()),
        "parquet": lambda path: pq.read_table(path).to_pylist()[0],
    }
    row = read[ending](tmp_path / f"again.{ending}")
    assert [*map(str, row.values())][: len(values)] == values
    assert row["predicted"] in ("balanced", "unbalanced")


def test_a_split_with_a_column_called_text_keeps_it(command, tmp_path):
    (tmp_path / "rows.csv").write_text("text,review,label\n" + "".join(f"t{n},good {n},{n % 2}\n" for n in range(40)))
    data = ("task=classification", "dataset=files", "dataset.path=rows.csv", "dataset.text=review")
    command("train", *data, "model=tiny", "training.steps=1", "dataset.strip_html=false", "run_dir=run")
    command("predict", "run=run", "split=train", "output=out.csv")
    header, rows = table_of(tmp_path / "out.csv")
    assert {row[header.index("input_text")][0] for row in rows} == {"t"}
    assert all(row[header.index("text")].startswith("good") for row in rows)


NESTED = {
    "text": pa.array(["( )", None], pa.string_view()),
    "tags": pa.array([["a", "b"], None]),
    "where": pa.array([{"page": 1, "boxes": [1.5]}, None]),
    "image": pa.array([b"\x00\xff", b""]),
    "more": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
    "kind": pa.array([["x"], ["x", "y"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    "price": pa.array([Decimal("1.50"), None], pa.decimal32(9, 2)),
    "uuid": pa.array([b"0" * 16, None], pa.uuid()),
    "at": pa.array([datetime(2024, 2, 29, 12), None]),
    "large": pa.array([2**63, 1], pa.uint64()),
    "predicted": pa.array([1, 2]),
}


def test_lists_records_and_bytes_of_parquet_come_back(command, brackets_run, tmp_path):
    pq.write_table(pa.table(NESTED), tmp_path / "new.parquet")
    for ending in ("parquet", "jsonl", "csv"):
        command("predict", f"run={brackets_run}", "new.parquet", f"output=out.{ending}")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names == [*NESTED][:-1] + ["input_predicted", "predicted", "probability"]
    assert table["input_predicted"].to_pylist() == [1, 2] and table["text"].to_pylist() == ["( )", ""]
    for name in ("tags", "where", "image", "kind", "price", "at", "large"):
        assert table[name].to_pylist() == NESTED[name].to_pylist(), name
    assert table["more"].to_pylist() == [[{"key": "k", "value": 1}], []]

    first, second = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert first["tags"] == ["a", "b"] and first["where"] == {"page": 1, "boxes": [1.5]} and first["image"] == "AP8="
    assert second["tags"] is None and second["predicted"] is None
    header, rows = table_of(tmp_path / "out.csv")
    assert rows[0][header.index("tags")] == '["a", "b"]'
    assert rows[0][header.index("large")] == str(2**63)


def test_a_parquet_file_with_two_columns_of_one_name_gives_both_back(command, brackets_run, tmp_path):
    columns = [pa.array(["( )"]), pa.array([1]), pa.array(["x"])]
    pq.write_table(pa.Table.from_arrays(columns, ["text", "n", "n"]), tmp_path / "new.parquet")
    command("predict", f"run={brackets_run}", "new.parquet", "output=out.csv")
    assert table_of(tmp_path / "out.csv")[1][0][:3] == ["( )", "1", "x"]


def test_numbers_that_json_does_not_know_are_null_in_it(command, brackets_run, tmp_path):
    pq.write_table(pa.table({"text": ["( )", "("], "x": [float("nan"), 1.5]}), tmp_path / "new.parquet")
    command("predict", f"run={brackets_run}", "new.parquet", "output=out.jsonl")
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert "NaN" not in lines[0] and [json.loads(line)["x"] for line in lines] == [None, 1.5]
