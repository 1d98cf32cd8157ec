"""Work shared out to helping processes, its results in order: this process does its part while they start, and ever after.

Blocks of documents go out over pipes and come back in order: the token store is the same, byte for byte, for any number of helpers.
A helper that dies ends the run with one line and no store.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from encoderlab.errors import DataError

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST_HELPERS = 7  # one process cannot read fast enough for more
_ITEMS_AHEAD = 2  # handed out for each helper beyond the results that are there, so that none waits
_RESULTS_AHEAD = 64  # kept behind one that is still being worked on


def helpers_at_hand() -> int:
    """How many helping processes there are cores for beside this process's own."""
    if multiprocessing.parent_process() is not None:
        return 0  # it is one of many that have shared the cores out among themselves
    if os.environ.get("LOCAL_RANK", "0") != "0":
        return 0  # of the processes that torchrun starts on a machine, the first prepares the data, and has all cores to itself
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores - 1, _MOST_HELPERS)


def shared_out(work: Callable[[Item], Result], items: Iterable[Item], helpers: int) -> Iterator[Result]:
    """`work` done on each item, the results in the order of the items; a few items and results are in memory at once.

    `work`, items and results are pickled. Raises what `work` raises, and DataError where a helper is killed.
    """
    if helpers < 1:
        yield from map(work, items)
        return
    with ExitStack() as processes, ThreadPoolExecutor(helpers) as threads:
        idle: SimpleQueue[_Helper | None] = SimpleQueue()  # None: one that has not been started yet
        for _ in range(helpers):
            idle.put(None)
        pickled = pickle.dumps(work)

        def answered(item: Item) -> Result:
            helper = idle.get()
            try:
                helper = helper or processes.enter_context(_started(pickled))
                return helper.answer(item)
            finally:
                idle.put(helper)

        try:
            yield from _in_order(lambda item: threads.submit(answered, item), work, items, helpers * _ITEMS_AHEAD)
        finally:
            threads.shutdown(cancel_futures=True)


def _in_order(
    handed_out: Callable[[Item], Future[Result]], work: Callable[[Item], Result], items: Iterable[Item], most: int
) -> Iterator[Result]:
    """The results, of which at most `most` are waited for at once: the next item is worked on here."""
    waiting: deque[Future[Result]] = deque()
    for item in items:
        busy = sum(not result.done() for result in waiting)
        waiting.append(handed_out(item) if busy < most else _done(work(item)))
        while waiting and (waiting[0].done() or len(waiting) > _RESULTS_AHEAD):
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _done(result: Result) -> Future[Result]:
    future: Future[Result] = Future()
    future.set_result(result)
    return future


class _Helper:
    """A process that does `work` on whatever it is sent, and ends when nobody can send it any more.

    A Python of its own, because a fork of a process with threads (torch's, the tokenizers') may hang, and `multiprocessing` would
    run the user's script anew in it.
    """

    def __init__(self, work: bytes) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TOKENIZERS_PARALLELISM": "false"}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()"],  # -P: no module of the folder it is typed in
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the process that asks for help
        )
        self._work: bytes | None = work

    def __enter__(self) -> _Helper:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # it keeps nothing
        self._process.communicate()

    def answer(self, item: Any) -> Any:
        """What `work` gives. Raises what it raises, and DataError where the process has ended."""
        to, back = self._process.stdin, self._process.stdout
        assert to is not None and back is not None, "both are pipes"
        try:
            if self._work is not None:
                to.write(self._work)
                self._work = None
            to.write(pickle.dumps(item))
            to.flush()
            result, error = pickle.load(back)
        except (EOFError, OSError, pickle.UnpicklingError) as broken:
            raise _lost("was killed, or broke down") from broken
        if error is not None:
            raise error
        return result


def _started(work: bytes) -> _Helper:
    try:
        return _Helper(work)
    except OSError as error:
        raise _lost(f"could not be started ({error.strerror})") from error


def _lost(how: str) -> DataError:
    return DataError(
        f"A process that helped to prepare the data {how}",
        remedy="Free memory (close other programs) and run the same command again: nothing half-made is kept",
    )


def serve() -> None:
    """Be a helper: read pickled work and then items from standard input, and answer each on standard output."""
    back = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what anything prints is no answer
    with suppress(EOFError, OSError, pickle.UnpicklingError):  # nobody sends any more, or reads
        work = pickle.load(sys.stdin.buffer)
        while True:
            pickle.dump(_answer(work, pickle.load(sys.stdin.buffer)), back)
            back.flush()


def _answer(work: Callable[[Any], Any], item: Any) -> tuple[Any, Exception | None]:
    try:
        return work(item), None
    except Exception as error:  # it is raised again where the answer is read
        return None, error
