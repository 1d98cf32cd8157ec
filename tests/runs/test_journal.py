"""The journal: a line for each logged step and each evaluation, and a clock that counts only training."""

import json
import time
from dataclasses import replace

import pytest
import torch

from encoderlab.batch import Batch, Prediction
from encoderlab.metrics import ClassificationMetrics
from encoderlab.runs.journal import Journal, Progress, seconds_since_start
from encoderlab.training.loop import SkippedStep, Step, Totals
from tests.stand_ins import Clock


@pytest.fixture
def clock(monkeypatch):
    clock = Clock(100.0)
    monkeypatch.setattr(time, "perf_counter", clock)
    return clock


def step(number, loss=0.5, **losses):
    parts = {"sequence": torch.tensor(loss)} | {name: torch.tensor(value) for name, value in losses.items()}
    return Step(number, 10, parts, torch.tensor(2.0), 0.25, Totals(4, 30, 40, {}))


def scores():
    ids, empty, rows = torch.zeros(4, 1, dtype=torch.long), torch.empty(0, dtype=torch.long), torch.arange(4)
    metrics = ClassificationMetrics(["no", "yes"])
    metrics.add(
        Prediction(torch.eye(2)[[0, 1, 0, 1]]), Batch(ids, ids, None, rows, empty, torch.tensor([0, 1, 1, 1]), None, 4)
    )
    return metrics.scores()


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_first_step_and_every_nth_one_are_logged(tmp_path):
    with Journal(tmp_path / "metrics.jsonl", log_every=4, per_epoch=5, progress=Progress()) as journal:
        for number in range(1, 11):
            journal.step(step(number))
    found = lines(tmp_path / "metrics.jsonl")
    assert [(line["kind"], line["step"], line["epoch"]) for line in found] == [
        ("step", 1, 0.2),
        ("step", 4, 0.8),
        ("step", 8, 1.6),
    ]
    assert (found[0]["loss"], found[0]["gradient_norm"], found[0]["learning_rate"]) == (0.5, 2.0, 0.25)


def test_with_two_objectives_each_has_its_own_loss(tmp_path):
    with Journal(tmp_path / "metrics.jsonl", 1, 1, Progress()) as journal:
        journal.step(step(1, token=0.25))
    line = lines(tmp_path / "metrics.jsonl")[0]
    assert (line["loss"], line["loss_sequence"], line["loss_token"]) == (0.75, 0.5, 0.25)


def test_figures_of_unlogged_steps_are_not_read(tmp_path):
    unreadable = torch.zeros(2)  # no single number
    with Journal(tmp_path / "metrics.jsonl", 4, 4, Progress()) as journal:
        journal.step(step(1))
        journal.step(replace(step(2), gradient_norm=unreadable))
        with pytest.raises(ValueError, match="only one element tensors"):
            journal.step(replace(step(4), gradient_norm=unreadable))


def test_a_skipped_step_is_reported_and_its_line_is_still_json(tmp_path, capsys):
    known = SkippedStep(3, {"sequence": float("nan")}, float("inf"))
    with Journal(tmp_path / "metrics.jsonl", 4, 4, Progress()) as journal:
        journal.step(step(1))
        journal.step(replace(step(4, loss=float("nan")), skipped=[known], n_skipped=1))
    first, left_out, line = lines(tmp_path / "metrics.jsonl")
    assert left_out == {
        **{"kind": "skipped", "step": 3, "loss_sequence": "nan", "gradient_norm": "inf"},
    }
    assert (line["loss"], line["skipped"], first["skipped"]) == (None, 1, 0)
    assert (
        "Step 3 was skipped because it was not finite: sequence loss nan, gradient norm inf" in capsys.readouterr().err
    )


def test_a_loss_that_rises_above_its_start_is_warned_about_once(tmp_path, capsys):
    with Journal(tmp_path / "metrics.jsonl", 1, 10, Progress()) as journal:
        for number in range(1, 31):
            journal.step(replace(step(number, loss=0.7 + 0.1 * number), of=30))
    assert capsys.readouterr().err.count("The loss rises") == 1
    assert journal.progress.diverged_at == 10


def test_lines_are_on_disk_before_the_run_ends(tmp_path):
    with Journal(tmp_path / "metrics.jsonl", 1, 2, Progress()) as journal:
        journal.step(step(1))
        assert [line["step"] for line in lines(tmp_path / "metrics.jsonl")] == [1]


def test_an_evaluation_is_logged_with_all_its_figures_and_printed_in_one_line(tmp_path, capsys):
    with Journal(tmp_path / "metrics.jsonl", log_every=1, per_epoch=500, progress=Progress(step=4, of=10)) as journal:
        journal.evaluation("validation", scores(), "f1_macro")
    line = lines(tmp_path / "metrics.jsonl")[0]
    assert line == {
        "kind": "evaluation",
        "step": 4,
        "epoch": 0.008,
        "split": "validation",
        "seconds": 0.0,
        **scores().figures,
    }
    figures = scores().figures
    printed = capsys.readouterr()
    expected = f"step 4 of 10: validation f1_macro {figures['f1_macro']:.4f}, loss {figures['loss']:.4f}\n"
    assert printed.err == expected
    assert printed.out == ""


def test_speed_is_steps_so_far_over_seconds_so_far(tmp_path, clock):
    with Journal(tmp_path / "metrics.jsonl", 1, 3, Progress()) as journal:
        for number in (1, 2, 3):
            clock.now += 2
            journal.step(step(number))
    assert [(line["tokens_per_second"], line["examples_per_second"]) for line in lines(tmp_path / "metrics.jsonl")] == [
        (15, 2)
    ] * 3
    assert journal.throughput() == {
        "tokens_per_second": 15.0,
        "examples_per_second": 2.0,
        "padding_fraction": 0.25,
        "train_seconds": 6.0,
    }


def test_only_training_counts_as_training_time(tmp_path, clock):
    with Journal(tmp_path / "metrics.jsonl", 100, 2, Progress()) as journal:
        clock.now += 3
        journal.step(step(1))
        journal.pause()
        clock.now += 1000
        journal.evaluation("validation", scores(), "accuracy")
        clock.now += 1000
        journal.resume()
        clock.now += 5
        journal.step(step(2))
        journal.pause()
    assert journal.throughput()["train_seconds"] == 8.0
    assert journal.throughput()["tokens_per_second"] == 60 / 8


def test_the_speed_between_any_two_lines_can_be_computed(tmp_path, clock):
    with Journal(tmp_path / "metrics.jsonl", 2, 4, Progress()) as journal:
        for number, seconds in ((1, 9), (2, 2), (3, 2), (4, 2)):
            clock.now += seconds
            journal.step(step(number))
    found = [
        {name: line[name] for name in ("examples", "tokens", "padded_tokens", "seconds")}
        for line in lines(tmp_path / "metrics.jsonl")
    ]
    assert found[0] == {"examples": 4, "tokens": 30, "padded_tokens": 40, "seconds": 9}
    assert found[-1] == {"examples": 16, "tokens": 120, "padded_tokens": 160, "seconds": 15}
    assert (found[2]["examples"] - found[1]["examples"]) / (found[2]["seconds"] - found[1]["seconds"]) == 2


def test_an_evaluation_records_the_seconds_of_training_before_it(tmp_path, clock):
    with Journal(tmp_path / "metrics.jsonl", 10, 2, Progress()) as journal:
        for number in (1, 2):
            clock.now += 3
            journal.step(step(number))
            journal.pause()
            clock.now += 100
            journal.evaluation("validation", scores(), "accuracy")
            journal.resume()
    assert [line["seconds"] for line in lines(tmp_path / "metrics.jsonl") if line["kind"] == "evaluation"] == [3, 6]


def test_a_step_records_the_seconds_since_the_process_started(tmp_path):
    with Journal(tmp_path / "metrics.jsonl", 1, 2, Progress()) as journal:
        for number in (1, 2):
            journal.step(step(number))
    seconds = [line["since_start"] for line in lines(tmp_path / "metrics.jsonl")]
    if seconds[0] is None:
        pytest.skip("this system does not tell when a process was started")
    assert 0 < seconds[0] <= seconds[1] <= seconds_since_start()


def test_if_the_start_of_the_process_is_unknown_the_line_says_null(tmp_path, monkeypatch):
    monkeypatch.delattr("os.sysconf")
    with Journal(tmp_path / "metrics.jsonl", 1, 1, Progress()) as journal:
        journal.step(step(1))
    assert lines(tmp_path / "metrics.jsonl")[0]["since_start"] is None


def test_a_resumed_journal_continues_after_the_checkpoint(tmp_path):
    """Steps after the checkpoint are repeated, and so is an evaluation that the checkpoint does not include."""
    path = tmp_path / "metrics.jsonl"
    with Journal(path, 1, 2, Progress()) as journal:
        for number in (1, 2, 3):
            journal.step(step(number))
            journal.evaluation("validation", scores(), "accuracy")
    with path.open("a") as file:
        file.write('{"kind": "step", "step": 2, "cut off by a ki')
    with Journal(path, 1, 2, Progress(step=2, judged=1)) as journal:
        assert [(line["kind"], line["step"]) for line in lines(path)] == [("step", 1), ("evaluation", 1), ("step", 2)]
        journal.step(step(3))
    assert [line["step"] for line in lines(path)] == [1, 1, 2, 3]


def test_counts_continue_after_a_resume(tmp_path, clock):
    progress = Progress(step=2, judged=2)
    progress.counted.seconds, progress.counted.tokens = 4.0, 60
    with Journal(tmp_path / "metrics.jsonl", 1, 2, progress) as journal:
        clock.now += 2
        journal.step(step(3))
    assert lines(tmp_path / "metrics.jsonl")[0]["tokens_per_second"] == 15.0


def test_a_run_without_a_step_still_has_figures(tmp_path, clock):
    with Journal(tmp_path / "metrics.jsonl", 1, 1, Progress()) as journal:
        pass
    expected = {"tokens_per_second": 0, "examples_per_second": 0, "padding_fraction": 1, "train_seconds": 0}
    assert journal.throughput() == expected
