"""Rows of csv and tsv files: every row as it stands, or refused with its line, never dropped, merged or shifted.

Where the rows of a file could be counted in two ways, `auto` refuses the file and says which setting decides.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from encoderlab.data.files.formats import Quoting
from encoderlab.data.files.text_files import LONGEST_LINE, numbered_lines, place
from encoderlab.data.sources.columns import listed
from encoderlab.errors import DataError

_SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons"}
_ENDS = {"\n": "a line feed", "\r": "a carriage return", "\r\n": "a carriage return and a line feed"}


_SINGLE_QUOTE = "has a single quotation mark inside a quoted cell"
_CSV_ERRORS = {
    "unexpected end of data": "opens a quoted cell that never closes",
    "field larger than": f"opens a quoted cell of more than {LONGEST_LINE:,} characters",
}


@dataclass(frozen=True, slots=True)
class Record:
    """One row: the line it begins on, its cells, and the lines of the file it was read from."""

    line: int
    cells: list[str]
    raw: list[str]


@dataclass
class SeparatedFile:
    """A csv or tsv file whose first row names its columns; `setting` is what the user types to set its quoting."""

    path: Path
    separator: str
    quoting: Quoting
    setting: str = "dataset.quoting"
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
            where = self.path if first is None else place(self.path, 1)
            raise DataError(f"{where} is empty", allowed="a first row with the names of the columns")
        if repeated:
            raise DataError(f"{self.path} has more than one column {repeated[0]!r}", remedy="Give each column a name of its own")

    def records(self, texts: Collection[str], label: str | None) -> Iterator[Record]:
        """All rows below the header; `texts` and `label` name the columns that are read.

        Where quoting is `auto`, a quoted cell over several lines is refused if each of those lines reads like a row of its own, or
        one of them like a row with a known label: that is what two stray quotes look like, and they would merge rows.
        """
        width, column = len(self.header), None if label is None else self.header.index(label)
        watch = self.reads_quotes and self.quoting is Quoting.auto
        known: set[str] = set()
        suspects: dict[str, tuple[int, Record]] = {}
        rows = self._all(texts)
        next(rows)
        for record in _without_blank_lines(rows, self.path, width):
            if len(record.cells) != width:
                raise self._ragged(record)
            if watch and len(record.raw) > 1 and self._reads_either_way(record, column):
                raise self._merged(record.line, record)
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
        formats = {",": "Set dataset.format=csv, or rename it to .csv", "\t": "Set dataset.format=tsv, or rename it to .tsv"}
        raise DataError(
            f"The cells in the first line of {self.path} are separated by {_SEPARATORS[other]}",
            allowed=f"{_SEPARATORS[self.separator]} in such a file",
            remedy=formats.get(other, f"Save it with {_SEPARATORS[self.separator]} instead"),
        )

    def _all(self, texts: Collection[str]) -> Iterator[Record]:
        """Every row, the header too; a blank line has no cells."""
        csv.field_size_limit(LONGEST_LINE)  # the csv module refuses cells above 131,072 characters unless told otherwise
        taken: list[str] = []
        mode = csv.QUOTE_MINIMAL if self.reads_quotes else csv.QUOTE_NONE
        reader = csv.reader(self._noted(taken), delimiter=self.separator, quoting=mode, strict=True)
        line, end = 1, ""
        while (cells := self._next(reader, line)) is not None:
            record = Record(line, cells, list(taken))
            end = self._end_of(record, end, texts)
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
            what = next((words for said, words in _CSV_ERRORS.items() if said in str(error)), _SINGLE_QUOTE)
            remedy = f'Write a quote inside quotes as "", or set {self.setting}=literal if quotes mean nothing here'
            raise DataError(f"{place(self.path, line)} {what}", remedy=remedy) from error

    def _end_of(self, record: Record, before: str, texts: Collection[str]) -> str:
        """How rows end; `before` is how those before it do, "" for the first.

        They all end alike, else a carriage return may belong to a cell: some programs write it there without quotes. Only where the
        last cell is no text may rows end with and without a carriage return before the line feed.
        """
        last = record.raw[-1]
        end = next((end for end in ("\r\n", "\n", "\r") if last.endswith(end)), before)
        if before in ("", end) or (self.header[-1] not in texts and "\r" not in (end, before)):
            return end
        raise DataError(
            f"{place(self.path, record.line)} ends with {_ENDS[end]}, the rows before do not",
            remedy="End all rows alike, and put cells that hold line ends in double quotes",
        )

    def _refuse_either_way(self, record: Record) -> None:
        if self.reads_quotes or self.quoting is not Quoting.auto:
            return
        if any(cell.startswith('"') for cell in record.cells):
            raise DataError(
                f"{place(self.path, record.line)} has a cell that begins with a quotation mark, which tsv files use in two ways",
                remedy=f"Set {self.setting}=literal if it belongs to the text, {self.setting}=double if it encloses the cell",
            )

    def _rows_inside(self, record: Record, column: int) -> Iterator[tuple[int, str]]:
        for number, line in enumerate(record.raw[:-1], start=record.line):
            cells = line.rstrip("\r\n").split(self.separator)
            if len(cells) == len(self.header):
                yield number, cells[column].strip('"')

    def _reads_either_way(self, record: Record, column: int | None) -> bool:
        """Whether each line of a quoted row would be a row if quotes meant nothing.

        Not so where a quote is doubled inside a cell, or, as in prose, a blank follows a separator.
        """
        width = len(self.header)
        lines = [line.rstrip("\r\n").split(self.separator) for line in record.raw if width == 1 or line.strip()]
        if any('""' in cell and cell != '""' for cells in lines for cell in cells):
            return False
        return all(len(cells) == width and self._is_row(cells, column) for cells in lines)

    def _is_row(self, cells: list[str], column: int | None) -> bool:
        named = cells[column].strip('"') if column is not None else " ".join(cells)
        return named != "" and not any(cell.startswith(" ") for cell in cells[1:])

    def _merged(self, line: int, record: Record) -> DataError:
        last = record.line + len(record.raw) - 1
        return DataError(
            f"{self.path}, lines {record.line} to {last} are one quoted row, yet line {line} reads like a row of its own",
            remedy=f"Mend the quotes, or set {self.setting}=double if it is one row, =literal if quotes mean nothing",
        )

    def _ragged(self, record: Record) -> DataError:
        name = "tab" if self.separator == "\t" else "comma"
        return DataError(
            f"{place(self.path, record.line)} has {len(record.cells)} cells, the header has {len(self.header)}",
            allowed=f"one cell for each of {listed(self.header)}",
            remedy=f"A cell that holds a {name} stands in double quotes"
            + (f" (with {self.setting}=double)" if name == "tab" and not self.reads_quotes else ""),
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
