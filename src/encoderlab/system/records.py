"""YAML and JSON of folders that a colleague may have handed over, read as untrusted input.

A few lines of either can describe what fills the memory (YAML's aliases) or the stack (deep nesting).
"""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import yaml

LARGEST_YAML = 1_000_000  # characters; settings have a few thousand
LARGEST_RECORD = 2**28  # bytes of a file, which may have the scores of thousands of labels
DEEPEST = 50  # lists and objects within each other


def record_of(path: Path) -> str:
    """Return the text of a file. Raises OSError for what may never end, such as a pipe or a device, or is too large,
    and ValueError if it is not UTF-8.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    if path.stat().st_size > LARGEST_RECORD:
        raise OSError(errno.EFBIG, f"it has more than {LARGEST_RECORD:,} bytes", str(path))
    return path.read_text(encoding="utf-8")


class _WithoutAliases(yaml.SafeLoader):
    """YAML in which nothing refers to another part: such parts could contain each other, or multiply."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("it has an alias (*name), which stands for another part of it")
        self.depth += 1
        if self.depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} times")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def yaml_of(text: str) -> Any:
    """Return the content of a YAML file. Raises ValueError if it is invalid, too large or nested, or has aliases."""
    if len(text) > LARGEST_YAML:
        raise ValueError(f"it has {len(text):,} characters, and at most {LARGEST_YAML:,} are read")
    try:
        return yaml.load(text, _WithoutAliases)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError(f"it is nested more than {DEEPEST} times") from None


def json_of(text: str | bytes) -> Any:
    """Return the content of JSON. Raises ValueError if it is invalid, or nested too often."""
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError(f"it is nested more than {DEEPEST} times") from None
    level = [content]
    for _ in range(DEEPEST):
        inner = []
        for value in level:
            if isinstance(value, dict):
                inner += value.values()
            elif isinstance(value, list):
                inner += value
        level = [value for value in inner if isinstance(value, dict | list)]
        if not level:
            return content
    raise ValueError(f"it is nested more than {DEEPEST} times")
