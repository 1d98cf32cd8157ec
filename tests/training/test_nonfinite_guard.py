"""Steps that are not finite never reach the weights; they are named and counted up to a limit."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from encoderlab.batch import Batch, Prediction
from encoderlab.errors import TrainingError
from encoderlab.system.device import Compute
from encoderlab.training.config import TrainingConfig
from encoderlab.training.horizon import Horizon
from encoderlab.training.loop import Learner, NonFiniteGuard, optimize
from encoderlab.training.optimizer import build_optimizer

CPU = Compute(torch.device("cpu"), torch.float32, 1, "test")
WAYS = pytest.mark.parametrize("waits", [True, False], ids=["decided by the host", "decided by the device"])


class Poisoned(nn.Module):
    """Reads sequences; a batch whose first id is `LOSS` has a NaN loss, and with `GRADIENT` only its gradient is NaN."""

    LOSS, GRADIENT, HUGE = 1, 2, 3

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = nn.Embedding(20, 8), nn.Linear(8, 3)

    def forward(self, batch):
        logits = self.head(self.embedding(batch.input_ids).mean(1))
        kind = int(batch.input_ids[0, 0])
        if kind == self.LOSS:
            logits = logits * math.nan
        if kind == self.GRADIENT:
            logits = (
                logits + 0 * (logits - logits.detach()).abs().sqrt()
            )  # 0 forward, NaN backward: 0 times the slope at 0
        if kind == self.HUGE:
            logits = logits + 1e25 * (logits - logits.detach())  # each gradient finite, the sum of their squares not
        return Prediction(sequence_logits=logits)


def batch(kind=9, first_row=0):
    ids = torch.tensor([[kind, 5, 6], [9, 7, 8]])
    rows = torch.tensor([first_row, first_row + 1])
    return Batch(ids, ids * 0, None, rows, torch.empty(0, dtype=torch.long), torch.tensor([0, 2]), None, 6)


def trained(kinds, limit, *, waits, after=0, before=(), log_every=1000):
    """Return a model and its optimizer after a step for each of `kinds`, with the weights before each step."""
    training = TrainingConfig(steps=100, learning_rate=0.1, log_every=log_every)
    model = Poisoned()
    optimizer = build_optimizer(model, training)
    guard = NonFiniteGuard(limit, waits=waits, before=before)
    batches = ([batch(kind, 10 * number)] for number, kind in enumerate(kinds, start=1))
    seen = []
    for step in optimize(Learner(model, optimizer, training, CPU, guard), batches, Horizon(100), after=after):
        seen.append((step, copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict()["state"])))
    return seen, guard


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@WAYS
@pytest.mark.parametrize("kind", [Poisoned.LOSS, Poisoned.GRADIENT, Poisoned.HUGE])
def test_a_nonfinite_step_changes_neither_weights_nor_optimizer_state(kind, waits):
    seen, guard = trained([9, 9, kind, 9], 1, waits=waits)
    (_, before, averages), (_, after, averages_after) = seen[1], seen[2]
    assert same(before, after)
    assert all(same(averages[key], averages_after[key]) for key in averages)
    assert not same(after, seen[3][1])
    assert [skipped.step for skipped in guard.skipped] == [3]


@settings(deadline=None, max_examples=25)
@given(kinds=st.lists(st.sampled_from([1, 2, 3, 9, 9]), min_size=1, max_size=8), clip=st.booleans())
def test_the_device_decides_as_the_host_does(kinds, clip):
    by_host, host_guard = trained(kinds, 8, waits=True)
    by_device, device_guard = trained(kinds, 8, waits=False)
    assert host_guard.skipped == device_guard.skipped or str(host_guard.skipped) == str(
        device_guard.skipped
    )  # NaN is not equal to itself
    assert all(same(a[1], b[1]) for a, b in zip(by_host, by_device, strict=True))
    assert all(torch.isfinite(weight).all() for weight in by_host[-1][1].values())


@WAYS
def test_the_run_stops_at_the_first_step_beyond_the_limit_and_names_it(waits):
    kinds = [9, Poisoned.GRADIENT, 9, Poisoned.LOSS, 9, Poisoned.LOSS, 9, 9]
    with pytest.raises(TrainingError) as stopped:
        trained(kinds, 1, waits=waits, log_every=7)
    assert "step 4 is not finite" in str(stopped.value)
    assert stopped.value.exit_code == 4


def test_the_device_is_not_waited_for_between_two_readings(monkeypatch):
    reads = []
    read = NonFiniteGuard.read
    monkeypatch.setattr(NonFiniteGuard, "read", lambda guard: reads.append(len(guard._unread)) or read(guard))
    seen, _ = trained([9] * 9, 0, waits=False, log_every=4)
    assert reads == [1, 3, 4, 1]  # after steps 1, 4, 8, and at the end
    assert [len(step.skipped) for step, *_ in seen] == [0] * 9


@WAYS
def test_steps_skipped_before_a_stop_count_after_it(waits):
    _, first = trained([9, 1, 9], 2, waits=waits)
    state = first.state()
    _, second = trained([9, 1], 2, waits=waits, after=3, before=state)
    assert [skipped.step for skipped in second.skipped] == [2, 5]
    assert second.note() == "2 steps were skipped because the loss or the gradient was not finite: 2, 5"
    with pytest.raises(TrainingError, match="step 5 is not finite"):
        trained([9, 1], 1, waits=waits, after=3, before=state)
    assert trained([9], 0, waits=waits)[1].note() is None
    torch.save(state, buffer := __import__("io").BytesIO())
    buffer.seek(0)
    assert str(torch.load(buffer, weights_only=True)) == str(state)
