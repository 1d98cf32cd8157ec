"""Batches: which rows make up which step, a function of the seed, the epoch and the place in the epoch, and of nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

import numpy as np
import torch

from encoderlab.batch import Batch
from encoderlab.tasks.rows import Rows
from encoderlab.training.config import Batching, TrainingConfig

EVALUATION_TOKENS = 8192  # in one batch: enough to keep the matrix products busy, little enough to stay in the cache
EVALUATION_SEED = 0  # whatever is drawn for an evaluation is the same for every run, so that scores can be compared


def epoch_order(lengths: np.ndarray, config: TrainingConfig, seed: int, epoch: int) -> list[np.ndarray]:
    """The rows of each step of one epoch; every row once.

    `random` draws them in any order. `length` sorts them by length, rows of one length in random order, cuts that into batches and
    shuffles the batches: on SST-2 that computes 3.4 times fewer tokens than random batches of 64.
    """
    draw = np.random.default_rng([seed, epoch])
    order = draw.permutation(len(lengths))
    if config.batching is Batching.length:
        order = order[np.argsort(lengths[order], kind="stable")]
    batches = [order[start : start + config.batch_size] for start in range(0, len(order), config.batch_size)]
    if config.batching is Batching.length:
        draw.shuffle(places := np.arange(len(batches)))
        batches = [batches[place] for place in places]
    return batches


def training_batches(
    rows: Rows, config: TrainingConfig, seed: int, pad_id: int, device: torch.device, *, after: int = 0
) -> Iterator[list[Batch]]:
    """The batches of step `after` + 1, + 2, and so on without end, each cut into `config.accumulate` parts."""
    per_epoch = -(-len(rows) // config.batch_size)
    for epoch in count(after // per_epoch):
        drawn = rows.epoch(seed, epoch)
        done = max(after - epoch * per_epoch, 0)
        for chosen in islice(epoch_order(drawn.lengths, config, seed, epoch), done, None):
            parts = [part for part in np.array_split(chosen, config.accumulate) if len(part)]
            yield [drawn.prepare(drawn.gather(part, pad_id).to(device)) for part in parts]


def scoring_batches(rows: Rows, pad_id: int, device: torch.device) -> Iterator[Batch]:
    """Every row once, shortest first, in batches of about as many tokens each; what is drawn is the same each time."""
    drawn = rows.epoch(EVALUATION_SEED, 0)
    order = np.argsort(drawn.lengths, kind="stable")
    start = 0
    while start < len(order):
        size = max(EVALUATION_TOKENS // max(int(drawn.lengths[order[start]]), 1), 1)
        size = max(EVALUATION_TOKENS // max(int(drawn.lengths[order[min(start + size, len(order)) - 1]]), 1), 1)
        yield drawn.prepare(drawn.gather(order[start : start + size], pad_id).to(device))
        start += size
