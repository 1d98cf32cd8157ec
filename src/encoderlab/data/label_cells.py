"""How a cell of a label column becomes labels: one, a list as a program wrote it, tags, or parts between separators.

It is decided once, from the different values of the training rows.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from encoderlab.data.columns import listed

SEPARATORS = ("|", ";", ",")  # tried in this order if none is set
NOT_IN_NAMES = ("|", ";")  # separators that names of labels hardly contain
_NO_LABEL = frozenset({"", "None", "none", "null", "nan", "NaN"})  # bare words in a list
_LIST = re.compile(r"(?:array\()?\s*([\[({])(.*?)([\])}])\s*(?:,\s*dtype=\S+)?\)?", re.DOTALL)
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_ITEM = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^,'"\s][^,'"]*""")
_TAGS = re.compile(r"(?:<[^<>]+>)+")
_TAG = re.compile(r"<([^<>]+)>")


class CellKind(Enum):
    """What a cell holds."""

    one = "one label"
    list = "a list of labels"
    tags = "labels in angle brackets"
    separated = "labels between separators"


@dataclass(frozen=True)
class CellFormat:
    """How a cell becomes labels."""

    kind: CellKind
    separator: str = ""

    def labels_of(self, cell: str) -> list[str]:
        """Return the labels of a cell, in order, without white space around them; a repeated one once."""
        return [*dict.fromkeys(self.labels_with_repeats(cell))]

    def labels_with_repeats(self, cell: str) -> list[str]:
        """Return the labels of a cell, in order, without white space around them."""
        parts = _SPLIT[self.kind](cell, self.separator)
        stripped = [part.strip() for part in parts]
        return [label for label in stripped if label]

    def described(self) -> str:
        """Return the format for people."""
        if self.kind is not CellKind.separated:
            return self.kind.value
        names = {"\n": "line breaks", "\t": "tabs", " ": "blanks"}
        return f"labels separated by {names.get(self.separator, repr(self.separator))}"


def cell_format(values: Collection[str], separator: str | None = None) -> CellFormat:
    """Return how the cells of a column with these different `values` become labels.

    A `separator` that is set decides. Otherwise a list must be one in every cell; bars and semicolons separate wherever
    they stand; a comma only where its parts are also labels of other cells, or no blank follows it.
    """
    filled = [value for value in values if value.strip()]
    if separator is not None:
        return CellFormat(CellKind.separated, separator)
    if filled and all(list_items(value) is not None for value in filled):
        return CellFormat(CellKind.list)
    if filled and all(_TAGS.fullmatch(value.strip()) for value in filled):
        return CellFormat(CellKind.tags)
    for mark in SEPARATORS:
        if separates(filled, mark):
            return CellFormat(CellKind.separated, mark)
    return CellFormat(CellKind.one)


def separates(values: Collection[str], mark: str) -> bool:
    """Return whether a mark stands between labels, and not within the name of one."""
    joined = [value for value in values if mark in value]
    if not joined or mark in NOT_IN_NAMES:
        return bool(joined)
    if mark == "," and all(re.search(r",\S", value) for value in joined):
        return True
    return recur(values, mark)


def recur(values: Collection[str], mark: str) -> bool:
    """Return whether at least half of the parts between marks stand in several of the different cells."""
    cells_with = _cells_with(values, mark)
    parts = {part for value in values if mark in value for part in _parts(value, mark)}
    recurring = [part for part in parts if cells_with[part] > 1]
    return bool(parts) and 2 * len(recurring) >= len(parts)


def doubts(values: Collection[str], format: CellFormat) -> list[str]:
    """Return what a reader of labels should know: names that may be several labels, and labels that may be one name."""
    filled = [value for value in values if value.strip()]
    notes = []
    if format.kind is CellKind.one:
        with_commas = sorted(value for value in filled if "," in value)
        with_blanks = sorted(value for value in filled if " " in value and recur(filled, " "))
        for mark, joined in ((",", with_commas), (" ", with_blanks)):
            if joined:
                setting = f"'dataset.label_separator=\"{mark}\"'"
                notes.append(f"{joined[0]!r} is read as one label; if it is several, set {setting}")
                break
    if format.kind is CellKind.separated:
        labels = {label for value in filled for label in format.labels_of(value)}
        together = _only_together(filled, format)
        if together:
            shown = listed((" and ".join(map(repr, pair)) for pair in together), 3)
            notes.append(f"{shown} only occur together: if they are one label, set dataset.label_separator to another")
        for mark in SEPARATORS:
            mixed = [label for label in labels if mark in label and {*_parts(label, mark)} <= labels]
            if mark != format.separator and mixed:
                notes.append(f"the label {min(mixed)!r} consists of other labels: write one separator in every cell")
    return notes


def _only_together(values: Collection[str], format: CellFormat) -> list[tuple[str, str]]:
    """Return the pairs of labels that stand beside each other in several cells, and in no cell without each other."""
    cells_of: dict[str, list[int]] = {}
    neighbours: Counter[tuple[str, str]] = Counter()
    for number, value in enumerate(values):
        labels = format.labels_of(value)
        for label in labels:
            cells_of.setdefault(label, []).append(number)
        neighbours.update(zip(labels, labels[1:], strict=False))
    return [pair for pair in neighbours if len(cells_of[pair[0]]) > 1 and cells_of[pair[0]] == cells_of[pair[1]]]


def _parts(value: str, mark: str) -> list[str]:
    return [part.strip() for part in value.split(mark) if part.strip()]


def _cells_with(values: Collection[str], mark: str) -> Counter[str]:
    """Return in how many of the different cells each part occurs."""
    return Counter(part for value in values for part in {*_parts(value, mark)})


def list_items(cell: str) -> list[str] | None:
    """Return the items of a list, tuple or set as Python, JSON or NumPy write it, as texts; None for anything else.

    >>> list_items("['billing', \\"it's late\\"]")
    ['billing', "it's late"]
    >>> list_items("['a' 'b']")  # NumPy writes no commas
    ['a', 'b']
    """
    match = _LIST.fullmatch(cell.strip())
    if match is None or _CLOSING[match[1]] != match[3]:
        return None
    inner = match[2].strip()
    items = _ITEM.findall(inner)
    rest = _ITEM.sub("", inner)
    bare = [item for item in items if item[0] not in "'\""]
    is_mapping_or_remark = match[1] != "[" and bool(bare) and not (match[1] == "(" and "," in inner)
    if rest.strip(", \n\t") or is_mapping_or_remark or any(set("[](){}:") & {*item} for item in bare):
        return None
    labels = []
    for item in items:
        if item[0] in "'\"":
            labels.append(_unquoted(item))
        elif item.strip() not in _NO_LABEL:
            labels += _bare(item, has_commas="," in inner)
    return labels


def _bare(item: str, *, has_commas: bool) -> Sequence[str]:
    """Return an item without quotes as labels: numbers, as NumPy writes them, may stand behind each other."""
    words = item.split()
    are_numbers = all(re.fullmatch(r"[+-]?[0-9.]+", word) for word in words)
    return words if are_numbers and not has_commas else [item.strip()]


def _unquoted(item: str) -> str:
    """Return the text of a quoted item."""
    try:
        return str(json.loads(item) if item[0] == '"' else ast.literal_eval(item))
    except (ValueError, SyntaxError):
        return item[1:-1]


_SPLIT: dict[CellKind, Callable[[str, str], list[str]]] = {
    CellKind.one: lambda cell, _: [cell],
    CellKind.list: lambda cell, _: list_items(cell) or [],
    CellKind.tags: lambda cell, _: _TAG.findall(cell),
    CellKind.separated: lambda cell, separator: cell.split(separator),
}


def vector_length(values: Collection[str]) -> int:
    """Return the length of the lists of 0 and 1 that all cells hold; 0 if they hold something else."""
    lengths = set()
    for value in values:
        items = list_items(value) if value.strip() else []
        if items is None or not {*items} <= {"0", "1", "0.0", "1.0", "0.", "1."}:
            return 0
        lengths |= {len(items)} if items else set()
    length = lengths.pop() if len(lengths) == 1 else 0
    return length if length > 1 else 0
