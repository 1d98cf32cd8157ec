"""What figures depend on besides the code: date, machine, versions, and the commit."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.processes import ROOT

PACKAGES = (
    "encoderlab",
    "torch",
    "transformers",
    "datasets",
    "tokenizers",
    "accelerate",
    "sentence-transformers",
    "numpy",
)
WRITTEN = (  # by the programs that record provenance, so changes there do not count
    *("benchmarks/results", "benchmarks/RESULTS.md", "benchmarks/SUITE.md", "benchmarks/suite.png"),
    *("faults/results", "RELIABILITY.md"),
)
NOT_CODE = (".", *(f":!{path}" for path in WRITTEN))


def provenance() -> dict[str, Any]:
    """Return where and with what code figures are measured now."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": {
            "processor": _processor(),
            "gpu": _gpu(),
            "cores": cores(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "git": {
            "commit": _git("rev-parse", "--short=12", "HEAD"),
            "dirty": bool(_git("status", "--porcelain", *NOT_CODE)),
        },
    }


def provenance_in_words(made: Mapping[str, Any]) -> str:
    """Return what `provenance` returned, in one line."""
    commit = f"commit {made['git']['commit'] or 'unknown'}{' with changes' if made['git']['dirty'] else ''}"
    versions = ", ".join(
        f"{name} {found}" for name, found in made["versions"].items() if found and name != "encoderlab"
    )
    machine = made["machine"]
    gpu = f"{machine['gpu']}, " if machine.get("gpu") else ""
    core = "core" if machine["cores"] == 1 else "cores"
    return f"{made['date']}, {gpu}{machine['processor']}, {machine['cores']} {core}, {commit}; {versions}"


def on_threads(count: int) -> str:
    """Return the number of threads in words."""
    return f"{count} thread{'s' if count > 1 else ''}"


def cores() -> int:
    """Return the number of cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    """Return the processor's name; on Linux it is only in /proc."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def _gpu() -> str | None:
    """The name of the first GPU that CUDA's driver shows; None if there is none. PyTorch is not loaded for it."""
    try:
        command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        found = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (found.stdout.splitlines() or [""])[0].strip() or None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    """Return git's output; None outside a checkout or without git."""
    try:
        found = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None
