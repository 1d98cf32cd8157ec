"""A model's answers for many batches: several batches at once on a CPU, and in halves where memory is too small for
one.

Evaluation: a model's predictions for a whole split, scored once at the end.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain, islice, zip_longest
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from encoderlab.batch import Batch
from encoderlab.system.device import Compute
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.system.signals import stop_if_interrupted
from encoderlab.training.micro_batches import MemoryTooSmallError, give_back_memory, is_about_memory

if TYPE_CHECKING:
    from encoderlab.metrics import Metrics, SplitScores


MOST_AT_ONCE = 8  # only one Python thread runs at a time, so with a small model more threads would wait for each other
AHEAD = 2  # batches per thread that wait for their turn, or for the answers before theirs
Answer = TypeVar("Answer")
Answers = list[tuple[Batch, Answer]]
_several_at_once = Lock()  # held while PyTorch has fewer threads


def answered(
    batches: Iterable[Batch],
    answer: Callable[[Batch], Answer],
    compute: Compute,
    *,
    at_once: bool = True,
    halve: bool = True,
) -> Iterator[tuple[Batch, Answer]]:
    """Yield each batch with its answer, in order. A batch that does not fit in memory is halved, as are all later ones
    of its size.

    On a CPU each core computes a batch of its own, because two cores multiply two pairs of matrices faster than one
    pair after the other. Until the last answer, the calling thread has fewer PyTorch threads, too. With fewer batches
    than cores, or more than MOST_AT_ONCE cores, several cores share a batch. One batch follows the other if there is
    only one, if a teacher computes the targets of each between them, or while another thread uses the cores in this
    way.

    `answer` is called in several threads. It must leave nothing behind if it fails, nor change the model, even briefly
    (then say `at_once=False`), and its answer for a row must not depend on the batch. Processes that compute each batch
    together must not `halve` one alone. Raises MemoryTooSmallError if a single row is too much, or halving is not
    allowed.
    """
    in_halves = _InHalves(answer, allowed=halve)
    waiting = iter(batches)
    first = (
        list(islice(waiting, min(compute.threads, MOST_AT_ONCE))) if at_once and compute.device.type == "cpu" else []
    )
    waiting = chain(first, waiting)
    several = len(first) > 1 and first[0].targets is None
    if several and _several_at_once.acquire(blocking=False):
        try:
            with closing(_at_once(waiting, in_halves, compute.threads, len(first))) as found:
                yield from chain.from_iterable(found)
        finally:
            _several_at_once.release()
    else:
        yield from chain.from_iterable(map(in_halves, waiting))


class _InHalves(Generic[Answer]):
    """Answers a batch, in halves if it does not fit in memory."""

    def __init__(self, answer: Callable[[Batch], Answer], *, allowed: bool) -> None:
        self.answer, self.allowed = answer, allowed
        self.too_many = math.inf  # tokens, including padding

    def __call__(self, batch: Batch) -> Answers[Answer]:
        found: Answers[Answer] = []
        waiting = [batch]
        while waiting:
            part = waiting.pop()
            one = self._unless_too_much(part) if part.input_ids.numel() < self.too_many or len(part) == 1 else None
            if one is not None:
                found.append((part, one[0]))
                continue
            if len(part) == 1 or not self.allowed:
                raise _too_small_for_a_row(part)
            self.too_many = min(self.too_many, part.input_ids.numel())
            give_back_memory()
            waiting.extend(reversed(part.halves()))
        return found

    def _unless_too_much(self, batch: Batch) -> tuple[Answer] | None:
        try:
            return (self.answer(batch),)
        except RuntimeError as error:
            if not is_about_memory(error):
                raise
        return None  # by now the error is freed, and with it the tensors in its frames


def _too_small_for_a_row(batch: Batch) -> MemoryTooSmallError:
    what = "a row" if len(batch) == 1 else f"{len(batch)} rows"
    sequences, length = batch.input_ids.shape
    of = f"{length} tokens" if sequences == len(batch) else f"{sequences} windows of {length} tokens"
    wrong = f"The memory of the device ({batch.input_ids.device.type}) is too small for {what} of {of}"
    return MemoryTooSmallError(wrong, remedy="Choose another device, or a smaller model")


def _at_once(
    batches: Iterator[Batch], answer: Callable[[Batch], Answers[Answer]], cores: int, most: int
) -> Generator[Answers[Answer]]:
    """Yield the answers for each batch, in order, computed by `most` threads or fewer: as many as use most of the
    cores.

    An error in a thread is raised here, when its batch is due. The threads end with this generator, however that ends.
    """
    at_once = max(range(1, most + 1), key=lambda threads: (cores // threads * threads, threads))
    todo: SimpleQueue[tuple[Batch, Future[Answers[Answer]]] | None] = SimpleQueue()
    workers = [Thread(target=_answer_all, args=(todo, answer), name="answers", daemon=True) for _ in range(at_once)]
    due: deque[Future[Answers[Answer]]] = deque()
    before = torch.get_num_threads()
    torch.set_num_threads(cores // at_once)
    try:
        for worker in workers:
            worker.start()
        for batch in batches:
            due.append(Future())
            todo.put((batch, due[-1]))
            if len(due) > AHEAD * at_once:
                yield due.popleft().result()
        while due:
            yield due.popleft().result()
    finally:
        try:
            _end(workers, due, todo)
        finally:
            torch.set_num_threads(before)


def _end(
    workers: Sequence[Thread],
    due: Iterable[Future[Answers[Answer]]],
    todo: SimpleQueue[tuple[Batch, Future[Answers[Answer]]] | None],
) -> None:
    """Cancel what is still due and has not begun, and wait for the rest."""
    for future in due:
        future.cancel()
    for _ in workers:
        todo.put(None)
    for worker in workers:
        if worker.ident is not None:  # it was started
            worker.join()


def _answer_all(
    todo: SimpleQueue[tuple[Batch, Future[Answers[Answer]]] | None], answer: Callable[[Batch], Answers[Answer]]
) -> None:
    """Answer batches until there are none left."""
    torch.set_flush_denormal(True)  # as in the main thread: see `choose_compute`
    while (entry := todo.get()) is not None:
        batch, future = entry
        _resolve(future, partial(answer, batch))
        del entry, batch, future  # nothing is kept while this thread waits


def _resolve(future: Future[Answers[Answer]], work: Callable[[], Answers[Answer]]) -> None:
    """Set the result of `work`, or what it raises, which is then raised where the result is due; not if that was
    cancelled.
    """
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
    finally:
        del future, work  # the error's traceback refers to this frame: with it to the future, and so to itself


def evaluate(
    model: nn.Module,
    batches: Iterable[Batch],
    metrics: Metrics,
    compute: Compute,
    processes: Processes = SINGLE_PROCESS,
) -> SplitScores:
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


def _scores_of(metrics: Metrics, collected: Sequence[Sequence[Any]] | None) -> SplitScores:
    """Return the scores of what all processes collected, in their order; called on the main process, which alone has
    it.
    """
    assert collected is not None
    in_turn = chain.from_iterable(zip_longest(*collected))
    metrics.replace([batch for batch in in_turn if batch is not None])
    return metrics.scores()
