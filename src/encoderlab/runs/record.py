"""What a run records of itself: its settings in config.yaml, and in environment.json what it was started with.

A run begins with its config.yaml, the last of its first records: a folder without one counts as empty. environment.json
is enough to explain later why two scores differ: versions, hardware, git commit, command line and the data's
statistics. A run that is resumed keeps what it began with, and adds what it was resumed with.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import torch
import yaml
from omegaconf.errors import OmegaConfBaseException

from encoderlab.config.commands import CommandConfig, RunConfig
from encoderlab.config.schemas import settings_to_dict
from encoderlab.data.corpus import Corpus
from encoderlab.errors import DataError, one_line
from encoderlab.system.device import Compute, processor_name
from encoderlab.system.files import atomic_write_text
from encoderlab.system.records import json_of, record_of, yaml_of

CONFIG = "config.yaml"
ENVIRONMENT = "environment.json"
LIBRARIES = ("encoderlab", "torch", "transformers", "datasets", "tokenizers", "hydra-core", "scikit-learn", "numpy")
RECORDED_AGAIN = ("argv", "overrides", "versions", "hardware", "git_commit", "settled")  # each time a run is resumed


@dataclass(frozen=True, slots=True)
class Record:
    """The records of a run: `settings` has the content of config.yaml, `environment` that of environment.json."""

    settings: dict[str, Any]
    environment: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> Record:
        """Read the records in a run folder. Raises DataError if they are missing or damaged."""
        environment = _read(folder / ENVIRONMENT, _environment)
        return cls(_read(folder / CONFIG, lambda text: dict(yaml_of(text))), environment)

    @property
    def command(self) -> str | None:
        """Return the command that started the run."""
        return self.environment.get("command")

    @property
    def starts(self) -> list[dict[str, Any]]:
        """Return what was recorded when the run began, and each time it was resumed."""
        return [self.environment, *self.environment.get("resumed", [])]

    @property
    def settled(self) -> list[dict[str, Any]]:
        """Return the settings of each start after all were decided, as far as they were recorded."""
        return [start["settled"] for start in self.starts if "settled" in start]

    @property
    def composed(self) -> dict[str, Any]:
        """Return the settings that the run was started with, before those left open were decided."""
        return self.environment.get("composed", {})


def _read(path: Path, parse: Callable[[str], Any]) -> Any:
    """Return the content of a record."""
    try:
        text = record_of(path)
    except OSError as error:
        if path.exists():
            raise DataError(f"{path} cannot be read: {error.strerror}") from None
        problem = f"{path.parent} is not a run folder: it has no {path.name}"
        raise DataError(problem, remedy="Use a run folder, as printed by training") from None
    return parsed(path, lambda: parse(text))


def parsed(path: Path, parse: Callable[[], Any]) -> Any:
    """Return what `parse` makes of a record. Raises DataError if it is damaged, or SettingError."""
    try:
        return parse()
    except (OmegaConfBaseException, TypeError, AttributeError, KeyError, ValueError) as error:
        remedy = "Start a new run: this one was started by another version of encoderlab, or is damaged"
        raise DataError(f"{path} cannot be read: {one_line(str(error))[:200]}", remedy=remedy) from None


def _environment(text: str) -> dict[str, Any]:
    """Return the content of environment.json. Raises ValueError or TypeError if it is damaged."""
    record = dict(json_of(text))

    # Everything that is read of it later is checked here, so that a damaged file is one error, said early.
    data = record.get("dataset")
    splits = [] if data is None else data["splits"].values()
    starts = [record, *record.get("resumed", [])]
    settings = [start[name] for start in starts for name in ("composed", "settled") if name in start]
    mappings = [*splits, *settings, *(start["hardware"] for start in starts if "hardware" in start)]
    if not all(isinstance(mapping, dict) for mapping in (*mappings, record.get("files", {}))):
        raise TypeError("a record in it is not an object")
    return record


def record_start(
    folder: Path,
    config: CommandConfig,
    compute: Compute,
    *,
    before: Record | None = None,
    data: Corpus | None = None,
    requested: RunConfig | None = None,
    fingerprints: Mapping[str, str] | None = None,
    notes: list[str] | None = None,
) -> Record:
    """Write environment.json and then config.yaml, with which a run has begun; return the content of both.

    The `requested` settings, before those left open were decided, are compared with a command line that is repeated to
    resume the run; the settled ones with config.yaml, which somebody may have edited. A run that is resumed keeps what
    it recorded `before`, and adds under `resumed` what it is resumed with.
    """
    # What explains later why the scores of two runs differ.
    device_name = torch.cuda.get_device_name(compute.device) if compute.device.type == "cuda" else None
    environment: dict[str, Any] = {
        "command": config.command,
        "argv": sys.argv,
        "overrides": config.overrides,
        "versions": {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES},
        "hardware": {
            "platform": platform.platform(),
            "processor": processor_name(),
            "cores": os.cpu_count(),
            "device": str(compute.device),
            "device_name": device_name,
            "precision": str(compute.precision).removeprefix("torch."),
            "threads": compute.threads,
            "processes": compute.processes,
            "speeds": dict(compute.speeds) or None,
        },
        "git_commit": _git_commit(),
        "dataset": None if data is None else data.description(),
    }

    # What a resumed run is compared with.
    if requested is not None:
        environment["composed"] = json_settings(requested)
        environment["settled"] = json_settings(cast("RunConfig", config))
    if config.inherited:
        environment["inherited"] = config.inherited
    if fingerprints:
        environment["files"] = dict(fingerprints)
    if notes:
        environment["notes"] = notes  # on what was decided, which a resumed run reports too

    # A resumed run keeps its beginning, and adds what may have changed since.
    if before is not None:
        again = {key: environment[key] for key in RECORDED_AGAIN if key in environment}
        started = before.environment
        environment = started | {"resumed": [*started.get("resumed", []), again]}

    # The settings are written last, because a folder without them is no run yet.
    in_json = json.dumps(environment, indent=2, ensure_ascii=False, default=str) + "\n"
    in_yaml = yaml.safe_dump(settings_to_dict(config), sort_keys=False, allow_unicode=True)
    atomic_write_text(folder / ENVIRONMENT, in_json)
    atomic_write_text(folder / CONFIG, in_yaml)
    return Record(dict(yaml_of(in_yaml)), dict(json_of(in_json)))


def json_settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings as JSON holds them, the form in which they are compared."""
    return json.loads(json.dumps(settings_to_dict(config)))


def _git_commit() -> str | None:
    """Return the commit of this code; None if it was installed from a wheel or git is missing."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    with suppress(OSError, subprocess.CalledProcessError):
        return subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True).strip()
    return None
