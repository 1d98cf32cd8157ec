"""Untrusted YAML, read only if it stays small: a few lines of aliases can stand for any number of values."""

from __future__ import annotations

import math
import re
from typing import Any, ClassVar

import yaml

MOST_CHARACTERS = 10_000_000
MOST_VALUES = 100_000
MOST_DEPTH = 100  # its parsers are recursive
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same in C, ten times as fast, if PyYAML was built with it


class _WordsAsTexts(yaml.SafeLoader):
    """Reads as numbers, truth values and null what Hydra does, and other words as texts: `no` is one, and `1e-05` is a
    number.
    """

    yaml_implicit_resolvers: ClassVar = {}


for _tag, _pattern, _first in (
    ("bool", r"true|false", "tfTF"),
    ("null", r"null|", ["n", "N", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=e))(?:e[-+]?[0-9]+)?", "-+.0123456789"),
):
    _whole = re.compile(rf"(?:{_pattern})$", re.IGNORECASE)
    _WordsAsTexts.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _whole, list(_first))


def load_yaml(text: str, *, words_as_texts: bool = False) -> Any:
    """Return the values of a YAML document, plain ones only.

    With `words_as_texts`, words such as yes, no, on and off are texts, not truth values. Raises ValueError if they are
    too many or nested too deeply, yaml.YAMLError if it is not YAML.
    """
    check_yaml(text)
    return yaml.load(text, _WordsAsTexts if words_as_texts else LOADER)


def check_yaml(text: str) -> None:
    """Raise ValueError if a document has more than MOST_VALUES values, counting what each alias stands for.

    It is read as a stream of events, and nothing is built before it is known to be small.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"it has more than {MOST_CHARACTERS:,} characters")
    sizes: dict[str, float] = {}
    unfinished: list[tuple[str | None, float]] = [
        (None, 0)
    ]  # the document, and each list and mapping around the next event
    for event in yaml.parse(text, LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            unfinished.append((event.anchor, 1))
        elif isinstance(event, yaml.NodeEvent):
            # A value that contains itself is not in the table yet, and is infinite.
            size = sizes.get(event.anchor, math.inf) if isinstance(event, yaml.AliasEvent) else 1
            _add(size, unfinished)
            if isinstance(event, yaml.ScalarEvent) and event.anchor is not None:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = unfinished.pop()
            if anchor is not None:
                sizes[anchor] = size
            _add(size, unfinished)
        if len(unfinished) > MOST_DEPTH:
            raise ValueError(f"it is nested more than {MOST_DEPTH} times")


def _add(size: float, unfinished: list[tuple[str | None, float]]) -> None:
    anchor, before = unfinished[-1]
    if before + size > MOST_VALUES:
        raise ValueError(f"it has more than {MOST_VALUES:,} values")
    unfinished[-1] = (anchor, before + size)
