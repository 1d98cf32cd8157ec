"""Evaluation: a model's predictions for a whole split, scored once at the end."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from encoderlab.batch import Batch
from encoderlab.system.device import Compute
from encoderlab.system.distributed import SINGLE_PROCESS, Processes
from encoderlab.system.signals import stop_if_interrupted
from encoderlab.training.answering import answered

if TYPE_CHECKING:
    from encoderlab.metrics import Metrics, SplitScores


def evaluate(
    model: nn.Module,
    batches: Iterable[Batch],
    metrics: "Metrics",
    compute: Compute,
    processes: Processes = SINGLE_PROCESS,
) -> "SplitScores":
    """Score `model` on `batches`, which hold each example of a split once, in any order.

    The `processes` have been dealt the batches in turn. Their predictions are gathered before scoring, in the order in
    which one process would have made them, so the scores are the same. A batch for which memory is too small is scored
    in halves, which changes no score. Raises MemoryTooSmallError if one row is too much. The model is left in the mode
    it was found in, because a loop may be training a wrapper that would not notice.
    """

    alone = processes.size == 1

    def columns(batch: Batch) -> tuple[Tensor, ...] | None:
        # Weights that FSDP2 gathers in inference mode could not be trained afterwards.
        with torch.inference_mode() if alone else torch.no_grad():
            with compute.autocast():
                prediction = model(batch)
            return metrics.columns(prediction, batch) if len(batch.rows) else None

    with _in_evaluation_mode(model):
        for _, found in answered(_until_interrupted(batches, processes), columns, compute, at_once=alone, halve=alone):
            if found is not None:
                metrics.keep(found)
    if alone:
        return metrics.scores()
    collected = processes.gather(metrics.collected())
    return processes.broadcast_from_main(lambda: _scores_of(metrics, collected))


@contextmanager
def _in_evaluation_mode(model: nn.Module) -> Iterator[None]:
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def _until_interrupted(batches: Iterable[Batch], processes: Processes) -> Iterator[Batch]:
    for batch in batches:
        stop_if_interrupted(processes)
        yield batch


def _scores_of(metrics: "Metrics", collected: Sequence[Sequence[Any]] | None) -> "SplitScores":
    """Return the scores of what all processes collected, in their order; called on the main process, which alone has
    it.
    """
    assert collected is not None
    in_turn = chain.from_iterable(zip_longest(*collected))
    metrics.replace([batch for batch in in_turn if batch is not None])
    return metrics.scores()
