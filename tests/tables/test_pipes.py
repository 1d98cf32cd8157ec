"""Pipes instead of files: each row is read once, and nothing waits for ever."""

import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = "text,label\n" + "".join(f"{'good' if n % 2 else 'bad'} thing {n},{n % 2}\n" for n in range(60))
DATA = "data task=classification dataset=files format=json examples=0 cache_dir=cache dataset.path="


def shell(folder, line):
    line = line.replace("encoderlab", f"{sys.executable} -m encoderlab")
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=120, check=False, env=os.environ
    )


@pytest.mark.parametrize(
    "line",
    [
        f"encoderlab {DATA}<(cat rows.csv) dataset.format=csv",
        f"cat rows.csv | encoderlab {DATA}/dev/stdin",
        f"mkfifo pipe.csv; cat rows.csv > pipe.csv & sleep 0.2; encoderlab {DATA}pipe.csv",
    ],
)
def test_a_pipe_is_read_as_the_file_it_holds(tmp_path, line):
    (tmp_path / "rows.csv").write_text(ROWS)
    ended = shell(tmp_path, line)
    assert ended.returncode == 0, ended.stderr
    assert '"pieces_per_word"' in ended.stdout and "Traceback" not in ended.stderr
    whole = shell(tmp_path, f"encoderlab {DATA}rows.csv")
    rows = [line for line in whole.stdout.splitlines() if '"rows"' in line or '"counted"' in line]
    assert rows and rows == [line for line in ended.stdout.splitlines() if '"rows"' in line or '"counted"' in line]


def test_predictions_go_from_pipe_to_pipe(tmp_path, brackets_run):
    pq.write_table(pa.table({"text": ["( )", "("], "id": [7, 8]}), tmp_path / "rows.parquet")
    ended = shell(tmp_path, f"cat rows.parquet | encoderlab predict run={brackets_run} /dev/stdin output=/dev/stdout")
    assert ended.returncode == 0, ended.stderr
    assert [line[:7] for line in ended.stdout.splitlines()] == ["text,id", '"( )",7', '"(",8,"']
    ended = shell(tmp_path, f"encoderlab predict run={brackets_run} rows.parquet output=/dev/null")
    assert ended.returncode == 0, ended.stderr


def test_an_empty_pipe_is_one_line(tmp_path):
    ended = shell(tmp_path, f"encoderlab {DATA}/dev/stdin < /dev/null")
    assert ended.returncode == 3 and ended.stderr.count("\n") == 1 and "only once" in ended.stderr


def test_a_message_names_the_pipe_and_not_its_copy(tmp_path):
    (tmp_path / "rows.csv").write_text(ROWS + "Total,60\n")
    refused = shell(tmp_path, f"cat rows.csv | encoderlab {DATA}/dev/stdin dataset.label=topic")
    assert refused.returncode == 3 and "/dev/stdin " in refused.stderr and "pipe-" not in refused.stderr
    read = shell(tmp_path, f"cat rows.csv | encoderlab {DATA.replace('examples=0', 'examples=1')}/dev/stdin")
    assert "/dev/stdin, line 62 " in read.stderr and "pipe-" not in read.stdout + read.stderr
