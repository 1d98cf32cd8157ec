"""encoderlab list: every task, dataset, tokenizer, model, training preset, experiment and sweep, with a line each."""

from __future__ import annotations

from pathlib import Path

from encoderlab.errors import SettingError, closest

GROUPS = ("task", "dataset", "tokenizer", "model", "training", "experiment", "sweep")


def list_configs(folder: Path, groups: list[str]) -> None:
    """Print the options of `groups` (all of them if empty) that `folder` holds. Raises SettingError for an unknown group."""
    for group in groups:
        if group not in GROUPS:
            near = closest(group, GROUPS)
            hint = f"Did you mean encoderlab list {near}?" if near else ""
            raise SettingError(f"There is nothing called {group} to list", allowed=", ".join(GROUPS), remedy=hint)
    for group in groups or GROUPS:
        options = options_of(folder, group)
        width = max(map(len, options), default=0)
        print(f"{group}=")
        for name, line in options.items():
            print(f"  {name:<{width}}  {line}")


def options_of(folder: Path, group: str) -> dict[str, str]:
    """The options of a config group by name, each with its one-line description: the first comment of its file."""
    return {path.stem: _description(path) for path in sorted((folder / group).glob("*.yaml"))}


def _description(path: Path) -> str:
    comments = (line.removeprefix("#").strip() for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#"))
    return next((comment for comment in comments if comment and not comment.startswith("@package")), "")
