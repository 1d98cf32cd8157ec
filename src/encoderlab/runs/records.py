"""The environment of a run: enough to explain later why two figures differ.

What a run records before it starts: its settings and its environment.

A run begins with its config.yaml, the last of its records: a folder without one counts as empty.

What a run prints before it begins: a short line for each decision.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
import yaml

from encoderlab.config.commands import CommandConfig
from encoderlab.config.schemas import settings_to_dict
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.document_corpus import DocumentCorpus
from encoderlab.runs.folder import RunFolder
from encoderlab.system.device import Compute
from encoderlab.system.files import atomic_write_text

PACKAGES = (
    "encoderlab",
    "torch",
    "transformers",
    "datasets",
    "tokenizers",
    "hydra-core",
    "scikit-learn",
    "scipy",
    "numpy",
)


def environment(command: str, compute: Compute, corpus: Corpus | DocumentCorpus | None) -> dict[str, Any]:
    """Return versions, hardware, git commit, the command line, and the data's statistics (None: no dataset was read)."""
    return {
        "command": command,
        "argv": sys.argv,
        "overrides": _overrides(),
        "versions": {
            "python": platform.python_version(),
            **{name: installed_version(name) for name in PACKAGES},
            "torch": torch.__version__,
        },
        "hardware": {
            "platform": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "device": str(compute.device),
            "device_name": torch.cuda.get_device_name(compute.device) if compute.device.type == "cuda" else None,
            "precision": str(compute.precision).removeprefix("torch."),
            "threads": compute.threads,
            "deterministic": compute.deterministic,
            "torch_commit": torch.version.git_version,
        },
        "git_commit": _git_commit(),
        "dataset": None if corpus is None else corpus.description(),
    }


def _overrides() -> list[str] | None:
    """Return this run's arguments on the command line, in a sweep those of this job; None if it was started from
    Python.
    """
    from hydra.core.hydra_config import HydraConfig

    typed = sys.argv[0].startswith("encoderlab ") and HydraConfig.initialized()  # the name the command line sets
    return list(HydraConfig.get().overrides.task) if typed else None


def installed_version(package: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    """Return the processor's name; on Linux it is only in /proc."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def _git_commit() -> str | None:
    """Return the commit of this code; None if it was installed from a wheel or git is missing."""
    folder = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None


CONTINUED = ("argv", "versions", "hardware", "git_commit")


def record_start(
    folder: RunFolder,
    command: str,
    config: CommandConfig,
    compute: Compute,
    corpus: Corpus | DocumentCorpus | None = None,
    beside: Mapping[str, str] | None = None,
) -> None:
    """Write environment.json and then config.yaml, every setting with its final value: with that file a run has begun.

    `beside` are the fingerprints of files it reads besides the corpus, by the setting that names them.
    For a resumed run, environment.json keeps what it was started with, and records under `continued` what it resumes
    with.
    """
    found = environment(command, compute, corpus)
    found |= {"files": dict(beside)} if beside else {}
    if folder.is_nested:  # the command line is that of the surrounding run
        found["overrides"] = None
    if folder.config.is_file():
        started = json.loads(folder.environment.read_text(encoding="utf-8"))
        found = started | {"continued": [*started.get("continued", []), {key: found[key] for key in CONTINUED}]}
    atomic_write_text(folder.environment, json.dumps(found, indent=2, ensure_ascii=False, default=str) + "\n")
    atomic_write_text(folder.config, yaml.safe_dump(settings_to_dict(config), sort_keys=False, allow_unicode=True))


def announce(lines: Iterable[str]) -> None:
    """Print each of the lines to standard error, with a capital letter."""
    for line in lines:
        print(line[:1].upper() + line[1:], file=sys.stderr)
