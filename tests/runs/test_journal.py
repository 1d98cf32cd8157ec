"""The journal: a line for each logged step and each evaluation, a clock that counts only training, and the progress."""

import json
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.batch import Batch, Prediction
from encoderlab.metrics.texts import ClassificationMetrics
from encoderlab.runs.journal import Journal, Progress
from encoderlab.training.loop import Step, Totals
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
    batch = Batch(ids, ids, None, rows, empty, torch.tensor([0, 1, 1, 1]), None, 4)
    return metrics.scores([metrics.columns(Prediction(torch.eye(2)[[0, 1, 0, 1]]), batch)])


def take(journal, number):
    journal.progress.count(step(number))
    journal.step(step(number))


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_first_step_and_every_nth_one_are_logged(tmp_path):
    with Journal(tmp_path / "metrics.jsonl", log_every=4, per_epoch=5, progress=Progress()) as journal:
        for number in range(1, 11):
            take(journal, number)
    logged = lines(tmp_path / "metrics.jsonl")
    assert [(line["kind"], line["step"], line["epoch"]) for line in logged] == [
        ("step", 1, 0.2),
        ("step", 4, 0.8),
        ("step", 8, 1.6),
    ]
    assert (logged[0]["loss"], logged[0]["gradient_norm"], logged[0]["learning_rate"]) == (0.5, 2.0, 0.25)


def test_an_evaluation_is_logged_with_all_its_scores_and_printed(tmp_path, capsys):
    with Journal(
        tmp_path / "metrics.jsonl", log_every=1, per_epoch=500, progress=Progress(step=4, total=10)
    ) as journal:
        journal.evaluation("validation", scores(), "f1_macro")
    line = lines(tmp_path / "metrics.jsonl")[0]
    assert line == {
        "kind": "evaluation",
        "step": 4,
        "epoch": 0.008,
        "split": "validation",
        "seconds": 0.0,
        **scores().values,
    }
    assert "step 4 of 10: validation f1_macro" in capsys.readouterr().err


def test_speed_is_steps_so_far_over_seconds_so_far(tmp_path, clock):
    with Journal(tmp_path / "metrics.jsonl", 1, 3, Progress()) as journal:
        for number in (1, 2, 3):
            clock.now += 2
            take(journal, number)
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
        take(journal, 1)
        with journal.paused():
            clock.now += 1000
            journal.evaluation("validation", scores(), "accuracy")
            clock.now += 1000
        clock.now += 5
        take(journal, 2)
        with journal.paused():
            clock.now += 1000
    assert journal.throughput()["train_seconds"] == 8.0
    assert journal.throughput()["tokens_per_second"] == 60 / 8


def test_a_resumed_journal_continues_after_the_checkpoint(tmp_path):
    """Steps after the checkpoint are repeated, and so is an evaluation that the checkpoint does not include."""
    path = tmp_path / "metrics.jsonl"
    with Journal(path, 1, 2, Progress()) as journal:
        for number in (1, 2, 3):
            take(journal, number)
            journal.evaluation("validation", scores(), "accuracy")
    with path.open("a") as file:
        file.write('{"kind": "step", "step": 2, "cut off by a ki')
    with Journal(path, 1, 2, Progress(step=2, evaluated=1)) as journal:
        assert [(line["kind"], line["step"]) for line in lines(path)] == [("step", 1), ("evaluation", 1), ("step", 2)]
        take(journal, 3)
    assert [line["step"] for line in lines(path)] == [1, 1, 2, 3]


def test_damaged_lines_are_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    whole = b'{"kind": "step", "step": 1}\n'
    damaged = [
        b"\0\0\0\0\xff\xfe" + whole,
        b"\0\xd8}\n",
        b'{"step": 1}\n',
        b'{"kind": "step", "step": null}\n',
        b"[]}\n",
    ]
    path.write_bytes(whole + b"".join(damaged) + whole)
    with Journal(path, 1, 2, Progress(step=2)):
        assert path.read_bytes() == whole + whole


def test_counts_continue_after_a_resume(tmp_path, clock):
    progress = Progress(step=2, evaluated=2, seconds=4.0, tokens=60)
    with Journal(tmp_path / "metrics.jsonl", 1, 2, progress) as journal:
        clock.now += 2
        take(journal, 3)
    assert lines(tmp_path / "metrics.jsonl")[0]["tokens_per_second"] == 15.0


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from([-0.5, 0.1, 0.7])), min_size=1, max_size=30
    )
)
def test_the_best_has_the_highest_score_then_the_lowest_loss_and_counts_evaluations_without_a_better_one(evaluations):
    best = Progress()
    for best.step, (score, loss) in enumerate(evaluations, start=1):
        best.record_evaluation(score, loss)
    ranks = [(score, -loss) for score, loss in evaluations]
    assert ((best.best_score, -best.best_loss), best.best_step) == (max(ranks), ranks.index(max(ranks)) + 1)
    scores = [score for score, _ in evaluations]
    assert best.without_better == len(scores) - 1 - scores.index(
        max(scores)
    )  # a tie with a lower loss is no better score
