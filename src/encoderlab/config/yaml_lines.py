"""Where a YAML file states a setting."""

from __future__ import annotations

from pathlib import Path

import yaml


def line_of(file: Path, setting: str) -> int | None:
    """Return the line, counted from 1, on which a YAML file states a setting such as model.d_model; None if it does
    not.

    The config of a group states its settings without the name of the group.
    """
    root = yaml.compose(file.read_text(encoding="utf-8"), yaml.SafeLoader)
    names = setting.split(".")
    for first in range(len(names)):
        line = _line_in(root, names[first:])
        if line is not None:
            return line
    return None


def _line_in(node: yaml.Node | None, names: list[str]) -> int | None:
    """Return the line of nested keys with these names; None if the node does not have them."""
    line = None
    for name in names:
        if not isinstance(node, yaml.MappingNode):
            return None
        stated = [(key, value) for key, value in node.value if key.value == name]
        if not stated:
            return None
        key, node = stated[-1]
        line = key.start_mark.line + 1
    return line
