"""Rows of csv and tsv files: every row is read unchanged or refused with its line number, never dropped, merged or
shifted.

Quoted cells may contain line breaks (RFC 4180, section 2), and two stray quotes look the same. If each line of such a
cell could also be a row, `auto` refuses the file and names the setting that decides.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from encoderlab.data.files.delimiters import excel_delimiter
from encoderlab.data.files.formats import Quoting
from encoderlab.data.files.text_files import LONGEST_LINE, UTF_8, numbered_lines, place
from encoderlab.data.sources.columns import listed
from encoderlab.errors import DataError

_NAMES = {",": "comma", "\t": "tab", ";": "semicolon"}
_ENDS = {"\n": "a line feed", "\r": "a carriage return", "\r\n": "a carriage return and a line feed"}


_SINGLE_QUOTE = "has a single quotation mark inside a quoted cell"
_CSV_ERRORS = {
    "unexpected end of data": "opens a quoted cell that never closes",
    "field larger than": f"opens a quoted cell of more than {LONGEST_LINE:,} characters",
}


@dataclass(frozen=True, slots=True)
class Record:
    """One row: the line it begins on, its cells, and the lines of the file that it was read from."""

    line: int
    cells: list[str]
    raw: list[str]


@dataclass
class _Doubts:
    """The evidence, over a whole file, for and against line breaks in quoted cells.

    `only_cells` is True if some row over several lines cannot be rows line by line; `ambiguous` is the first that can.
    """

    only_cells: bool = False
    ambiguous: Record | None = None
    labels: set[str] = field(default_factory=set)
    inside: dict[str, Record] = field(default_factory=dict)  # by the label of a line that looks like a row

    def add(self, record: Record, either_way: bool, labels_inside: list[str]) -> None:
        """Record the evidence of a row over several lines."""
        self.only_cells |= not either_way
        self.ambiguous = self.ambiguous or (record if either_way else None)
        for label in labels_inside:
            self.inside.setdefault(label, record)

    def perhaps_merged(self) -> Record | None:
        """Return the first row that two stray quotes may have made of several."""
        suspects = [record for label, record in self.inside.items() if label in self.labels]
        return min(
            [*suspects, *([self.ambiguous] if self.ambiguous else [])], key=lambda record: record.line, default=None
        )


@dataclass
class SeparatedFile:
    """A csv or tsv file whose first row names its columns; `setting` is what the user types to set its quoting.

    A line before it that tells Excel the delimiter (`sep=;`) is not a row.
    """

    path: Path
    separator: str
    quoting: Quoting
    setting: str = "dataset.quoting"
    encoding: str = UTF_8
    header: list[str] = field(init=False)

    def __post_init__(self) -> None:
        if self.separator == "\t" and self.quoting is Quoting.auto:
            self.reads_quotes = False
        else:
            self.reads_quotes = self.quoting is not Quoting.literal
        first = next(self._all(()), None)
        self.header = first.cells if first else []
        repeated = sorted(name for name, count in Counter(self.header).items() if count > 1)
        if not self.header:
            where = self.path if first is None else place(self.path, first.line)
            raise DataError(f"{where} is empty", allowed="a first row with the names of the columns")
        if repeated:
            raise DataError(
                f"{self.path} has more than one column {repeated[0]!r}", remedy="Give each column a different name"
            )

    def records(self, texts: Collection[str], label: str | None) -> Iterator[Record]:
        """Yield all rows below the header; `texts` and `label` name the columns that are read.

        Raises DataError after the last row if quoting is `auto` and every quoted row over several lines could also be
        separate rows, line by line. If only some could, quotes enclose cells, and a warning names the first of those.
        """
        width, column = len(self.header), None if label is None else self.header.index(label)
        watch = self.reads_quotes and self.quoting is Quoting.auto
        doubts = _Doubts()
        rows = self._all(texts)
        next(rows)
        for record in _without_blank_lines(rows, self.path, width):
            if len(record.cells) != width:
                raise self._ragged(record)
            if watch and column is not None:
                doubts.labels.add(record.cells[column])
            if watch and len(record.raw) > 1:
                doubts.add(record, self._reads_either_way(record, column), self._labels_inside(record, column))
            yield record
        if doubts.ambiguous and not doubts.only_cells:
            raise self._merged(doubts.ambiguous)
        if merged := doubts.perhaps_merged():
            print(
                f"encoderlab: {self._lines_of(merged)} are read as one row. Check that its quotes enclose a cell",
                file=sys.stderr,
            )

    def _all(self, texts: Collection[str]) -> Iterator[Record]:
        """Yield every row, with the header; a blank line has no cells."""
        csv.field_size_limit(LONGEST_LINE)  # by default the csv module refuses cells above 131,072 characters
        taken: list[str] = []
        mode = csv.QUOTE_MINIMAL if self.reads_quotes else csv.QUOTE_NONE
        reader = csv.reader(self._noted(taken), delimiter=self.separator, quoting=mode, strict=True)
        line, end = self._first_line(), ""
        while (cells := self._next(reader, line)) is not None:
            record = Record(line, cells, list(taken))
            end = self._end_of(record, end, texts)
            self._refuse_either_way(record)
            yield record
            line += len(taken)
            taken.clear()

    def _first_line(self) -> int:
        """Return the line that the header begins on."""
        first = next((line for _, line in numbered_lines(self.path, "", self.encoding)), "")
        return 2 if excel_delimiter(first) else 1

    def _noted(self, taken: list[str]) -> Iterator[str]:
        for number, line in numbered_lines(self.path, "", self.encoding):
            if number == 1 and excel_delimiter(line):
                continue
            taken.append(line)
            yield line

    def _next(self, reader: Iterator[list[str]], line: int) -> list[str] | None:
        try:
            return next(reader, None)
        except csv.Error as error:
            what = next((words for message, words in _CSV_ERRORS.items() if message in str(error)), _SINGLE_QUOTE)
            remedy = f'Write a quote inside quotes as "", or set {self.setting}=literal if quotes mean nothing here'
            raise DataError(f"{place(self.path, line)} {what}", remedy=remedy) from error

    def _end_of(self, record: Record, before: str, texts: Collection[str]) -> str:
        """Return how rows end; `before` is how the rows before it do, "" for the first.

        They must all end alike, because otherwise a carriage return may belong to a cell: some programs write it there
        without quotes. Only if the last cell is not a text may rows end both with and without a carriage return before
        the line feed.
        """
        last = record.raw[-1]
        end = next((end for end in ("\r\n", "\n", "\r") if last.endswith(end)), before)
        if before in ("", end) or (self.header[-1] not in texts and "\r" not in (end, before)):
            return end
        raise DataError(
            f"{place(self.path, record.line)} ends with {_ENDS[end]}, unlike the rows before",
            remedy="End all rows alike, and put cells that hold line ends in double quotes",
        )

    def _refuse_either_way(self, record: Record) -> None:
        if self.reads_quotes or self.quoting is not Quoting.auto:
            return
        if any(cell.startswith('"') for cell in record.cells):
            raise DataError(
                f"{place(self.path, record.line)} has a cell that begins with a quotation mark, which is ambiguous in tsv files",
                remedy=f"Set {self.setting}=literal if it belongs to the text, {self.setting}=double if it encloses the cell",
            )

    def _labels_inside(self, record: Record, column: int | None) -> list[str]:
        """Return the labels of the lines inside a quoted row, without the first and last, that have as many cells as a
        row.
        """
        if column is None:
            return []
        rows = [line.rstrip("\r\n").split(self.separator) for line in record.raw[1:-1]]
        return [cells[column] for cells in rows if len(cells) == len(self.header)]

    def _reads_either_way(self, record: Record, column: int | None) -> bool:
        """Return whether each line of a quoted row would be a row if quotes meant nothing.

        False if a quote is doubled inside a cell or, as in prose, a blank follows a delimiter.
        """
        width = len(self.header)
        lines = [line.rstrip("\r\n").split(self.separator) for line in record.raw if width == 1 or line.strip()]
        if any('""' in cell and cell != '""' for cells in lines for cell in cells):
            return False
        return all(len(cells) == width and self._is_row(cells, column) for cells in lines)

    def _is_row(self, cells: list[str], column: int | None) -> bool:
        named = cells[column].strip('"') if column is not None else " ".join(cells)
        return named != "" and not any(cell.startswith(" ") for cell in cells[1:])

    def _lines_of(self, record: Record) -> str:
        return f"{self.path}, lines {record.line} to {record.line + len(record.raw) - 1}"

    def _merged(self, record: Record) -> DataError:
        return DataError(
            f"{self._lines_of(record)} are one quoted row, but each of them could also be a separate row",
            remedy=f"Set {self.setting}=double if quotes enclose cells, {self.setting}=literal if they mean nothing",
        )

    def _ragged(self, record: Record) -> DataError:
        found, mark = len(record.cells), _NAMES.get(self.separator, repr(self.separator))
        contents = f"a {mark}" if found > len(self.header) else "a line break"
        quoted = f"ut a cell that contains {contents} in double quotes"
        quoted += "" if self.reads_quotes else f" (with {self.setting}=double)"
        return DataError(
            f"{place(self.path, record.line)} has {found} cell{'s' * (found != 1)}, the header has {len(self.header)}",
            allowed=f"one cell for each of {listed(self.header)}",
            remedy=f"P{quoted}" if found > len(self.header) else f"Complete or remove the row, or p{quoted}",
        )


def _without_blank_lines(rows: Iterator[Record], path: Path, width: int) -> Iterator[Record]:
    """Skip blank lines; between the rows of a single column they could be empty texts, and are refused."""
    blank: Record | None = None
    for record in rows:
        if not record.cells:
            blank = blank or record
            continue
        if blank and width == 1:
            raise DataError(
                f"{place(path, blank.line)} is blank", remedy='Write an empty text as "", or remove the line'
            )
        yield record
