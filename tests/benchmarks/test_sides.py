"""The sides: how they are started, and how their figures are read."""

import json
from pathlib import Path

import pytest

from benchmarks.comparison import Settings, missing
from benchmarks.jobs import JOBS
from benchmarks.minilm import NOT_INSTALLED
from benchmarks.processes import Finished
from benchmarks.sides import Side, filled, journalled, journalled_until, printed, processor_time


def write_run(folder, *lines):
    run = folder / "run"
    run.mkdir()
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (run / "environment.json").write_text(json.dumps({"hardware": {"precision": "bfloat16"}}), encoding="utf-8")


def step(number, seconds, tokens):
    counts = {"examples": 32 * number, "tokens": tokens, "padded_tokens": 2 * tokens}
    return {"kind": "step", "step": number, "seconds": seconds, "since_start": seconds + 5, **counts}


def evaluation(number, seconds, accuracy):
    return {"kind": "evaluation", "step": number, "seconds": seconds, "accuracy": accuracy}


FINISHED = Finished("", 1.0, 0)


def test_our_speed_leaves_out_the_first_ten_steps(tmp_path):
    write_run(tmp_path, step(1, 3.0, 100), step(10, 4.0, 1000), step(20, 5.0, 1800), step(30, 6.0, 2600))
    found = journalled(FINISHED, tmp_path)
    assert (found["steps"], found["seconds"], found["examples_per_second"], found["tokens_per_second"]) == (
        20,
        2,
        320,
        800,
    )
    assert (found["padding"], found["first_step_seconds"], found["precision"]) == (0.5, 8.0, "bfloat16")


def test_the_speed_of_compiled_code_is_measured_after_its_last_compilation(tmp_path):
    seconds = [9.0, 10.0, 11.0, 15.0, 16.0, 17.0]
    write_run(tmp_path, *(step(10 * n + 1, at, 800 * n) for n, at in enumerate(seconds)))
    assert journalled(FINISHED, tmp_path)["seconds"] == 7  # from step 11 on
    found = journalled(FINISHED, tmp_path, compiled=True)
    assert (found["steps"], found["seconds"], found["tokens_per_second"]) == (20, 2, 800)


def test_our_time_to_accuracy_ends_at_the_first_evaluation_that_reaches_it(tmp_path):
    scores = (0.7, 0.79, 0.75, 0.8)
    evaluations = [evaluation(10 * n, 2.0 * n, score) for n, score in enumerate(scores, 1)]
    write_run(tmp_path, step(1, 0.1, 10), step(40, 9.0, 400), *evaluations)
    assert journalled_until(0.787)(FINISHED, tmp_path)["seconds_to_target"] == 4.0
    assert journalled_until(0.9)(FINISHED, tmp_path)["seconds_to_target"] is None


def test_a_scripts_figures_are_its_last_line_of_json(tmp_path):
    output = 'downloading\n{"old": 1}\n{"real_tokens_per_second": 5.0, "steps": 3}\nbye\n'
    assert printed(Finished(output, 1.0, 0), tmp_path) == {"tokens_per_second": 5.0, "steps": 3}


def test_a_busy_process_uses_cpu_time_and_a_waiting_one_does_not(tmp_path):
    codes = ("sum(range(30_000_000))", "import time; time.sleep(0.1)")
    sides = [Side("one", ("-S", "-c", code), processor_time) for code in codes]
    working, waiting = (side.run({"folder": str(tmp_path)}, {}, small=False)["processor_seconds"] for side in sides)
    assert working > 2 * waiting > 0


def test_the_memory_of_each_sides_process_is_measured(tmp_path):
    code = "import json, sys; held = bytearray(200_000_000); print(json.dumps(dict(arguments=sys.argv[1:])))"
    side = Side("one", ("-c", code, "{steps}", "{seed}"), printed, steps=500, small_steps=20, small=("--limit", "5"))
    places = {"seed": "7", "folder": str(tmp_path)}
    found = side.run(places, {}, small=False)
    assert found["arguments"] == ["500", "7"]
    assert found["peak_memory"] > 190e6
    assert side.run(places, {}, small=True)["arguments"] == ["20", "7", "--limit", "5"]


PLACES = {name: name for name in ("work", "round", "folder", "threads", "seed", "shared", "minilm")}


@pytest.mark.parametrize("name", JOBS)
def test_every_command_of_a_job_can_be_filled_in(name):
    job = JOBS[name]
    for arguments in (*job.setup, *(side.command(small=small) for side in job.sides for small in (True, False))):
        assert not any("{" in argument for argument in filled(arguments, PLACES))


@pytest.mark.parametrize("name", JOBS)
def test_every_target_names_existing_sides(name):
    sides = {side.name for side in JOBS[name].sides}
    assert {target.side for target in JOBS[name].targets} <= sides
    assert {target.against for target in JOBS[name].targets} - {None} <= sides


def test_a_job_that_starts_from_minilm_is_skipped_without_its_package(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", "http://localhost")
    monkeypatch.setattr("benchmarks.comparison.minilm_folder", lambda: None)
    assert missing(JOBS["embed_minilm"], Settings(1, 1, Path(tmp_path))) == NOT_INSTALLED


def test_a_job_is_skipped_without_its_hub_or_peers(monkeypatch, tmp_path):
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    nothing = Settings(1, 1, Path(tmp_path))
    assert "HF_ENDPOINT" in missing(JOBS["sst2_tiny"], nothing)
    monkeypatch.setenv("HF_ENDPOINT", "http://localhost")
    assert "--shared" in missing(JOBS["sst2_tiny"], nothing)
    assert missing(JOBS["sst2_notebook"], nothing) == ""  # there is a peer of the project's own
    assert missing(JOBS["docs_tiny"], nothing) == ""
