"""encoderlab list: every task, dataset, tokenizer, model, training preset, experiment, sweep and encoder, with a line each."""

from __future__ import annotations

from pathlib import Path

from encoderlab.encoders.catalogue import describe, shipped_names
from encoderlab.errors import DataError, SettingError, closest

GROUPS = ("task", "dataset", "tokenizer", "model", "training", "experiment", "sweep")
ENCODERS = "encoders"  # no config group: what init_from and run take
LISTED = (*GROUPS, ENCODERS)
OTHER_ENCODERS = {
    "outputs/...": "a run of yours: its folder, or the model/ folder in it",
    "FOLDER": "a Hugging Face folder: BERT or DistilBERT with config.json, safetensors and a tokenizer",
    "OWNER/NAME": "the same on the Hugging Face hub, fetched once: google-bert/bert-base-uncased",
}


def list_configs(folder: Path, groups: list[str]) -> None:
    """Print the options of `groups` (all of them if empty) that `folder` holds. Raises SettingError for an unknown group."""
    for group in groups:
        if group not in LISTED:
            near = closest(group, LISTED)
            hint = f"Did you mean encoderlab list {near}?" if near else ""
            raise SettingError(f"There is nothing called {group} to list", allowed=", ".join(LISTED), remedy=hint)
    for group in groups or LISTED:
        options = encoders() if group == ENCODERS else options_of(folder, group)
        width = max(map(len, options), default=0)
        print("init_from=" if group == ENCODERS else f"{group}=")
        for name, line in options.items():
            print(f"  {name:<{width}}  {line}")


def encoders() -> dict[str, str]:
    """The shipped encoders by name with a line each, and what else `init_from` takes."""
    return {name: _described(name) for name in shipped_names()} | OTHER_ENCODERS


def _described(name: str) -> str:
    try:
        found = describe(name)
    except DataError as error:
        return str(error)
    size = f"{found.n_layers} layers x {found.d_model}, {found.n_parameters / 1e6:.1f} million parameters"
    return f"{size}, {found.n_bytes / 1e6:.1f} MB: {found.summary}"


def options_of(folder: Path, group: str) -> dict[str, str]:
    """The options of a config group by name, each with its one-line description: the first comment of its file."""
    return {path.stem: _description(path) for path in sorted((folder / group).glob("*.yaml"))}


def _description(path: Path) -> str:
    comments = (line.removeprefix("#").strip() for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#"))
    return next((comment for comment in comments if comment and not comment.startswith("@package")), "")
