"""What a report states of a run besides its scores: its model, speed and notes, its settings and its surroundings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from omegaconf import OmegaConf

from encoderlab.config.schemas import GROUPS, SCHEMAS, open_settings, settings_to_dict
from encoderlab.data.dataset import DatasetConfig
from encoderlab.errors import UserError
from encoderlab.models.folder import model_folder
from encoderlab.models.model import Model
from encoderlab.reports.cards import HUB_NAME, stated_metadata
from encoderlab.runs.resume import NOT_COMPARED
from encoderlab.runs.run import Run
from encoderlab.settings import flat_settings, without_folders
from encoderlab.shipped import shipped_names

CARD = "README.md"


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
    record = source.record
    settings = dict(flat_settings(record.settings))
    lines = [start["overrides"] for start in record.starts]
    typed = [*record.environment.get("inherited", [])]
    for line in lines:
        typed += [override for override in line or [] if not override.startswith(("hydra", "-"))]
    if any(line is not None for line in lines):
        given = {}
        for override in typed:
            name, _, value = override.lstrip("+~").partition("=")
            given[name] = settings.get(name, value)
    else:  # started from Python
        given = _unlike_own(dict(flat_settings(record.composed)) or settings, record.environment["command"])
    given = {name: value for name, value in given.items() if name not in NOT_COMPARED}
    language = settings.get("dataset.language")
    stated = without_folders({"environment": run.record.environment, "settings": given, "language": language})
    return stated | {"start": start_metadata(settings.get("init_from"))}


def _unlike_own(settings: Mapping[str, Any], command: str) -> dict[str, Any]:
    """Return the settings that differ from the command's own, and of other kinds of groups from their defaults."""
    from encoderlab.config.commands import TRAINING_CONFIGS
    from encoderlab.config.composing import composed, parse_command_line

    schema = TRAINING_CONFIGS.get(command)  # the other commands need a run
    own = dict(flat_settings(settings_to_dict(composed(parse_command_line(schema, []))))) if schema else {}
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
