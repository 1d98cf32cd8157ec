"""Trackers: TensorBoard and Weights & Biases get what metrics.jsonl gets, where they are asked for.

Trackers hear of a run from the journal alone, each in a thread of its own: one that fails or hangs is left behind with one line.
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

from encoderlab.config.command_settings import RunConfig
from encoderlab.config.schemas import settings_to_dict
from encoderlab.errors import SettingError, one_line
from encoderlab.runs.folders.folder import RunFolder
from encoderlab.runs.records.tracking_libraries import LIBRARIES, Subject, Tracker
from encoderlab.system.atomic_files import atomic_write_text
from encoderlab.system.distributed import Processes

PATIENCE_SECONDS = 30.0  # for what a tracker has not yet handed on when the run is over
_NO_FIGURES = ("step", "epoch", "kind", "split")
Task = Callable[[Tracker], object]


def check_trackers(names: Sequence[str]) -> None:
    """Refuse trackers whose library is not installed. Raises SettingError."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise SettingError(
            f"trackers=[{','.join(names)}] asks for what is not installed: {', '.join(missing)}",
            remedy=f"Run pip install 'encoderlab[{','.join(missing)}]', or leave trackers out",
        )


@dataclass(frozen=True, slots=True)
class Trackers:
    """All trackers of a run; none of them is waited for while it runs, and none that fails is heard of again."""

    guarded: Sequence[_Guarded] = ()

    def log(self, line: Mapping[str, Any]) -> None:
        """Hand on a line of metrics.jsonl: figures of a step as train/..., those of an evaluation under its split's name."""
        if line["kind"] not in ("step", "evaluation"):
            return
        where = line["split"] if line["kind"] == "evaluation" else "train"
        figures = {f"{where}/{name}": value for name, value in line.items() if name not in _NO_FIGURES and _is_figure(value)}
        self._all(lambda tracker: tracker.log(line["step"], figures))

    def report(self, report: Mapping[str, Any]) -> None:
        """Hand on the figures of report.json: of each split, and of each baseline."""
        parts = {**report["splits"], **{f"baseline/{name}": one for name, one in report["baselines"].items()}}
        figures = {
            f"report/{part}/{name}": value for part, one in parts.items() for name, value in one.items() if _is_figure(value)
        }
        self._all(lambda tracker: tracker.report(report["checkpoint"]["step"], figures))

    def close(self, *, finished: bool) -> None:
        """Let all that was handed on be written, and end: as a finished run, or as one that goes on another time, or failed."""
        self._all(lambda tracker: tracker.close(finished))
        for one in self.guarded:
            one.end()

    def _all(self, task: Task) -> None:
        for one in self.guarded:
            one.put(task)


NO_TRACKERS = Trackers()


@contextmanager
def tracked(config: RunConfig, command: str, folder: RunFolder, processes: Processes) -> Iterator[Trackers]:
    """The trackers that the settings ask for, on the first process; a continued run goes on where they kept it."""
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
    """Under which id each tracker keeps the run; nothing where the file is missing or damaged: it is a convenience."""
    try:
        found = json.loads(folder.trackers.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


class _Guarded:
    """A tracker in a thread of its own, so that one that hangs, or asks a network that is not there, never holds up a step.

    Whatever goes wrong in it is said once; from then on it is left alone.
    """

    def __init__(self, name: str, open_: Callable[[], Tracker], remember: Callable[[str | None], None]) -> None:
        self.name, self.failed = name, False
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._thread = Thread(target=self._work, args=(open_, remember), name=f"tracker {name}", daemon=True)
        self._thread.start()

    def put(self, task: Task) -> None:
        """Have the tracker do this next."""
        if not self.failed:
            self._tasks.put(task)

    def end(self) -> None:
        """Wait, but not for ever, until all is done."""
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
        except (Exception, SystemExit) as error:  # of a library that is none of the run's business
            self._give_up(f"{type(error).__name__}: {error}")

    def _give_up(self, why: str) -> None:
        self.failed = True
        tqdm.write(f"encoderlab: {self.name} has failed ({one_line(why)[:300]}): the run continues without it", file=sys.stderr)
