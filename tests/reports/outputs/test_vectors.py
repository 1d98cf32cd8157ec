"""Vectors on disk: an array that NumPy can map, written in any order, and an index that says what each row is."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.errors import DataError, SettingError
from encoderlab.reports.outputs.vectors import check_output, index_of, vector_file


def lines_of(path):
    return [json.loads(line) for line in index_of(path).read_text(encoding="utf-8").splitlines()]


@given(
    chunks=st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=4),
    width=st.integers(1, 5),
    seed=st.integers(0, 2**16),
)
@settings(deadline=None, max_examples=50)
def test_every_vector_is_in_its_place_whatever_the_order_of_writing(tmp_path_factory, chunks, width, seed):
    path, draw = tmp_path_factory.mktemp("vectors") / "vectors.npy", np.random.default_rng(seed)
    expected = []
    with vector_file(path, width) as file:
        for counts in chunks:
            blocks = [draw.standard_normal((count, width), dtype=np.float32) for count in counts]
            places = file.reserve([{"text": f"{len(expected) + n}"} for n in range(len(counts))], counts)
            for n in draw.permutation(len(counts)):
                file.put(places[n], blocks[n])
            expected += blocks
    found = np.load(path)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.concatenate([np.empty((0, width), np.float32), *expected]))
    lines = lines_of(path)
    assert [(line["row"], line["text"]) for line in lines] == [(n, str(n)) for n in range(len(expected))]
    for line, block in zip(lines, expected, strict=True):
        np.testing.assert_array_equal(found[line["start"] : line["start"] + len(block)], block)


def test_the_array_can_be_mapped_and_the_index_has_no_starts_if_rows_have_one_vector(tmp_path):
    with vector_file(tmp_path / "a.b.npy", 3) as file:
        file.put(*file.reserve([{"text": "é"}]), np.ones((1, 3), np.float64))
    mapped = np.load(tmp_path / "a.b.npy", mmap_mode="r")
    assert isinstance(mapped, np.memmap) and mapped.tolist() == [[1.0, 1.0, 1.0]]
    assert (tmp_path / "a.b.index.jsonl").read_text(encoding="utf-8") == '{"row": 0, "text": "é"}\n'


def test_an_array_that_outgrows_its_first_header_is_read_completely(tmp_path):
    with vector_file(tmp_path / "many.npy", 1) as file:
        places = file.reserve([{}] * 100_000)
        file.put(places[0], np.arange(100_000)[:, None])
    assert np.load(tmp_path / "many.npy")[:, 0].tolist() == list(range(100_000))


def test_an_error_leaves_neither_array_nor_index(tmp_path):
    with pytest.raises(ValueError, match="half way"), vector_file(tmp_path / "vectors.npy", 2) as file:
        file.put(*file.reserve([{"text": "a"}]), np.zeros((1, 2)))
        raise ValueError("half way")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("folder", "raised", "reason"),
    [
        ("nowhere", None, "No such file or directory"),
        (".", OSError(28, "No space left on device"), "No space left on device"),
    ],
)
def test_a_missing_folder_and_a_full_disk_are_refused_in_one_line(tmp_path, folder, raised, reason):
    output = tmp_path / folder / "vectors.npy"
    with pytest.raises(DataError) as refused, vector_file(output, 2):
        raise raised
    assert str(refused.value) == f"output={output} cannot be written: {reason}. Choose another folder."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("", "output is empty. Allowed: a file that ends in .npy"),
        (
            "vectors.csv",
            "output=vectors.csv does not end in .npy. Allowed: a file that ends in .npy. Set output=vectors.npy",
        ),
        ("old.npy", "output=old.npy: old.npy already exists. Choose another name"),
        ("indexed.npy", "output=indexed.npy: indexed.index.jsonl already exists"),
    ],
)
def test_names_already_in_use_and_other_file_types_are_refused(tmp_path, monkeypatch, output, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.npy").touch()
    (tmp_path / "indexed.index.jsonl").touch()
    with pytest.raises(SettingError) as refused:
        check_output(output)
    assert message in str(refused.value)
