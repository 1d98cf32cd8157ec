"""Checks that all processes of a run were started alike: with the same program and the same settings."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

from encoderlab.config.schemas import settings_to_dict
from encoderlab.runs.resume import PATHS
from encoderlab.settings import flat_settings
from encoderlab.system.processes import Processes, check_agreement

OF_A_MACHINE = PATHS | {
    "run_dir",
    "cache_dir",
    "resume",
    "run",
    "teacher",
}  # their content is compared, or the main process's is used


def check_same_start(settings: Any, processes: Processes) -> None:
    """Raise SettingError if processes run different versions of the program or of PyTorch, or have different settings."""
    if processes.size == 1:
        return
    programs = {"encoderlab": f"{version('encoderlab')} ({_source_digest()})", "PyTorch": version("torch")}
    check_agreement(processes, programs, "Install the same version on every machine")
    shared = {key: value for key, value in flat_settings(settings_to_dict(settings)) if key not in OF_A_MACHINE}
    check_agreement(processes, shared, "Run the same command line on every machine")


def _source_digest() -> str:
    """Return the start of a hash of this package's source, because a version number does not tell two checkouts apart."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:8]
