"""A run: its folder, new, resumed or finished, and what it was started with.

`reports`, which may not import this module, repeats the paths that it writes. One process locks a run's folder, with a
lock that ends with the process. The report is the last file a run writes: a folder with a report is finished, and only
clean-up and trackers follow.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from encoderlab.errors import DataError, SettingError, TrainingError, one_line
from encoderlab.runs.record import CONFIG, ENVIRONMENT, Record
from encoderlab.system.records import json_of, record_of

if TYPE_CHECKING:
    import numpy as np

    from encoderlab.models.model import Model

COMBINATIONS = "multirun.yaml"  # in the folder of a sweep
JOURNAL = "search.journal"  # in the folder of a search
LOCK = ".lock"
ASIDE = ".tmp-????????-*"  # what a kill leaves of an unfinished file; see `system.files`


class FolderInUseError(SettingError):
    """Another process is writing to the folder of a run."""


class Run:
    """A run and its folder. `device` is where its model is opened when it is first needed."""

    def __init__(self, folder: str | Path, device: str = "auto") -> None:
        self.folder = Path(folder)
        self.device = device

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    @property
    def config_file(self) -> Path:
        """Return the path of its settings; a folder without them is no run yet."""
        return self.folder / CONFIG

    @property
    def environment_file(self) -> Path:
        return self.folder / ENVIRONMENT

    @property
    def metrics_file(self) -> Path:
        return self.folder / "metrics.jsonl"

    @property
    def report_file(self) -> Path:
        return self.folder / "report.json"

    @property
    def page_file(self) -> Path:
        return self.folder / "report.html"

    @property
    def plots_folder(self) -> Path:
        return self.folder / "plots"

    @property
    def predictions_file(self) -> Path:
        return self.folder / "predictions.csv"

    @property
    def model_folder(self) -> Path:
        return self.folder / "model"

    @property
    def checkpoints_folder(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def attention_folder(self) -> Path:
        return self.folder / "attention"

    @property
    def attention_page(self) -> Path:
        return self.folder / "attention.html"

    @property
    def explanation_file(self) -> Path:
        return self.folder / "explain.html"

    @property
    def events_folder(self) -> Path:
        return self.folder / "tensorboard"

    @property
    def label_errors_file(self) -> Path:
        """Return the path of the labels of a cross-validation to check."""
        return self.folder / "label_errors.csv"

    def files(self, *names: str) -> dict[str, str]:
        """Return the paths of some of its files by name: page, report, predictions, plots, model, label_errors."""
        paths = {
            "page": self.page_file,
            "report": self.report_file,
            "predictions": self.predictions_file,
            "plots": self.plots_folder,
            "model": self.model_folder,
            "label_errors": self.label_errors_file,
        }
        return {name: str(paths[name]) for name in names}

    @cached_property
    def record(self) -> Record:
        """Return what the run has recorded of itself, read once. Raises DataError if it is missing or damaged."""
        return Record.read(self.folder)

    @property
    def most_between_logged_steps(self) -> int:
        """Return how many steps at most lie between two that the run has logged, each time it was started."""
        if not self.environment_file.is_file():  # a fit that no command has begun
            return 0
        return max((settled["training"]["log_every"] for settled in self.record.settled), default=0)

    @cached_property
    def report(self) -> dict[str, Any]:
        """Return the content of report.json. Raises SettingError if the folder is only a model, DataError if the report
        is damaged.
        """
        if not self.report_file.exists():
            raise SettingError(f"{self.folder} has no report.json", allowed="the folder of a finished run")
        try:
            return dict(json_of(record_of(self.report_file)))
        except (OSError, ValueError, TypeError) as error:
            problem = f"{self.report_file} cannot be read: {one_line(str(error))[:200]}"
            raise DataError(problem, remedy=f"Remove {self.folder}, and run it again") from None

    @cached_property
    def model(self) -> Model:
        """Return the model of a finished run. Raises DataError if it is damaged or missing."""
        from encoderlab.models.folder import load_model

        return load_model(self.folder, self.device)

    def predict(self, texts: str | Sequence[str | tuple[str, str]]) -> list[dict[str, Any]]:
        """Return the predictions of the run's model; see `Model.predict`."""
        return self.model.predict(texts)

    def embed(
        self, texts: str | Sequence[str | tuple[str, str]], pooling: str | None = None, *, normalize: bool | None = None
    ) -> np.ndarray:
        """Return the vectors of the run's model, [texts, d_model]; see `Model.embed`."""
        return self.model.embed(texts, pooling, normalize=normalize)

    def fold(self, number: int) -> Path:
        """Return the folder of one fold of a cross-validation, counted from 1."""
        return self.folder / f"fold-{number}"

    @property
    def is_nested(self) -> bool:
        """Return whether this is a fold inside a cross-validation, which is never resumed on its own."""
        return self.folder.name.startswith("fold-") and Run(self.folder.parent).config_file.is_file()

    @property
    def finished(self) -> bool:
        """Return whether the run is finished."""
        return self.report_file.is_file()

    @property
    def has_checkpoint(self) -> bool:
        """Return whether there is a checkpoint, perhaps of step 0, from which training continues."""
        return any(self.checkpoints_folder.glob("step-*"))

    @classmethod
    @contextmanager
    def new(cls, run_dir: str | None, command: str, task: str) -> Iterator[Run]:
        """Create and lock a new folder while it is filled: `run_dir`, or outputs/<command>/<task>/<time>-<uid>.

        On an error the folder is deleted, unless a step's checkpoint in it is worth keeping. Raises SettingError if
        `run_dir` already holds something or is being filled by another process, and TrainingError if the folder or a
        file cannot be written.
        """
        check_free(run_dir)
        folder_name = f"{time.strftime('%Y-%m-%d_%H-%M-%S')}-{uuid.uuid4().hex[:6]}"
        run = cls(run_dir or Path("outputs") / command / task / folder_name)
        with run._locked(command):
            check_free(run_dir)  # again, because another process may have filled it in between
            try:
                yield run
            except BaseException:
                if not run.worth_resuming:
                    # First the file that makes it a run, because a second signal may interrupt this.
                    with suppress(OSError):  # what made a disk refuse to write is the error to report
                        run.config_file.unlink(missing_ok=True)
                    shutil.rmtree(run.folder, ignore_errors=True)
                raise

    @contextmanager
    def reopened(self, command: str) -> Iterator[Run]:
        """Lock the folder of an unfinished run while it is resumed; nothing in it is deleted on an error.

        Raises SettingError if another process is using it, and TrainingError if a file cannot be written.
        """
        with self._locked(command):
            if self.finished:  # meanwhile, by another process
                raise SettingError(f"The run in {self.folder} is finished", remedy="Start a new one")
            for left in self.folder.glob(ASIDE):  # by a kill during a write
                shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink()
            yield self

    @property
    def worth_resuming(self) -> bool:
        """Return whether a step has been taken that a resumed run need not take again."""
        own = self.checkpoints_folder.glob("step-*")
        in_folds = self.folder.glob(f"fold-*/{self.checkpoints_folder.name}/step-*")
        return any(path.name != "step-0" for path in (*own, *in_folds))

    @contextmanager
    def _locked(self, command: str) -> Iterator[None]:
        """Lock the folder for this process, however that ends. After an error, print how to resume what is worth it,
        and explain a file that cannot be written.
        """
        # A run and a second process in its folder would destroy each other's files.
        was_there = False
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            was_there = True
            with FileLock(self.folder / LOCK, timeout=0):
                yield
        except Timeout:
            remedy = "Wait until it ends, or choose another folder"
            raise FolderInUseError(f"Another process is using {self.folder}", remedy=remedy) from None
        except BrokenPipeError:  # the reader of the output is gone, which has nothing to do with the folder
            raise
        except BaseException as error:
            # What was done is not lost, whatever the error is, so the command to resume comes first.
            if self.worth_resuming and not self.finished and not self.is_nested:
                resume = f"encoderlab {command} resume={shlex.quote(str(self.folder))}"
                print(f"Progress saved. Resume with: {resume}", file=sys.stderr)

            # An error of the file system is explained here, where the folder is known.
            if not isinstance(error, OSError):
                raise
            if was_there and isinstance(error, FileNotFoundError) and not self.folder.is_dir():
                problem = f"The run folder {self.folder} has gone: it was moved or deleted"
                raise TrainingError(problem, remedy="Leave it in place until the run ends") from None
            what = f"{error.filename or self.folder} cannot be written or read: {error.strerror or error}"
            remedy = "Free space, make the folder writable, or set run_dir=... to another one"
            raise TrainingError(what, remedy=remedy) from None


def check_free(run_dir: str | None) -> None:
    """Raise SettingError for a `run_dir` that is not empty: a run never overwrites another.

    The remains of a run that was killed before it had a config.yaml do not count.
    """
    run = Run(run_dir or "")
    if not run_dir or not run.folder.exists():
        return

    # A folder without settings is no run yet: a kill may leave a lock, or the first of its records.
    began = run.config_file.exists()
    remains = (run.folder / LOCK,) if began else (run.folder / LOCK, run.environment_file)
    held = run.folder.iterdir() if run.folder.is_dir() else [run.folder]
    if any(path not in remains and not path.match(ASIDE) for path in held):
        unfinished = began and not run.finished
        holds = "an unfinished run" if unfinished else "a run" if began else "files"
        remedy = f"Choose another name{f', or resume it with resume={run_dir}' if unfinished else ''}"
        raise SettingError(f"run_dir={run_dir} already holds {holds}", allowed="a new or empty folder", remedy=remedy)


def is_sweep(folder: Path) -> bool:
    """Return whether this is a sweep's folder, with Hydra's record of its command line or Optuna's journal."""
    return any((folder / name).is_file() for name in (COMBINATIONS, JOURNAL))


def runs_in(folder: Path) -> list[Path]:
    """Return the run folders inside the folder of a sweep; any other folder itself."""
    if not is_sweep(folder):
        return [folder]
    return sorted(path for path in folder.iterdir() if Run(path).config_file.is_file())
