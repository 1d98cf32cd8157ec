"""What a report needs of a run, as plain data."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from encoderlab.reports.training import RunSummary
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.folders.chosen_settings import chosen_settings

if TYPE_CHECKING:
    from encoderlab.runs.assembly import Assembly
    from encoderlab.runs.fit import Fitted


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
    settings = [
        {
            "name": one.name,
            "value": one.value,
            "default": one.default,
            "required": one.required,
            "differs": one.differs,
        }
        for one in chosen_settings(folder, command)
    ]
    return {"environment": json.loads(folder.environment.read_text(encoding="utf-8")), "settings": settings}
