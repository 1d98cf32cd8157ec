"""One run: not repeated, resumed, or recorded as failed; encoderlab itself is not started here."""

import json

import pytest

from benchmarks.processes import Finished
from benchmarks.suite import runs
from benchmarks.suite.plan import Run, parsed
from benchmarks.suite.runs import check_unchanged, outcome, perform, read_record
from encoderlab.errors import SettingError, TrainingError

REPORT = {
    "main_figure": "accuracy",
    "scored_split": "test",
    "splits": {"test": {"accuracy": 0.5}},
    "throughput": {"train_seconds": 90},
}


@pytest.fixture
def started(monkeypatch):
    """The commands started in place of encoderlab."""
    commands = []
    monkeypatch.setattr(runs, "finished", lambda command: commands.append(command[3:]) or Finished("", 61.0, 1000))
    return commands


def run_of(tmp_path, kind="scratch", *words):
    return Run("docs", kind, 0, parsed([f"output={tmp_path}", *words]))


def finish(run):
    run.folder.mkdir(parents=True)
    (run.folder / "config.yaml").touch()
    (run.folder / "report.json").write_text(json.dumps(REPORT), encoding="utf-8")


def test_a_run_uses_the_command_line_a_user_would_type(started, tmp_path):
    record = perform(run_of(tmp_path, "scratch", "training.steps=5"))
    assert started == [["train", "task=docs", "seed=0", "training.steps=5", f"run_dir={tmp_path}/docs/scratch/0"]]
    assert (record["error"], record["wall_seconds"], record["peak_memory"]) == (None, 61.0, 1000)
    assert str(tmp_path) not in json.dumps(record)


def test_a_finished_run_is_not_repeated(started, tmp_path):
    run = run_of(tmp_path)
    record = perform(run)
    finish(run)
    assert perform(run) == record and len(started) == 1
    assert outcome(run, record) == "accuracy 0.500, 1.5 min of training"


def test_an_interrupted_run_is_resumed_and_reports_no_time(started, tmp_path):
    run = run_of(tmp_path)
    finish(run)
    (run.folder / "report.json").unlink()
    assert perform(run)["wall_seconds"] is None
    assert started == [["train", f"resume={run.folder}"]]


def test_a_crashed_run_is_recorded_and_tried_again(monkeypatch, tmp_path):
    def crash(command):
        raise TrainingError(f"RuntimeError: no room in {tmp_path}/docs (exit code 1 of python -m encoderlab train)")

    monkeypatch.setattr(runs, "finished", crash)
    run = run_of(tmp_path)
    record = perform(run)
    assert outcome(run, record) == "failed: RuntimeError: no room in OUTPUT/docs (exit code 1)"
    monkeypatch.setattr(runs, "finished", lambda command: Finished("", 1.0, 1))
    assert perform(run)["error"] is None and read_record(run)["error"] is None


def test_a_student_waits_for_a_finished_teacher(started, tmp_path):
    student = run_of(tmp_path, "student")
    assert "no finished teacher in OUTPUT/docs/minilm/0" in perform(student)["error"]
    finish(run_of(tmp_path, "minilm"))
    assert perform(student)["error"] is None
    assert f"teacher={tmp_path}/docs/minilm/0" in started[0]


def test_figures_of_another_command_are_not_taken_for_those_of_this_one(started, tmp_path):
    run = run_of(tmp_path, "scratch", "training.steps=5")
    perform(run)
    finish(run)
    check_unchanged([run])
    with pytest.raises(
        SettingError, match=r"contains a run of another command, which differs in training\.steps=5\. Delete"
    ):
        check_unchanged([run_of(tmp_path)])
