"""encoderlab list: one line about every task, dataset, tokenizer, model, preset, experiment, sweep and encoder."""

from argparse import ArgumentError, ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from encoderlab.errors import SettingError, closest
from encoderlab.shipped import card_summary, shipped_names

GROUPS = ("task", "dataset", "tokenizer", "model", "training", "experiment", "sweep")
ENCODERS = "encoders"  # not a config group: values of init_from and run
LISTED = (*GROUPS, ENCODERS)
USAGE = f"encoderlab list [{'] ['.join(LISTED)}] [--config-dir FOLDER]"
OTHER_ENCODERS = {
    "outputs/...": "one of your runs: its folder, or the model/ folder inside",
    "FOLDER": "a Hugging Face folder of BERT, RoBERTa, ELECTRA, ModernBERT and others: config.json, weights, tokenizer",
    "OWNER/NAME": "a model on the Hugging Face hub, downloaded once, such as google-bert/bert-base-uncased",
}


def list_configs(folder: Path, arguments: Sequence[str]) -> None:
    """Print the options of the groups that the arguments name (all if none), from `folder` and one's own --config-dir.

    Raises SettingError for an unknown group, or if there is no such folder.
    """
    groups, own = _groups_and_folder(arguments)
    if {"--help", "-h"} & set(groups):
        print(f"encoderlab list: one line about each option of these groups, or of all\n\nusage: {USAGE}")
        return
    for group in groups:
        if group not in LISTED:
            near = closest(group, LISTED)
            hint = f"Did you mean encoderlab list {near}?" if near else ""
            raise SettingError(f"Nothing called {group} can be listed", allowed=", ".join(LISTED), remedy=hint)
    for group in groups or LISTED:
        shipped = {name: card_summary(name) for name in shipped_names()} if group == ENCODERS else {}
        options = shipped | OTHER_ENCODERS if shipped else options_of(folder, group)
        if own is not None:
            options = options_of(own, group) | options  # where both have a config, Hydra takes the shipped one
        width = max(map(len, options), default=0)
        print("init_from=" if group == ENCODERS else f"{group}=")
        for name, line in options.items():
            print(f"  {name:<{width}}  {line}")


def _groups_and_folder(arguments: Sequence[str]) -> tuple[list[str], Path | None]:
    """Return the arguments without --config-dir, and the folder of one's own configs that it names."""
    parser = ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    parser.add_argument("--config-dir", "-cd", type=Path)
    try:
        options, groups = parser.parse_known_args(arguments)
    except ArgumentError as error:
        raise SettingError(str(error), allowed="encoderlab list --config-dir FOLDER") from None
    if options.config_dir is not None and not options.config_dir.is_dir():
        raise SettingError(f"--config-dir={options.config_dir} is not a folder")
    return groups, options.config_dir


def options_of(folder: Path, group: str) -> dict[str, str]:
    """Return the options of a config group by name, each with its description: the first comment of its file."""
    described = {}
    for path in sorted((folder / group).glob("*.yaml")):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        comments = (line.removeprefix("#").strip() for line in lines if line.startswith("#"))
        described[path.stem] = ""
        for comment in comments:
            if comment and not comment.startswith("@package"):
                described[path.stem] = comment
                break
    return described
