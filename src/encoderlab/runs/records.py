"""A run from its settings to its folder: which run is meant, what it records before it starts, and what its report
states of it besides scores.

A run begins with its config.yaml, the last of its first records: a folder without one counts as empty.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, replace
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
import yaml

from encoderlab.config.commands import CommandConfig, RunConfig
from encoderlab.config.schemas import COMMAND_CONFIGS, SCHEMAS, settings_to_dict
from encoderlab.errors import SettingError
from encoderlab.reports.training import RunSummary
from encoderlab.runs.assembly import Assembly
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.document_corpus import DocumentCorpus
from encoderlab.runs.fit import Fitted
from encoderlab.runs.folder import RunFolder, check_free
from encoderlab.runs.resume import Config, continued_run, run_folder
from encoderlab.runs.trackers import Trackers, check_trackers, tracked
from encoderlab.settings import REQUIRED
from encoderlab.system.device import Compute
from encoderlab.system.files import atomic_write_text
from encoderlab.system.processes import Processes
from encoderlab.tasks.stream import StreamedRows
from encoderlab.training.batches import Rows
from encoderlab.training.horizon import length_in_words

LIBRARIES = ("transformers", "datasets", "tokenizers", "hydra-core", "scikit-learn", "scipy", "numpy")
CONTINUED = ("argv", "versions", "hardware", "git_commit")
ONLY_PLACES = ("cache_dir", "run_dir", "resume")  # settings that change nothing in a run


@dataclass(frozen=True, slots=True)
class Run:
    """A run in progress: its command, its settings with all that was open decided, its folder, and its trackers."""

    command: str
    config: RunConfig
    folder: RunFolder
    trackers: Trackers


def resumed_or_new(config: Config, command: str, processes: Processes) -> tuple[Config, RunFolder | None]:
    """Return the settings of the run to resume, and its folder; or `config` and None for a new run.

    Raises SettingError or DataError if there is no such run, it has other settings, or the folder of a new one is not
    free.
    """
    run = processes.broadcast_from_main(lambda: continued_run(config, command))
    check_trackers(config.trackers)
    if run is None:
        processes.broadcast_from_main(lambda: check_free(config.run_dir))
        return config, None
    if run[0].folds != config.folds:  # from Python, where resume= brings the settings only now
        raise SettingError(f"The run in {run[1].root} has folds={run[0].folds}", remedy=f"Set folds={run[0].folds} too")
    return run


@contextmanager
def open_run(
    command: str,
    assembly: Assembly,
    corpus: Corpus | DocumentCorpus,
    rows: Mapping[str, Rows],
    *,
    config: RunConfig,
    resumed: RunFolder | None,
    files: Mapping[str, str] | None = None,
) -> Iterator[Run]:
    """Open the folder of a run, new or `resumed`, record its settings there, and print what is about to be trained.

    `files` are the fingerprints of what it reads besides the corpus, by the setting that names it. On an error a new
    folder is deleted, unless a step's checkpoint in it is worth keeping.
    """
    processes, settled = assembly.processes, assembly.config
    config = replace(config, task=settled.task, model=settled.model, training=settled.training)
    unfinished = None if resumed is None else (config, resumed)
    with processes.entered_by_main(
        lambda: run_folder(unfinished, config, command, corpus.fingerprints(), files)
    ) as folder:
        if processes.is_main:
            record_start(folder, command, config, assembly.compute, corpus, files)
        epoch = "window" if isinstance(rows["train"], StreamedRows) else "epoch"
        length = length_in_words(settled.training, len(rows["train"]), evaluated="validation" in rows, epoch=epoch)
        announce(f"{assembly.model.n_parameters:,} parameters", *assembly.choices, length, f"run folder {folder.root}")
        with tracked(config if processes.is_main else replace(config, trackers=[]), command, folder) as trackers:
            yield Run(command, config, folder, trackers)


def announce(*lines: str) -> None:
    """Print each of the lines to standard error, with a capital letter."""
    for line in lines:
        print(line[:1].upper() + line[1:], file=sys.stderr)


def record_start(
    folder: RunFolder,
    command: str,
    config: CommandConfig,
    compute: Compute,
    corpus: Corpus | DocumentCorpus | None = None,
    files: Mapping[str, str] | None = None,
) -> None:
    """Write environment.json and then config.yaml, every setting with its final value: with that file a run has begun.

    For a resumed run, environment.json keeps what it was started with, and records under `continued` what it resumes
    with.
    """
    record = environment(command, compute, corpus)
    record |= {"files": dict(files)} if files else {}
    if folder.is_nested:  # the command line is that of the cross-validation
        record["overrides"] = None
    if folder.config.is_file():
        started = json.loads(folder.environment.read_text(encoding="utf-8"))
        record = started | {"continued": [*started.get("continued", []), {key: record[key] for key in CONTINUED}]}
    atomic_write_text(folder.environment, json.dumps(record, indent=2, ensure_ascii=False, default=str) + "\n")
    atomic_write_text(folder.config, yaml.safe_dump(settings_to_dict(config), sort_keys=False, allow_unicode=True))


def environment(command: str, compute: Compute, corpus: Corpus | DocumentCorpus | None) -> dict[str, Any]:
    """Return versions, hardware, git commit, the command line, and the data's statistics (None: no dataset was read):
    enough to explain later why two scores differ.
    """
    versions = {"python": platform.python_version(), "encoderlab": installed_version("encoderlab")}
    versions |= {"torch": torch.__version__, **{name: installed_version(name) for name in LIBRARIES}}
    return {
        "command": command,
        "argv": sys.argv,
        "overrides": _overrides(),
        "versions": versions,
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
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _git_commit() -> str | None:
    """Return the commit of this code; None if it was installed from a wheel or git is missing."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def summary_of(command: str, assembly: Assembly, fitted: Fitted, init_from: str | None = None) -> RunSummary:
    """Return the summary of a run that `command` has trained or scored."""
    config = assembly.config
    parameters = {"total": assembly.model.n_parameters, **assembly.model.parameters_by_part()}
    made = (fitted.throughput, fitted.checkpoint, fitted.notes)
    return RunSummary(command, config.task.name, config.seed, parameters, *made, init_from)


def run_facts(folder: RunFolder, command: str) -> dict[str, Any]:
    """Return what a report states of a run besides its scores: its environment, and its settings next to their
    defaults.
    """
    plain = yaml.safe_load(folder.config.read_text(encoding="utf-8"))
    settings = [one for one in _settings(plain, COMMAND_CONFIGS[command], "") if one["name"] not in ONLY_PLACES]
    return {"environment": json.loads(folder.environment.read_text(encoding="utf-8")), "settings": settings}


def _settings(plain: dict[str, Any], schema: type, prefix: str) -> Iterator[dict[str, Any]]:
    """Yield each setting with its default, that of the kind of group it belongs to: for `dataset=files`, of `files`."""
    defaults = {declared.name: _default(declared) for declared in fields(schema)}
    for name, value in plain.items():
        if isinstance(value, dict) and (name, value.get("schema")) in SCHEMAS:
            if value["schema"] != name:
                yield _setting(name, value["schema"], REQUIRED)
            inside = {key: inner for key, inner in value.items() if key != "schema"}
            yield from _settings(inside, SCHEMAS[name, value["schema"]], f"{name}.")
        else:
            yield _setting(f"{prefix}{name}", value, defaults.get(name, REQUIRED))


def _setting(name: str, value: Any, default: Any) -> dict[str, Any]:
    required = default == REQUIRED
    return {
        "name": name,
        "value": value,
        "default": None if required else default,
        "required": required,
        "differs": required or value != default,
    }


def _default(declared: Any) -> Any:
    default = declared.default_factory() if declared.default_factory is not MISSING else declared.default
    return default.name if isinstance(default, Enum) else default


def files_of(folder: RunFolder, *names: str) -> dict[str, str]:
    """Return the paths of some of the run's files by name: page, report, predictions, plots, model."""
    return {name: str(getattr(folder, name)) for name in names}
