"""The columns that a user names or that are guessed, by their names and first cells."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.errors import DataError, closest
from encoderlab.settings import typed, typed_list, typed_value
from encoderlab.system.messages import say_once

if TYPE_CHECKING:
    from encoderlab.network.config import TargetKind

_LONGEST_NAME = 40  # characters of a column's name; longer ones are probably texts
CARRIED = "+"  # before the names of columns that are only carried along
# Marks, in lower case, of whether a label applies.
YES = ("1", "1.0", "true", "yes", "y", "x", "✓", "✔", "☑", "checked", "selected")
NO = ("0", "0.0", "false", "no", "n", "☐", "unchecked", "not selected")
_COMMA_NUMBER = re.compile(r"\s*[+-]?([0-9]{1,3}(\.[0-9]{3})+|[0-9]+)(,[0-9]+)?\s*")
Where = Callable[[int], str]  # returns how messages name a row, given its index
JOINT = " | "  # between the columns that make up a text


def joined_columns(parts: Iterable[str]) -> str:
    """Return the text that several columns make up; "" if all of them are blank."""
    texts = list(parts)
    return JOINT.join(texts) if any(text.strip() for text in texts) else ""


@dataclass(frozen=True)
class Columns:
    """The columns to read, by the user's names; None if a column is not needed."""

    text: str | Sequence[str]  # several are joined
    text_pair: str | None = None
    label: str | None = None
    setting: str = "dataset.{}"  # the setting that names a column, with {} for text, text_pair or label
    target: TargetKind = "label"  # what the label column is read for
    label_columns: tuple[str, ...] = ()  # instead of `label`: columns of 0 and 1, one for each label
    others: bool = False  # further columns are carried along
    drop: bool = False  # rows may lack a text or a label
    strip_html: bool = False  # texts are read without their HTML
    documents: bool = False  # a row of a .txt file ends at a blank line, not at every line
    as_text: frozenset[str] = frozenset()  # further columns that are read as texts, whatever their first rows hold

    def sibling(self, setting: str) -> str:
        """Return another setting of the same command: dataset.quoting, or quoting for `predict`."""
        return f"dataset.{setting}" if self.setting.startswith("dataset.") else setting

    def by_setting(self) -> dict[str, str]:
        """Return each column by the setting that names it."""
        texts = {f"text[{index}]": name for index, name in enumerate(self.parts)}
        texts = {"text": self.parts[0]} if len(self.parts) == 1 else texts
        named = {**texts, "text_pair": self.text_pair, "label": self.label}
        named |= {f"label_columns[{index}]": name for index, name in enumerate(self.label_columns)}
        return {setting: name for setting, name in named.items() if name is not None}

    def texts(self) -> list[str]:
        """Return the names of the columns that hold texts."""
        return [name for name in (*self.parts, self.text_pair) if name is not None]

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the columns that make up a row's text."""
        return (self.text,) if isinstance(self.text, str) else tuple(self.text)

    def to_read(self, existing: Sequence[str], where: str, *, gathers: bool = False) -> list[str]:
        """Return the columns to read out of the `existing`, in order, by their `distinct_names`.

        Raises DataError if one that is named is missing or occurs twice, unless the reader `gathers` labels from all
        columns of one name, as Jira writes them.
        """
        counts = Counter(existing)
        names = distinct_names(existing)
        used = self.by_setting()
        for setting, name in used.items():
            if name not in names:
                near = closest(name, existing, cutoff=0.65)
                remedy = f"Set {typed(self.setting.format(setting), near or 'COLUMN')}"
                if not near and any(len(other) > _LONGEST_NAME for other in existing):
                    remedy += ". If these are not column names, add a first line with the names"
                parts = [part.strip() for part in name.split(",")]
                if setting == "text" and len(parts) > 1 and all(part in names for part in parts):
                    remedy = f"Set {typed_value(self.setting.format(setting), parts)}"
                problem = f"{where} has no column {name!r}"
                raise MissingColumnError(problem, allowed=listed_names(existing), remedy=remedy, setting=setting)
            may_repeat = gathers and self.target == "label_set" and setting == "label"
            if counts[name] > 1 and not may_repeat:
                raise DataError(f"{where} has more than one column {name!r}", remedy="Give each column its own name")
        if not self.others:
            return [name for name in names if name in used.values()]
        renamed = [f"{name!r} as {own!r}" for name, own in zip(existing, names, strict=True) if name and name != own]
        if renamed and not (gathers and self.target == "label_set"):
            say_once(f"{where}: columns of the same name are told apart: {listed(renamed)}")
        return names


USUAL_COLUMNS = Columns("text", label="label")


class MissingColumnError(DataError):
    """A file lacks a column of texts or labels, which a `setting` names."""

    def __init__(self, wrong: str, *, allowed: str = "", remedy: str = "", setting: str = "") -> None:
        super().__init__(wrong, allowed=allowed, remedy=remedy)
        self.setting = setting


def distinct_names(names: Sequence[str]) -> list[str]:
    """Return a name of its own for each column: what repeats is numbered as pandas does it, and unnamed columns after
    the first are called by their places.

    >>> distinct_names(["id", "note", "note", "", ""])
    ['id', 'note', 'note.1', '', 'column_5']
    """
    taken = {*names}
    seen = set()
    distinct = []
    for place, name in enumerate(names, start=1):
        own = name
        number = 1
        while own in seen or (own != name and own in taken):
            own = f"{name}.{number}" if name else f"column_{place}" + f".{number - 1}" * (number > 1)
            number += 1
        seen.add(own)
        distinct.append(own)
    return distinct


def listed(names: Iterable[str], most: int = 20) -> str:
    """Return names separated by commas, for messages."""
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def listed_names(names: Iterable[str]) -> str:
    """Return names of columns separated by commas, for messages: those with a comma as they are typed."""
    return listed(typed_list([name])[1:-1] if "," in name or name != name.strip() else name for name in names)


def is_number(text: Any) -> bool:
    """Return whether a text is a finite number."""
    try:
        return bool(np.isfinite(float(text)))
    except (ValueError, TypeError):
        return False


def has_decimal_commas(cells: Collection[str]) -> bool:
    """Return whether all cells are numbers, of which at least one has a decimal comma, such as 3,5 or 1.234,50."""
    return any("," in cell for cell in cells) and all(map(_COMMA_NUMBER.fullmatch, cells))


def number_with_comma(cell: str) -> float:
    """Return the number that a cell with a decimal comma holds; points separate thousands."""
    return float(cell.replace(".", "").replace(",", "."))


def are_numbers(cells: Collection[str]) -> bool:
    """Return whether all cells are numbers, all with a decimal point or all with a decimal comma."""
    return all(map(is_number, cells)) or has_decimal_commas(cells)


# Guesses of what columns hold, from their names and their first cells.

Cells = Sequence[str]  # the first values of a column
_TEXTS = "text review sentence content body comment message tweet query question utterance document abstract"
_LABELS = "label class category target sentiment stars rating intent topic verdict polarity emotion grade score y"
# What labels may be called, and what describes how a row came to be; both only decide which column is proposed.
_PERHAPS_LABELS = "kind type tag queue genre department reason"
_OF_PROCESS = (
    "month year day weekday week quarter date time hour created updated source channel region country city language "
    "user author customer agent assignee version split fold batch priority status state done read seen sent open "
    "closed resolved archived deleted active verified processed exported assigned edited flagged"
)
_CALENDAR = re.compile(
    r"(19|20)[0-9]{2}(-[0-9]{2})?|[0-9]{2}[/.-](19|20)[0-9]{2}|q[1-4]"
    r"|(jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec)[.]?"
    r"|january|february|march|april|june|july|august|september|october|november|december"
    r"|(mon|tue|tues|wed|thu|thur|thurs|fri|sat|sun)[.]?|(mon|tues|wednes|thurs|fri|satur|sun)day"
)
_IDS = "id ids uuid guid index idx nr unnamed"
KNOWN_NAMES = f"{_TEXTS} {_LABELS} {_IDS}"
DATE = re.compile(
    r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}"
    r"|[0-9]{1,2}:[0-9]{2}"
    r"|[0-9]{1,2}\.? [A-Za-z]{3,9}\.?,? [0-9]{4}"
    r"|[A-Za-z]{3,9}\.? [0-9]{1,2},? [0-9]{4}"
)
_WORDS_OF_A_TEXT = 2  # on average, in a column of texts


def guess_text(columns: Mapping[str, Cells], where: str, setting: str = "dataset.text") -> str:
    """Return the column of texts: by its name, or the one with by far the most letters. Raises DataError in doubt.

    Dates and ids are no texts.
    """
    candidates = _without_ids_and_dates(columns)
    letters = {name: sum(map(str.isalpha, "".join(cells))) for name, cells in candidates.items()}
    pool = with_known_names(candidates, _TEXTS) or list(candidates)
    most = max((letters[name] for name in pool), default=0)
    return _only([name for name in pool if 2 * letters[name] > most], setting, candidates, where)


def guess_label(columns: Mapping[str, Cells], target: TargetKind, where: str) -> str:
    """Return the column of labels (or numbers): by its name, or the only possible one. Raises DataError if in doubt.

    Dates are no labels, and neither is a column of mostly different values, such as an id.
    """
    candidates = {}
    for name, cells in _without_ids_and_dates(columns).items():
        values = _values(cells)
        is_possible = are_numbers(values) if target == "number" else len(values) < max(len(cells), 3)
        if len(values) > 1 and is_possible:
            candidates[name] = values
    few = list(candidates)
    if target != "number":
        few = [name for name, values in candidates.items() if 2 * len(values) <= max(len(columns[name]), 4)]
    by_evidence = sorted(candidates, key=lambda name: _label_evidence(name, candidates[name]))
    few = [name for name in by_evidence if name in few]
    names = with_known_names(by_evidence, _LABELS) or few
    shown = {name: columns[name] for name in few or candidates}
    if not shown:
        shown = _without_ids_and_dates(columns)
    indicators = [name for name, cells in columns.items() if is_indicator(_values(cells)) or _are_choices(name, cells)]
    remedy = ""
    if len(names) != 1 and len(indicators) > 1 and target != "number":
        setting = shlex.quote(f"dataset.label_columns={typed_list(indicators)}")
        remedy = f"If each of the columns of 0 and 1 is a label, set task=multilabel {setting}"
    numbers = [name for name, cells in shown.items() if _values(cells) and are_numbers(_values(cells))]
    if not candidates and numbers and target != "number":
        setting = typed("dataset.label", numbers[0])
        remedy = f"To predict numbers, set task=regression {setting}"
    return _only(names, "dataset.label", shown, where, remedy)


def _label_evidence(name: str, values: Collection[str]) -> tuple[int, bool, bool, bool, int]:
    """Return how little speaks for a column of these values being that of the labels: the least is proposed.

    First the words of its name; then what describes how a row came to be, such as a month, is less likely than another,
    a truth value less likely than several values, and more values less likely than few.
    """
    words = _words_of(name)
    known = [place for place, word in enumerate(_LABELS.split()) if word in words]
    lowered = {value.strip().lower() for value in values}
    is_of_process = bool(words & {*_OF_PROCESS.split()}) or all(map(_CALENDAR.fullmatch, lowered))
    has_more_words = len(words) > 1  # category_id beside category
    perhaps = bool(words & {*_PERHAPS_LABELS.split()})
    return (
        min(known, default=len(_LABELS.split())) + has_more_words * bool(known),
        is_of_process,
        not perhaps,
        lowered <= {*YES, *NO},
        len(values),
    )


def named_as_labels(columns: Iterable[str]) -> list[str]:
    """Return the columns whose names say that they hold labels."""
    return with_known_names(columns, _LABELS)


def texts_not_read(columns: Mapping[str, Cells]) -> list[str]:
    """Return the columns that hold texts: mostly different values of several words."""
    names = []
    for name, cells in _neither_ids_nor_dates(columns).items():
        values = _values(cells)
        words = sum(len(value.split()) for value in values)
        if len(values) > len(cells) / 2 and words >= _WORDS_OF_A_TEXT * len(values) and not are_numbers(values):
            names.append(name)
    return names


def described(columns: Mapping[str, Cells]) -> str:
    """Return each column with its number of different values, for messages."""
    shown = [f"{listed_names([name])} ({len(_values(cells)):,} different values)" for name, cells in columns.items()]
    return listed(shown)


def is_indicator(values: Collection[str]) -> bool:
    """Return whether a column with these values says whether a label applies: it holds both 0 and 1, and no more."""
    lowered = {value.lower() for value in values}
    return lowered <= {*YES, *NO} and bool(lowered & {*YES}) and bool(lowered & {*NO})


def choices_named(column: str) -> list[str]:
    """Return what a cell may hold, in lower case, to say that the choice applies which a column is named after.

    Forms repeat the choice: `Billing` in a column `Billing`, `Which areas? [Billing]` or `Areas: Billing`.
    """
    name = column.strip().lower()
    parts = [name, *re.findall(r"\[([^\[\]]+)\]$", name), *re.split(r"(?::| - |\?) ?", name)]
    return [part.strip() for part in parts if part.strip()]


def _are_choices(name: str, cells: Cells) -> bool:
    """Return whether a column says by crosses, or by the choice it is named after, whether a label applies."""
    values = {cell.strip().lower() for cell in cells}
    filled = values - {""}
    return "" in values and len(filled) == 1 and filled <= {*YES, *choices_named(name)}


def _values(cells: Cells) -> set[str]:
    """Return the different values of a column, without blank ones."""
    return {cell for cell in cells if cell.strip()}


def _without_ids_and_dates(columns: Mapping[str, Cells]) -> dict[str, Cells]:
    """Return the columns that hold neither ids nor dates; all columns if nothing else is left."""
    return _neither_ids_nor_dates(columns) or dict(columns)


def _neither_ids_nor_dates(columns: Mapping[str, Cells]) -> dict[str, Cells]:
    """Return the columns that hold neither ids nor dates."""
    known = {*with_known_names(columns, _TEXTS), *with_known_names(columns, _LABELS)}
    named_as_id = {*with_known_names(columns, _IDS)} - known
    others = {}
    for name, cells in columns.items():
        values = _values(cells)
        is_date = bool(values) and all(map(DATE.match, values))
        counts_rows = name not in known and _counts_rows(cells)
        if not is_date and not counts_rows and name not in named_as_id:
            others[name] = cells
    return others


def _counts_rows(cells: Cells) -> bool:
    """Return whether a column numbers its rows: whole numbers, each one larger than the one before."""
    if len(cells) < 3 or not all(cell.isdecimal() for cell in cells):
        return False
    numbers = list(map(int, cells))
    return all(after - before == 1 for before, after in pairwise(numbers))


def _only(names: Sequence[str], setting: str, candidates: Mapping[str, Cells], where: str, remedy: str = "") -> str:
    """Return the only name. Raises DataError, with the candidates and their numbers of values, if there are others."""
    if len(names) == 1:
        return names[0]
    problem = f"{where} does not show which column holds the {'label' if 'label' in setting else 'text'}s"
    choice = f"Set {typed(setting, [*names, 'COLUMN'][0])}"
    raise DataError(problem, allowed=described(candidates), remedy=f"{choice}. {remedy}" if remedy else choice)


def with_known_names(columns: Iterable[str], known: str) -> list[str]:
    """Return the columns of whose name a word is known."""
    return [name for name in columns if _words_of(name) & {*known.split()}]


def _words_of(name: str) -> set[str]:
    """Return the words of a column's name, such as review and label of `review_label` and `reviewLabel`."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return {*re.split(r"[\W_]+", apart.casefold())} - {""}
