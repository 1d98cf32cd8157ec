"""The GLUE table: means over seeds, averages over tasks, and the notes on them."""

import pytest

from encoderlab.errors import DataError
from encoderlab.reports.comparison.glue_table import are_of_glue, build_glue_table, columns, lines_of
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.folders.finished import FinishedRun


@pytest.fixture
def run_of(tmp_path):
    """Return a finished run of a task with these figures on validation."""

    def finished(task, seed, layers=1, **figures):
        folder = RunFolder(tmp_path / f"{task}-{seed}-{layers}")
        folder.root.mkdir()
        folder.report.write_text("{}")
        splits = {
            "validation": {"n": 10, **figures},
            "validation_mismatched": {"n": 10, "accuracy": figures.get("accuracy")},
        }
        return FinishedRun(folder, {"task": task, "seed": seed, "splits": splits}, {"model.n_layers": layers}, {})

    return finished


def test_the_average_over_tasks_is_taken_for_each_seed(run_of):
    runs = [run_of("rte", seed, accuracy=0.5 + seed / 10) for seed in (0, 1)]
    runs += [run_of("mrpc", seed, accuracy=0.7, f1=0.8 + seed / 10) for seed in (0, 1)]
    (setting,) = build_glue_table(runs)["settings"]
    assert [task["title"] for task in setting["tasks"]] == ["MRPC", "RTE"]  # in GLUE's order
    assert setting["tasks"][0]["score"]["value"] == pytest.approx((0.75 + 0.8) / 2)
    (average,) = setting["averages"]
    assert average["value"] == pytest.approx(((0.75 + 0.5) / 2 + (0.8 + 0.6) / 2) / 2)
    assert average["deviation"] == pytest.approx(0.075 / 2**0.5) and average["n"] == 2


def test_tasks_with_different_seeds_have_an_average_without_deviation_and_a_note(run_of):
    table = build_glue_table(
        [run_of("rte", 0, accuracy=0.5), run_of("cola", 1, matthews=0.1), run_of("cola", 2, matthews=0.3)]
    )
    (average,) = table["settings"][0]["averages"]
    assert average["value"] == pytest.approx(0.35) and average["deviation"] is None
    assert any("not run with the same seeds" in note for note in table["notes"])


def test_averages_are_given_with_and_without_wnli(run_of):
    table = build_glue_table(
        [run_of(task, 0, accuracy=accuracy) for task, accuracy in (("rte", 0.6), ("wnli", 0.4), ("qnli", 0.8))]
    )
    averages = {one["over"]: one["value"] for one in table["settings"][0]["averages"]}
    assert averages == {"3 tasks": pytest.approx(0.6), "2 tasks without WNLI": pytest.approx(0.7)}


def test_each_setting_has_its_own_lines_and_average(run_of):
    runs = [run_of(task, 0, layers, accuracy=layers / 10) for task in ("rte", "qnli") for layers in (1, 2)]
    table = build_glue_table(runs)
    assert columns(table)[0] == "setting"
    assert [cells[:2] for cells in lines_of(table)] == [
        [f"n_layers={layers}", title] for layers in (1, 2) for title in ("QNLI", "RTE", "average of 2 tasks")
    ]


def test_the_table_needs_runs_of_several_tasks_with_their_figures(run_of):
    rte, sst2, other = run_of("rte", 0, accuracy=0.5), run_of("sst2", 0, accuracy=0.9), run_of("docs", 0, accuracy=0.5)
    assert are_of_glue([rte, sst2]) and not are_of_glue([rte]) and not are_of_glue([rte, sst2, other])
    with pytest.raises(
        DataError, match="has no Matthews correlation on validation, by which GLUE scores cola. Leave this run out"
    ):
        build_glue_table([rte, run_of("cola", 0, accuracy=0.7)])
