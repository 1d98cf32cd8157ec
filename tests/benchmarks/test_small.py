"""Everything once, a few steps of it: ours and the peers, growth, and the script for a GPU on a CPU."""

import importlib.util
import os
import subprocess

import pytest

from benchmarks import page
from benchmarks.peers.map_articles import grouped
from benchmarks.processes import ROOT, python
from benchmarks.synthetic import reviews, write_digits, write_documents
from benchmarks.texts import first_lines


def typed(*arguments, **environment):
    command, given = python("-m", "benchmarks", *arguments), {**os.environ, **environment}
    found = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.fixture
def untouched():
    """Restore the recorded figures: those of a few steps are never kept."""
    before = page.PAGE.read_bytes(), page.kept()
    yield
    assert before == (page.PAGE.read_bytes(), page.kept())


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("accelerate") is None, reason="transformers' Trainer needs accelerate")
def test_ours_runs_beside_both_peers_on_the_built_in_task(untouched, built_in_cache):
    found = typed(
        "run", "docs_tiny", "--small", "--rounds", "1", "--threads", "1", ENCODERLAB_CACHE=str(built_in_cache)
    )
    assert "* encoderlab / trainer: " in found and "* encoderlab / plain_loop: " in found
    rows = {cells[1].strip(): cells[2:-1] for line in found.splitlines() if len(cells := line.split("|")) > 3}
    head = [cell.strip() for cell in rows[""]]
    assert head[:2] == ["examples/s", "real tokens/s"]
    for side in ("encoderlab", "trainer", "plain_loop"):
        figures = dict(zip(head, (cell.strip() for cell in rows[side]), strict=True))
        assert all(figures[name] for name in ("examples/s", "padding", "peak memory", "first step after", "mfu"))


@pytest.mark.slow
def test_the_script_for_a_gpu_runs_on_a_cpu(untouched):
    found = typed("gpu", "--device", "cpu", "--small", "--minutes", "60")
    assert (
        "| fp32 | 0.0e+00 (at most 2e-05) | 0.0e+00 (at most 1e-04) | 0.0% | agrees |" in found
    )  # the CPU agrees with itself
    assert "| resumed | bit-identical | bit-identical | exact |" in found
    assert "| tiny, 32 | no | no | 8 |" in found and "| tiny, 32 | yes | no | 8 |" in found
    assert "Dropped" not in found


@pytest.mark.slow
def test_growth_is_measured(untouched):
    found = typed("growth", "n_layers", "--small", "--threads", "1")
    assert "| model.n_layers | ms a step | factor | of the FLOPs |" in found


@pytest.mark.slow
def test_growth_of_a_stream_is_measured(untouched):
    found = typed("growth", "streamed", "--small", "--threads", "2")
    assert "| documents | text | windows | seconds | documents/s |" in found and "in 16 shards" in found


def test_rows_of_digits_have_exactly_the_requested_length(tmp_path):
    write_digits(tmp_path / "rows.csv", rows=20, length=16)
    head, *rows = (tmp_path / "rows.csv").read_text(encoding="utf-8").splitlines()
    assert head == "text,label"
    assert {(len(text), label) for text, label in (row.split(",") for row in rows)} == {(14, "even"), (14, "odd")}


def test_synthetic_documents_use_every_word_with_unequal_frequencies(tmp_path):
    write_documents(tmp_path / "documents.txt", words=5000, distinct=300)
    text = (tmp_path / "documents.txt").read_text(encoding="utf-8")
    words = text.lower().replace(".", "").split()
    assert len(words) == 5000
    assert len(set(words)) > 200
    assert max(map(words.count, set(words))) > 200
    documents = text.strip().split("\n\n")
    assert len(documents) > 5
    assert all(line.endswith(".") for document in documents for line in document.splitlines())


def test_synthetic_reviews_differ_by_seed_and_are_as_long_as_amazons():
    texts, labels = reviews(rows=400, seed=1)
    lengths = [len(text.split()) for text in texts]
    assert len(set(texts)) == len(labels) == 400 and set(labels) == {"negative", "positive"}
    assert min(lengths) >= 10 and max(lengths) <= 200 and 65 < sum(lengths) / 400 < 85
    assert reviews(rows=400, seed=1)[0] == texts and not set(reviews(rows=400, seed=2)[0]) & set(texts)


def test_the_peer_concatenates_rows_and_cuts_them_to_equal_lengths():
    rows = grouped({"input_ids": [list(range(100)), list(range(100, 300))]})["input_ids"]
    assert rows == [list(range(128)), list(range(128, 256))]


def test_a_subset_of_a_text_file_is_written_to_its_own_file(tmp_path):
    (tmp_path / "all.txt").write_text("one\ntwo\u2028still two\nthree\n", encoding="utf-8")
    assert first_lines(tmp_path / "all.txt", None, tmp_path / "few.txt") == (tmp_path / "all.txt", 3)
    assert first_lines(tmp_path / "all.txt", 2, tmp_path / "few.txt") == (tmp_path / "few.txt", 2)
    assert (tmp_path / "few.txt").read_text(encoding="utf-8") == "one\ntwo\u2028still two\n"


def test_rendering_again_needs_nothing_but_the_kept_figures(tmp_path, monkeypatch):
    from benchmarks.__main__ import render

    made = {
        "date": "2030-01-02",
        "machine": {"processor": "Abacus", "cores": 1},
        "versions": {},
        "git": {"commit": None, "dirty": False},
    }
    kept = {
        **made,
        "axis": "length",
        "threads": 1,
        "points": [{"length": 8, "flops": 1e9, "milliseconds": 2.0, "peak_memory": 2**20}],
    }
    monkeypatch.setattr(page, "FOLDER", tmp_path / "results")
    monkeypatch.setattr(page, "PAGE", tmp_path / "RESULTS.md")
    monkeypatch.setattr("benchmarks.__main__.ROOT", tmp_path)
    page.keep("growth_length", kept)
    page.PAGE.write_text("Prose.\n<!-- begin growth_length -->\nold\n<!-- end growth_length -->\n", encoding="utf-8")
    render(None)
    assert "Prose.\n<!-- begin growth_length -->\n| length |" in page.PAGE.read_text(encoding="utf-8")
