"""The run folder, whose paths are named here; and the model folder that `run=` names.

`reports`, which may not import this module, repeats the paths that it writes. One process locks a run folder, with a
lock that ends with the process. The report is the last file a run writes: a folder with a report is finished.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from encoderlab.errors import DataError, SettingError, TrainingError
from encoderlab.exchange.weights import read_config
from encoderlab.shipped import shipped_folder, suggestion

MODEL_TYPE = "encoderlab"  # in the config.json of our own models
GRAPH = "model.onnx"
GRAPH_FILES = (GRAPH, "config.json", "tokenizer.json", "tokenizer_config.json")
COMBINATIONS, JOURNAL = "multirun.yaml", "search.journal"  # in the folder of a sweep, and of a search
ASIDE = ".tmp-????????-*"  # what a kill leaves of an unfinished file; see `system.files`
MODEL_FILES = ("model.safetensors", "config.json", "tokenizer.json")


class FolderInUseError(SettingError):
    """Another process is writing to the folder of a run."""


class RunFolder:
    """The folder of one run: a `new` one, or one that is `reopened`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config = root / "config.yaml"
        self.environment = root / "environment.json"
        self.metrics = root / "metrics.jsonl"
        self.report = root / "report.json"
        self.page = root / "report.html"
        self.plots = root / "plots"
        self.predictions = root / "predictions.csv"
        self.model = root / "model"
        self.checkpoints = root / "checkpoints"
        self.attention = root / "attention"
        self.explanation = root / "explain.html"
        self.events = root / "tensorboard"
        self.lock = root / ".lock"
        self.label_errors = root / "label_errors.csv"  # the labels of a cross-validation to check

    def fold(self, number: int) -> Path:
        """Return the run of one fold of a cross-validation, counted from 1."""
        return self.root / f"fold-{number}"

    @property
    def is_nested(self) -> bool:
        """Return whether this is a fold inside a cross-validation, which is never resumed on its own."""
        return self.root.name.startswith("fold-") and RunFolder(self.root.parent).config.is_file()

    @property
    def finished(self) -> bool:
        """Return whether the run is finished."""
        return self.report.is_file()

    @classmethod
    @contextmanager
    def new(cls, run_dir: str | None, command: str, task: str) -> Iterator[RunFolder]:
        """Create and lock a new folder while it is filled: `run_dir`, or outputs/<command>/<task>/<time>-<uid>.

        On an error the folder is deleted, unless a step's checkpoint in it is worth keeping. Raises SettingError if
        `run_dir` already holds something or is being filled by another process, and TrainingError if the folder or a
        file cannot be written.
        """
        check_free(run_dir)
        unused = f"{time.strftime('%Y-%m-%d_%H-%M-%S')}-{uuid.uuid4().hex[:6]}"
        folder = cls(Path(run_dir or Path("outputs") / command / task / unused))
        with folder._locked(command):
            check_free(run_dir)  # again, because another process may have filled it in between
            try:
                yield folder
            except BaseException:
                if not folder.worth_resuming:
                    # First the file that makes it a run, because a second signal may interrupt this.
                    with suppress(OSError):  # what made a disk refuse to write is the error to report
                        folder.config.unlink(missing_ok=True)
                    shutil.rmtree(folder.root, ignore_errors=True)
                raise

    @contextmanager
    def reopened(self, command: str) -> Iterator[RunFolder]:
        """Lock the folder of an unfinished run while it is resumed; nothing in it is deleted on an error.

        Raises SettingError if another process is using it, and TrainingError if a file cannot be written.
        """
        with self._locked(command):
            if self.finished:  # meanwhile, by another process
                raise SettingError(f"The run in {self.root} is finished", remedy="Start a new one")
            for left in self.root.glob(ASIDE):  # by a kill during a write
                shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink()
            yield self

    @property
    def worth_resuming(self) -> bool:
        """Return whether a step has been taken that a resumed run need not take again."""
        steps = (*self.checkpoints.glob("step-*"), *self.root.glob(f"fold-*/{self.checkpoints.name}/step-*"))
        return any(path.name != "step-0" for path in steps)

    @contextmanager
    def _locked(self, command: str) -> Iterator[None]:
        """Lock the folder for this process, however that ends. After an error, print how to resume what is worth it,
        and explain a file that cannot be written.
        """
        was_there = False
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            was_there = True
            with FileLock(self.lock, timeout=0):
                yield
        except Timeout:
            remedy = "Wait until it ends, or choose another folder"
            raise FolderInUseError(f"Another process is using {self.root}", remedy=remedy) from None
        except BrokenPipeError:  # the reader of the output is gone, which has nothing to do with the folder
            raise
        except BaseException as error:
            if self.worth_resuming and not self.finished and not self.is_nested:
                resume = f"encoderlab {command} resume={shlex.quote(str(self.root))}"
                print(f"Progress saved. Resume with: {resume}", file=sys.stderr)
            if not isinstance(error, OSError):
                raise
            if was_there and isinstance(error, FileNotFoundError) and not self.root.is_dir():
                wrong = f"The run folder {self.root} has gone: it was moved or deleted"
                raise TrainingError(wrong, remedy="Leave it in place until the run ends") from None
            what = f"{error.filename or self.root} cannot be written or read: {error.strerror or error}"
            remedy = "Free space, make the folder writable, or set run_dir=... to another one"
            raise TrainingError(what, remedy=remedy) from None


def check_free(run_dir: str | None) -> None:
    """Raise SettingError for a `run_dir` that is not empty: a run never overwrites another.

    The remains of a run that was killed before it had a config.yaml do not count.
    """
    folder = RunFolder(Path(run_dir or ""))
    if not run_dir or not folder.root.exists():
        return
    began = folder.config.exists()
    remains = (folder.lock,) if began else (folder.lock, folder.environment)
    held = folder.root.iterdir() if folder.root.is_dir() else [folder.root]
    if any(path not in remains and not path.match(ASIDE) for path in held):
        unfinished = began and not folder.finished
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
    return sorted(path for path in folder.iterdir() if RunFolder(path).config.is_file())


def model_folder(name: str, setting: str = "run") -> Path:
    """Return the model folder that `setting`=`name` names: a run's model/, that folder itself, a Hugging Face folder,
    or a shipped encoder's.

    Raises DataError if there is none, or the shipped encoder is damaged.
    """
    if (shipped := shipped_folder(name)) is not None:
        return shipped
    path = Path(name).expanduser()
    for folder in (RunFolder(path).model, path):
        if all((folder / file).is_file() for file in MODEL_FILES) or is_graph(folder):
            return folder
    if is_huggingface(path):
        return path
    if not path.exists():
        remedy = suggestion(name, setting) or f"Set {setting}=... to the folder that training printed at its end"
        raise DataError(f"{setting}={name} does not exist", remedy=remedy)
    first = RunFolder(path).fold(1)
    remedy = f"Its folds have models: {setting}={first}" if first.is_dir() else ""
    allowed = f"a run folder, a folder with {', '.join(MODEL_FILES)}, or a Hugging Face folder with a config.json"
    raise DataError(f"{setting}={name} has no finished model", allowed=allowed, remedy=remedy)


def is_huggingface(folder: Path) -> bool:
    """Return whether the folder has a config.json that names another kind of model than ours."""
    return _model_type(folder) not in (None, MODEL_TYPE)


def is_graph(folder: Path) -> bool:
    """Return whether the folder contains a graph that we exported together with the settings of its run."""
    return all((folder / name).is_file() for name in GRAPH_FILES) and _model_type(folder) == MODEL_TYPE


def _model_type(folder: Path) -> str | None:
    try:
        return read_config(folder).get("model_type")
    except DataError:
        return None
