"""Work distributed over joblib processes. Results come in order, and are the same for any number of processes, byte for
byte.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeVar

from encoderlab.errors import DataError

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST_WORKERS = 8  # one process cannot read fast enough for more
_IDLE_SECONDS = 5  # until an idle worker ends, because the process that sent it work was killed


def available_workers() -> int:
    """Return how many processes may share work; 1 if this process has to do it alone."""
    if multiprocessing.parent_process() is not None:
        return 1  # one of several processes that already share the cores
    if os.environ.get("LOCAL_RANK", "0") != "0":
        return 1  # of torchrun's processes on a machine, the first prepares the data and has all the cores
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _MOST_WORKERS)


def parallel_map(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Yield the results of `work` on each item, in the order of the items; only a few items and results are in memory
    at once.

    `work`, items and results are pickled. Raises what `work` raises, and DataError if a worker is killed.
    """
    if workers < 2:
        yield from map(work, items)
        return
    from joblib import Parallel, delayed
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.process_executor import BrokenProcessPool

    pickled = pickle.dumps(work)
    is_unsafe = "PYTHONSAFEPATH" not in os.environ
    os.environ.setdefault("PYTHONSAFEPATH", "1")  # workers import nothing from the folder they start in
    pool: Any = Parallel(workers, return_as="generator", idle_worker_timeout=_IDLE_SECONDS)
    warnings.filterwarnings("ignore", r"\d+ tasks (have|which)", UserWarning)  # when work is stopped
    try:
        yield from pool(delayed(_answer)(pickled, item) for item in items)
    except BrokenProcessPool as error:
        raise DataError(
            "A process that was preparing the data was killed or crashed",
            remedy="Free memory (close other programs) and run the same command again; no partial results are kept",
        ) from error
    finally:
        get_reusable_executor().shutdown()  # joblib would keep idle workers and their memory
        if is_unsafe:  # the variable is only for the workers
            os.environ.pop("PYTHONSAFEPATH", None)


def _answer(work: bytes, item: Any) -> Any:
    return _loaded(work)(item)


@lru_cache(1)
def _loaded(work: bytes) -> Callable[[Any], Any]:
    """Return what was pickled, unpickled once per worker. Signals are left to the process that distributes the work."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    return pickle.loads(work)
