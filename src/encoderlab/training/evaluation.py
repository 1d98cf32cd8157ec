"""Predictions for many batches, several at once on a CPU, in halves where memory is too small; and a split's scores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import chain, islice, zip_longest
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn

from encoderlab.batch import Batch, Prediction
from encoderlab.system.device import Compute
from encoderlab.system.processes import SINGLE_PROCESS, Processes, stop_if_interrupted
from encoderlab.training.batches import MemoryTooSmallError, is_out_of_memory, release_memory

if TYPE_CHECKING:
    from encoderlab.metrics.scores import Metrics, SplitScores

MAX_THREADS = 8  # only one Python thread runs at a time, so with a small model more threads would wait for each other
AHEAD = 2  # batches per thread that wait for their turn, or for the outputs before theirs
Output = TypeVar("Output")
_cores = Lock()  # held while several threads share them


def predict_batches(
    batches: Iterable[Batch], predict: Callable[[Batch], Output], compute: Compute, *, independent: bool = True
) -> Iterator[tuple[Batch, Output]]:
    """Yield each batch with the output of `predict`, in order; halved if it does not fit in memory.

    On a CPU each core computes a batch of its own, because two cores multiply two pairs of matrices faster than one
    pair after the other. Until the last output, the calling thread has fewer PyTorch threads, too. With fewer batches
    than cores, or more than MAX_THREADS cores, several cores share a batch. One batch follows the other if there is
    only one, if a teacher computes its outputs in between, or while another thread uses the cores in this way.

    `predict` is called in several threads. It must leave nothing behind if it fails, nor change the model, and its
    output for a row must not depend on the batch. Without `independent`, batches are computed one after another and
    never halved: several processes must run the same forward passes together (FSDP2 gathers weights in them). Raises
    MemoryTooSmallError if a single row, or what is not halved, is too much.
    """
    compute_batch = partial(_in_halves, predict=predict, halve=independent)
    batches = iter(batches)
    n_threads = compute.prediction_threads or compute.threads
    at_once = min(n_threads, MAX_THREADS) if independent and compute.device.type == "cpu" else 0
    first = list(islice(batches, at_once))
    batches = chain(first, batches)
    if len(first) > 1 and first[0].teacher is None and _cores.acquire(blocking=False):
        try:
            with closing(_in_threads(batches, compute_batch, n_threads, len(first))) as outputs:
                yield from chain.from_iterable(outputs)
        finally:
            _cores.release()
    else:
        yield from chain.from_iterable(map(compute_batch, batches))


def _in_halves(batch: Batch, predict: Callable[[Batch], Output], halve: bool) -> list[tuple[Batch, Output]]:
    """Return the output for a batch, or for each part of it if it does not fit in memory."""
    try:
        return [(batch, predict(batch))]
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        if len(batch) == 1 or not halve:
            size = " x ".join(map(str, batch.input_ids.shape))
            problem = (
                f"The memory of the device ({batch.input_ids.device.type}) is too small for a batch of {size} tokens"
            )
            raise MemoryTooSmallError(problem, remedy="Choose another device, or a smaller model") from None
    release_memory(batch.input_ids.device)  # by now the error is freed, and with it the tensors in its frames
    return [part for half in batch.halves() for part in _in_halves(half, predict, halve)]


def _in_threads(
    batches: Iterator[Batch], compute_batch: Callable[[Batch], list[tuple[Batch, Output]]], cores: int, most: int
) -> Generator[list[tuple[Batch, Output]]]:
    """Yield the outputs for each batch, in order, computed by `most` threads or as many fewer as use more cores.

    An error in a thread is raised here, when its batch is due. The threads end with this generator, however that ends.
    """
    n_threads = max(range(1, most + 1), key=lambda threads: (cores // threads * threads, threads))
    due: deque[Future[list[tuple[Batch, Output]]]] = deque()
    before = torch.get_num_threads()
    torch.set_num_threads(cores // n_threads)
    # Flushing denormal numbers is a setting of each thread: see `set_up_compute`.
    threads = ThreadPoolExecutor(n_threads, "predictions", partial(torch.set_flush_denormal, True))
    try:
        for batch in batches:
            due.append(threads.submit(compute_batch, batch))
            if len(due) > AHEAD * n_threads:
                yield due.popleft().result()
        while due:
            yield due.popleft().result()
    finally:
        threads.shutdown(cancel_futures=True)
        torch.set_num_threads(before)


def evaluate(
    network: nn.Module,
    batches: Iterable[Batch],
    metrics: Metrics,
    compute: Compute,
    processes: Processes = SINGLE_PROCESS,
    forward: Callable[[Batch], Prediction] | None = None,
) -> SplitScores:
    """Score `network` on `batches`, which hold each example of a split once, in any order; `forward` computes a model's
    output if that is more than the network's.

    The `processes` have been dealt the batches in turn. Their predictions are gathered before scoring, in the order in
    which one process would have made them, so the scores are the same. A batch for which memory is too small is scored
    in halves, which changes no score. Raises MemoryTooSmallError if one row is too much. The model is left in the mode
    it was found in, because a loop may be training a wrapper that would not notice.
    """
    alone = processes.size == 1  # DDP would need less than FSDP2, but is treated alike

    def columns(batch: Batch) -> tuple[Tensor, ...] | None:
        # Weights that FSDP2 gathers in inference mode could not be trained afterwards.
        with torch.inference_mode() if alone else torch.no_grad():
            with compute.autocast():
                prediction = (forward or network)(batch)
            return metrics.columns(prediction, batch) if len(batch.rows) else None

    # Predict: what scoring needs of each batch is kept, and no more.
    was_training = network.training
    network.eval()
    try:
        batches = _until_interrupted(batches, processes)
        predicted = predict_batches(batches, columns, compute, independent=alone)
        kept = [scored for _, scored in predicted if scored is not None]
    finally:
        network.train(was_training)

    # Score, on the main process if there are several: there the batches are put into the order of a single one.
    if alone:
        return metrics.scores(kept)
    collected = processes.gather([tuple(column.cpu() for column in scored) for scored in kept])

    def scores() -> SplitScores:
        in_turn = chain.from_iterable(zip_longest(*(collected or ())))
        return metrics.scores([scored for scored in in_turn if scored is not None])

    return processes.broadcast_from_main(scores)


def _until_interrupted(batches: Iterable[Batch], processes: Processes) -> Iterator[Batch]:
    for batch in batches:
        stop_if_interrupted(processes)
        yield batch
