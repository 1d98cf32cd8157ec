"""Which of the first rows of a grid (a csv file, a sheet) name its columns, and which are neither names nor data.

A grid is decided once, from its first rows. Programs write more above the data than one row of names: titles of a
report, comments, a line `sep=;` for Excel, the wording of each question below its name (Qualtrics), how each is
answered (SurveyMonkey), types of columns (Orange), a rule of dashes (SQL); pandas writes two rows of names. Some files,
such as the SMS Spam Collection, have no names at all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from statistics import median

from encoderlab.errors import DataError
from encoderlab.tables.columns import DATE, KNOWN_NAMES, are_numbers, with_known_names

AUTO = "auto"
NONE = "none"
ROWS_LOOKED_AT = 30
_UNNAMED = "column_{}"  # the first is column_1
_WORDS_OF_A_TEXT = 5  # on average, in a column of texts
_IMPORT_ID = re.compile(r'\{"+ImportId"+\s*:')  # in each cell of Qualtrics' third row
# Orange's second and third row; types of SQL, pandas and Arrow, as some exports put them below the names.
_TYPES_OF_VALUES = "string text str varchar char object category categorical discrete continuous d c s nominal ordinal"
_TYPES_OF_TIMES = "time datetime date timestamp"
_TYPES_OF_NUMBERS = "int integer int32 int64 bigint float float32 float64 double decimal number numeric bool boolean"
_ROLES = {"class", "meta", "ignore", "i"}
_TYPES = {*f"{_TYPES_OF_VALUES} {_TYPES_OF_TIMES} {_TYPES_OF_NUMBERS}".split(), *_ROLES}
_ANSWERS = frozenset({"response", "open-ended response"})  # below the questions of SurveyMonkey, beside choices
# Qualtrics' own columns, with what its row of wordings says of each.
_WORDING_OF = {
    "startdate": "start date",
    "enddate": "end date",
    "status": "response type",
    "ipaddress": "ip address",
    "responseid": "response id",
    "recordeddate": "recorded date",
    "duration (in seconds)": "duration (in seconds)",
}
_RULE = re.compile(r"[-=+|:\s]{2,}")

Grid = Sequence[tuple[int, Sequence[str]]]  # the number of each row (or its line), and its cells


@dataclass(frozen=True)
class Header:
    """The names of a grid's columns, and the numbers of the rows that are neither names nor data.

    `row` is the number of the row with the names; None if no row has them. `note` says what is not obvious.
    """

    names: list[str]
    row: int | None
    left_out: frozenset[int]
    note: str = ""

    def described(self) -> str:
        """Return which rows are the header, for people."""
        if self.row is None:
            return "none"
        others = sorted(self.left_out)
        return f"row {self.row}" + (f" (left out: {', '.join(map(str, others))})" if others else "")


def header_of(grid: Grid, choice: str = AUTO, known: Collection[str] = ()) -> Header:
    """Return the header of a grid, given its first rows that are not blank.

    `choice` is `auto`, `none`, or the number of the row with the names. `known` are names that the settings state: a
    row that has one of them names columns. Raises DataError if no row has the chosen number.
    """
    filled = [(number, cells) for number, cells in grid if any(cell.strip() for cell in cells)]
    known = {*known} - {""}
    if not filled:
        return Header([], None, frozenset())
    if choice == NONE:
        return _without_names(filled, "")
    if choice != AUTO:
        at = next((index for index, (number, _) in enumerate(filled) if number == int(choice)), None)
        if at is None:
            allowed = ", ".join(str(number) for number, _ in filled[:10])
            raise DataError(f"No row {choice} has names of columns", allowed=f"auto, none, or one of {allowed}")
        return _named(filled, at, known)

    at = _n_titles([cells for _, cells in filled], known)
    at += _n_upper_names([cells for _, cells in filled[at:]], known)
    names, *rows = [cells for _, cells in filled[at:]]
    if looks_like_a_row(names, rows, known):
        number = filled[at][0]
        note = f"row {number} looks like data and not like names"
        header = _without_names(filled[at:], note)
        return replace(header, left_out=frozenset(title for title, _ in filled[:at]))
    return _named(filled, at, known)


def _named(filled: Grid, at: int, known: Collection[str]) -> Header:
    """Return the header whose names are in row `at`, with what stands above and directly below it left out."""
    number, names = filled[at]
    above = [above for above, _ in filled[:at]]
    below = _n_descriptions([cells for _, cells in filled[at:]], known)
    described = [number for number, _ in filled[at + 1 : at + 1 + below]]
    notes = []
    if above:
        notes.append(f"the columns are named in row {number}; {_rows(above)} above it {_are(above)} left out")
    if described:
        reason = "it describes" if len(described) == 1 else "they describe"
        notes.append(f"{_rows(described)} {_are(described)} left out, because {reason} the columns")
    return Header(list(names), number, frozenset([*above, *described]), "; ".join(notes))


def _rows(numbers: Sequence[int]) -> str:
    """Return the numbers of rows for messages."""
    return f"row {numbers[0]}" if len(numbers) == 1 else f"rows {', '.join(map(str, numbers))}"


def _are(numbers: Sequence[int]) -> str:
    return "is" if len(numbers) == 1 else "are"


def _without_names(filled: Grid, note: str) -> Header:
    """Return a header that names the columns by their places, since no row does."""
    width = max(len(cells) for _, cells in filled)
    names = [_UNNAMED.format(place) for place in range(1, width + 1)]
    if note:
        note = f"{note}, so the columns are called {', '.join(names[:3])}{' ...' if width > 3 else ''}"
    return Header(names, None, frozenset(), note)


def _n_titles(rows: Sequence[Sequence[str]], known: Collection[str]) -> int:
    """Return how many of the first rows are titles: a text in the first cell, or far fewer cells than in the table."""
    widths = [sum(1 for cell in cells if cell.strip()) for cells in rows]
    usual = median(widths)
    if usual < 2:
        return 0
    for place, cells in enumerate(rows):
        is_alone = widths[place] == 1 and bool(cells[0].strip())
        is_title = (is_alone or 2 * widths[place] < usual) and not {*cells} & {*known}
        if not is_title:
            return place if widths[place] >= 2 else 0
    return 0


def _n_upper_names(rows: Sequence[Sequence[str]], known: Collection[str]) -> int:
    """Return 1 if the first row groups the names in the second, as pandas writes columns of two levels, and as people
    merge cells above them; otherwise 0.
    """
    if len(rows) < 2 or {*rows[0]} & {*known}:
        return 0
    upper, lower = ([cell.strip() for cell in row if cell.strip()] for row in rows[:2])
    has_gaps = len(upper) < len(lower) and not any(map(_is_known, upper))
    groups = has_gaps or len({*upper}) < len(upper)
    return int(groups and len({*lower}) == len(lower) > 1 and sum(map(_is_known, lower)) > 1)


def _n_descriptions(rows: Sequence[Sequence[str]], known: Collection[str]) -> int:
    """Return how many rows below the names describe the columns: their wording, their types, how they are answered."""
    names, *below = rows
    for place, cells in enumerate(below[:3], start=1):  # Qualtrics' row of JSON ends its header
        filled = [cell for cell in cells if cell.strip()]
        if filled and all(map(_IMPORT_ID.match, filled)):
            return place
    count = 0
    for cells in below[:2]:
        filled = [cell.strip().casefold() for cell in cells if cell.strip()]
        words = [word for cell in filled for word in re.split(r"[\s=#]+", cell) if word]
        are_types = bool({*words} - _ROLES) or count > 0
        are_values = any({*cells} & {*other} - {""} for other in below[2:])  # classes may be called "text" or "d"
        if filled and {*words} <= _TYPES and are_types and not are_values:
            count += 1
        elif (
            filled
            and all(map(_RULE.fullmatch, filled))
            or _is_row_of_answers(filled, len(names))
            or _is_row_of_wordings(names, cells)
        ):
            return count + 1
        else:
            break
    return count


def _is_row_of_answers(filled: Sequence[str], width: int) -> bool:
    """Return whether the cells say how each question is answered, as below the questions of SurveyMonkey.

    Questions with choices have a column for each of them, whose names are different.
    """
    if not {*filled} & _ANSWERS or len(filled) >= width:
        return False
    choices = [cell for cell in filled if cell not in _ANSWERS]
    return len({*choices}) == len(choices) and ("open-ended response" in filled or not choices or len(filled) > 2)


def _is_row_of_wordings(names: Sequence[str], cells: Sequence[str]) -> bool:
    """Return whether the cells are Qualtrics' wordings of its own columns, of which there are several."""
    own = [name.strip().casefold() for name in names]
    pairs = [(_WORDING_OF.get(name), cell.strip().casefold()) for name, cell in zip(own, cells, strict=False)]
    return sum(wording == cell for wording, cell in pairs if wording is not None) > 1


def looks_like_a_row(names: Sequence[str], rows: Sequence[Sequence[str]], known: Collection[str] = ()) -> bool:
    """Return whether the first row of a table holds data like the `rows` below it, and no names of columns."""
    named = [name.strip() for name in names]
    if not rows or {*named} & {*known}:
        return False
    if named == [str(place) for place in range(len(named))] and len(named) > 1:  # as pandas names columns by itself
        return False

    # Each column on its own: a name of another kind than the values is one, a name among the values is none.
    others = [row for row in rows if [*row] != [*names]]  # a header may be repeated
    columns = []
    for column in zip_longest(*others, fillvalue=""):
        columns.append([cell.strip() for cell in column if cell.strip()])
    signs = []
    for name, values in zip(named, columns, strict=False):
        if _is_known(name) and name not in values:
            return False
        signs += _signs(name, values)
    certain = {sign for sign, is_certain in signs if is_certain}
    if certain:
        return certain == {"row"}
    return {sign for sign, _ in signs} == {"row"}


def _is_known(name: str) -> bool:
    """Return whether a name is one that columns usually have: `review_text`, `Label`, `Review Text`."""
    words = [name] if not re.search(r"\s", name) else name.split()
    return len(words) <= 3 and len(with_known_names(words, KNOWN_NAMES)) == len(words) > 0


def _signs(name: str, values: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield whether a column shows its first cell to be a `name` or part of a `row`, and whether that is certain."""
    if not name or len(values) < 2:
        return
    different = {*values}
    for is_kind in (_is_number, _is_date):
        if all(map(is_kind, values)):
            yield ("row" if is_kind(name) else "name"), True
            return
    if len(values) >= 4 and 2 * len(different) <= len(values):  # few values, such as labels
        if name in different:
            yield "row", True
        elif len(values) >= 4 * len(different):
            yield "name", True
        return
    words = [len(value.split()) for value in values]
    n_words = len(name.split())
    if sum(words) < _WORDS_OF_A_TEXT * len(words):
        return
    ends_as_a_question = name.endswith(("?", ":"))
    questions = sum(value.endswith(("?", ":")) for value in values)
    is_short = n_words <= 3 and not name.endswith((".", "!"))
    if is_short or (ends_as_a_question and 2 * questions < len(values)):
        yield "name", False
    elif min(words) <= n_words <= max(words):
        yield "row", False


def _is_number(cell: str) -> bool:
    return are_numbers([cell])


def _is_date(cell: str) -> bool:
    return DATE.match(cell) is not None
