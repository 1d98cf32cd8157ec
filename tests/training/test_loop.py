"""The training loop: exact accumulation, clipping, the schedule, no waiting for the device, and no step that is not finite."""

import copy
import math
from contextlib import nullcontext
from dataclasses import replace
from itertools import accumulate, islice, repeat

import pytest
import torch
from torch import nn

from encoderlab.batch import Batch, Prediction
from encoderlab.errors import TrainingError
from encoderlab.system.device import Compute
from encoderlab.system.processes import SINGLE_PROCESS
from encoderlab.training.config import Schedule, TrainingConfig
from encoderlab.training.loop import Horizon, Learner, NonFiniteGuard, optimize
from encoderlab.training.optimizer import build_optimizer, learning_rate_at

CPU = Compute(torch.device("cpu"), torch.float32, 1, "test")


class Tiny(nn.Module):
    """Reads ids, and computes logits for whole sequences and for the target positions."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.sequence, self.token = nn.Embedding(20, 8), nn.Linear(8, 3), nn.Linear(8, 5)

    def forward(self, batch):
        hidden = self.embedding(batch.input_ids)
        return Prediction(self.sequence(hidden.mean(1)), self.token(hidden.flatten(0, 1)[batch.target_positions]))


def rows(n, targets_in_row, seed=0):
    """Return a batch of n rows, row i of which has targets_in_row[i] target positions."""
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(20, (n, 6), generator=draw)
    positions = torch.tensor(
        [row * 6 + place for row in range(n) for place in range(targets_in_row[row])], dtype=torch.long
    )
    return Batch(
        input_ids=ids,
        token_type_ids=torch.zeros_like(ids),
        attention_mask=None,
        rows=torch.arange(n),
        target_positions=positions,
        labels=torch.randint(3, (n,), generator=draw),
        token_labels=torch.randint(5, (len(positions),), generator=draw),
        n_tokens=ids.numel(),
    )


def cut(batch, sizes):
    """Return the batch in micro-batches of the given sizes."""
    return [batch.between(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]


def learner(model, config, label_weights=None):
    return Learner(model, build_optimizer(model, config), config, CPU, label_weights=label_weights)


def trained(batches, label_weights=None, model=None, **settings):
    config = TrainingConfig(**{"steps": 5, "learning_rate": 0.05, **settings})
    model = model or Tiny()
    steps = list(optimize(learner(model, config, label_weights), batches, Horizon(config.steps)))
    return model, steps


class Sequences(Tiny):
    """Computes logits for whole sequences only."""

    def forward(self, batch):
        return Prediction(super().forward(batch).sequence_logits)


@pytest.mark.parametrize("sizes", [[4, 4], [1, 7], [3, 3, 2], [1] * 8])
@pytest.mark.parametrize(
    "targets", [torch.tensor([0, 1, 2, 0, 0, 0, 0, 1]), torch.tensor([[1.0, 0, 0], [0, 1.0, 1.0]] * 4)]
)
def test_class_weights_do_not_depend_on_micro_batches(sizes, targets):
    whole = replace(rows(8, [0] * 8), labels=targets)
    label_weights = torch.tensor([0.2, 1.0, 7.0])
    (one, (first, *_)), (parts, steps) = (
        trained(batches, label_weights, Sequences()) for batches in ([[whole]] * 5, [cut(whole, sizes)] * 5)
    )
    for a, b in zip(one.parameters(), parts.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)
    assert steps[0].numbers()["loss"] == pytest.approx(first.numbers()["loss"], rel=1e-5)
    assert steps[0].totals.targets["sequence"] == 8  # a row is a row, whatever it weighs


@pytest.mark.parametrize("sizes", [[4, 4], [1, 7], [3, 3, 2], [1] * 8])
def test_accumulation_over_uneven_micro_batches_gives_the_weights_of_the_whole_batch(sizes):
    targets_in_row = [1, 5, 0, 2, 6, 1, 3, 4]
    whole = rows(8, targets_in_row)
    one, one_steps = trained([[whole]] * 5)
    micro_batches, micro_batch_steps = trained([cut(whole, sizes)] * 5)
    for a, b in zip(one.parameters(), micro_batches.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)
    assert micro_batch_steps[-1].numbers() == pytest.approx(one_steps[-1].numbers(), rel=1e-4)
    assert (micro_batch_steps[0].totals.examples, micro_batch_steps[0].totals.tokens) == (8, 48)


def test_steps_follow_the_schedule_and_count_from_the_given_number():
    config = TrainingConfig(steps=10, schedule=Schedule.cosine)
    model = Tiny()
    batches = islice(repeat([rows(4, [1] * 4)]), 3)
    steps = list(optimize(learner(model, config), batches, Horizon(10), after=4))
    assert [step.number for step in steps] == [5, 6, 7]
    assert [step.learning_rate for step in steps] == [learning_rate_at(n, 10, config) for n in (4, 5, 6)]


class OnMeta(Tiny):
    """A replica, which synchronises gradients only in the last micro-batch of a step."""

    def __init__(self):
        super().__init__()
        self.to("meta")

    def no_sync(self):
        return nullcontext()


def steps_on_meta(monkeypatch, processes=SINGLE_PROCESS, micro_batches=1):
    """Take three steps in mid-run on the meta device, where reading a value raises an error."""
    meta, config = Compute(torch.device("meta"), torch.float32, 1, "test"), TrainingConfig(clip_norm=0.5, log_every=100)
    model = OnMeta()
    optimizer, updates = build_optimizer(model, config), []
    monkeypatch.setattr(
        optimizer, "step", lambda: updates.append(optimizer.found_inf.device.type)
    )  # fused kernels need a GPU
    learner = Learner(model, optimizer, config, meta, processes)
    learner.guard = NonFiniteGuard(waits=False)
    given = [part.to(meta.device) for part in cut(rows(4, [1] * 4), [4 // micro_batches] * micro_batches)]
    steps = list(islice(optimize(learner, repeat(given), Horizon(50), after=1), 3))
    assert updates == ["meta"] * 3
    return steps


def test_a_step_never_waits_for_its_device(monkeypatch):
    step = steps_on_meta(monkeypatch)[-1]
    assert (step.number, step.totals.examples, step.totals.tokens) == (4, 4, 24)
    with pytest.raises((RuntimeError, NotImplementedError)):
        step.numbers()


def test_large_gradients_are_clipped_and_reported_before_clipping():
    clipped, steps = trained([[rows(4, [1] * 4)]], steps=1, clip_norm=1e-4, epsilon=1.0, weight_decay=0.0)
    free, _ = trained([[rows(4, [1] * 4)]], steps=1, clip_norm=None, epsilon=1.0, weight_decay=0.0)
    moved = [
        sum((a - b).abs().sum() for a, b in zip(m.parameters(), Tiny().parameters(), strict=True))
        for m in (clipped, free)
    ]
    assert moved[0] < moved[1] / 100
    assert steps[0].numbers()["gradient_norm"] > 0.1


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


def poisoned_batch(kind=9, first_row=0):
    ids = torch.tensor([[kind, 5, 6], [9, 7, 8]])
    rows = torch.tensor([first_row, first_row + 1])
    return Batch(ids, ids * 0, None, rows, torch.empty(0, dtype=torch.long), torch.tensor([0, 2]), None, 6)


def poisoned_steps(kinds, *, waits, log_every=1000):
    """Return a model, its optimizer, and its steps: one for each of `kinds`."""
    training = TrainingConfig(steps=100, learning_rate=0.1, log_every=log_every)
    model = Poisoned()
    optimizer = build_optimizer(model, training)
    batches = ([poisoned_batch(kind, 10 * number)] for number, kind in enumerate(kinds, start=1))
    learner = Learner(model, optimizer, training, CPU)
    learner.guard = NonFiniteGuard(waits=waits)
    return model, optimizer, optimize(learner, batches, Horizon(100))


@pytest.mark.parametrize("waits", [True, False], ids=["decided by the host", "decided by the device"])
@pytest.mark.parametrize("kind", [Poisoned.LOSS, Poisoned.GRADIENT, Poisoned.HUGE])
def test_a_nonfinite_step_is_named_and_changes_neither_weights_nor_optimizer_state(kind, waits):
    model, optimizer, taken = poisoned_steps([9, 9, kind], waits=waits)
    next(taken), next(taken)
    weights, averages = copy.deepcopy((model.state_dict(), optimizer.state_dict()["state"]))
    with pytest.raises(TrainingError, match="step 3 is not finite") as stopped:
        list(taken)
    assert stopped.value.exit_code == 4
    assert all(torch.equal(weight, weights[name]) for name, weight in model.state_dict().items())
    for key, kept in optimizer.state_dict()["state"].items():
        assert all(torch.equal(value, averages[key][name]) for name, value in kept.items())


def test_the_device_is_read_only_at_logged_steps():
    _, _, taken = poisoned_steps([9, 9, Poisoned.LOSS, 9, 9], waits=False, log_every=4)
    assert [next(taken).number for _ in range(3)] == [1, 2, 3]
    with pytest.raises(TrainingError, match="step 3 is not finite"):
        next(taken)
