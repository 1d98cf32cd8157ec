"""What a run records of itself before it starts, what its report states besides scores, and resuming it from there.

A run begins with its config.yaml, the last of its first records: a folder without one counts as empty. A run is resumed
by being started again: the same command, with the run's own settings, the newest good checkpoint loaded and the batches
drawn from the step after it. The explicit overrides are compared with those settings, and not the composed config, so
`resume=FOLDER` alone is enough and a command line may be repeated as it was.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from encoderlab.config import TRAINING_COMMANDS
from encoderlab.config.commands import GROUPS, SCHEMAS, CommandConfig, RunConfig, settings_to_dict
from encoderlab.config.composing import composed, read_line, settings_from_dict
from encoderlab.data.files import FilesDataset
from encoderlab.errors import DataError, SettingError, one_line
from encoderlab.runs.folder import RunFolder, check_free
from encoderlab.settings import flat_settings, without_folders
from encoderlab.system.device import Compute, processor_name
from encoderlab.system.files import atomic_write_text
from encoderlab.system.processes import Processes
from encoderlab.training.checkpoint import keep_only_weights
from encoderlab.training.config import length_in_words

if TYPE_CHECKING:
    from encoderlab.runs.assembly import Assembly
    from encoderlab.runs.corpus import AnyCorpus
    from encoderlab.runs.fit import Fitted
    from encoderlab.training.batches import Rows

LIBRARIES = ("encoderlab", "torch", "transformers", "datasets", "tokenizers", "hydra-core", "scikit-learn", "numpy")
RECORDED_AGAIN = ("argv", "overrides", "versions", "hardware", "git_commit")  # each time a run is resumed
ONLY_PLACES = ("cache_dir", "run_dir", "resume")  # settings that change nothing in a run
# The settings that may change when a run is resumed. Logging changes nothing that is computed:
LOGGING = {
    *ONLY_PLACES,
    "baselines",
    "tensorboard",
    "tracking",
    "training.log_every",
    "training.checkpoint_every",
    "training.keep_state",
}
# Other hardware rounds differently:
HARDWARE = {"training.device", "training.threads", "training.compile", "training.sharding"}
# What is behind a path is compared with what was there:
PATHS = {"init_from", "dataset.path", "dataset.train", "dataset.validation", "dataset.test"}
# A length changes the schedule, and more micro-batches round differently, so the following steps are another run's. A
# run that ended at a limit needs one or the other:
LIMITS = {"training.epochs", "training.steps", "training.budget", "training.accumulate"}
MAY_CHANGE = LOGGING | HARDWARE | PATHS | LIMITS
AUTO = "auto"
Config = TypeVar("Config", bound=RunConfig)


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a run begins: its settings as `composed`, with open ones open, and the folder it is `resumed` in."""

    composed: dict[str, Any]
    resumed: RunFolder | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A run in progress: its command, its settings with all that was open decided, and its folder."""

    command: str
    config: RunConfig  # of a threshold that is fitted after training, the rule: `Assembly.config` has the number
    folder: RunFolder

    def drop_state(self, step: int) -> None:
        """Keep of a finished run's checkpoints only the weights after `step`, unless its settings keep the state."""
        if not self.config.training.keep_state:
            keep_only_weights(self.folder.checkpoints, {step})


def beginning_of(config: Config, command: str, processes: Processes) -> tuple[Config, Beginning]:
    """Return the settings of a new run or, if `config.resume` names one, those of the run to resume.

    Raises SettingError or DataError if there is no such run, it has other settings, the folder of a new one is not
    free, or a library is missing.
    """
    if config.tensorboard and find_spec("tensorboard") is None:
        wrong = "tensorboard=true needs tensorboard, which is not installed"
        raise SettingError(wrong, remedy='Run pip install "encoderlab[tensorboard]"')
    run = processes.broadcast_from_main(lambda: run_to_resume(config, command))
    if run is None:
        processes.broadcast_from_main(lambda: check_free(config.run_dir))
        return config, Beginning(_plain(config))
    settings, folder = run
    if settings.folds != config.folds:  # from Python, where resume= brings the settings only now
        remedy = f"Set folds={settings.folds} too"
        raise SettingError(f"The run in {folder.root} has folds={settings.folds}", remedy=remedy)
    threads = processes.broadcast_from_main(lambda: threads_of(settings, folder, processes))
    settings = replace(settings, training=replace(settings.training, threads=threads))
    return settings, Beginning(_plain(settings), folder)


def threads_of(settings: RunConfig, folder: RunFolder, processes: Processes) -> int | None:
    """Return the number of threads with which a run is resumed: that of its settings, else the number it had on the
    same cores, whatever else the machine does now. On other cores, or in other processes, it is decided anew: None.
    """
    threads = settings.training.threads
    hardware = _record(folder)["hardware"]
    same_machine = hardware["cores"] == os.cpu_count() and hardware.get("processes") == processes.local_size
    if threads is None and same_machine:
        return hardware["threads"]
    return threads


@contextmanager
def open_run(
    command: str,
    assembly: Assembly,
    corpus: AnyCorpus,
    rows: Mapping[str, Rows],
    *,
    config: RunConfig,
    beginning: Beginning,
    files: Mapping[str, str] | None = None,
) -> Iterator[Run]:
    """Open the folder of a run, new or resumed, record its settings there, and print what is about to be trained.

    `files` are the fingerprints of what it reads besides the corpus, by the setting that names it. On an error a new
    folder is deleted, unless a step's checkpoint in it is worth keeping.
    """
    processes, final = assembly.processes, assembly.config
    # Not `assembly.config` itself, which has no settings of a single command, such as init_from.
    config = replace(config, task=final.task, model=final.model, tokenizer=final.tokenizer, training=final.training)
    with processes.entered_by_main(lambda: run_folder(beginning, config, command, corpus, files)) as folder:
        if processes.is_main:
            record_start(folder, command, config, assembly.compute, corpus, beginning.composed, files)
        epoch = "window" if config.dataset.is_stream else "epoch"
        length = length_in_words(config.training, len(rows["train"]), evaluated="validation" in rows, epoch=epoch)
        announce(f"{assembly.model.n_parameters:,} parameters", *assembly.choices, length, f"run folder {folder.root}")
        yield Run(command, config, folder)


def run_folder(
    beginning: Beginning, config: RunConfig, command: str, corpus: AnyCorpus, files: Mapping[str, str] | None = None
) -> AbstractContextManager[RunFolder]:
    """Return the folder to open: a resumed run's, or a new one. Raises DataError if rows or `files` have changed."""
    folder = beginning.resumed
    if folder is not None:
        record = _record(folder)
        rows = {name: split.get("fingerprint") for name, split in record["dataset"]["splits"].items()}
        before, now = rows | record.get("files", {}), {**corpus.fingerprints(), **(files or {})}
        if changed := sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name)):
            named = [f"{name}={getattr(config, name)}" if hasattr(config, name) else name for name in changed]
            wrong = f"The data of {' and '.join(named)} have changed since the run in {folder.root} was started"
            raise DataError(wrong, remedy="Restore them, or remove resume to start a new run")
    return folder.reopened(command) if folder else RunFolder.new(config.run_dir, command, config.task.name)


def announce(*lines: str) -> None:
    """Print each of the lines to standard error, with a capital letter."""
    for line in lines:
        print(line[:1].upper() + line[1:], file=sys.stderr)


def record_start(
    folder: RunFolder,
    command: str,
    config: CommandConfig,
    compute: Compute,
    corpus: AnyCorpus | None = None,
    composed: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
) -> None:
    """Write environment.json and then config.yaml, every setting with its final value: with that file a run has begun.

    environment.json is enough to explain later why two scores differ: versions, hardware, git commit, command line, and
    the data's statistics. `composed` are the settings before those left open were decided: a command line that is
    repeated to resume the run is compared with them. For a resumed run it keeps what that was started with, and records
    under `resumed` what it resumes with.
    """
    record = {
        "command": command,
        "argv": sys.argv,
        "overrides": None if folder.is_nested else config.overrides,  # of a fold, they are the cross-validation's
        "versions": {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES},
        "hardware": {
            "platform": platform.platform(),
            "processor": processor_name(),
            "cores": os.cpu_count(),
            "device": str(compute.device),
            "device_name": torch.cuda.get_device_name(compute.device) if compute.device.type == "cuda" else None,
            "precision": str(compute.precision).removeprefix("torch."),
            "threads": compute.threads,
            "processes": compute.processes,
        },
        "git_commit": _git_commit(),
        "dataset": None if corpus is None else corpus.description(),
    }
    record |= ({"composed": composed} if composed else {}) | ({"files": files} if files else {})
    if folder.config.is_file():
        started = json.loads(folder.environment.read_text(encoding="utf-8"))
        again = {key: record[key] for key in RECORDED_AGAIN}
        record = started | {"resumed": [*started.get("resumed", []), again]}
    atomic_write_text(folder.environment, json.dumps(record, indent=2, ensure_ascii=False, default=str) + "\n")
    atomic_write_text(folder.config, yaml.safe_dump(settings_to_dict(config), sort_keys=False, allow_unicode=True))


def _git_commit() -> str | None:
    """Return the commit of this code; None if it was installed from a wheel or git is missing."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    with suppress(OSError, subprocess.CalledProcessError):
        return subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True).strip()
    return None


def summary_of(
    command: str, assembly: Assembly, fitted: Fitted, init_from: str | None = None, dataset: object = None
) -> dict[str, Any]:
    """Return what report.json holds, besides scores, of a run that `command` has trained or scored, on its own dataset
    unless another is named.
    """
    config, model, source = assembly.config, assembly.model, dataset or assembly.config.dataset
    files = (source.path or source.train) if isinstance(source, FilesDataset) else None
    return {
        "command": command,
        "task": config.task.name,
        "data": None if files is None else Path(files if isinstance(files, str) else next(iter(files))).name,
        "seed": config.seed,
        "init_from": without_folders(init_from),
        "model": {"parameters": model.n_parameters, "parameters_by_part": model.parameters_by_part()},
        "throughput": fitted.throughput,
        "checkpoint": fitted.checkpoint,
        "notes": fitted.notes,
    }


def run_facts(folder: RunFolder, command: str) -> dict[str, Any]:
    """Return what a report states of a run besides its scores: its `environment`, its given `settings` by name, and the
    `language` of its data. Files are named without their folders, which could reveal a user's name to strangers.
    """
    source = RunFolder(folder.root.parent) if folder.is_nested else folder  # a fold has the settings of all folds
    settings = dict(flat_settings(yaml.safe_load(source.config.read_text(encoding="utf-8"))))
    started = _record(source)
    lines = [one["overrides"] for one in (started, *started.get("resumed", [])) if one["overrides"] is not None]
    if lines:
        typed = [one.lstrip("+~").partition("=") for line in lines for one in line if not one.startswith("hydra")]
        given = {name: settings.get(name, value) for name, _, value in typed}
    else:  # started from Python
        given = _unlike_own(dict(flat_settings(started.get("composed", {}))) or settings, command)
    given = {name: value for name, value in given.items() if name not in ONLY_PLACES}
    language = settings.get("dataset.language")
    return without_folders({"environment": _record(folder), "settings": given, "language": language})


def _unlike_own(settings: Mapping[str, Any], command: str) -> dict[str, Any]:
    """Return the settings that differ from the command's own, and of other kinds of groups from their defaults."""
    composes = command in TRAINING_COMMANDS  # the others need a run
    own = dict(flat_settings(settings_to_dict(composed(read_line(command, []))))) if composes else {}
    for group, kind in ((group, settings.get(f"{group}.schema")) for group in GROUPS):
        if kind is not None and kind != own.get(f"{group}.schema"):
            defaults = OmegaConf.to_container(OmegaConf.structured(SCHEMAS[group, kind]), enum_to_str=True)
            own |= dict(flat_settings({group: {"schema": kind, **cast("dict[str, Any]", defaults)}}))
    return {name: value for name, value in settings.items() if value != own.get(name)}


def files_of(folder: RunFolder, *names: str) -> dict[str, str]:
    """Return the paths of some of the run's files by name: page, report, predictions, plots, model."""
    return {name: str(getattr(folder, name)) for name in names}


def run_to_resume(
    config: Config, command: str, explicit: Collection[str] | None = None
) -> tuple[Config, RunFolder] | None:
    """Return the run that `config.resume` names, and its settings; None if a new one is to be started.

    Its settings must agree with the run's own, all of them or the `explicit` overrides, except those that may change.
    Only the command line knows which are explicit, so it calls this before the command does, for which all settings are
    then the run's or may change. `auto` takes the latest unfinished run of this command with these settings, or that in
    `config.run_dir`, and starts a new run if there is none. Raises SettingError if the run is finished or was started
    with other settings, DataError if there is none.
    """
    if config.resume is None:
        return None
    if config.resume != AUTO:
        folder = RunFolder(Path(config.resume))
        if config.run_dir is not None and Path(config.run_dir).resolve() != folder.root.resolve():
            remedy = "Remove run_dir; a run resumes in its own folder"
            raise SettingError(f"run_dir={config.run_dir} is not resume={config.resume}", remedy=remedy)
        return _merged(config, command, folder, explicit, MAY_CHANGE), folder
    usual = (Path("outputs") / command / config.task.name).glob("*")
    folders = map(RunFolder, usual if config.run_dir is None else [Path(config.run_dir)])
    unfinished = [folder for folder in folders if folder.config.is_file() and not folder.finished]
    for folder in sorted(unfinished, key=lambda folder: folder.config.stat().st_mtime_ns, reverse=True):
        try:
            merged = _merged(config, command, folder, None, LOGGING | HARDWARE)
        except (SettingError, DataError):  # another run, or an unreadable one
            if config.run_dir is not None:
                raise
            continue
        print(f"resume=auto resumes {folder.root}", file=sys.stderr)
        return merged, folder
    if config.run_dir is None:
        print("resume=auto finds no unfinished run with these settings and starts a new one", file=sys.stderr)
    return None


def _merged(
    config: Config, command: str, folder: RunFolder, explicit: Collection[str] | None, may_change: Set[str]
) -> Config:
    """Return the run's settings, with those that may change as now set. Raises SettingError naming every other
    difference, or if the run is finished. Overrides set a setting by its name, its group (`model=mini`), or an
    experiment. Those that may not change are compared with what was composed when the run began, too, so that the same
    line resumes a run whose open settings were decided.
    """
    record = _record(folder)
    if (started_by := record.get("command")) != command:
        remedy = f"Run encoderlab {started_by} resume=..." if started_by in TRAINING_COMMANDS else ""
        raise SettingError(f"{folder.root} was started by encoderlab {started_by}", remedy=remedy)
    if folder.finished:
        remedy = "Start a new one, or run encoderlab finetune or pretrain with init_from=... to build on it"
        raise SettingError(f"The run in {folder.root} is finished", remedy=remedy)
    recorded = _read(folder.config, lambda text: settings_from_dict(yaml.safe_load(text), type(config)))
    settings, composed = (dict(flat_settings(one)) for one in (_plain(recorded), record.get("composed", {})))
    changed = {
        key: value
        for key, value in flat_settings(_plain(config))
        if (explicit is None or "experiment" in explicit or any(f"{key}.".startswith(f"{one}.") for one in explicit))
        and value != settings.get(key)
        and (key in may_change or value != composed.get(key, settings.get(key)))
    }
    if refused := [key for key in changed if key not in may_change]:
        both = ", ".join(f"{key}={changed[key]} (the run: {settings.get(key)})" for key in refused)
        wrong = f"The run in {folder.root} was started with other settings: {both}"
        raise SettingError(wrong, remedy="Remove them, or start a new run")
    merged = settings_to_dict(replace(recorded, resume=config.resume, cache_dir=config.cache_dir))
    for key, value in changed.items():
        if explicit is None or key in explicit:
            group, _, name = key.rpartition(".")
            (merged[group] if group else merged)[name] = value
    resumed = settings_from_dict(merged | {"run_dir": str(folder.root)}, type(config))
    return replace(resumed, overrides=config.overrides)


def _plain(config: RunConfig) -> dict[str, Any]:
    """Return the settings as JSON holds them, the form in which they are compared."""
    return json.loads(json.dumps(settings_to_dict(config)))


def _record(folder: RunFolder) -> dict[str, Any]:
    return _read(folder.environment, lambda text: dict(json.loads(text)))


def _read(path: Path, parse: Callable[[str], Any]) -> Any:
    """Return a record of a run folder. Raises DataError if it is missing or damaged, or SettingError."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError:
        wrong = f"{path.parent} is not a run folder: it has no {path.name}"
        raise DataError(wrong, remedy="Use a run folder, as printed by training") from None
    except (OmegaConfBaseException, yaml.YAMLError, TypeError, AttributeError, KeyError, ValueError) as error:
        remedy = "Start a new run: this one was started by another version of encoderlab, or is damaged"
        raise DataError(f"{path} cannot be read: {one_line(str(error))[:200]}", remedy=remedy) from None
