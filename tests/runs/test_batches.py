"""Batches: every row once an epoch, the same whatever came before."""

from itertools import islice

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.batch import Encoded
from encoderlab.runs.batches import epoch_order, scoring_batches, training_batches
from encoderlab.tasks.rows import ExampleRows, hold_encoded
from encoderlab.training.config import Batching, TrainingConfig

PAD = 0
CPU = torch.device("cpu")


def encoded(lengths, seed=0):
    draw = np.random.default_rng(seed)
    return [
        Encoded(draw.integers(1, 50, n).tolist(), [0] * (n - n // 3) + [1] * (n // 3), label=i % 3, truncated=n > 8)
        for i, n in enumerate(lengths)
    ]


def held(examples, tokens_asked=False):
    return hold_encoded(examples, 50, tokens_asked=tokens_asked)


lengths_of_rows = st.lists(st.integers(1, 12), min_size=1, max_size=40)


@given(lengths=lengths_of_rows, batch_size=st.integers(1, 9), batching=st.sampled_from(Batching), epoch=st.integers(0, 3))
@settings(deadline=None)
def test_every_row_comes_once_an_epoch(lengths, batch_size, batching, epoch):
    config = TrainingConfig(batch_size=batch_size, batching=batching)
    order = epoch_order(np.array(lengths), config, seed=1, epoch=epoch)
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


def test_seed_and_epoch_each_change_the_order():
    lengths = np.array([5] * 64)
    orders = [
        np.concatenate(epoch_order(lengths, TrainingConfig(), seed, epoch)).tolist() for seed, epoch in [(0, 0), (0, 1), (1, 0)]
    ]
    assert len({tuple(order) for order in orders}) == 3


class Drawing(ExampleRows):
    """Rows that are drawn afresh each epoch: what is drawn shows seed and epoch."""

    drawn = None

    def epoch(self, seed, epoch):
        rows = Drawing(self.store)
        rows.drawn = (seed, epoch)
        return rows

    def prepare(self, batch):
        return batch, self.drawn


@given(after=st.integers(0, 25), batching=st.sampled_from(Batching))
@settings(deadline=None, max_examples=20)
def test_batches_after_any_step_are_those_of_a_run_that_never_stopped(after, batching):
    store = Drawing(held(encoded([3, 4, 5, 3, 9, 7, 7, 2, 5, 6])).store)
    config = TrainingConfig(batch_size=3, batching=batching, accumulate=2)

    def facts(after):
        steps = islice(training_batches(store, config, 5, PAD, CPU, after=after), 30 - after)
        return [[(part.rows.tolist(), drawn) for part, drawn in parts] for parts in steps]

    assert facts(after) == facts(0)[after:]


def test_accumulation_cuts_the_same_batch_into_parts():
    store = held(encoded([4] * 10))
    whole, parts = (next(training_batches(store, TrainingConfig(batch_size=7, accumulate=n), 0, PAD, CPU)) for n in (1, 3))
    assert [len(part) for part in parts] == [3, 2, 2]
    assert torch.cat([part.rows for part in parts]).tolist() == whole[0].rows.tolist()


@given(lengths=st.lists(st.integers(1, 3000), min_size=1, max_size=60))
@settings(deadline=None, max_examples=30)
def test_scoring_reads_every_row_once_in_batches_of_bounded_size(lengths):
    store = held([Encoded([1] * n, [0] * n, label=0) for n in lengths])
    batches = list(scoring_batches(store, PAD, CPU))
    assert sorted(torch.cat([batch.rows for batch in batches]).tolist()) == list(range(len(lengths)))
    assert all(batch.input_ids.numel() <= 8192 or len(batch) == 1 for batch in batches)
