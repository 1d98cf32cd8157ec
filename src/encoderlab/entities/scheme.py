"""Labels that mark entities word by word: BIO (Ramshaw and Marcus 1995; IOB2) and BIOES, each as PREFIX-TYPE, such as
B-person.

B begins an entity, I continues it and O is outside. In BIOES, E ends an entity of several words and S is one of a
single word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

OUTSIDE = "O"
_TYPED = re.compile(r"([BIES])-(.+)", re.DOTALL)
_UNTYPED = "_"  # the type of entities that have no name, as seqeval calls it


@dataclass(frozen=True, slots=True)
class EntityLabels:
    """Labels that are BIO or BIOES, in the order of their ids: each one's prefix, and its type (None for O).

    `types` are the types of entities, sorted. `bioes` tells the two apart: whether any prefix is E or S.
    """

    names: tuple[str, ...]
    prefixes: tuple[str, ...]
    types_of: tuple[str | None, ...]
    types: tuple[str, ...]
    bioes: bool

    @property
    def scheme(self) -> str:
        """Return the name of the scheme."""
        return "BIOES" if self.bioes else "BIO"

    def may_begin(self, label: int) -> bool:
        """Return whether a sentence may begin with this label."""
        return self.prefixes[label] in "OBS"

    def may_end(self, label: int) -> bool:
        """Return whether a sentence may end with this label."""
        return not self.bioes or self.prefixes[label] in "OES"

    def may_follow(self, label: int, following: int) -> bool:
        """Return whether the label `following` may follow `label`, both given by their ids."""
        inside = self.prefixes[label] in "BI"
        if self.prefixes[following] in "IE":
            return inside and self.types_of[label] == self.types_of[following]
        return not (self.bioes and inside)


def entity_labels(names: Sequence[str]) -> EntityLabels | None:
    """Return the labels as entity labels; None if they are not BIO or BIOES.

    They are if each is O or begins with a prefix, and any is B or I. Without types (B, I, O), there have to be both.
    """
    if set(names) <= set("OBIES"):
        pairs = [(name, None if name == OUTSIDE else _UNTYPED) for name in names]
        found = {"B", "I"} <= set(names)
    else:
        matches = [_TYPED.fullmatch(name) for name in names]
        pairs = [(match[1], match[2]) if match else (name, None) for name, match in zip(names, matches, strict=True)]
        whole = all(match or name == OUTSIDE for name, match in zip(names, matches, strict=True))
        found = whole and any(prefix in "BI" for prefix, _ in pairs)
    if not found:
        return None
    prefixes, types_of = tuple(prefix for prefix, _ in pairs), tuple(kind for _, kind in pairs)
    types = tuple(sorted({one for one in types_of if one is not None}))
    return EntityLabels(tuple(names), prefixes, types_of, types, bool({"E", "S"} & set(prefixes)))


def label_name(prefix: str, entity_type: str) -> str:
    """Return the label of a word of an entity."""
    return prefix if entity_type == _UNTYPED else f"{prefix}-{entity_type}"
