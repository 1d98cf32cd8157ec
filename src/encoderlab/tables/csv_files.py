"""Rows of csv and tsv files: what separates and encloses their cells, which rows name the columns, and each row.

They are read by Python's csv module in its strict mode, because pandas fills short rows in silence, pyarrow counts rows
instead of lines, and both accept text after a closing quote.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from encoderlab.errors import DataError
from encoderlab.system.messages import say_once
from encoderlab.tables.annotation_tools import Record
from encoderlab.tables.checks import LONGEST_TEXT
from encoderlab.tables.columns import KNOWN_NAMES, Columns, are_numbers, distinct_names, listed, with_known_names
from encoderlab.tables.foreign_files import AS_R_WRITES_CSV
from encoderlab.tables.formats import Dialect, Format, Quoting, lines_of
from encoderlab.tables.headers import ROWS_LOOKED_AT, Header, header_of

_MOST_FIELD = 2**31 - 1  # characters in a cell, the most that the csv module can be told to read
_MOST_LABELS = 10_000  # whose values are kept while a file is read
_LINES_LOOKED_AT = 1000  # for quotes that follow a backslash
_SEPARATOR_LINE = re.compile(r'\s*"?sep=(.)"?\s*', re.IGNORECASE)  # Excel's first line
_NULL = re.compile(r"(^|(?<=[,;\t|]))\\N(?=[,;\t|\r\n]|$)")  # as MySQL writes a missing value


@dataclass(frozen=True)
class Grammar:
    """How the lines of a file become cells.

    `first_line` is the number of the line that the table begins with: 2 after Excel's line `sep=;`. Cells may be
    enclosed in another `quote`, and `skips_blanks` says that a quote may follow blanks.
    """

    encoding: str
    separator: str
    quoting: Quoting  # double, literal or backslash
    first_line: int = 1
    quote: str = '"'
    skips_blanks: bool = False

    def described(self) -> str:
        """Return the grammar for people."""
        name = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}.get(self.separator, repr(self.separator))
        single = ", which are single ones" if self.quote == "'" else ""
        return f"cells separated by {name}, quotes {self.quoting.value}{single}"


def separated_rows(path: Path, kind: Format, columns: Columns, dialect: Dialect, encoding: str) -> Iterator[Record]:
    """Yield the rows of a csv or tsv file, as cells by column.

    Rows that repeat the header are left out, which is said. Raises DataError if two stray quotes may have merged rows
    into one (see `_MergedRows`).
    """
    # What the first lines show: how lines become cells, and which rows name the columns.
    grammar = grammar_of(path, kind, columns, dialect, encoding)
    header = header_of_file(path, grammar, columns, dialect)
    if not header.names:
        raise DataError(f"{path} is empty", allowed="a first row with the names of the columns")
    if header.note:
        remedy = f" ({columns.sibling('header')}={grammar.first_line} if the first line has the names)"
        say_once(f"{path}: {header.note}{remedy if header.row is None else ''}")

    # Each row, with the columns that are to be read.
    where = f"The header of {path}"
    names = distinct_names(header.names)
    place_of = {name: place for place, name in enumerate(names)}
    index = {name: place_of[name] for name in columns.to_read(header.names, where, gathers=True)}
    several = [place for place, name in enumerate(header.names) if name == columns.label]
    merged = _MergedRows(names, columns, grammar.separator)
    labels = merged.known
    repeated = []
    last_name = None if header.row is None else header.names[-1]
    csv.field_size_limit(_MOST_FIELD if columns.documents else LONGEST_TEXT)
    setting = columns.sibling("quoting")
    for first, cells, last in _rows_of_width(path, grammar, header, setting):
        if cells[-1] == last_name and _repeats(cells, header.names):
            repeated.append(first)
            continue
        if len(labels) < _MOST_LABELS:
            labels.add(cells[merged.label])
        if first != last:
            merged.look_at(first, cells)
        row: dict[str, Any] = {name: cells[at] for name, at in index.items()}
        if len(several) > 1:  # a label in each of the columns that share the name
            row[header.names[several[0]]] = [cells[place] for place in several if cells[place].strip()]
        yield first, row

    # What only the whole file shows.
    if repeated:
        say_once(f"{path}: the header is repeated at line {listed(map(str, repeated))}, which is left out")
    if dialect.quoting is Quoting.auto and grammar.quoting is Quoting.double:
        merged.refuse(path, setting)


def _repeats(cells: list[str], names: list[str]) -> bool:
    """Return whether a row is the header again, perhaps behind the byte-order mark of a file that was appended."""
    return cells[1:] == names[1:] and cells[0].removeprefix("\ufeff") == names[0]


class _MergedRows:
    """Finds out whether two stray quotes have merged rows into one.

    They may have if each line of a quoted row could be a row by itself, with as many cells as the header. Such lines
    count as rows if each has a label that the file has (or a value of another column, in a file of texts), or if no
    other row shows that quotes enclose line breaks.
    """

    def __init__(self, names: list[str], columns: Columns, separator: str) -> None:
        texts = {*columns.texts()}
        others = [name for name in names if name not in texts]
        label = columns.label or next(iter((*columns.label_columns, *others)), names[0])
        self.width = len(names)
        self.label = names.index(label)
        self.separator = separator
        self.of_numbers = columns.target == "number"
        self.known: set[str] = set()  # labels
        self.has_breaks = False  # in a row whose lines cannot be rows by themselves
        self.suspects: list[tuple[int, list[str]]] = []  # the first line of each such row, and the labels of its lines

    def look_at(self, first: int, cells: list[str]) -> None:
        """Take note of a row on several lines, of which this is the first."""
        parts = [text.split(self.separator) for text in self.separator.join(cells).split("\n")]
        if self.width > 1 and all(len(part) == self.width for part in parts):
            self.suspects.append((first, [part[self.label].strip('"\r') for part in parts]))
        else:
            self.has_breaks = True

    def refuse(self, path: Path, setting: str) -> None:
        """Raise DataError if rows may be merged, given all rows of the file."""
        for first, labels in self.suspects:
            are_targets = {*labels} <= self.known or (self.of_numbers and are_numbers(labels))
            if not self.has_breaks or are_targets:
                lines = f"lines {first} to {first + len(labels) - 1}"
                problem = f"{path}, {lines} are one quoted row, but each could be a row"
                remedy = f"Set {setting}=double if quotes enclose cells, {setting}=literal if they mean nothing"
                raise DataError(problem, remedy=remedy)


def grammar_of(path: Path, kind: Format, columns: Columns, dialect: Dialect, encoding: str) -> Grammar:
    """Return what separates and encloses the cells of a file, by its first lines and the columns that are named.

    Raises DataError if its first line cannot be read.
    """
    csv.field_size_limit(_MOST_FIELD)  # by default the csv module refuses cells above 131,072 characters
    quoting = Quoting.double if dialect.quoting is Quoting.auto else dialect.quoting
    head = list(islice(lines_of(path, encoding), ROWS_LOOKED_AT))
    first = next(iter(head), "")
    stated = _SEPARATOR_LINE.fullmatch(first)
    if stated:
        grammar = Grammar(encoding, stated[1], quoting, first_line=2)
    else:
        first_line = 1 + _n_comments(head, {*columns.by_setting().values()})
        if first_line > 1:
            lines = "line 1 is a comment" if first_line == 2 else f"lines 1 to {first_line - 1} are comments"
            say_once(f"{path}: {lines}, left out")
        grammar = Grammar(encoding, "", quoting, first_line)
        separator = _separator(path, kind, head[first_line - 1] if head else "", columns, grammar)
        grammar = replace(grammar, separator=separator)
    return _with_quotes(path, grammar, columns) if dialect.quoting is Quoting.auto else grammar


def _n_comments(lines: Sequence[str], known: Collection[str]) -> int:
    """Return how many of the first lines are comments: they begin with #, and the line below them names columns."""
    count = sum(1 for _ in takewhile(lambda line: line.startswith("#"), lines))
    if not 0 < count < len(lines):
        return 0
    below = {cell.strip(" \"'\r\n") for cell in re.split(r"[,;\t|]", lines[count])}
    names = known or {"text", "label"}
    is_header = bool(with_known_names(below, KNOWN_NAMES)) or bool(below & {*names})
    return count if lines[0].startswith("# ") or is_header and count > 1 else 0


def _with_quotes(path: Path, grammar: Grammar, columns: Columns) -> Grammar:
    """Return the grammar with the quotes of the first lines: after a backslash, after a blank, or single ones."""
    if _escapes_quotes(path, grammar):
        say_once(f"{path}: a backslash stands before quotes inside quotes ({columns.sibling('quoting')}=backslash)")
        return replace(grammar, quoting=Quoting.backslash)
    if _quotes_follow_blanks(path, grammar):
        return replace(grammar, skips_blanks=True)
    if _has_single_quotes(path, grammar):
        say_once(f"{path}: cells are enclosed in single quotes")
        return replace(grammar, quote="'")
    return grammar


def header_of_file(path: Path, grammar: Grammar, columns: Columns, dialect: Dialect) -> Header:
    """Return which rows of a file name its columns, and which are neither names nor data. Raises DataError."""
    rows = _csv_rows(path, grammar, columns.sibling("quoting"))
    grid = [(line, cells) for line, cells, _ in islice(rows, ROWS_LOOKED_AT)]
    return header_of(grid, dialect.header, {*columns.by_setting().values()})


def _quotes_follow_blanks(path: Path, grammar: Grammar) -> bool:
    """Return whether blanks stand before the quotes that enclose cells, so that they would be part of them."""
    between = f'{grammar.separator} "'
    if not any(between in line for line in islice(lines_of(path, grammar.encoding), ROWS_LOOKED_AT)):
        return False
    try:
        rows = [cells for _, cells, _ in islice(_csv_rows(path, grammar, ""), ROWS_LOOKED_AT)]
    except DataError:
        return _are_valid(path, replace(grammar, skips_blanks=True))
    return any(re.match(r' +"', cell) for cells in rows for cell in cells)


def _has_single_quotes(path: Path, grammar: Grammar) -> bool:
    """Return whether each row below the first is enclosed in single quotes, and is a valid row with them."""
    lines = list(islice(lines_of(path, grammar.encoding), grammar.first_line, ROWS_LOOKED_AT))
    between = f"'{grammar.separator}'"
    if not lines or not all(line.startswith("'") and line.rstrip().endswith("'") for line in lines):
        return False
    return all(between in line for line in lines) and _are_valid(path, replace(grammar, quote="'"))


def _escapes_quotes(path: Path, grammar: Grammar) -> bool:
    """Return whether the first lines of a file are valid rows only if a backslash escapes a quote."""
    first = islice(lines_of(path, grammar.encoding), _LINES_LOOKED_AT)
    if not any('\\"' in line for line in first):
        return False
    escaping = replace(grammar, quoting=Quoting.backslash)
    return not _are_valid(path, grammar) and _are_valid(path, escaping)


def _are_valid(path: Path, grammar: Grammar) -> bool:
    """Return whether the first rows of a file can be read."""
    try:
        for _ in islice(_csv_rows(path, grammar, ""), _LINES_LOOKED_AT):
            pass
    except DataError:
        return False
    return True


def _rows_of_width(path: Path, grammar: Grammar, header: Header, setting: str) -> Iterator[tuple[int, list[str], int]]:
    """Yield the rows below the header. Raises DataError at one that is not as long."""
    width = len(header.names)
    left_out = {*header.left_out, header.row}
    blank = 0  # the first blank line among the rows
    is_first = True
    names_end = max((number for number in left_out if number is not None), default=0)
    for first, cells, last in _csv_rows(path, grammar, setting):
        if first > names_end and len(cells) == width > 1:  # as nearly all are, of millions
            is_first = False
            yield first, cells, last
            continue
        if first in left_out:
            continue
        if not cells or (width > 1 and len(cells) == 1 and not cells[0].strip()):
            blank = blank or first
            continue
        if blank and width == 1:
            remedy = 'Write an empty text as "", or remove the line'
            raise DataError(f"{path}, line {blank} is blank", remedy=remedy)
        if len(cells) != width:
            has = f"{len(cells)} cell{'s' * (len(cells) != 1)}, the header has {width}"
            remedy = "Complete or remove the row, or put a cell with a delimiter or line break in double quotes"
            if is_first and len(cells) == width + 1 and cells[0] == "1":  # the number of the row, without a name
                remedy = AS_R_WRITES_CSV
            raise DataError(f"{path}, line {first} has {has}", remedy=remedy)
        is_first = False
        yield first, cells, last


def _csv_rows(path: Path, grammar: Grammar, setting: str) -> Iterator[tuple[int, list[str], int]]:
    """Yield the rows: the number of the first line, the cells (none of a blank line), the last line.

    Blank lines above the first row are left out. Raises DataError at what is no valid row.
    """
    lines = islice(lines_of(path, grammar.encoding), grammar.first_line - 1, None)
    style: dict[str, Any] = {"quoting": csv.QUOTE_NONE if grammar.quoting is Quoting.literal else csv.QUOTE_MINIMAL}
    style |= {"quotechar": grammar.quote, "skipinitialspace": grammar.skips_blanks}
    if grammar.quoting is Quoting.backslash:
        style |= {"escapechar": "\\", "doublequote": False}
        lines = (_NULL.sub("", line) for line in lines)  # the csv module would read it as the letter N
    reader = csv.reader(lines, delimiter=grammar.separator, strict=True, **style)
    before = grammar.first_line - 1
    line = before + 1
    has_rows = False
    try:
        for cells in reader:
            last = before + reader.line_num
            if cells or has_rows:
                has_rows = True
                yield line, cells, last
            line = last + 1
    except csv.Error as error:
        if "field larger" in str(error):
            problem = f"{path}, line {line} has a cell of more than {csv.field_size_limit():,} characters"
            raise DataError(problem, remedy="Divide it, or close the quote that it begins with") from error
        reason, _, _ = str(error).partition(" - ")
        remedy = (
            f'Write a quote inside quotes as "", or set {setting}=literal if quotes mean nothing here, '
            f"{setting}=backslash if a backslash stands before quotes inside quotes"
        )
        raise DataError(f"{path}, line {line} is not valid: {reason}", remedy=remedy) from error


def _separator(path: Path, kind: Format, first: str, columns: Columns, grammar: Grammar) -> str:
    """Return the character that separates cells, given the first line.

    It is the one that gives the header its names; otherwise the one by which the first rows have the same number of
    cells, the more the better; otherwise the one by which the first line has most cells.
    """
    names = {*columns.by_setting().values()}
    order = ",;\t|^" if kind is Format.csv else "\t,;|^"
    try:
        header = {separator: next(csv.reader([first], delimiter=separator), []) for separator in order}
    except csv.Error as error:
        problem = f"{path} has a carriage return within its first line"
        raise DataError(problem, remedy="Save it with line feeds between its lines") from error
    naming = [separator for separator in order if names and names <= {*header[separator]}]
    widths = {separator: len({*header[separator]}) for separator in naming or order}
    best = max(widths, key=lambda separator: widths[separator])
    if naming:
        return best
    even = {}
    for separator in order:
        n_cells = _even_width(path, replace(grammar, separator=separator))
        if n_cells > 1:
            even[separator] = n_cells
    if not even or best in even:
        return best
    return max(even, key=lambda separator: even[separator])


def _even_width(path: Path, grammar: Grammar) -> int:
    """Return how many cells each of the first rows has; 0 if they have different numbers, or are no valid rows."""
    widths = set()
    try:
        for _, cells, _ in islice(_csv_rows(path, grammar, ""), ROWS_LOOKED_AT):
            widths |= {len(cells)} if cells else set()
    except DataError:
        return 0
    return widths.pop() if len(widths) == 1 else 0
