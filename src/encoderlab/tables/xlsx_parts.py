"""The parts of an xlsx file (a zip of XML): a check before a library reads them, and what that library does not tell.

python-calamine makes a grid as large as its farthest cell (32 bytes a place), and ends the process if there is no
memory for it. It reads an error, and a formula that no program has calculated, as an empty cell.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from encoderlab.errors import DataError, one_line

MOST_ROWS = 2**20  # Excel's own limits
_MOST_COLUMNS = 2**14
WIDEST_GAP = 100  # columns without a name between others
_GROWTH = 100  # times as large unpacked: XML compresses well
_SMALL = 2**21  # bytes: a file that unpacks to no more may have grown by any factor
_SMALL_GRID = 2**22  # cells: 128 MiB
_BYTES_OF_A_CELL = 8  # of XML, at least, in a grid that may be larger
_AT_A_TIME = 2**20  # bytes
_LONGEST_TAG = 2**10  # bytes of a tag that two blocks may share

# The place of a cell, such as r="AB12": all of them, and those beyond column Z or row 99,999.
_PLACE = re.compile(rb""" r *= *["']([A-Z]{0,3})([0-9]+)["']""")
_FAR_PLACE = re.compile(rb""" r *= *["'](?=[A-Z]{2}|[A-Z]?[0-9]{6})([A-Z]{0,3})([0-9]+)["']""")
_CODED_PLACE = re.compile(rb""" r *= *(?:"[^"&<]*&|'[^'&<]*&)""")
_BLANKS = bytes.maketrans(b"\t\n\r", b"   ")
_FORMULA = re.compile(
    rb"<(?:\w+:)?c\b([^>]*)>\s*<(?:\w+:)?f\b[^>]*?(?:/>|>[^<]*</(?:\w+:)?f>)\s*(?:<(?:\w+:)?v\s*>([^<]*)<)?"
)
_ERROR = re.compile(
    rb"""<(?:\w+:)?c\b([^>]*\bt=["']e["'][^>]*)>(?:(?!</(?:\w+:)?c>).)*?<(?:\w+:)?v\s*>([^<]*)<""", re.S
)
_ZEROS = re.compile(r"0{2,}")  # a number format, such as 000, in which 7 is shown as 007
_NUMBER = re.compile(rb"<(?:\w+:)?c\b([^>]*)>\s*<(?:\w+:)?v\s*>([0-9]+)<")
_STYLE = re.compile(rb"""\bs=["']([0-9]+)["']""")
_IS_TEXT = re.compile(rb"""\bt=["']str["']""")

Place = tuple[int, int]  # row and column, both from 1


@dataclass(frozen=True)
class Grid:
    """How far the cells of a sheet reach: its last row and column, from 1."""

    rows: int
    columns: int

    @property
    def cells(self) -> int:
        return self.rows * self.columns


def without_far_cells(path: Path) -> Path | io.BytesIO:
    """Return what to read a workbook from: its file, or a copy without cells far away from all others.

    Raises DataError for a file that unpacks to too much, whose parts are damaged or not as large as they say, or with
    more rows, columns or empty places than a sheet that a person has made.
    """
    try:
        with zipfile.ZipFile(path) as parts:
            n_bytes = sum(part.file_size for part in parts.infolist())
            if n_bytes > max(_GROWTH * path.stat().st_size, _SMALL):
                raise DataError(f"{path} unpacks to {n_bytes:,} bytes", remedy="Save it as csv")
            wide = [name for name in parts.namelist() if not _is_dense(path, parts, name)]
            return _without_strays(path, parts, wide) if wide else path
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, OSError) as error:
        raise DataError(f"{path} is not a readable workbook: {one_line(str(error))}") from error


def _blocks(parts: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    """Yield the bytes of a part in blocks, each with the last bytes of the one before."""
    last = b""
    with parts.open(name) as file:
        for block in iter(lambda: file.read(_AT_A_TIME), b""):
            yield last + block
            last = block[-_LONGEST_TAG:]


def _is_dense(path: Path, parts: zipfile.ZipFile, name: str) -> bool:
    """Return whether the grid of a part is not much larger than its bytes. Raises DataError if it is beyond Excel's."""
    if not name.endswith(".xml"):
        for _ in _blocks(parts, name):  # zipfile compares its size and its checksum
            pass
        return True
    most = max(_SMALL_GRID, parts.getinfo(name).file_size // _BYTES_OF_A_CELL)
    # A quick look for far places first: most sheets have none beyond column Z.
    grid = _grid(path, parts, name, _FAR_PLACE)
    grid = Grid(max(grid.rows, 99_999), max(grid.columns, 26))
    return grid.cells <= most or _grid(path, parts, name, _PLACE).cells <= most


def _grid(path: Path, parts: zipfile.ZipFile, name: str, places: re.Pattern[bytes]) -> Grid:
    """Return how far these places in a part reach. Raises DataError if they are beyond Excel's last."""
    rows = 0
    columns: set[bytes] = set()
    for block in _blocks(parts, name):
        block = block.translate(_BLANKS)
        if b"&" in block and _CODED_PLACE.search(block):
            raise DataError(f"{path} names cells in a way that Excel does not", remedy="Save it again, or as csv")
        found = places.findall(block)
        if found:
            columns.update({letters for letters, _ in found})
            rows = max(rows, int(max((digits for _, digits in found), key=lambda digits: (len(digits), digits))))
        if rows > MOST_ROWS:
            raise DataError(f"{path}, row {rows} is beyond Excel's last", allowed=f"{MOST_ROWS:,} rows")
    last = max(map(_number_of_column, columns), default=0)
    if last > _MOST_COLUMNS:
        raise DataError(f"{path} has a cell in column {last:,}", allowed=f"{_MOST_COLUMNS:,} columns")
    return Grid(rows, last)


def _number_of_column(letters: bytes) -> int:
    """Return the number of a column from its letters: A is 1, AA is 27, and none is 0."""
    number = 0
    for letter in letters:
        number = 26 * number + letter - ord("A") + 1
    return number


def _without_strays(path: Path, parts: zipfile.ZipFile, names: list[str]) -> io.BytesIO:
    """Return a workbook without the cells of these sheets that follow more than WIDEST_GAP empty columns.

    Raises DataError if its cells are still far apart.
    """
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for part in parts.infolist():
            content = parts.read(part)
            if part.filename in names:
                content = _near_cells(path, content)
            file.writestr(part.filename, content)
    copy.seek(0)
    return copy


def _near_cells(path: Path, content: bytes) -> bytes:
    """Return the XML of a sheet without stray cells; see `_without_strays`."""
    used = sorted({_number_of_column(letters) for letters, _ in _PLACE.findall(content.translate(_BLANKS))})
    last = 0
    for number in used:
        if number <= last + WIDEST_GAP:
            last = number
    cell = re.compile(
        rb"""<((?:\w+:)?c)\b[^>]*?\sr\s*=\s*["']([A-Z]{1,3})[0-9]+["'][^>]*?(?:/>|>.*?</\1>)""", re.DOTALL
    )
    content = cell.sub(lambda match: match[0] if _number_of_column(match[2]) <= last else b"", content)
    rows = max((int(digits) for _, digits in _PLACE.findall(content.translate(_BLANKS))), default=0)
    if rows * last > max(8 * _SMALL_GRID, len(content) // _BYTES_OF_A_CELL):
        problem = f"{path} has cells far apart: its sheet reaches to row {rows:,} and column {last:,}"
        raise DataError(problem, remedy="Delete the empty rows and columns between them, or save it as csv")
    return content


def part_of(path: Path, sheet: str) -> str | None:
    """Return the name of the part that holds a sheet; None if the file does not say."""
    try:
        with zipfile.ZipFile(path) as parts:
            book = ElementTree.fromstring(parts.read("xl/workbook.xml"))
            relations = ElementTree.fromstring(parts.read("xl/_rels/workbook.xml.rels"))
    except (zipfile.BadZipFile, KeyError, ElementTree.ParseError, OSError):
        return None
    targets = {relation.get("Id"): relation.get("Target", "") for relation in relations}
    for element in book.iter():
        if element.tag.endswith("}sheet") and element.get("name") == sheet:
            id_ = next((value for name, value in element.items() if name.endswith("}id")), None)
            return posixpath.normpath(posixpath.join("/xl", targets.get(id_, ""))).lstrip("/")
    return None


def cells_without_value(path: Path, sheet: str) -> dict[Place, str]:
    """Return the cells of a sheet that hold an error (such as #N/A), or "formula" for one that was never calculated.

    XlsxWriter stores 0 for every formula, so a column whose formulas are all 0 has not been calculated either.
    """
    name = part_of(path, sheet)
    errors: dict[Place, str] = {}
    formulas: defaultdict[int, dict[int, bytes | None]] = defaultdict(dict)  # the value by column and row
    with zipfile.ZipFile(path) as parts:
        if name not in parts.namelist():
            return {}
        for cells in _whole_cells(parts, name):
            if b'"e"' in cells or b"'e'" in cells:
                errors |= {_place_of(found[1]): found[2].decode() for found in _ERROR.finditer(cells)}
            for found in _FORMULA.finditer(cells) if b"f" in cells else ():
                row, column = _place_of(found[1])
                is_text = _IS_TEXT.search(found[1]) is not None
                formulas[column][row] = b"text" if is_text else found[2] or None
    without = {}
    for column, values in formulas.items():
        are_zero = {*values.values()} <= {None, b"0"}
        without |= {(row, column): "formula" for row, value in values.items() if value is None or are_zero}
    return without | errors


def padded_numbers(path: Path, sheet: str) -> dict[Place, str]:
    """Return the whole numbers of a sheet that are shown with leading zeros, such as codes and ids, as they are shown.

    python-calamine does not tell the format of a cell.
    """
    name = part_of(path, sheet)
    shown = {}
    with zipfile.ZipFile(path) as parts:
        widths = _widths_of_styles(parts)
        if not widths or name not in parts.namelist():
            return {}
        for cells in _whole_cells(parts, name):
            for found in _NUMBER.finditer(cells):
                style = _STYLE.search(found[1])
                width = widths.get(int(style[1]), 0) if style else 0
                if len(found[2]) < width:
                    shown[_place_of(found[1])] = found[2].decode().zfill(width)
    return shown


def _widths_of_styles(parts: zipfile.ZipFile) -> dict[int, int]:
    """Return how many digits the styles of cells show at least, by their numbers, for those whose format is zeros."""
    try:
        styles = ElementTree.fromstring(parts.read("xl/styles.xml"))
    except (KeyError, ElementTree.ParseError):
        return {}
    widths_of_formats = {}
    for element in styles.iter():
        if element.tag.endswith("}numFmt") and _ZEROS.fullmatch(element.get("formatCode", "")):
            widths_of_formats[element.get("numFmtId")] = len(element.get("formatCode", ""))
    cells = next((element for element in styles if element.tag.endswith("}cellXfs")), ())
    widths = {number: widths_of_formats.get(style.get("numFmtId"), 0) for number, style in enumerate(cells)}
    return {number: width for number, width in widths.items() if width}


def _whole_cells(parts: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    """Yield the XML of a sheet in blocks that end before a cell."""
    rest = b""
    with parts.open(name) as file:
        for block in iter(lambda: file.read(_AT_A_TIME), b""):
            rest += block
            cut = max(rest.rfind(b"<c "), rest.rfind(b":c "))
            if cut > 0:
                cut = rest.rfind(b"<", 0, cut + 1)
                yield rest[:cut]
                rest = rest[cut:]
    yield rest


def _place_of(attributes: bytes) -> Place:
    """Return the place that the attributes of a cell name; (0, 0) if they name none."""
    found = _PLACE.search(b" " + attributes.translate(_BLANKS))
    return (int(found[2]), _number_of_column(found[1])) if found else (0, 0)
