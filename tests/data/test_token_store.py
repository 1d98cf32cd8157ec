"""The token store returns what was stored, however it is read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.data.token_store import kept_store, memory_store, open_store, write_store
from encoderlab.errors import DataError
from tests.tasks.small_rows import block_of

IDS = {"ids": "uint16"}
ragged = st.lists(st.lists(st.integers(0, 2**16 - 1), max_size=6), min_size=1, max_size=30)


def stored(folder, rows, columns=IDS, at_a_time=2):
    starts = range(0, len(rows), at_a_time)
    blocks = (block_of(rows[start : start + at_a_time], columns) for start in starts)
    return write_store(folder / "s", columns, blocks)


@given(rows=ragged, data=st.data())
@settings(max_examples=50, deadline=None)
def test_gather_returns_the_requested_rows_in_the_requested_order(tmp_path_factory, rows, data):
    some = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=20))
    written = stored(tmp_path_factory.mktemp("store"), [{"ids": row} for row in rows])
    held = memory_store(IDS, [block_of([{"ids": row}], IDS) for row in rows])
    for store in (written, held):
        flat, lengths = store["ids"].gather(np.array(some))
        assert [list(part) for part in np.split(flat, np.cumsum(lengths)[:-1])] == [rows[i] for i in some]
        assert store["ids"].lengths().tolist() == [len(row) for row in rows]
        assert len(store) == len(rows)


def test_a_store_is_written_block_by_block_and_reopened(tmp_path):
    rows = [{"ids": list(range(n)), "label": [n]} for n in range(10)]
    stored(tmp_path, rows, {"ids": "uint32", "label": "int32"}, at_a_time=3)
    store = open_store(tmp_path / "s")
    assert store["ids"].gather(np.array([9, 0, 3]))[0].tolist() == [*range(9), *range(3)]
    assert store["label"].gather(np.arange(10))[0].tolist() == list(range(10))
    assert "ids" in store
    assert "other" not in store


def test_a_block_that_fails_leaves_no_store_behind(tmp_path):
    def blocks():
        yield {"ids": (np.ones(3, "uint16"), np.array([1, 2]))}
        raise DataError("no more")

    with pytest.raises(DataError):
        write_store(tmp_path / "s", {"ids": "uint16"}, blocks())
    assert list(tmp_path.iterdir()) == []


def cut_off(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip_a_bit(path):
    content = bytearray(path.read_bytes() or b"0")
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


FILES = ["ids.bin", "ids.offsets.bin", "none.bin", "none.offsets.bin", "store.json", "manifest.json"]
DAMAGES = [cut_off, flip_a_bit, lambda path: path.write_bytes(b""), lambda path: path.unlink()]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_store_is_refused(tmp_path, name, damage):
    folder = tmp_path / "s"
    rows = [{"ids": [1, 2, 3], "none": []}, {"ids": [4], "none": []}]
    stored(tmp_path, rows, {"ids": "uint16", "none": "int32"})
    assert open_store(folder)["none"].lengths().tolist() == [0, 0]
    before = (folder / name).read_bytes()
    damage(folder / name)
    if (folder / name).exists() and (folder / name).read_bytes() == before:
        return  # an empty file that stays empty
    with pytest.raises(DataError) as refused:
        open_store(folder)
    assert str(refused.value) == f"The cache folder {folder} is damaged. Delete it; it will be rebuilt."


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_store_is_made_again_and_an_intact_one_is_not(tmp_path, damage, capsys):
    made = []

    def make(folder):
        made.append(folder)
        return write_store(folder, IDS, [block_of([{"ids": [1, 2, 3]}, {"ids": [4]}], IDS)])

    folder = tmp_path / "stores" / "s"
    for _ in range(2):
        assert kept_store(folder, make)["ids"].gather(np.array([1, 0]))[0].tolist() == [4, 1, 2, 3]
    assert len(made) == 1 and not capsys.readouterr().err
    damage(folder / "ids.offsets.bin")
    assert kept_store(folder, make)["ids"].gather(np.array([1, 0]))[0].tolist() == [4, 1, 2, 3]
    assert len(made) == 2
    assert capsys.readouterr().err.splitlines() == [f"The token store {folder} is damaged and is being rebuilt."]


def test_two_writers_of_the_same_store_both_succeed(tmp_path):
    first = stored(tmp_path, [{"ids": [1, 2]}])
    second = stored(tmp_path, [{"ids": [1, 2]}])
    assert first["ids"].gather(np.array([0]))[0].tolist() == second["ids"].gather(np.array([0]))[0].tolist() == [1, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
