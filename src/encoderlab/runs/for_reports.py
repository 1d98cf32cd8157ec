"""What a report needs of a run, as plain data."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import MISSING, fields
from enum import Enum
from typing import TYPE_CHECKING, Any

import yaml

from encoderlab.config.schemas import COMMAND_CONFIGS, SCHEMAS
from encoderlab.reports.training import RunSummary
from encoderlab.runs.folder import RunFolder
from encoderlab.settings import REQUIRED

if TYPE_CHECKING:
    from encoderlab.runs.assembly import Assembly
    from encoderlab.runs.fit import Fitted

PLACES = ("cache_dir", "run_dir", "resume")  # settings that only say where files are


def summary_of(command: str, assembly: Assembly, fitted: Fitted, init_from: str | None = None) -> RunSummary:
    """Return the summary of a run that `command` has trained or scored."""
    config = assembly.config
    parameters = {"total": assembly.model.n_parameters, **assembly.model.parameters_by_part()}
    made = (fitted.throughput, fitted.checkpoint, fitted.notes)
    return RunSummary(command, config.task.name, config.seed, parameters, *made, init_from)


def files_of(folder: RunFolder, *names: str) -> dict[str, str]:
    """Return the paths of some of the run's files by name: page, report, predictions, plots, model."""
    return {name: str(getattr(folder, name)) for name in names}


def commands_for_encoder(folder: RunFolder) -> list[str]:
    """Return what to run next with an encoder that has no labels yet."""
    root = shlex.quote(str(folder.root))
    return [
        f"encoderlab finetune task=intents init_from={root}",
        f"encoderlab embed run={root} input=texts.txt output=vectors.npy",
    ]


def run_facts(folder: RunFolder, command: str) -> dict[str, Any]:
    """Return what a report states of a run besides its scores; see `reports.facts`."""
    plain = yaml.safe_load(folder.config.read_text(encoding="utf-8"))
    settings = [one for one in _settings(plain, COMMAND_CONFIGS[command], "") if one["name"] not in PLACES]
    return {"environment": json.loads(folder.environment.read_text(encoding="utf-8")), "settings": settings}


def _settings(plain: dict[str, Any], schema: type, prefix: str) -> Iterator[dict[str, Any]]:
    """Yield each setting of a config.yaml with its default: that of the chosen kind, for `dataset=files` that of `files`.

    If a group has several kinds, the group comes first, with its kind. `required` says that there is no default.
    """
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
    differs = required or value != default
    return {"name": name, "value": value, "default": default, "required": required, "differs": differs}


def _default(declared: Any) -> Any:
    default = declared.default_factory() if declared.default_factory is not MISSING else declared.default
    return default.name if isinstance(default, Enum) else default
