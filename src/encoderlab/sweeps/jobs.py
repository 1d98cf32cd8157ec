"""The jobs of a sweep: each runs once, in a folder named after its settings."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from encoderlab.config.composing import typed
from encoderlab.config.errors import explained
from encoderlab.config.schemas import COMMAND_CONFIGS, settings_to_dict
from encoderlab.errors import UserError, one_line
from encoderlab.runs.folder import RunFolder
from encoderlab.system.device import available_cores, count_gpus
from encoderlab.system.signals import signals_handled

PLACES = ("cache_dir", "run_dir", "resume")  # settings that only say where files are
LONGEST_NAME = 100  # characters of a folder's name that name the settings


@dataclass
class Jobs:
    """Runs `command` in the sweep's folder `root` for one combination after another.

    `start` runs the command with its settings and the overrides that gave them. `varied` names the settings that differ
    between jobs. Hydra's launchers send this to their workers. `dry`: nothing is written.
    """

    command: str
    root: Path
    start: Callable[[Any, Sequence[str]], None]
    varied: Sequence[str] = ()
    dry: bool = False
    main_process: int = field(default_factory=os.getpid)

    def __call__(self, config: DictConfig) -> None:
        """Run the job of a config that Hydra has composed, in this process or in a launcher's worker."""
        hydra = HydraConfig.get()
        n_parallel = hydra.launcher.get("n_jobs") or 1
        varied = {*self.varied, *(hydra.sweeper.get("params") or {})}
        with ExitStack() as stack:
            if os.getpid() != self.main_process:
                stack.enter_context(signals_handled())
            overrides = list(hydra.overrides.task)
            values = [one.partition("=") for one in overrides]
            shown = [f"{key.rpartition('.')[2]}-{value}" for key, _, value in values if key in varied]
            with explained(self.command):
                settings = typed(config, COMMAND_CONFIGS[self.command])
            plain = {name: value for name, value in settings_to_dict(settings).items() if name not in PLACES}
            name = _name([settings.task.name, *shown] if hasattr(settings, "task") else shown, plain)
            if n_parallel > 1:
                settings = _share_of_machine(settings, n_parallel, hydra.job.num)
                stack.enter_context(self._own_output(name))
            self.run(settings, overrides, name)

    def run(self, settings: Any, overrides: Sequence[str], name: str) -> RunFolder | None:
        """Run the command, or skip or resume it if the folder of this name holds its run; return its run folder.

        Raises UserError if it fails; FolderInUseError if another process is running it.
        """
        settings = self._in_folder(settings, name)
        folder = None if getattr(settings, "run_dir", None) is None else RunFolder(Path(settings.run_dir))
        if folder is not None and folder.finished:
            say(f"finished before: {folder.root}")
            return folder
        say(f"starting: {' '.join(overrides)}")
        try:
            self.start(settings, overrides)
        except UserError as error:
            say(f"failed: {' '.join(overrides)}: {error}")
            raise
        except Exception as error:
            traceback.print_exception(error)
            raise UserError(f"{' '.join(overrides)} failed: {type(error).__name__}: {error}") from None
        return folder

    def _in_folder(self, settings: Any, name: str) -> Any:
        """Return the settings of a job that has a run folder with that folder, to start or to resume a run there."""
        if self.dry or getattr(settings, "resume", None) is not None or not hasattr(settings, "run_dir"):
            return settings
        resume = {"resume": "auto"} if hasattr(settings, "resume") else {}
        return replace(settings, run_dir=settings.run_dir or str(self.root / name), **resume)

    @contextmanager
    def _own_output(self, name: str) -> Iterator[None]:
        """Redirect the output of a job that runs beside others to a file of its own."""
        path = self.root / "logs" / f"{name}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as log, redirect_stdout(log), redirect_stderr(log):
            yield


def _name(shown: Sequence[str], identity: Any) -> str:
    """Return the name of a job's folder, such as brackets_seed-1_n_layers-2_0acd1f24; the end is a hash of `identity`.

    It has no character that a shell or Hydra's grammar reads as anything but a letter.
    """
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:8]
    readable = re.sub(r"[^\w.-]+", "-", "_".join(shown))[:LONGEST_NAME]
    return f"{readable}_{digest}" if readable else digest


def _share_of_machine(settings: Any, n_parallel: int, number: int) -> Any:
    """Return the settings with one job's share of the cores, and a GPU in turn, unless they are set."""
    holder = getattr(settings, "training", settings)
    share = {}
    if getattr(holder, "threads", 0) is None:
        share["threads"] = max(available_cores() // n_parallel, 1)
    if getattr(holder, "device", None) in ("auto", "cuda") and (gpus := count_gpus()):
        share["device"] = f"cuda:{number % gpus}"
    changed = replace(holder, **share)
    return changed if holder is settings else replace(settings, training=changed)


def say(line: str) -> None:
    """Print a line about the sweep."""
    print(f"encoderlab: {one_line(line)}", file=sys.stderr)
