"""Batches in a spool come back as they were added, in memory or mapped from a file that leaves nothing behind."""

import gc
import resource
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.data import spool
from encoderlab.data.row_table import RowTable
from encoderlab.data.spool import Spool
from encoderlab.errors import DataError
from tests.data.files.written import load, write

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
COLUMNS = st.one_of(
    st.lists(TEXTS | st.none(), max_size=5).map(lambda texts: pa.array(texts, pa.string())),
    st.lists(TEXTS, max_size=5).map(lambda texts: pa.array(texts, pa.large_string())),
    st.lists(TEXTS | st.none(), max_size=5).map(lambda texts: pa.array(texts, pa.string()).dictionary_encode()),
    st.lists(st.lists(TEXTS, max_size=3), max_size=5).map(lambda words: pa.array(words, pa.list_(pa.string()))),
    st.lists(st.none() | st.integers(-9, 9), max_size=5).map(lambda numbers: pa.array(numbers, pa.int64())),
    st.integers(0, 5).map(lambda rows: pa.nulls(rows)),
)
FILES = st.lists(
    st.lists(COLUMNS.map(lambda column: pa.record_batch([column], ["a"])), max_size=6), min_size=1, max_size=4
)


@settings(deadline=None)
@given(files=FILES, in_memory=st.sampled_from([-1, 40, 200, 10**6]))
def test_batches_of_any_types_come_back_file_by_file(tmp_path_factory, files, in_memory):
    folder = tmp_path_factory.mktemp("spool")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "IN_MEMORY", in_memory)
        one, found = Spool(folder), []
        for batches in files:
            for batch in batches:
                one.add(batch)
            found.append(one.finish())
    del one  # arrays outlive the spool
    assert found == files
    assert not list(folder.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_flat_however_much_is_read(tmp_path):
    rows, size = 600, 2**20
    one = Spool(tmp_path)
    before = resident()
    for row in range(rows):
        one.add(pa.record_batch([pa.array([f"{row:09}" + "x" * size])], ["text"]))
    table = RowTable(pa.Table.from_batches(one.finish()))
    for start in range(0, rows, 10):
        texts = table[start : start + 10]["text"]
        assert [int(text[:9]) for text in texts] == list(range(start, start + 10))
        assert resident() - before < 4 * spool.IN_MEMORY
    gc.collect()


def resident():
    """Return how many bytes of memory the process has, mapped ones included."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096


def test_a_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "IN_MEMORY", 0)
    (tmp_path / "file").touch()
    with pytest.raises(
        DataError, match="cannot hold the rows: Not a directory. Free some space there, or set cache_dir"
    ):
        Spool(tmp_path / "file" / "cache").add(pa.record_batch([pa.array(["x"])], ["text"]))


def test_a_full_folder_is_named_and_closing_it_says_nothing_more(tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "IN_MEMORY", -1)
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        assert "cannot hold the rows: File too large. Free some space there" in error_of_filling(tmp_path)
        gc.collect()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not unraisable
    assert not list(tmp_path.iterdir())


def error_of_filling(folder):
    one = Spool(folder)
    try:
        for _ in range(100):
            one.add(pa.record_batch([pa.array(["x" * 900])], ["text"]))
    except DataError as error:
        return str(error)
    return ""


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="counts open files")
def test_any_number_of_files_takes_few_file_descriptors(tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "IN_MEMORY", -1)
    one, before, found = Spool(tmp_path), open_files(), []
    for number in range(200):
        one.add(pa.record_batch([pa.array([str(number)])], ["text"]))
        found.append(one.finish())
    assert [batch["text"][0].as_py() for (batch,) in found] == [str(number) for number in range(200)]
    assert open_files() - before < 20


def open_files():
    return sum(1 for _ in Path("/dev/fd").iterdir())


def test_a_dictionary_is_written_once_for_all_batches_that_share_it(tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "IN_MEMORY", -1)
    names = pa.array([f"name {number}" for number in range(10_000)])
    one, written = Spool(tmp_path), []
    batches = [
        pa.record_batch([pa.DictionaryArray.from_arrays(pa.array([row, row + 1]), names)], ["name"])
        for row in range(50)
    ]
    for batch in batches:
        one.add(batch)
        written.append(one._file.tell())
    assert written[-1] < 2 * written[0]
    assert one.finish() == batches


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.csv", "id,text,label\n7,x,a\n8,y,b\n"),
        ("rows.jsonl", '{"id": "7", "text": "x", "label": "a"}\n{"id": "8", "text": "y", "label": "b"}\n'),
    ],
)
def test_rows_carry_their_other_columns_and_lines_when_they_are_mapped(tmp_path, monkeypatch, name, content):
    monkeypatch.setattr(spool, "IN_MEMORY", -1)
    train = load(write(tmp_path / name, content)).by_name["train"].take([1, 0])
    assert [(example.text, example.label) for example in train] == [("y", 1), ("x", 0)]
    assert list(train.carried.rows()) == [{"id": "8"}, {"id": "7"}]
    assert train.where(0).endswith("line 3" if name == "rows.csv" else "line 2")


def test_a_folder_of_labels_is_read_when_it_is_mapped(tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "IN_MEMORY", -1)
    for label, text in (("bad", "x"), ("good", "y")):
        (tmp_path / "data" / label).mkdir(parents=True)
        write(tmp_path / "data" / label / "1.txt", text)
    splits = load(tmp_path / "data")
    assert [(example.text, splits.labels[example.label]) for example in splits.by_name["train"]] == [
        ("x", "bad"),
        ("y", "good"),
    ]
