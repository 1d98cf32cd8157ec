"""A small run, which a child makes with the command line as a user would; and whether it ended as one that nothing disturbed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from encoderlab.runs.folder import RunFolder
from faults.host import Ended, Host, Job, Sent
from faults.shim import Fault, calls_in

# Dropout, evaluations in mid-epoch, a best checkpoint and a last one: whatever of it is not restored shows in the weights.
SETTINGS = (
    *("train", "task=reverse", "dataset.train_rows=160", "dataset.validation_rows=32", "dataset.test_rows=32", "baselines=false"),
    *("model.n_layers=1", "model.d_model=16", "model.n_heads=2", "model.d_ff=32", "model.dropout=0.1"),
    *("training.steps=60", "training.batch_size=8", "training.checkpoint_every=3", "training.evaluate_every=15"),
    *("training.log_every=5", "training.threads=1", "training.learning_rate=0.01", "seed=1"),
)
COMMANDS = ("encoderlab.cli", "encoderlab.commands.train", "encoderlab.commands.pretrain", "faults.running")
LATE = ("torch._dynamo", "matplotlib.pyplot", "matplotlib.backends.backend_agg", "PIL.PngImagePlugin", "hydra.main", "antlr4")
MODULES = (*COMMANDS, *LATE, "hydra.core.hydra_config", "pandas", "sklearn.metrics", "scipy.stats")  # all that a run loads
OF_THE_CLOCK = ("seconds", "since_start", "tokens_per_second", "examples_per_second")


def type_command(arguments: list[str], folder: str) -> None:
    """What the child does: run `encoderlab` with these arguments from `folder`. Raises SystemExit as the program does."""
    from encoderlab.cli import main

    os.chdir(folder)
    sys.argv = ["encoderlab", *arguments]
    main()


@contextlib.contextmanager
def host() -> Iterator[Host]:
    """A host whose children train on one thread each."""
    with Host(MODULES) as started:
        yield started


class Bed:
    """A folder in which runs are made by a host, and what an undisturbed one of the same settings ended as."""

    def __init__(self, host: Host, folder: Path, settings: tuple[str, ...] = SETTINGS) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.host, self.folder = host, folder
        self.settings = (*settings, f"cache_dir={folder / 'cache'}")
        self.journal = folder / "journal"
        reference = folder / "reference"
        for _ in range(2):  # the first one fills the cache, and says nothing of how long a run takes
            shutil.rmtree(reference, ignore_errors=True)
            ended = self.run(reference)
            assert ended.code == 0, ended.said
        self.reference, self.seconds, self.calls = outcome(reference), ended.seconds, calls_in(self.journal)

    def run(
        self, run: Path, *extra: str, fault: Fault | None = None, signals: tuple[Sent, ...] = (), settings: bool = True
    ) -> Ended:
        """Make a run in a folder, or go on with one (`extra`: resume=...), while a fault or a signal comes."""
        self.journal.unlink(missing_ok=True)
        typed = [*(self.settings if settings else self.settings[:1]), *extra]
        if not any(one.startswith("resume=") for one in extra) or "resume=auto" in extra:
            typed.append(f"run_dir={run}")
        arguments = {"arguments": typed, "folder": str(self.folder)}
        job = Job("faults.running:type_command", arguments, str(run), fault, str(self.journal), signals)
        return self.host.run(job)

    def finished_otherwise(self, run: Path) -> str:
        """In what the ended run differs from the undisturbed one; "" where in nothing."""
        if not RunFolder(run).finished:
            return "it did not finish"
        found = outcome(run)
        return ", ".join(f"another {name}" for name in self.reference if found[name] != self.reference[name])


def outcome(run: Path) -> dict[str, Any]:
    """What a run ended as, without its times: the weights' SHA-256, the report, the predictions, and the journal's lines."""
    folder = RunFolder(run)
    report = json.loads(folder.report.read_text(encoding="utf-8"))
    journal = [json.loads(line) for line in folder.metrics.read_text(encoding="utf-8").splitlines()]
    return {
        "weights": hashlib.sha256((folder.model / "model.safetensors").read_bytes()).hexdigest(),
        "report": {name: value for name, value in report.items() if name != "throughput"},
        "padding": report["throughput"]["padding_fraction"],
        "predictions": folder.predictions.read_text(encoding="utf-8") if folder.predictions.exists() else None,
        "journal": [{name: value for name, value in line.items() if name not in OF_THE_CLOCK} for line in journal],
    }
