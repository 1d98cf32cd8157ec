"""Rows of csv and tsv files: every row as it stands, or refused with its line, never dropped, merged or shifted."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from encoderlab.data.sources.columns import listed
from encoderlab.data.sources.formats import Quoting
from encoderlab.data.sources.text_files import numbered_lines, place
from encoderlab.errors import DataError

_SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons"}
_LONGEST_CELL = 2**31 - 1  # the csv module refuses cells above 131,072 characters unless told otherwise


@dataclass(frozen=True, slots=True)
class Record:
    """One row: the line it begins on, its cells, and the lines of the file it was read from."""

    line: int
    cells: list[str]
    raw: list[str]


@dataclass
class SeparatedFile:
    """A csv or tsv file whose first row names its columns."""

    path: Path
    separator: str
    quoting: Quoting
    header: list[str] = field(init=False)

    def __post_init__(self) -> None:
        if self.separator == "\t" and self.quoting is Quoting.auto:
            self.reads_quotes = False
        else:
            self.reads_quotes = self.quoting is not Quoting.literal
        first = next(self._all(), None)
        self.header = first.cells if first else []
        repeated = sorted({name for name in self.header if self.header.count(name) > 1})
        if not self.header:
            where = self.path if first is None else place(self.path, 1)
            raise DataError(f"{where} is empty", allowed="a first row with the names of the columns")
        if repeated:
            raise DataError(f"{self.path} has more than one column {repeated[0]!r}", remedy="Give each column a name of its own")

    def records(self, label: str | None) -> Iterator[Record]:
        """All rows below the header.

        Where `label` names a column and quoting is `auto`, a quoted cell over several lines is refused if one of those lines reads
        like a row of its own with a known label: that is what two stray quotes look like, and they would merge rows.
        """
        width, column = len(self.header), None if label is None else self.header.index(label)
        watch = column is not None and self.quoting is Quoting.auto
        known: set[str] = set()
        suspects: dict[str, tuple[int, Record]] = {}
        rows = self._all()
        next(rows)
        for record in _without_blank_lines(rows, self.path, width):
            if len(record.cells) != width:
                raise self._ragged(record)
            if watch and column is not None:
                known.add(record.cells[column])
                for line, value in self._rows_inside(record, column):
                    suspects.setdefault(value, (line, record))
            yield record
        merged = [suspect for value, suspect in suspects.items() if value in known]
        if merged:
            raise self._merged(*min(merged, key=lambda suspect: suspect[0]))

    def refuse_other_separator(self) -> None:
        """Raise DataError where the first line is a single cell that seems to be several, with another separator."""
        first = next(self._noted([]))
        other = next((one for one in _SEPARATORS if one in first), None)
        if other is None or self.separator in first:
            return
        formats = {",": "Type dataset.format=csv, or rename it to .csv", "\t": "Type dataset.format=tsv, or rename it to .tsv"}
        raise DataError(
            f"The cells in the first line of {self.path} are separated by {_SEPARATORS[other]}",
            allowed=f"{_SEPARATORS[self.separator]} in such a file",
            remedy=formats.get(other, f"Save it with {_SEPARATORS[self.separator]} instead"),
        )

    def _all(self) -> Iterator[Record]:
        """Every row, the header too; a blank line has no cells."""
        csv.field_size_limit(_LONGEST_CELL)
        taken: list[str] = []
        mode = csv.QUOTE_MINIMAL if self.reads_quotes else csv.QUOTE_NONE
        reader = csv.reader(self._noted(taken), delimiter=self.separator, quoting=mode, strict=True)
        line, lone_return = 1, None
        while (cells := self._next(reader, line)) is not None:
            record = Record(line, cells, list(taken))
            lone_return = self._end_of(record, lone_return)
            self._refuse_either_way(record)
            yield record
            line += len(taken)
            taken.clear()

    def _noted(self, taken: list[str]) -> Iterator[str]:
        for _, line in numbered_lines(self.path, ""):
            taken.append(line)
            yield line

    def _next(self, reader: Iterator[list[str]], line: int) -> list[str] | None:
        try:
            return next(reader, None)
        except csv.Error as error:
            if line == 1:
                self.refuse_other_separator()  # "text";"label" is a mistaken quote to the csv module
            unclosed = "unexpected end of data" in str(error)
            what = "opens a quoted cell that never closes" if unclosed else "has a single quotation mark inside a quoted cell"
            remedy = 'Write a quote inside quotes as "", or type dataset.quoting=literal if quotes mean nothing here'
            raise DataError(f"{place(self.path, line)} {what}", remedy=remedy) from error

    def _end_of(self, record: Record, lone_return: bool | None) -> bool | None:
        """Whether rows end with a carriage return alone; they all do or none does, else one stands unquoted inside a cell."""
        last = record.raw[-1]
        if not last.endswith(("\r", "\n")):
            return lone_return
        if lone_return is not None and lone_return != last.endswith("\r"):
            end = "a line feed" if lone_return else "a carriage return"
            raise DataError(
                f"{place(self.path, record.line)} ends with {end}, the rows before do not",
                remedy="End all rows alike, and put cells that hold line ends in double quotes",
            )
        return last.endswith("\r")

    def _refuse_either_way(self, record: Record) -> None:
        if self.reads_quotes or self.quoting is not Quoting.auto:
            return
        if any(cell.startswith('"') for cell in record.cells):
            raise DataError(
                f"{place(self.path, record.line)} has a cell that begins with a quotation mark, which tsv files use in two ways",
                remedy="Type dataset.quoting=literal if it belongs to the text, dataset.quoting=double if it encloses the cell",
            )

    def _rows_inside(self, record: Record, column: int) -> Iterator[tuple[int, str]]:
        for number, line in enumerate(record.raw[:-1], start=record.line):
            cells = line.rstrip("\r\n").split(self.separator)
            if len(cells) == len(self.header):
                yield number, cells[column].strip('"')

    def _merged(self, line: int, record: Record) -> DataError:
        last = record.line + len(record.raw) - 1
        return DataError(
            f"{self.path}, lines {record.line} to {last} are one quoted row, yet line {line} reads like a row of its own",
            remedy="Mend the quotes, or type dataset.quoting=double if it is one row, =literal if quotes mean nothing",
        )

    def _ragged(self, record: Record) -> DataError:
        name = "tab" if self.separator == "\t" else "comma"
        return DataError(
            f"{place(self.path, record.line)} has {len(record.cells)} cells, the header has {len(self.header)}",
            allowed=f"one cell for each of {listed(self.header)}",
            remedy=f"A cell that holds a {name} stands in double quotes"
            + (" (with dataset.quoting=double)" if name == "tab" and not self.reads_quotes else ""),
        )


def _without_blank_lines(rows: Iterator[Record], path: Path, width: int) -> Iterator[Record]:
    """Leave out blank lines; between the rows of a single column they could be empty texts, and are refused."""
    blank: Record | None = None
    for record in rows:
        if not record.cells:
            blank = blank or record
            continue
        if blank and width == 1:
            raise DataError(f"{place(path, blank.line)} is blank", remedy='Write an empty text as "", or take the line out')
        yield record
