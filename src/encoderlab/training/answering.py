"""A model's answers for many batches: several batches at once on a CPU, and in halves where memory is too small for one."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from itertools import chain, islice
from queue import SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

import torch

from encoderlab.batch import Batch
from encoderlab.system.device import Compute
from encoderlab.training.memory import MemoryTooSmallError, give_back_memory, is_about_memory

MOST_AT_ONCE = 8  # Python starts the operations of all batches one by one, which more threads of a small model would wait for
AHEAD = 2  # batches per thread that wait for their turn, or for the answers before theirs
Answer = TypeVar("Answer")
Answers = list[tuple[Batch, Answer]]


def answered(
    batches: Iterable[Batch], answer: Callable[[Batch], Answer], compute: Compute, *, together: bool = False
) -> Iterator[tuple[Batch, Answer]]:
    """Yield each batch with its answer, in order. A batch that does not fit in memory is halved, as are all later ones of its size.

    On a CPU each core computes a batch of its own, because two cores multiply two pairs of matrices faster than one pair after
    the other; a single batch gets all cores. If several processes compute each batch `together`, it is neither halved nor computed
    beside another.

    `answer` is called in several threads, and must leave nothing behind if it fails; its answer for a row must not depend on the
    batch. Raises MemoryTooSmallError if a single row is too much, or `together` a batch.
    """
    in_halves = _InHalves(answer, allowed=not together)
    waiting = iter(batches)
    first = list(islice(waiting, 2))
    waiting = chain(first, waiting)
    alone = together or len(first) < 2 or compute.device.type != "cpu"
    for found in map(in_halves, waiting) if alone else _at_once(waiting, in_halves, compute):
        yield from found


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


def _at_once(batches: Iterator[Batch], answer: Callable[[Batch], Answers[Answer]], compute: Compute) -> Iterator[Answers[Answer]]:
    """Yield the answers for each batch, in order, computed by as many threads as there are cores for.

    An error in a thread is raised here, when its batch is due. The threads end with this generator, however that ends.
    """
    at_once, threads = min(compute.threads, MOST_AT_ONCE), torch.get_num_threads()
    todo: SimpleQueue[tuple[Batch, Future[Answers[Answer]]] | None] = SimpleQueue()
    workers = [Thread(target=_answer_all, args=(todo, answer, compute), name="answers", daemon=True) for _ in range(at_once)]
    due: deque[Future[Answers[Answer]]] = deque()
    torch.set_num_threads(max(compute.threads // at_once, 1))
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
        for future in due:
            future.cancel()
        for _ in workers:
            todo.put(None)
        for worker in workers:
            if worker.ident is not None:  # started
                worker.join()
        torch.set_num_threads(threads)


def _answer_all(
    todo: SimpleQueue[tuple[Batch, Future[Answers[Answer]]] | None], answer: Callable[[Batch], Answers[Answer]], compute: Compute
) -> None:
    """Answer batches until there are none left."""
    torch.set_flush_denormal(True)  # as in the main thread: see `choose_compute`
    with compute.keeping_casts():
        while (entry := todo.get()) is not None:
            _resolve(entry[1], partial(answer, entry[0]))


def _resolve(future: Future[Answers[Answer]], work: Callable[[], Answers[Answer]]) -> None:
    """Set the result of `work`, or what it raises, which is then raised in the main thread; neither if that has left."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
