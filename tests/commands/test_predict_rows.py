"""encoderlab predict covers every row of a file once, in order, or writes nothing, whatever the rows or the disk
contain.
"""

import csv
import io
import json
import resource
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from encoderlab.errors import DataError

ANY = st.text(st.characters(codec="utf-8"), max_size=12)
NASTY = st.text(st.sampled_from('ab(",\n\r\t 0\0\u2028\x85\x0c\ufeff'), max_size=8)
ROWS = st.lists(ANY | NASTY | st.sampled_from(["", " ", "NA", "None", "\u3000", "(" * 3000]), min_size=1, max_size=12)
FEW = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def as_separated(rows, separator, path):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=separator, lineterminator="\n").writerows(
            [["text", "id"], *((row, n) for n, row in enumerate(rows))]
        )


WRITERS = {
    "csv": lambda rows, path: as_separated(rows, ",", path),
    "tsv": lambda rows, path: as_separated(rows, "\t", path),
    "jsonl": lambda rows, path: path.write_text("".join(json.dumps({"text": row}) + "\n" for row in rows)),
    "parquet": lambda rows, path: pq.write_table(pa.table({"text": rows}), path),
    "txt": lambda rows, path: path.write_bytes("\n".join([*rows, ""]).encode()),
}


def predictions(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


@pytest.mark.slow
@FEW
@given(rows=ROWS, kind=st.sampled_from(sorted(WRITERS)))
@example(rows=["", "", " "], kind="txt")
@example(rows=["", "", ""], kind="csv")
@example(rows=["\r"], kind="csv")
@example(rows=['"a', "b", '"'], kind="tsv")
def test_each_row_is_predicted_once_in_order_or_none_is(command, brackets_run, tmp_path_factory, rows, kind):
    folder = tmp_path_factory.mktemp("rows")
    path = folder / f"rows.{kind}"
    WRITERS[kind](rows, path)
    whole = all(not set(row) & set("\r\n") for row in rows)  # a line of a .txt file holds no line end
    try:
        command("predict", f"run={brackets_run}", f"input={path}", f"output={folder / 'out.jsonl'}", "format=jsonl")
    except DataError as refused:
        assert str(refused).isprintable()
        assert [entry.name for entry in folder.iterdir()] == [path.name]
        assert any(set(row) & set('\0"\r\n\t,\ufeff') for row in rows) or kind == "parquet"
    else:
        found = predictions(folder / "out.jsonl")
        assert [answer["text"] for answer in found] == (rows if kind != "txt" or whole else lines_of(rows))
        assert all((answer["predicted"] is None) == (not answer["text"].strip()) for answer in found)


def lines_of(rows):
    return [line.removesuffix("\n").removesuffix("\r") for line in io.StringIO("\n".join([*rows, ""]), newline="")]


@pytest.mark.slow
@FEW
@given(
    rows=st.lists(st.tuples(ANY | NASTY, ANY | NASTY), min_size=1, max_size=8),
    kind=st.sampled_from(["jsonl", "parquet"]),
)
def test_each_pair_is_predicted_once_in_order(command, pairs_run, tmp_path_factory, rows, kind):
    folder = tmp_path_factory.mktemp("pairs")
    path = folder / f"rows.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps({"title": a, "body": b}) + "\n" for a, b in rows))
    else:
        pq.write_table(pa.table({"title": [a for a, _ in rows], "body": [b for _, b in rows]}), path)
    command("predict", f"run={pairs_run}", f"input={path}", f"output={folder / 'out.jsonl'}", "format=jsonl")
    assert [(answer["title"], answer["body"]) for answer in predictions(folder / "out.jsonl")] == rows


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_a_full_disk_is_one_line_and_leaves_no_partial_file(command, brackets_run, tmp_path, name):
    (tmp_path / "rows.txt").write_text("".join(f"(({n:>40}))\n" for n in range(3000)))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))  # as a full disk: a file may grow no further
    try:
        with pytest.raises(DataError, match=f"output={name} cannot be written: File too large. Free space"):
            command("predict", f"run={brackets_run}", "input=rows.txt", f"output={name}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [entry.name for entry in tmp_path.iterdir()] == ["rows.txt"]


def test_other_columns_are_copied_and_the_last_line_counts_truncated_texts(command, brackets_run, tmp_path, capsys):
    (tmp_path / "new.csv").write_text("id;text;predicted\n7;( );old\n8;" + "( " * 3000 + ";older\n")
    command("predict", f"run={brackets_run}", f"input={tmp_path / 'new.csv'}", f"output={tmp_path / 'out.csv'}")
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "text", "input_predicted", "predicted", "probability"]
    assert [(row["id"], row["input_predicted"]) for row in rows] == [("7", "old"), ("8", "older")]
    last = capsys.readouterr().err.splitlines()[-1]
    assert "2 rows" in last and "1 truncated" in last and "out.csv" in last


def test_a_closed_pipe_is_not_an_error(brackets_run, tmp_path):
    (tmp_path / "new.txt").write_text("( )\n" * 20_000)
    line = f"{sys.executable} -m encoderlab predict run={brackets_run} input={tmp_path / 'new.txt'} | head -1"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1 and "Error" not in done.stderr
