"""The run folder: every path of a run is named here and nowhere else."""

from __future__ import annotations

import shutil
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from encoderlab.errors import DataError, SettingError
from encoderlab.model.huggingface_files import read_config

MODEL_TYPE = "encoderlab"  # what the config.json of our own models says
MODEL_FILES = ("model.safetensors", "config.json", "tokenizer.json")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A folder that one run fills; see `create` and `open`."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "config.yaml"

    @property
    def environment(self) -> Path:
        return self.root / "environment.json"

    @property
    def metrics(self) -> Path:
        return self.root / "metrics.jsonl"

    @property
    def report(self) -> Path:
        return self.root / "report.json"

    @property
    def plots(self) -> Path:
        return self.root / "plots"

    @property
    def predictions(self) -> Path:
        return self.root / "predictions.csv"

    @property
    def model(self) -> Path:
        return self.root / "model"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def attention(self) -> Path:
        return self.root / "attention"

    @classmethod
    def create(cls, run_dir: str | None, command: str, task: str) -> RunFolder:
        """Make a new folder: `run_dir`, or outputs/<command>/<task>/<time>-<uid>.

        Raises SettingError where `run_dir` already holds something, DataError where it cannot be made.
        """
        name = f"{time.strftime('%Y-%m-%d_%H-%M-%S')}-{uuid.uuid4().hex[:6]}"
        root = Path(run_dir) if run_dir else Path("outputs") / command / task / name
        check_free(run_dir)
        try:
            root.mkdir(parents=True, exist_ok=bool(run_dir))
        except OSError as error:
            raise DataError(
                f"{root} cannot be made: {error.strerror}", remedy="Type run_dir=... with a folder you may write to"
            ) from None
        return cls(root)

    @contextmanager
    def discarded_if_nothing_came_of_it(self) -> Iterator[None]:
        """On an error in the enclosed work, delete the folder again, unless a checkpoint in it is worth keeping."""
        try:
            yield
        except BaseException:
            if any(self.checkpoints.glob("step-*")):
                print(f"What was done so far is kept in {self.root}", file=sys.stderr)
            else:
                self._empty()
            raise

    def _empty(self) -> None:
        """Delete what the run has written, and the folder itself unless the user stands in it."""
        if self.root.resolve() != Path.cwd():
            shutil.rmtree(self.root, ignore_errors=True)
            return
        for path in self.root.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()


def check_free(run_dir: str | None) -> None:
    """Refuse a `run_dir` that holds something: a run never overwrites another. Raises SettingError."""
    root = Path(run_dir) if run_dir else None
    if root is None or not root.exists():
        return
    if not root.is_dir():
        raise SettingError(f"run_dir={run_dir} is a file", allowed="a new or empty folder", remedy="Choose another name")
    if any(root.iterdir()):
        holds = "a run" if RunFolder(root).config.exists() else "something"
        raise SettingError(
            f"run_dir={run_dir} already holds {holds}", allowed="a new or empty folder", remedy="Choose another name"
        )


def model_folder(run: str) -> Path:
    """The folder of the weights that `run=` means: a run's model/, that folder itself, or a Hugging Face folder.

    Raises DataError where there is none.
    """
    given = Path(run)
    for folder in (RunFolder(given).model, given):
        if all((folder / name).is_file() for name in MODEL_FILES):
            return folder
    if is_huggingface(given):
        return given
    if not given.exists():
        raise DataError(f"run={run} is not there", remedy="Type run= with the folder a training printed at its end")
    wants = ", ".join(MODEL_FILES)
    raise DataError(f"run={run} holds no finished model", allowed=f"a run folder, or a folder with {wants}")


def is_huggingface(folder: Path) -> bool:
    """Whether the folder has a config.json that names a kind of model other than ours."""
    try:
        said = read_config(folder).get("model_type")
    except DataError:
        return False
    return isinstance(said, str) and said != MODEL_TYPE
