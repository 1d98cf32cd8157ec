"""Small runs, made by child processes with a user's command lines, and whether they ended like an undisturbed one."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from encoderlab.runs.folder import RunFolder
from faults.host import Ended, Host, Job, Sent
from faults.shim import Fault, calls_in

SMALL = (
    *(
        "dataset.train_rows=160",
        "dataset.validation_rows=32",
        "dataset.test_rows=32",
        "baselines=false",
        "training.threads=1",
    ),
    *(
        "model.n_layers=1",
        "model.d_model=16",
        "model.n_heads=2",
        "model.d_ff=32",
        "model.dropout=0.1",
        "training.batch_size=8",
    ),
)
# Dropout, evaluations in mid-epoch, a best checkpoint and a last one: anything not restored shows in the weights.
SETTINGS = (
    *(
        "train",
        "task=reverse",
        *SMALL,
        "training.steps=60",
        "training.checkpoint_every=3",
        "training.evaluate_every=15",
    ),
    *("training.log_every=5", "training.learning_rate=0.01", "seed=1"),
)
COMMANDS = (
    "encoderlab.cli.main",
    "encoderlab.commands.train",
    "encoderlab.commands.pretrain",
    "faults.running",
    "faults.racing",
)
LATE = (
    "torch._dynamo",
    "matplotlib.pyplot",
    "matplotlib.backends.backend_agg",
    "PIL.PngImagePlugin",
    "hydra.main",
    "antlr4",
)
MODULES = (
    *COMMANDS,
    *LATE,
    "hydra.core.hydra_config",
    "pandas",
    "sklearn.metrics",
    "scipy.stats",
)  # everything that a run loads
OF_THE_CLOCK = ("seconds", "since_start", "tokens_per_second", "examples_per_second")
HOURS = 1000.0  # more seconds than any run here takes


def type_command(arguments: list[str], folder: str) -> None:
    """In a child: run `encoderlab` with these arguments from `folder`. Raises SystemExit as the program does."""
    from encoderlab.cli.main import main

    os.chdir(folder)
    sys.argv = ["encoderlab", *arguments]
    main()


@cache
def shared_host() -> Host:
    """Return the one host for all runs of this process, which takes seconds to start. Raises UnavailableError."""
    return _until_the_end(Host(MODULES))


@cache
def shared_folder() -> Path:
    """Return a folder for all runs of this process, deleted at its end."""
    return Path(_until_the_end(tempfile.TemporaryDirectory(prefix="faults-"))).resolve()


def _until_the_end(context: Any) -> Any:
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(context)


@cache
class Bed:
    """Where runs of the same `settings` are made, and the results of an undisturbed one, with its seconds and calls."""

    def __init__(self, settings: tuple[str, ...] = SETTINGS) -> None:
        self.host, cache_folder = shared_host(), shared_folder() / "cache"
        self.folder = Path(tempfile.mkdtemp(dir=shared_folder()))
        self.settings, self.cache = settings, f"cache_dir={cache_folder}"
        self.journal, self.trial = self.folder / "journal", self.folder / "trial"
        self._start()  # fills the cache, so its time does not count
        ended = self._start()
        self.seconds, self.calls, self.reference = ended.seconds, calls_in(self.journal), outcome(self.trial)
        self.clear()

    def _start(self) -> Ended:
        self.clear()
        ended = self.start()
        assert ended.code == 0, ended.output
        return ended

    def start(self, *extra: str, fault: Fault | None = None, signals: tuple[Sent, ...] = ()) -> Ended:
        """Start the run, or with `resume=auto` resume it if there is one, under a fault or signals."""
        return self._typed([*self.settings, self.cache, f"run_dir={self.trial}", *extra], fault, signals)

    def resume(self, *, fault: Fault | None = None, signals: tuple[Sent, ...] = ()) -> Ended:
        """Resume the run as its last line says, or start it if it had not begun."""
        if not RunFolder(self.trial).config.exists():
            return self.start("resume=auto", fault=fault, signals=signals)
        return self._typed([self.settings[0], self.cache, f"resume={self.trial}"], fault, signals)

    def _typed(self, arguments: list[str], fault: Fault | None, signals: tuple[Sent, ...]) -> Ended:
        self.journal.unlink(missing_ok=True)
        given = {"arguments": arguments, "folder": str(self.folder)}
        return self.host.run(
            Job("faults.running:type_command", given, str(self.trial), fault, str(self.journal), signals)
        )

    @property
    def finished(self) -> bool:
        return RunFolder(self.trial).finished

    def differs(self) -> str:
        """Return how the run's results differ from the undisturbed ones; "" if not at all."""
        if not self.finished:
            return "it did not finish"
        return difference(outcome(self.trial), self.reference)

    def clear(self) -> None:
        """Delete the run."""
        shutil.rmtree(self.trial, ignore_errors=True)


def outcome(run: Path) -> dict[str, Any]:
    """Return the results of a run without times: the weights' SHA-256, the report, the predictions, and the journal's
    lines.
    """
    folder = RunFolder(run)
    report = json.loads(folder.report.read_text(encoding="utf-8"))
    journal = [json.loads(line) for line in folder.metrics.read_text(encoding="utf-8").splitlines()]
    return {
        "weights": hashlib.sha256((folder.model / "model.safetensors").read_bytes()).hexdigest(),
        "report": {name: value for name, value in report.items() if name != "throughput"},
        "padding": report["throughput"]["padding_fraction"],
        "time": report["throughput"]["train_seconds"] > HOURS / 2,
        "predictions": folder.predictions.read_text(encoding="utf-8") if folder.predictions.exists() else None,
        "journal": [{name: value for name, value in line.items() if name not in OF_THE_CLOCK} for line in journal],
    }


def difference(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Return in which of its results a run differs from another; "" if in none."""
    return ", ".join(f"another {name}" for name in wanted if found[name] != wanted[name])
