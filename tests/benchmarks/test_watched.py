"""The meter that replaces the peers' own."""

import json
import time

import pytest
import torch
from torch import nn

from benchmarks.peers.watched import Goal, Meter
from benchmarks.processes import finished, python
from tests.stand_ins import Clock

COMMON = "class Meter:\n    def __init__(self, warmup=10): raise AssertionError('the script got its own meter')\n"
SCRIPT = """
import sys
import torch
from common import Meter
from torch import nn


class Right(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(3000, 2)
        self.steps = 0

    def forward(self, ids, mask):
        self.embedding(ids)
        return torch.tensor([[1.0, 0.0] if self.steps < 8 else [0.0, 1.0]] * len(ids))


model, meter = Right(), Meter(warmup=2)
valid = [{"input_ids": torch.zeros(4, 5, dtype=torch.long), "attention_mask": torch.ones(4, 5), "labels": torch.ones(4)}]
for _ in range(int(sys.argv[1])):
    assert model.training
    model(torch.zeros(4, 10, dtype=torch.long), None)
    model.steps += 1
    meter.step(4, torch.tensor(30))
meter.result(peer="script")
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "common.py").write_text(COMMON, encoding="utf-8")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    return str(tmp_path / "script.py")


def watched(*arguments):
    return json.loads(finished(python("-m", "benchmarks.peers.watched", *arguments)).last_line)


def test_a_script_runs_unchanged_under_the_meter(script):
    found = watched(script, "6")
    assert (found["steps"], found["peer"]) == (6, "script")
    assert found["padding"] == 0.25
    assert found["first_step_seconds"] > 0
    assert found["real_tokens_per_second"] == pytest.approx(7.5 * found["examples_per_second"], rel=0.05)


@pytest.mark.slow
def test_a_script_stops_at_the_first_evaluation_that_reaches_the_accuracy(script):
    found = watched("--evaluate-every", "3", "--until", "0.75", script, "100")
    assert (found["steps"], found["accuracy"]) == (9, 1.0)
    assert found["seconds_to_target"] > 0
    assert watched("--evaluate-every", "3", "--until", "0.75", script, "7")["seconds_to_target"] is None


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    monkeypatch.setattr(nn.Embedding, "forward", nn.Embedding.forward)  # put back afterwards: the meter replaces it
    return clock


def printed(capsys):
    return json.loads(capsys.readouterr().out)


def test_warmup_and_work_after_the_last_step_are_not_counted(clock, capsys):
    meter = Meter(warmup=2)
    for seconds in (100, 50, 2, 2):
        clock.now += seconds
        meter.step(8, torch.tensor(40))
    clock.now += 70  # the script evaluates
    meter.result()
    found = printed(capsys)
    assert (found["steps"], found["seconds"], found["examples_per_second"], found["real_tokens_per_second"]) == (
        4,
        4,
        4,
        20,
    )


model, valid = nn.Identity(), []  # what the meter finds in the frame that calls it


def test_evaluations_are_off_the_clock(clock, capsys, monkeypatch):
    def evaluated(*_):
        clock.now += 1000
        return 0.5 if clock.now < 2000 else 0.8

    monkeypatch.setattr("benchmarks.peers.watched.accuracy_of", evaluated)
    monkeypatch.setattr(Meter, "goal", Goal(every=2, accuracy=0.787))
    meter = Meter(warmup=1)
    with pytest.raises(SystemExit):
        for _ in range(10):
            clock.now += 3
            meter.step(8, 40)
    found = printed(capsys)
    assert (found["steps"], found["seconds_to_target"], found["accuracy"]) == (4, 12, 0.8)


def test_an_evaluation_does_not_disturb_the_scripts_random_numbers(clock, monkeypatch):
    monkeypatch.setattr("benchmarks.peers.watched.accuracy_of", lambda *_: torch.rand(3).sum() * 0)
    monkeypatch.setattr(Meter, "goal", Goal(every=1, accuracy=0.787))
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    Meter().step(8, 40)
    assert torch.equal(torch.rand(2), expected)
