"""Batches: every row once per epoch, the same whatever came before, in as many micro-batches as memory requires."""

import weakref
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from encoderlab.batch import Prediction
from encoderlab.network.config import ModelConfig, TransformersConfig
from encoderlab.network.layers import Dropout
from encoderlab.system.device import Compute
from encoderlab.system.processes import Processes
from encoderlab.tasks.rows import ExampleRows
from encoderlab.tasks.sequences import Windowing
from encoderlab.training.batches import (
    MemoryTooSmallError,
    MicroBatchCount,
    TrainingBatches,
    epoch_order,
    prefetched,
    release_memory,
    scoring_batches,
)
from encoderlab.training.config import Batching, TrainingConfig
from encoderlab.training.loop import Horizon, Learner, StepsWithinMemory, optimize
from encoderlab.training.optimizer import build_optimizer
from tests.stand_ins import random_rows, rows_of

PAD = 0
CPU = torch.device("cpu")
NARROW = ModelConfig(d_model=128)


lengths_of_rows = st.lists(st.integers(1, 12), min_size=1, max_size=40)


@given(
    lengths=lengths_of_rows, batch_size=st.integers(1, 9), batching=st.sampled_from(Batching), epoch=st.integers(0, 3)
)
@settings(deadline=None)
def test_every_row_comes_once_per_epoch(lengths, batch_size, batching, epoch):
    config = TrainingConfig(batch_size=batch_size, batching=batching)
    order = list(epoch_order(np.array(lengths), config, seed=1, epoch=epoch))
    assert sorted(np.concatenate(order)) == list(range(len(lengths)))
    assert len(order) == -(-len(lengths) // batch_size)
    assert all(len(batch) <= batch_size for batch in order)


def test_length_batching_pads_almost_nothing_and_random_batching_does():
    lengths = np.random.default_rng(0).integers(3, 60, 2000)
    padded = {}
    for batching in Batching:
        batches = epoch_order(lengths, TrainingConfig(batch_size=32, batching=batching), seed=0, epoch=0)
        padded[batching] = sum(len(rows) * lengths[rows].max() for rows in batches) / lengths.sum()
    assert padded[Batching.length] < 1.02
    assert padded[Batching.random] > 1.5


class Drawing(ExampleRows):
    """Rows that are drawn again each epoch: what is drawn shows seed and epoch."""

    drawn = None

    def epoch(self, seed, epoch):
        rows = Drawing(self.store, self.format, self.targets)
        rows.drawn = (seed, epoch)
        return rows

    def prepare(self, batch):
        return batch, self.drawn


@given(after=st.integers(0, 25), batching=st.sampled_from(Batching))
@settings(deadline=None, max_examples=20)
def test_batches_after_any_step_are_those_of_a_run_that_never_stopped(after, batching):
    rows = random_rows([3, 4, 5, 3, 9, 7, 7, 2, 5, 6])
    rows = Drawing(rows.store, rows.format, rows.targets)
    config = TrainingConfig(batch_size=3, batching=batching)

    def facts(after):
        steps = islice(TrainingBatches(rows, config, 5, PAD, CPU).steps(after, 2), 30 - after)
        return [[(micro_batch.rows.tolist(), drawn) for micro_batch, drawn in micro_batches] for micro_batches in steps]

    assert facts(after) == facts(0)[after:]


def test_rows_that_an_encoder_pads_to_its_window_are_scored_in_batches_of_no_more_tokens():
    store = rows_of([[1] * 3] * 40)
    batches = list(scoring_batches(store, PAD, CPU, TransformersConfig(transformers={"attention_window": [256, 512]})))
    assert max(map(len, batches)) == 4096 // 512
    assert max(map(len, scoring_batches(store, PAD, CPU, NARROW))) == 40


@given(lengths=st.lists(st.integers(1, 3000), min_size=1, max_size=60))
@settings(deadline=None, max_examples=30)
def test_scoring_reads_every_row_once_in_batches_of_bounded_size(lengths):
    store = rows_of([[1] * n for n in lengths])
    batches = list(scoring_batches(store, PAD, CPU, NARROW))
    assert sorted(torch.cat([batch.rows for batch in batches]).tolist()) == list(range(len(lengths)))
    assert all(batch.input_ids.numel() <= 8192 or len(batch) == 1 for batch in batches)


def test_an_error_in_the_thread_is_raised_unchanged_when_its_batch_is_due():
    def items():
        yield 1
        raise ZeroDivisionError("the second")

    ahead = prefetched(items(), torch.device("meta"))
    assert next(ahead) == 1
    with pytest.raises(ZeroDivisionError, match="the second"):
        next(ahead)


@given(
    lengths=lengths_of_rows,
    batch_size=st.integers(1, 9),
    micro_batches=st.integers(1, 4),
    size=st.integers(1, 5),
    after=st.integers(0, 7),
    batching=st.sampled_from(Batching),
)
@settings(deadline=None, max_examples=60)
def test_a_step_has_the_same_rows_in_the_same_order_for_any_number_of_processes(
    lengths, batch_size, micro_batches, size, after, batching
):
    store, config = random_rows(lengths), TrainingConfig(batch_size=batch_size, batching=batching)

    def steps(rank, size, micro_batches):
        batches = TrainingBatches(store, config, 3, PAD, CPU, Processes(rank, size))
        return list(islice(batches.steps(after, micro_batches), 6))

    alone = [step[0] for step in steps(0, 1, 1)]
    of_each = [steps(rank, size, micro_batches) for rank in range(size)]
    for number, whole in enumerate(alone):
        shares = [one[number] for one in of_each]
        assert len({len(share) for share in shares}) == 1  # all meet after each part
        parts = [micro_batch for share in shares for micro_batch in share]
        assert torch.cat([part.rows for part in parts]).tolist() == whole.rows.tolist()
        assert torch.cat([part.labels for part in parts]).tolist() == whole.labels.tolist()
        assert all(len(part) for part in parts)  # there is something to compute
        assert sum(part.n_tokens for part in parts) == whole.n_tokens


@given(lengths=lengths_of_rows, size=st.integers(1, 5))
@settings(deadline=None, max_examples=40)
def test_scoring_batches_are_distributed_as_one_process_would_compose_them(lengths, size):
    store = rows_of([[1] * n * 400 for n in lengths])
    alone = [batch.rows.tolist() for batch in scoring_batches(store, PAD, CPU, NARROW)]
    of_each = [list(scoring_batches(store, PAD, CPU, NARROW, Processes(rank, size))) for rank in range(size)]
    assert len({len(batches) for batches in of_each}) == 1
    in_turn = [batch.rows.tolist() for round_ in zip(*of_each, strict=True) for batch in round_]
    assert [rows for rows in in_turn if rows] == alone
    assert in_turn[: len(alone)] == alone


def micro_batches_of(rows, config, steps, micro_batches, size):
    """Return all micro-batches of `steps` steps, of all processes."""
    found = []
    for rank in range(size):
        batches = TrainingBatches(rows, config, 3, PAD, CPU, Processes(rank, size))
        for step in islice(batches.steps(0, micro_batches), steps):
            found += step
    return found


def rows_in_windows(n_windows):
    """Return rows with these numbers of windows of 4 tokens, each 3 after the last; 0 means a single sequence of 3."""
    texts = [[row + 1] * (3 * n + 1 if n else 3) for row, n in enumerate(n_windows)]
    return rows_of(texts, Windowing("mean", 8), max_length=4)


@given(
    n_windows=st.lists(st.sampled_from([0, 2, 3, 5]), min_size=1, max_size=12),
    micro_batches=st.integers(1, 3),
    size=st.integers(1, 3),
)
@settings(deadline=None, max_examples=40)
def test_micro_batches_and_processes_never_split_a_row(n_windows, micro_batches, size):
    rows, config = rows_in_windows(n_windows), TrainingConfig(batch_size=5)
    steps = -(-len(rows) // config.batch_size)
    made = [one for one in micro_batches_of(rows, config, steps, micro_batches, size) if len(one.rows)]
    seen = {}
    for batch in made:
        row_of_sequence = torch.arange(len(batch)) if batch.row_of_sequence is None else batch.row_of_sequence
        for place, row in enumerate(batch.rows.tolist()):
            seen[row] = batch.input_ids[row_of_sequence == place]
    assert {row: len(windows) for row, windows in seen.items()} == {row: max(n, 1) for row, n in enumerate(n_windows)}
    assert all(set(windows.flatten().tolist()) <= {row + 1, PAD} for row, windows in seen.items())


COMPUTE = Compute(CPU, torch.float32, 1, "test")
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
    return rows_of([draw.integers(1, 20, 3 + n % 4) for n in range(ROWS)])


def run(model, micro_batches, *, after=0, optimizer=None):
    """Return the steps of a run, the micro-batches used in the end, and the final weights."""
    training = TrainingConfig(steps=STEPS, batch_size=10, learning_rate=0.1)
    optimizer = optimizer or build_optimizer(model, training)
    taken = StepsWithinMemory(TrainingBatches(rows(), training, 0, 0, CPU), micro_batches)

    torch.manual_seed(7)
    steps = list(taken.take(Learner(model, optimizer, training, COMPUTE), Horizon(STEPS), after))
    return [step.numbers() for step in steps], taken, torch.cat([weight.flatten() for weight in model.parameters()])


@pytest.mark.slow
@pytest.mark.parametrize(("room", "number"), [(5, 2), (3, 4), (1, 10)])
def test_the_curve_equals_that_of_micro_batches_set_by_hand(room, number, capsys):
    figures, taken, weights = run(Small(room), MicroBatchCount(1, "a guess", open=True))
    by_hand, _, expected = run(Small(ROWS), MicroBatchCount(number, "as set"))
    assert figures == by_hand
    assert torch.equal(weights, expected)
    assert taken.micro_batches == MicroBatchCount(number, "memory ran out in step 1", open=True)
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
    figures, taken, weights = run(model, MicroBatchCount(1, "a guess", open=True), optimizer=optimizer)
    assert taken.micro_batches.reason == "memory ran out in step 5"
    assert model.sizes == [10] * 5 + [5, 5] * 8

    def by_hand():
        """Take four steps in one micro-batch and the others in two, with one continuous random state."""
        again = Small(ROWS, p=0.3)
        optimizer = build_optimizer(again, training)
        found = []
        torch.manual_seed(7)
        for after, number, last in ((0, 1, 4), (4, 2, STEPS)):
            batches = TrainingBatches(rows(), training, 0, 0, CPU).steps(after, number)
            for step in optimize(Learner(again, optimizer, training, COMPUTE), batches, Horizon(STEPS), after=after):
                found.append(step.numbers())
                if step.number == last:
                    break
        return found, torch.cat([weight.flatten() for weight in again.parameters()])

    expected_figures, expected = by_hand()
    assert figures == expected_figures
    assert torch.equal(weights, expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("room", "micro_batches"), [(5, MicroBatchCount(1, "as set")), (0, MicroBatchCount(1, "a guess", open=True))]
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
        run(model, MicroBatchCount(1, "a guess", open=True), optimizer=optimizer)
    assert model.sizes == [10]


@pytest.mark.parametrize("kind", ["cpu", "cuda", "mps"])
def test_freed_memory_is_returned_to_the_device_that_ran_out_of_it(kind, monkeypatch):
    emptied = []
    for name in ("cuda", "mps"):
        monkeypatch.setattr(getattr(torch, name), "empty_cache", lambda name=name: emptied.append(name))
    release_memory(torch.device(kind))
    assert emptied == ([] if kind == "cpu" else [kind])
