"""A step that runs out of memory is repeated in smaller micro-batches: the run equals one that had them from its start."""

import weakref

import numpy as np
import pytest
import torch
from torch import nn

from encoderlab.batch import Encoded, HeadSizes, Prediction
from encoderlab.model.layers import Dropout
from encoderlab.system.device import Compute
from encoderlab.tasks.rows import hold_encoded
from encoderlab.training.batches import MemoryTooSmallError, MicroBatches, StepsWithinMemory, training_batches
from encoderlab.training.config import Horizon, TrainingConfig
from encoderlab.training.loop import Learner, optimize
from encoderlab.training.optimizer import build_optimizer

CPU = Compute(torch.device("cpu"), torch.float32, 1, "test")
ROWS, STEPS = 30, 12


class Small(nn.Module):
    """A classifier with memory for `room` rows at once; with more, the device runs out after some work."""

    def __init__(self, room, p=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.dropout, self.head = nn.Embedding(20, 8), Dropout(p), nn.Linear(8, 3)
        self.room, self.sizes, self.held = room, [], []

    def forward(self, batch):
        assert all(kept() is None for kept in self.held), "what a failed step held is still there"
        hidden = self.dropout(self.embedding(batch.input_ids))
        self.sizes.append(len(batch))
        if len(batch) > self.room:
            self.held.append(weakref.ref(hidden))
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        return Prediction(sequence_logits=self.head(hidden.mean(1)))


def rows():
    draw = np.random.default_rng(0)
    encoded = [Encoded(draw.integers(1, 20, 3 + n % 4).tolist(), [0] * (3 + n % 4), label=n % 3) for n in range(ROWS)]
    return hold_encoded(encoded, 20, HeadSizes(sequence_classes=2))


def run(model, micro_batches, *, after=0, optimizer=None):
    """Return the steps of a run, the micro-batches used in the end, and the final weights."""
    training = TrainingConfig(steps=STEPS, batch_size=10, learning_rate=0.1)
    optimizer = optimizer or build_optimizer(model, training)
    taken = StepsWithinMemory(
        lambda done, number: training_batches(rows(), training, 0, 0, CPU.device, micro_batches=number, after=done),
        micro_batches,
        10,
    )

    torch.manual_seed(7)
    steps = list(taken.take(Learner(model, optimizer, training, CPU), Horizon(STEPS), after))
    return [step.numbers() for step in steps], taken, torch.cat([weight.flatten() for weight in model.parameters()])


@pytest.mark.parametrize(("room", "number"), [(5, 2), (3, 4), (1, 10)])
def test_the_curve_equals_that_of_micro_batches_set_by_hand(room, number, capsys):
    figures, taken, weights = run(Small(room), MicroBatches(1, "a guess", open=True))
    by_hand, _, expected = run(Small(ROWS), MicroBatches(number, "as set"))
    assert figures == by_hand
    assert torch.equal(weights, expected)
    assert taken.micro_batches == MicroBatches(number, "memory ran out in step 1", open=True)
    assert (
        f"continuing with batches in {number} micro-batches (memory ran out in step 1), as training.accumulate={number} would"
        in capsys.readouterr().err
    )


class SmallLater(Small):
    """Like `Small`, from its fifth call on."""

    def forward(self, batch):
        room, self.room = self.room, self.room if len(self.sizes) >= 4 else ROWS
        try:
            return super().forward(batch)
        finally:
            self.room = room


def test_running_out_of_memory_in_mid_run_does_not_change_earlier_steps():
    model = SmallLater(5, p=0.3)
    training = TrainingConfig(steps=STEPS, batch_size=10, learning_rate=0.1)
    optimizer = build_optimizer(model, training)
    figures, taken, weights = run(model, MicroBatches(1, "a guess", open=True), optimizer=optimizer)
    assert taken.micro_batches.reason == "memory ran out in step 5"
    assert model.sizes == [10] * 5 + [5, 5] * 8

    def by_hand():
        """Take four steps in one micro-batch and the others in two, with one continuous random state."""
        again = Small(ROWS, p=0.3)
        optimizer = build_optimizer(again, training)
        found = []
        torch.manual_seed(7)
        for after, number, last in ((0, 1, 4), (4, 2, STEPS)):
            batches = training_batches(rows(), training, 0, 0, CPU.device, micro_batches=number, after=after)
            for step in optimize(Learner(again, optimizer, training, CPU), batches, Horizon(STEPS), after=after):
                found.append(step.numbers())
                if step.number == last:
                    break
        return found, torch.cat([weight.flatten() for weight in again.parameters()])

    expected_figures, expected = by_hand()
    assert figures == expected_figures
    assert torch.equal(weights, expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("room", "micro_batches"), [(5, MicroBatches(1, "as set")), (0, MicroBatches(1, "a guess", open=True))]
)
def test_a_run_ends_if_micro_batches_are_set_or_a_single_row_is_too_much(room, micro_batches):
    with pytest.raises(MemoryTooSmallError, match="too small for step 1, a batch of 10 rows in"):
        run(Small(room), micro_batches)


def test_an_error_that_fewer_rows_do_not_avoid_is_not_retried():
    class Full(torch.optim.AdamW):
        def step(self, closure=None):
            raise torch.OutOfMemoryError("CUDA out of memory")

    model = Small(ROWS)
    optimizer = Full([{"params": list(model.parameters()), "scale": 1.0}])
    with pytest.raises(MemoryTooSmallError, match=r"Choose a smaller model, or a smaller model.max_length\.$"):
        run(model, MicroBatches(1, "a guess", open=True), optimizer=optimizer)
    assert model.sizes == [10]
