"""The folder of a sweep: a record of each job, whichever process ran it, so that finished jobs are never repeated.

A job is identified by a hash of its settings and not by its number: a resumed sweep skips finished jobs and may have
more values. A failure is recorded like a report. `sweep_dir` and `trials` belong to the sweep, not to a run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from encoderlab.config.schemas import settings_to_dict
from encoderlab.errors import DataError, SettingError, TrainingError
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.folders.claims import locked
from encoderlab.system.files import atomic_write_text

RUNNING, FINISHED, FAILED, STOPPED = "running", "finished", "failed", "stopped"
_RECORD = re.compile(r"[0-9a-f]{16}\.json")  # see `_hash`
_BESIDE = re.compile(r"\.([0-9a-f]{16}\.(lock|claim-\d+)|gpu-.+\.lock)")  # see `claims`
WHERE_FOUND = ("resume", "cache_dir")  # settings that only locate files, and do not define a job


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job: its overrides, how far it got, and its run folder (None: it has none).

    `state` is running (also if its process was killed), finished, failed or stopped. `seconds` are those of its last
    process, and `start` identifies the command line that last started it.
    """

    key: str
    number: int
    overrides: list[str]
    state: str
    folder: Path | None = None
    error: str | None = None
    exit_code: int = 0
    seconds: float | None = None
    start: str | None = None


def job_key(command: str, settings: Any) -> str:
    """Return what identifies a job: its command with every setting's final value."""
    plain = {name: value for name, value in settings_to_dict(settings).items() if name not in WHERE_FOUND}
    return _hash(command, plain)


def refused_key(command: str, overrides: list[str]) -> str:
    """Return the same for a job whose settings were refused."""
    return _hash(command, overrides)


def _hash(*values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class SweepFolder:
    """The folder `root`, with a file for each job in jobs/; with `has_runs`, its runs are in there too, in runs/."""

    root: Path
    has_runs: bool = False

    @classmethod
    def named(cls, sweep_dir: str | None) -> SweepFolder:
        """Return the folder that `sweep_dir` names, a new one if it is None. Raises SettingError if it holds something
        else.
        """
        if sweep_dir is None:
            return cls(Path("outputs") / "multirun" / f"{time.strftime('%Y-%m-%d_%H-%M-%S')}-{uuid.uuid4().hex[:6]}")
        if not sweep_dir:
            raise SettingError("sweep_dir is empty", allowed="a new or empty folder, or a sweep to resume")
        folder = cls(Path(sweep_dir), has_runs=True)
        try:
            is_foreign = (
                folder.root.exists() and any(folder.root.iterdir()) and not folder.exists
            )  # may be begun at this moment
        except OSError as error:
            raise SettingError(f"sweep_dir={sweep_dir} cannot be used: {error.strerror}", allowed="a folder") from None
        if is_foreign:
            raise SettingError(
                f"sweep_dir={sweep_dir} is not empty, and not a sweep",
                allowed="a new or empty folder, or a sweep to resume",
                remedy="Choose another name",
            )
        return folder

    def unused_run(self, command: str, task: str) -> Path:
        """Return an unused path for a run."""
        unused = RunFolder.unused(command, task)
        return self.root / "runs" / unused.name if self.has_runs else unused

    @property
    def jobs(self) -> Path:
        return self.root / "jobs"

    @property
    def trials(self) -> Path:
        """Return the file of a search's trials: Optuna's journal."""
        return self.root / "search.journal"

    @property
    def exists(self) -> bool:
        """Return whether this is a sweep's folder: it has a job, a search, or Hydra's record of the command line."""
        if self.trials.is_file() or (self.root / "multirun.yaml").is_file():
            return True
        names = [path.name for path in self.jobs.iterdir()] if self.jobs.is_dir() else []
        return any(_RECORD.fullmatch(name) or _BESIDE.fullmatch(name) for name in names)

    def records(self) -> list[JobRecord]:
        """Return the records of all jobs, sorted by number and, if several command lines share one, by overrides.

        Raises DataError if one cannot be read.
        """
        found = [self._parsed(path) for path in self.jobs.glob("*.json") if _RECORD.fullmatch(path.name)]
        return sorted(found, key=lambda record: (record.number, record.overrides, record.key))

    def read(self, key: str) -> JobRecord | None:
        """Return the record of a job; None if it never began."""
        path = self._path(key)
        return self._parsed(path) if path.is_file() else None

    def write(self, record: JobRecord) -> None:
        """Write the record, whole or not at all. A run folder is stored relative to this one, so both can be moved
        together.
        """
        self.jobs.mkdir(parents=True, exist_ok=True)
        folder = None if record.folder is None else os.path.relpath(record.folder, self.root)
        atomic_write_text(
            self._path(record.key), json.dumps(asdict(record) | {"folder": folder}, indent=2, ensure_ascii=False) + "\n"
        )

    @contextmanager
    def gpu(self, gpus: int, number: int) -> Iterator[int]:
        """Hold one of this machine's `gpus` that no other job of this sweep holds; a shared one if all are taken."""
        for gpu in range(gpus):
            with locked(self.jobs / f".gpu-{gpu}-of-{socket.gethostname()}.lock") as is_free:
                if is_free:
                    yield gpu
                    return
        yield number % gpus

    @staticmethod
    def break_locks(run: RunFolder) -> None:
        """Delete the locks of a run whose machine is gone: on network storage, they may outlive it."""
        for lock in run.root.rglob(run.lock.name):
            lock.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self.jobs / f"{key}.json"

    def _parsed(self, path: Path) -> JobRecord:
        try:
            found = JobRecord(**json.loads(path.read_text(encoding="utf-8")))
            folder = None if found.folder is None else Path(os.path.relpath(self.root / found.folder))
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{path} cannot be read: {error}", remedy="Delete it to run its job again") from None
        return replace(found, folder=folder)


class WorkerKilledError(TrainingError):
    """A worker process of a sweep has died, and the launcher has ended the others too."""

    def __init__(self) -> None:
        super().__init__(
            "A process of this sweep was killed, perhaps because memory ran out, or crashed, which ended the other running jobs",
            remedy="Set hydra.launcher.n_jobs=1 to run one job at a time",
        )


class SweepError(SettingError):
    """Jobs of a sweep have failed; the exit code is that of the first."""

    def __init__(self, failed: list[JobRecord], of: int, root: Path | None) -> None:
        again = f"Finished jobs are not repeated: fix it and run the same line with sweep_dir={root}"
        again = again if root else "Fix it and run the same line"
        jobs = "1 job" if of == 1 else f"{of} jobs"
        super().__init__(f"{len(failed)} of {jobs} failed", remedy=again)
        self.exit_code = failed[0].exit_code
