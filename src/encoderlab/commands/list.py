"""encoderlab list: prints every task, dataset, tokenizer, model, training preset, experiment, sweep and encoder, one
line each.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from encoderlab.errors import DataError, SettingError, closest
from encoderlab.shipped import describe, shipped_names

GROUPS = ("task", "dataset", "tokenizer", "model", "training", "experiment", "sweep")
ENCODERS = "encoders"  # not a config group: values of init_from and run
LISTED = (*GROUPS, ENCODERS)
OTHER_ENCODERS = {
    "outputs/...": "one of your runs: its folder, or the model/ folder inside",
    "FOLDER": "a Hugging Face folder: BERT or DistilBERT with config.json, safetensors and a tokenizer",
    "OWNER/NAME": "a model on the Hugging Face hub, downloaded once, such as google-bert/bert-base-uncased",
}


def list_configs(folder: Path, arguments: list[str]) -> None:
    """Print the options of the groups that `arguments` name (all if none), from `folder` and from the folder of
    `--config-dir`.

    Raises SettingError for an unknown group or a missing folder.
    """
    groups, own = _groups_and_folder(arguments)
    for group in groups:
        if group not in LISTED:
            near = closest(group, LISTED)
            hint = f"Did you mean encoderlab list {near}?" if near else ""
            raise SettingError(f"Nothing called {group} can be listed", allowed=", ".join(LISTED), remedy=hint)
    for group in groups or LISTED:
        options = encoders() if group == ENCODERS else _all_options(folder, own, group)
        width = max(map(len, options), default=0)
        print("init_from=" if group == ENCODERS else f"{group}=")
        for name, line in options.items():
            print(f"  {name:<{width}}  {line}")


def _groups_and_folder(arguments: list[str]) -> tuple[list[str], Path | None]:
    """Return the groups among the arguments, and the folder of `--config-dir`."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("--config-dir", "-cd", type=Path)
    try:
        flags, groups = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise SettingError(str(error), remedy="Set it to a folder: encoderlab list --config-dir FOLDER") from None
    if flags.config_dir is not None and not flags.config_dir.is_dir():
        raise SettingError(
            f"--config-dir={flags.config_dir} does not exist", remedy="Set --config-dir to a folder of configs"
        )
    return groups, flags.config_dir


def _all_options(shipped: Path, own: Path | None, group: str) -> dict[str, str]:
    """Return the options of a group in both folders. Hydra uses the shipped one if both have the name."""
    found = options_of(shipped, group)
    if own is None:
        return found
    yours = options_of(own, group)
    hidden = {
        name: f"{found[name]} (shipped; it hides your config of the same name)" for name in yours if name in found
    }
    return {name: yours[name] for name in yours if name not in found} | found | hidden


def encoders() -> dict[str, str]:
    """Return the shipped encoders by name with a line each, and the other values that `init_from` takes."""
    return {name: _described(name) for name in shipped_names()} | OTHER_ENCODERS


def _described(name: str) -> str:
    try:
        found = describe(name)
    except DataError as error:
        return str(error)
    size = f"{found.n_layers} layers x {found.d_model}, {found.n_parameters / 1e6:.1f} million parameters"
    return f"{size}, {found.n_bytes / 1e6:.1f} MB: {found.summary}"


def options_of(folder: Path, group: str) -> dict[str, str]:
    """Return the options of a config group by name, each with its description: the first comment of its file."""
    return {path.stem: _description(path) for path in sorted((folder / group).glob("*.yaml"))}


def _description(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    comments = (line.removeprefix("#").strip() for line in lines if line.startswith("#"))
    return next((comment for comment in comments if comment and not comment.startswith("@package")), "")
