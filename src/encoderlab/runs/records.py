"""What a run records of itself before it starts, and what its report states besides scores.

A run begins with its config.yaml, the last of its first records: a folder without one counts as empty.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import torch
import yaml
from omegaconf import OmegaConf

from encoderlab.config import TRAINING_COMMANDS
from encoderlab.config.commands import CommandConfig, RunConfig
from encoderlab.config.schemas import GROUPS, SCHEMAS, open_settings, settings_to_dict
from encoderlab.data.data import Data
from encoderlab.data.dataset import DatasetConfig
from encoderlab.data.documents import Documents
from encoderlab.errors import DataError, UserError
from encoderlab.models.folder import model_folder
from encoderlab.models.model import Model
from encoderlab.reports.cards import HUB_NAME, stated_metadata
from encoderlab.runs.resume import ONLY_PLACES, environment_of, plain
from encoderlab.runs.run import Run
from encoderlab.settings import flat_settings, without_folders
from encoderlab.shipped import shipped_names
from encoderlab.system.device import Compute, processor_name
from encoderlab.system.files import atomic_write_text
from encoderlab.system.processes import Processes
from encoderlab.system.records import json_of, yaml_of

LIBRARIES = ("encoderlab", "torch", "transformers", "datasets", "tokenizers", "hydra-core", "scikit-learn", "numpy")
RECORDED_AGAIN = ("argv", "overrides", "versions", "hardware", "git_commit", "settled")  # each time a run is resumed
CARD = "README.md"


@contextmanager
def open_run(
    config: RunConfig,
    data: Data | Documents,
    compute: Compute,
    processes: Processes,
    *,
    requested: RunConfig,
    fingerprints: Mapping[str, str] | None = None,
    notes: list[str] | None = None,
) -> Iterator[Run]:
    """Open the folder of a run, new or resumed, and record its settings there.

    `requested` are the settings before those left open were decided. `fingerprints` are those of what the run reads
    besides the data, by the setting that names it. On an error a new folder is deleted, unless a step's checkpoint in
    it is worth keeping. Raises DataError if the rows or other files of a resumed run have changed.
    """

    def opened() -> AbstractContextManager[Run]:
        if config.resume is None:
            return Run.new(config.run_dir, config.command, config.task.name)
        run = Run(config.resume)
        _refuse_changed_data(run, config, data, fingerprints or {})
        return run.reopened(config.command)

    with processes.entered_by_main(opened) as run:
        if processes.is_main:
            record_start(run, config, compute, data=data, requested=requested, fingerprints=fingerprints, notes=notes)
        yield run


def _refuse_changed_data(run: Run, config: RunConfig, data: Data | Documents, fingerprints: Mapping[str, str]) -> None:
    """Raise DataError if rows or files are not those that the run in this folder was started with."""
    record = environment_of(run)
    before = {name: split.get("fingerprint") for name, split in record["dataset"]["splits"].items()}
    before |= record.get("files", {})
    now = {**data.fingerprints(), **fingerprints}
    changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    if changed:
        named = [f"{name}={getattr(config, name)}" if hasattr(config, name) else name for name in changed]
        problem = f"The data of {' and '.join(named)} have changed since the run in {run.folder} was started"
        raise DataError(problem, remedy="Restore them, or remove resume to start a new run")


def record_start(
    run: Run,
    config: CommandConfig,
    compute: Compute,
    *,
    data: Data | Documents | None = None,
    requested: RunConfig | None = None,
    fingerprints: Mapping[str, str] | None = None,
    notes: list[str] | None = None,
) -> None:
    """Write environment.json and then config.yaml, the settings as settled: with that file a run has begun.

    environment.json is enough to explain later why two scores differ: versions, hardware, git commit, command line, and
    the data's statistics. The `requested` settings, before those left open were decided, are compared with a command
    line that is repeated to resume the run; the settled ones with config.yaml, which somebody may have edited. For a
    resumed run the file keeps what that was started with, and records
    under `resumed` what it resumes with.
    """
    device_name = torch.cuda.get_device_name(compute.device) if compute.device.type == "cuda" else None
    record: dict[str, Any] = {
        "command": config.command,
        "argv": sys.argv,
        "overrides": None if run.is_nested else config.overrides,  # nobody types those of a fold
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
    if requested is not None:
        record["composed"] = plain(requested)
        record["settled"] = plain(cast("RunConfig", config))
    if config.inherited:
        record["inherited"] = config.inherited
    if fingerprints:
        record["files"] = fingerprints
    if notes:
        record["notes"] = notes  # on what was decided, which a resumed run reports too
    if run.config_file.is_file():
        started = json_of(run.environment_file.read_text(encoding="utf-8"))
        again = {key: record[key] for key in RECORDED_AGAIN if key in record}
        record = started | {"resumed": [*started.get("resumed", []), again]}
    environment = json.dumps(record, indent=2, ensure_ascii=False, default=str) + "\n"
    atomic_write_text(run.environment_file, environment)
    settings = yaml.safe_dump(settings_to_dict(config), sort_keys=False, allow_unicode=True)
    atomic_write_text(run.config_file, settings)


def _git_commit() -> str | None:
    """Return the commit of this code; None if it was installed from a wheel or git is missing."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    with suppress(OSError, subprocess.CalledProcessError):
        return subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True).strip()
    return None


def summary_of(
    command: str,
    model: Model,
    checkpoint: Mapping[str, Any],
    throughput: Mapping[str, float | None],
    notes: list[str],
    *,
    init_from: str | None = None,
    dataset: DatasetConfig | None = None,
) -> dict[str, Any]:
    """Return what report.json holds, besides scores, of a run that `command` has trained or scored, on its own dataset
    unless another is named.
    """
    file = (dataset or model.config.dataset).first_file
    return {
        "command": command,
        "task": model.task_name,
        "data": None if file is None else Path(file).name,
        "seed": model.config.seed,
        "init_from": without_folders(init_from),
        "model": {
            "parameters": model.network.n_parameters,
            "parameters_by_part": model.network.parameters_by_part(),
        },
        "throughput": throughput,
        "checkpoint": checkpoint,
        "notes": notes,
    }


def run_facts(run: Run) -> dict[str, Any]:
    """Return what a report states of a run besides its scores: its `environment`, its given `settings` by name, the
    `language` of its data, and what the card of the encoder states that it started from (`start`).

    Files are named without their folders, which could reveal a user's name to strangers.
    """
    source = Run(run.folder.parent) if run.is_nested else run  # a fold has the settings of all folds
    settings = dict(flat_settings(yaml_of(source.config_file.read_text(encoding="utf-8"))))
    started = environment_of(source)
    lines = [record["overrides"] for record in (started, *started.get("resumed", []))]
    typed = [*started.get("inherited", [])]
    for line in lines:
        typed += [override for override in line or [] if not override.startswith(("hydra", "-"))]
    if any(line is not None for line in lines):
        given = {}
        for override in typed:
            name, _, value = override.lstrip("+~").partition("=")
            given[name] = settings.get(name, value)
    else:  # started from Python
        given = _unlike_own(dict(flat_settings(started.get("composed", {}))) or settings, started["command"])
    given = {name: value for name, value in given.items() if name not in ONLY_PLACES}
    language = settings.get("dataset.language")
    stated = without_folders({"environment": environment_of(run), "settings": given, "language": language})
    return stated | {"start": start_metadata(settings.get("init_from"))}


def _unlike_own(settings: Mapping[str, Any], command: str) -> dict[str, Any]:
    """Return the settings that differ from the command's own, and of other kinds of groups from their defaults."""
    from encoderlab.config.composing import composed, parse_command_line

    composes = command in TRAINING_COMMANDS  # the others need a run
    own = dict(flat_settings(settings_to_dict(composed(parse_command_line(command, []))))) if composes else {}
    for group in GROUPS:
        kind = settings.get(f"{group}.schema")
        if kind is not None and kind != own.get(f"{group}.schema"):
            defaults = OmegaConf.to_container(open_settings(SCHEMAS[group, kind]), enum_to_str=True)
            own |= dict(flat_settings({group: {"schema": kind, **cast("dict[str, Any]", defaults)}}))
    return {name: value for name, value in settings.items() if value != own.get(name)}


def start_metadata(init_from: str | None) -> dict[str, str]:
    """Return the metadata that a trained model takes over; {} without an encoder or a card.

    A shipped encoder is the base model itself; that of a folder is the one that its card names.
    """
    if not init_from:
        return {}
    card = _card_of(init_from)
    stated: dict[str, str] = {}
    if card is not None and card.is_file():
        stated = stated_metadata(card.read_text(encoding="utf-8", errors="replace"))
    if init_from in shipped_names():
        stated["base_model"] = init_from
    return stated


def _card_of(init_from: str) -> Path | None:
    """Return where the card of an encoder is; for a name of the hub, in the cache."""
    if HUB_NAME.fullmatch(init_from) and not Path(init_from).exists():
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(init_from, CARD)
        return Path(cached) if isinstance(cached, str) else None
    try:
        return model_folder(init_from, "init_from") / CARD
    except UserError:  # it was moved while the run trained
        return None
