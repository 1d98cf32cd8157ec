"""How a cell of a label column becomes labels: one, a list or a mapping as a program wrote it, tags, or parts between
separators.

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
from typing import Any

from encoderlab.tables.columns import listed

SEPARATORS = ("|", ";", "\n", "\t", ",")  # tried in this order if none is set
NOT_IN_NAMES = ("|", ";", "\n", "\t")  # separators that names of labels hardly contain
_DOUBTFUL = (",", " / ", "/", " + ", " & ", " ")  # marks that may stand between labels, or within one
_NO_LABEL = frozenset({"", "None", "none", "null", "nan", "NaN"})  # bare words in a list
NAMES_OF_LABELS = ("name", "label", "value")  # of what an object that stands for a label is called, tried in this order
# Python, NumPy, JSON, Postgres ({a,b}) and R (c("a", "b")).
_LIST = re.compile(r"(?:(?:np\.|numpy\.)?array\(|c|list)?\s*([\[({])(.*?)([\])}])\s*(?:,\s*dtype=\S+)?\)?", re.DOTALL)
_SCALAR = re.compile(r"""np\.\w+\(('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^()'"]*)\)""")  # as NumPy 2 shows its values
_QUOTED = re.compile(r"""\s*(?:"[^"]*"|'[^']*')(?:\s*,\s*(?:"[^"]*"|'[^']*'))*\s*""")
_VECTOR = re.compile(r"[01](?:\.0*)?(?:[\s,;|]+[01](?:\.0*)?)+")
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_ITEM = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^,'"\s][^,'"]*""")
_TAGS = re.compile(r"(?:<[^<>]+>)+")
_TAG = re.compile(r"<([^<>]+)>")
_HASHTAGS = re.compile(r"#[^\s#]+(?:[\s,]+#[^\s#]+)*")
_HASHTAG = re.compile(r"#([^\s#,]+)")


class CellKind(Enum):
    """What a cell holds."""

    one = "one label"
    list = "a list of labels"
    marks = "names with a mark of whether they apply"
    tags = "labels in angle brackets"
    hashtags = "hashtags"
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

    A `separator` that is set decides. Otherwise a list must be one in every cell, or stand beside single names; bars,
    semicolons and line breaks separate wherever they stand; a comma only where its parts are also labels of other
    cells, or no blank follows it.
    """
    filled = [value.strip() for value in values if value.strip()]
    if separator is not None:
        return CellFormat(CellKind.separated, separator)
    if not filled:
        return CellFormat(CellKind.one)
    if all(mapping_items(value) is not None for value in filled):
        return CellFormat(CellKind.marks)
    if _are_lists(filled):
        return CellFormat(CellKind.list)
    if all(map(_TAGS.fullmatch, filled)):
        return CellFormat(CellKind.tags)
    if all(map(_HASHTAGS.fullmatch, filled)) and any(value.count("#") > 1 for value in filled):
        return CellFormat(CellKind.hashtags)
    for mark in SEPARATORS:
        if separates(filled, mark):
            return CellFormat(CellKind.separated, mark)
    return CellFormat(CellKind.one)


def _are_lists(values: Collection[str]) -> bool:
    """Return whether each value is a list, or all that are none are single names beside lists of quoted labels."""
    others = [value for value in values if list_items(value) is None]
    if not others:
        return True
    quoted = [value for value in values if value not in others and ("'" in value or '"' in value)]
    return bool(quoted) and not any(set("[](){},;|'\"") & {*value} for value in others)


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
        for mark in _DOUBTFUL:
            joined = sorted(value for value in filled if mark in value.strip())
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
    cell = _SCALAR.sub(r"\1", cell.strip())
    if cell.startswith("[{"):
        return _names_in(cell)
    match = _LIST.fullmatch(f"[{cell}]" if _QUOTED.fullmatch(cell) else cell)
    if match is None or _CLOSING[match[1]] != match[3]:
        return None
    inner = match[2].strip()
    items = _ITEM.findall(inner)
    rest = _ITEM.sub("", inner)
    bare = [item for item in items if item[0] not in "'\""]
    is_remark = match[1] == "(" and bool(bare) and "," not in inner
    if rest.strip(", \n\t") or is_remark or any(set("[](){}:") & {*item} for item in bare):
        return None
    labels = []
    for item in items:
        if item[0] in "'\"":
            labels.append(_unquoted(item))
        elif item.strip() not in _NO_LABEL:
            labels += _bare(item, has_commas="," in inner)
    return labels


def label_of_object(value: Any) -> Any:
    """Return what an object of JSON stands for: a label by its name, or the names that it marks with 1 or true.

    A list is that of its objects' names; anything else is returned as it is.
    """
    if isinstance(value, list):
        return [label_of_object(one) if isinstance(one, dict) else one for one in value]
    if not isinstance(value, dict):
        return value
    marked = _marked(value)
    return next(
        (value[key] for key in NAMES_OF_LABELS if isinstance(value.get(key), str)), value if marked is None else marked
    )


def mapping_items(cell: str) -> list[str] | None:
    """Return the names that a mapping from names to 0 and 1 marks; None for anything else.

    >>> mapping_items("{'joy': 1, 'anger': 0}")
    ['joy']
    """
    value = _literal(cell) if cell.lstrip().startswith("{") else None
    return _marked(value) if isinstance(value, dict) else None


def _marked(value: dict[Any, Any]) -> list[str] | None:
    """Return the keys of a mapping whose values are true or 1; None if it has other values than marks."""
    are_marks = all(isinstance(mark, bool | int | float) and mark in (0, 1) for mark in value.values())
    return [str(name) for name, mark in value.items() if mark] if value and are_marks else None


def _names_in(cell: str) -> list[str] | None:
    """Return the names of the objects in a list; None for anything else."""
    names = label_of_object(_literal(cell))
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def _literal(cell: str) -> Any:
    """Return the value of JSON or Python that a text is; None if it is none."""
    for read in (json.loads, ast.literal_eval):
        try:
            return read(cell)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return None


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


def _items_or_name(cell: str) -> list[str]:
    """Return the items of a list; of a cell beside lists, its only label."""
    items = list_items(cell)
    if items is None:
        return [] if cell.strip() in _NO_LABEL else [cell]
    return items


_SPLIT: dict[CellKind, Callable[[str, str], list[str]]] = {
    CellKind.one: lambda cell, _: [cell],
    CellKind.list: lambda cell, _: _items_or_name(cell),
    CellKind.marks: lambda cell, _: mapping_items(cell) or [],
    CellKind.tags: lambda cell, _: _TAG.findall(cell),
    CellKind.hashtags: lambda cell, _: _HASHTAG.findall(cell),
    CellKind.separated: lambda cell, separator: cell.split(separator),
}


def vector_of(cell: str) -> list[str] | None:
    """Return the numbers of a vector, in brackets or without; None for anything else."""
    return re.split(r"[\s,;|]+", cell.strip()) if _VECTOR.fullmatch(cell.strip()) else list_items(cell)


def vector_length(values: Collection[str]) -> int:
    """Return the length of the vectors of 0 and 1 that all cells hold; 0 if they hold something else."""
    lengths = set()
    for value in values:
        items = vector_of(value) if value.strip() else []
        if items is None or not {*items} <= {"0", "1", "0.0", "1.0", "0.", "1."}:
            return 0
        lengths |= {len(items)} if items else set()
    length = lengths.pop() if len(lengths) == 1 else 0
    return length if length > 1 else 0
