"""Trackers: TensorBoard and Weights & Biases receive what metrics.jsonl receives, if requested.

Trackers get a run's figures only from the journal, each in its own thread: one that fails or hangs is abandoned with
one line.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from tqdm import tqdm

from encoderlab.config.commands import RunConfig
from encoderlab.config.schemas import settings_to_dict
from encoderlab.errors import SettingError, one_line
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.records.tracking_libraries import LIBRARIES, Subject, Tracker
from encoderlab.system.files import atomic_write_text
from encoderlab.system.processes import Processes

PATIENCE_SECONDS = 30.0  # to let a tracker finish when the run is over
_NO_FIGURES = ("step", "epoch", "kind", "split")
Task = Callable[[Tracker], object]


def check_trackers(names: Sequence[str]) -> None:
    """Raise SettingError for trackers whose library is not installed."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise SettingError(
            f"trackers=[{','.join(names)}] needs libraries that are not installed: {', '.join(missing)}",
            remedy=f"Run pip install 'encoderlab[{','.join(missing)}]', or remove trackers",
        )


@dataclass(frozen=True, slots=True)
class Trackers:
    """All trackers of a run; the run never waits for them, and a failing one is dropped."""

    guarded: Sequence[_Guarded] = ()

    def log(self, line: Mapping[str, Any]) -> None:
        """Send a line of metrics.jsonl: figures of a step as train/..., those of an evaluation under its split's name."""
        if line["kind"] not in ("step", "evaluation"):
            return
        where = line["split"] if line["kind"] == "evaluation" else "train"
        figures = {
            f"{where}/{name}": value for name, value in line.items() if name not in _NO_FIGURES and _is_figure(value)
        }
        self._all(lambda tracker: tracker.log(line["step"], figures))

    def report(self, report: Mapping[str, Any]) -> None:
        """Send the figures of report.json: of each split, and of each baseline."""
        parts = {**report["splits"], **{f"baseline/{name}": one for name, one in report["baselines"].items()}}
        figures = {
            f"report/{part}/{name}": value
            for part, one in parts.items()
            for name, value in one.items()
            if _is_figure(value)
        }
        self._all(lambda tracker: tracker.report(report["checkpoint"]["step"], figures))

    def close(self, *, finished: bool) -> None:
        """Let everything be written, and end the run as finished, or as interrupted or failed."""
        self._all(lambda tracker: tracker.close(finished))
        for one in self.guarded:
            one.end()

    def _all(self, task: Task) -> None:
        for one in self.guarded:
            one.put(task)


NO_TRACKERS = Trackers()


@contextmanager
def tracked(config: RunConfig, command: str, folder: RunFolder, processes: Processes) -> Iterator[Trackers]:
    """Open the requested trackers, on the main process; a resumed run continues its record there."""
    names = config.trackers if processes.is_main else []
    known, lock = _known(folder), Lock()

    def remember(name: str, id_: str | None) -> None:
        with lock:
            known[name] = id_
            atomic_write_text(folder.trackers, json.dumps(known) + "\n")

    subject = Subject(
        f"{command}-{config.task.name}-{folder.root.absolute().name}", folder.root.absolute(), settings_to_dict(config)
    )
    trackers = Trackers(
        [_Guarded(name, partial(LIBRARIES[name], subject, known.get(name)), partial(remember, name)) for name in names]
    )
    try:
        yield trackers
    except BaseException:
        trackers.close(finished=False)
        raise
    trackers.close(finished=True)


def _known(folder: RunFolder) -> dict[str, str | None]:
    """Return the id of the run in each tracker; nothing if the file is missing or damaged, because it is only a
    convenience.
    """
    try:
        found = json.loads(folder.trackers.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


class _Guarded:
    """A tracker in its own thread, so that one that hangs, or waits for a network, never delays a step.

    An error in it is printed once, and then the tracker is no longer used.
    """

    def __init__(self, name: str, open_: Callable[[], Tracker], remember: Callable[[str | None], None]) -> None:
        self.name, self.failed = name, False
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._thread = Thread(target=self._work, args=(open_, remember), name=f"tracker {name}", daemon=True)
        self._thread.start()

    def put(self, task: Task) -> None:
        """Queue this for the tracker."""
        if not self.failed:
            self._tasks.put(task)

    def end(self) -> None:
        """Wait, with a time limit, until everything is done."""
        self._tasks.put(None)
        self._thread.join(PATIENCE_SECONDS)
        if self._thread.is_alive():
            self._give_up("it does not answer")

    def _work(self, open_: Callable[[], Tracker], remember: Callable[[str | None], None]) -> None:
        try:
            tracker = open_()
            remember(tracker.id)
            while (task := self._tasks.get()) is not None:
                task(tracker)
        except (Exception, SystemExit) as error:  # an error in a library must not affect the run
            self._give_up(f"{type(error).__name__}: {error}")

    def _give_up(self, why: str) -> None:
        self.failed = True
        tqdm.write(
            f"encoderlab: {self.name} has failed ({one_line(why)[:300]}): the run continues without it", file=sys.stderr
        )
