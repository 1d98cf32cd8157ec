"""Finished runs for comparison: their settings, and whether they predicted the same rows."""

import json

import numpy as np
import pytest

from encoderlab.errors import DataError
from encoderlab.runs.folders.finished import check_comparable, finished_runs, read_answers

SCORES = {"n": 3, "accuracy": 0.5, "per_class": {"no": {}, "yes": {}}}


@pytest.fixture
def run(tmp_path):
    """Write the records of a finished run and return its folder."""

    def write(name, task="films", split="test", fingerprint="f", answers=("no", "yes", "yes"), **scores):
        folder = tmp_path / name
        folder.mkdir()
        report = {
            "task": task,
            "seed": 1,
            "scored_split": split,
            "splits": {split: SCORES | scores},
            "main_figure": "accuracy",
        }
        report |= {"throughput": {"train_seconds": 2.0}, "model": {"parameters": 10}}
        environment = {"command": "train", "dataset": {"splits": {split: {"fingerprint": fingerprint}}}}
        (folder / "report.json").write_text(json.dumps(report))
        (folder / "config.yaml").write_text(f"seed: 1\nrun_dir: {folder}\nmodel: {{schema: model, n_layers: 2}}\n")
        (folder / "environment.json").write_text(json.dumps(environment))
        lines = [
            f"text {row},{label},{predicted}"
            for row, (label, predicted) in enumerate(zip(("no", "no", "yes"), answers, strict=True))
        ]
        (folder / "predictions.csv").write_text("\n".join(["text,label,predicted", *lines]) + "\n")
        return str(folder)

    return write


def test_settings_are_flat_and_contain_only_what_was_tried(run):
    (found,), _ = finished_runs([run("a")])
    assert found.settings == {"model.n_layers": 2, "command": "train"}
    assert (found.seed, found.split, found.seconds, found.journal()) == (1, "test", 2.0, [])


def test_a_run_named_twice_counts_once_and_an_unfinished_one_is_named(run, tmp_path):
    folder, other = run("a"), run("b")
    (tmp_path / "b" / "report.json").unlink()
    found, left_out = finished_runs([folder, f"{folder}/", other])
    assert [str(one.folder.root) for one in found] == [folder]
    assert len(left_out) == 1 and other in left_out[0]


@pytest.mark.parametrize("change", [{"task": "books"}, {"split": "validation"}, {"fingerprint": "g"}, {"n": 4}])
def test_runs_that_predicted_other_rows_are_not_comparable(run, change):
    alike, _ = finished_runs([run("a"), run("b")])
    check_comparable(alike)
    with pytest.raises(DataError, match="/c and .*/a"):
        check_comparable([*alike, *finished_runs([run("c", **change)])[0]])


def test_predictions_are_read_as_ids_in_the_order_of_the_rows(run):
    runs, _ = finished_runs([run("a"), run("b", answers=("no", "no", "yes"))])
    first, second = read_answers(runs)
    np.testing.assert_array_equal(first.labels, [0, 0, 1])
    np.testing.assert_array_equal(second.predicted, [0, 0, 1])
    np.testing.assert_array_equal(first.predicted, [0, 1, 1])


def test_damaged_or_missing_records_are_named(run, tmp_path):
    folder = run("a")
    (tmp_path / "a" / "environment.json").write_text("[")
    with pytest.raises(DataError, match="environment.json"):
        finished_runs([folder])
    with pytest.raises(DataError, match="nowhere"):
        finished_runs([str(tmp_path / "nowhere")])
