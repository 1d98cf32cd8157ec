"""The totals of an optimizer step over all its micro-batches and all processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from encoderlab.batch import Batch
from encoderlab.system.distributed import SINGLE_PROCESS, Processes
from encoderlab.training.loss import LOSSES, count_targets


@dataclass(frozen=True, slots=True)
class Totals:
    """A step's examples, real tokens, tokens with padding, and `targets` by the name of the loss that averages over
    them.

    `stop` is True if one of the processes was asked to stop before this step.
    """

    examples: int
    tokens: int
    padded_tokens: int
    targets: Mapping[str, int]
    stop: bool = False


def count_totals(
    micro_batches: Sequence[Batch], processes: Processes = SINGLE_PROCESS, stopping: Callable[[], bool] = bool
) -> Totals:
    """Count the micro-batches of this process and add the counts of the others, in one message and without waiting for
    a device.
    """
    examples = sum(len(micro_batch.rows) for micro_batch in micro_batches)
    tokens = sum(micro_batch.n_tokens for micro_batch in micro_batches)
    padded = sum(micro_batch.input_ids.numel() for micro_batch in micro_batches)
    counts = [count_targets(micro_batch) for micro_batch in micro_batches]
    targets = [sum(count.get(name, 0) for count in counts) for name in LOSSES]
    stop = processes.size > 1 and stopping()
    examples, tokens, padded, stops, *targets = processes.all_reduce_sum([examples, tokens, padded, stop, *targets])
    return Totals(examples, tokens, padded, dict(zip(LOSSES, targets, strict=True)), stops > 0)
