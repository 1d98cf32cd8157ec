"""Carried columns: under their own names if these are free, with values as each format can represent them."""

import csv
import datetime
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq

from encoderlab.data.row_table import RowTable
from encoderlab.reports.outputs.answers import Answered, Wanted, write_csv, write_jsonl, write_parquet
from encoderlab.reports.outputs.carried import carried_names
from encoderlab.reports.outputs.predictions import write_predictions
from encoderlab.tasks.task import Answer

DAY = datetime.date(2026, 1, 2)
CARRIED = pa.table({"id": [7, 8], "day": [DAY, None], "predicted": ["old", "older"], "done": [True, False]})


def rows():
    return [
        Answered(text, None, Answer(("a",), (0.75, 0.25)), carried=other)
        for text, other in zip("xy", CARRIED.to_pylist(), strict=True)
    ]


def test_a_name_already_in_use_is_prefixed_with_input():
    assert carried_names(["id", "text", "input_text"], ["text", "predicted"]) == {
        "id": "id",
        "text": "input_text",
        "input_text": "input_input_text",
    }


def test_a_table_has_them_after_the_predictions():
    file = io.StringIO()
    write_csv(file, rows(), Wanted(["a", "b"], carried=CARRIED.schema))
    first, second = csv.DictReader(io.StringIO(file.getvalue()))
    assert list(first) == [
        "text",
        "predicted",
        "probability_a",
        "probability_b",
        "id",
        "day",
        "input_predicted",
        "done",
    ]
    assert (first["id"], first["day"], first["input_predicted"], first["done"]) == ("7", "2026-01-02", "old", "true")
    assert second["day"] == "" and second["predicted"] == "a"


def test_json_and_parquet_keep_their_types():
    file, binary = io.StringIO(), io.BytesIO()
    write_jsonl(file, rows(), Wanted(["a", "b"], carried=CARRIED.schema))
    first = json.loads(file.getvalue().splitlines()[0])
    assert (first["id"], first["day"], first["input_predicted"], first["done"]) == (7, "2026-01-02", "old", True)
    write_parquet(binary, rows(), Wanted(["a", "b"], carried=CARRIED.schema))
    table = pq.read_table(binary)
    assert table.select(["id", "day", "input_predicted", "done"]).to_pylist()[1] == {
        "id": 8,
        "day": None,
        "input_predicted": "older",
        "done": False,
    }


def test_the_predictions_of_a_run_have_them_last(tmp_path):
    texts = [("x", None), ("y", None)]
    write_predictions(
        tmp_path / "p.csv", texts, [0, 1], [0, 0], None, ["a", "b"], RowTable(CARRIED.select(["id", "predicted"]))
    )
    assert (tmp_path / "p.csv").read_text().splitlines() == [
        "text,label,predicted,id,input_predicted",
        '"x","a","a",7,"old"',
        '"y","b","a",8,"older"',
    ]
