"""A step that is not finite never reaches the weights, and ends the run, which names it."""

import copy
import math

import pytest
import torch
from torch import nn

from encoderlab.batch import Batch, Prediction
from encoderlab.errors import TrainingError
from encoderlab.system.device import Compute
from encoderlab.training.config import Horizon, TrainingConfig
from encoderlab.training.loop import Learner, NonFiniteGuard, optimize
from encoderlab.training.optimizer import build_optimizer

CPU = Compute(torch.device("cpu"), torch.float32, 1, "test")


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


def steps(kinds, *, waits, log_every=1000):
    """Return a model, its optimizer, and its steps: one for each of `kinds`."""
    training = TrainingConfig(steps=100, learning_rate=0.1, log_every=log_every)
    model = Poisoned()
    optimizer = build_optimizer(model, training)
    batches = ([batch(kind, 10 * number)] for number, kind in enumerate(kinds, start=1))
    learner = Learner(model, optimizer, training, CPU)
    learner.guard = NonFiniteGuard(waits=waits)
    return model, optimizer, optimize(learner, batches, Horizon(100))


@pytest.mark.parametrize("waits", [True, False], ids=["decided by the host", "decided by the device"])
@pytest.mark.parametrize("kind", [Poisoned.LOSS, Poisoned.GRADIENT, Poisoned.HUGE])
def test_a_nonfinite_step_is_named_and_changes_neither_weights_nor_optimizer_state(kind, waits):
    model, optimizer, taken = steps([9, 9, kind], waits=waits)
    next(taken), next(taken)
    weights, averages = copy.deepcopy((model.state_dict(), optimizer.state_dict()["state"]))
    with pytest.raises(TrainingError, match="step 3 is not finite") as stopped:
        list(taken)
    assert stopped.value.exit_code == 4
    assert all(torch.equal(weight, weights[name]) for name, weight in model.state_dict().items())
    for key, kept in optimizer.state_dict()["state"].items():
        assert all(torch.equal(value, averages[key][name]) for name, value in kept.items())


def test_the_device_is_read_only_at_logged_steps():
    _, _, taken = steps([9, 9, Poisoned.LOSS, 9, 9], waits=False, log_every=4)
    assert [next(taken).number for _ in range(3)] == [1, 2, 3]
    with pytest.raises(TrainingError, match="step 3 is not finite"):
        next(taken)
