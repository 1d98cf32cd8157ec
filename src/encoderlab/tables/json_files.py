"""Tables in JSON: an object in each line, or one document in a shape that pandas, datasets or a web service writes.

The shapes of pandas are those of `DataFrame.to_json` (orient: columns, index, records, split, table).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from encoderlab.errors import DataError
from encoderlab.settings import typed
from encoderlab.system.messages import say_once
from encoderlab.tables.annotation_tools import Record
from encoderlab.tables.columns import Columns, listed
from encoderlab.tables.formats import Format, lines_of
from encoderlab.tables.label_cells import label_of_object

_RECORDS = "Write it as an array of objects, in pandas by df.to_json(path, orient='records')"
_BLANKS = re.compile(r"\s*")
_LOOKED_AT = 10_000  # rows of lines, whose names are the columns
_CHARACTERS_LOOKED_AT = 2**24
_DEEPEST = 3  # objects around a table


def json_records(path: Path, kind: Format, encoding: str) -> Iterator[Record]:
    """Yield the objects of a document, or the one in each line. Raises DataError for what is no table."""
    if kind is Format.jsonl:
        yield from _objects_in_lines(path, lines_of(path, encoding))
        return
    stat = path.stat()
    rows = _rows_of(path, _document(path, encoding, stat.st_size, stat.st_mtime_ns))
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise DataError(
                f"{path}, row {number} is not a JSON object", allowed="an object with a value for each column"
            )
        yield number, row


def _objects_in_lines(path: Path, lines: Iterable[str]) -> Iterator[Record]:
    for number, text in enumerate(lines, start=1):
        if text.isspace():
            continue
        try:
            value = _DECODER.decode(text)
        except (ValueError, RecursionError) as error:
            raise _not_json(path, text, error, line=number) from error
        if not isinstance(value, dict):
            problem = f"{path}, line {number} is not a JSON object"
            raise DataError(problem, allowed="an object with a value for each column")
        yield number, value


@lru_cache(maxsize=1)
def _document(path: Path, encoding: str, size: int, modified: int) -> Any:  # noqa: ARG001
    """Return what a document holds; of objects one after another, the list of them.

    It stays in memory, because its columns are often guessed before its rows are read, until it is forgotten.
    """
    text = "".join(lines_of(path, encoding))
    values = []
    at = _after_blanks(text, 0)
    try:
        while at < len(text):
            value, at = _DECODER.raw_decode(text, at)
            values.append(value)
            at = _after_blanks(text, at)
    except (ValueError, RecursionError) as error:
        raise _not_json(path, text, error) from error
    return values[0] if len(values) == 1 else values


def forget_document() -> None:
    """Free the memory of the document that was read last."""
    _document.cache_clear()


def _constant(name: str) -> float | None:
    """Return the value of NaN, Infinity or -Infinity, which Python writes: a number that is none is missing."""
    return None if name == "NaN" else float(name)


_DECODER = json.JSONDecoder(parse_constant=_constant)


def _after_blanks(text: str, at: int) -> int:
    """Return where the next character is that is not blank."""
    match = _BLANKS.match(text, at)
    return match.end() if match else at


def _not_json(path: Path, text: str, error: Exception, line: int = 0) -> DataError:
    """Return the error for a text that is not JSON: it names the usual slips of people who wrote it by hand."""
    at = error.pos if isinstance(error, json.JSONDecodeError) else 0
    number = line or text.count("\n", 0, at) + 1
    place = f"{path}, line {number}"
    before = text[:at].rstrip()
    after = text[at:].lstrip()
    follows = after.lstrip(", \t\r\n")[:1] if after.startswith(",") else after[:1]  # Python 3.13 points at the comma
    if follows in ("]", "}", "") and (before.endswith(",") or after.startswith(",")):
        return DataError(
            f"{place} has a comma that nothing follows", remedy="Remove the comma before the closing bracket"
        )
    if before.endswith("}") and after.startswith(",") and (line or not text.lstrip().startswith("[")):
        problem = f"{place} ends with a comma, as in an array without its brackets"
        return DataError(problem, remedy="Remove the comma at the end of each line, or write [ before and ] after them")
    if after.startswith("'"):
        problem = f"{place} is written with single quotes, as Python shows a value"
        return DataError(problem, remedy="Write it with json.dumps, which uses double quotes")
    if line == 0 and after == "":
        return DataError(f"{path} ends in the middle of its JSON", remedy="Save it again, whole")
    reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
    return DataError(f"{place} is not JSON: {reason}", allowed="an array of objects, or one in each line")


def _rows_of(path: Path, document: Any) -> Iterable[Any]:
    """Return the rows of a document, by its shape. Raises DataError if it has none that is known."""
    if isinstance(document, list):
        if document and isinstance(document[0], list):
            raise DataError(f"{path} is an array of arrays, which has no names of columns", remedy=_RECORDS)
        if document and not isinstance(document[0], dict):
            raise DataError(f"{path} is an array of values, and not of rows", remedy=_RECORDS)
        return document
    if not isinstance(document, dict):
        raise DataError(f"{path} is a single value", allowed="an array of objects, or one in each line")
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return [document]  # the only line of such a file is a row, which may have lists and objects
    return _rows_of_table(path, document) or _rows_of_inner_table(path, document) or _rows_of_columns(path, document)


def _rows_of_table(path: Path, document: dict[str, Any]) -> Iterable[Any]:
    """Return the rows of a document that holds them as a list; nothing if it does not. DataError for several lists."""
    names = document.get("columns")
    rows = document.get("data")
    if isinstance(names, list) and isinstance(rows, list):
        are_lists = all(isinstance(row, list) and len(row) == len(names) for row in rows)
        if are_lists:  # orient='split'
            return [dict(zip(map(str, names), row, strict=True)) for row in rows]
    tables = [name for name, value in document.items() if _is_table(value)]
    others = [value for name, value in document.items() if name not in tables and isinstance(value, list) and value]
    if len(tables) == 1 and not others:
        if tables != ["data"] or "schema" not in document:  # orient='table'
            say_once(f"{path}: its rows are read from {tables[0]!r}")
        return document[tables[0]]
    if len(tables) > 1 or (len(document) > 1 and all(map(_is_grid, document.values()))):
        _refuse_several(path, [*document])
    return []


def _rows_of_inner_table(path: Path, document: dict[str, Any]) -> Iterable[Any]:
    """Return the rows of the only table within the objects of a document, as web services write it; nothing if there is
    none. Raises DataError for several.
    """
    tables = dict(_inner_tables(document, _DEEPEST))
    if len(tables) > 1:
        _refuse_several(path, [*tables])
    for name, rows in tables.items():
        say_once(f"{path}: its rows are read from {name!r}")
        return rows
    return []


def _inner_tables(value: Mapping[str, Any], depth: int, before: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Yield the lists of several objects within an object, by names such as hits.hits."""
    for name, inner in value.items():
        if isinstance(inner, dict) and depth > 0:
            yield from _inner_tables(inner, depth - 1, f"{before}{name}.")
        elif before and isinstance(inner, list) and len(inner) > 1 and _is_table(inner):
            yield f"{before}{name}", inner


def _rows_of_columns(path: Path, document: dict[str, Any]) -> Iterable[Any]:
    """Return the rows of a document that holds columns, as lists or as objects; otherwise it is itself a row."""
    values = [*document.values()]
    if values and all(isinstance(value, dict) for value in values):
        return _rows_of_objects(document)
    if not values or not all(isinstance(value, list) for value in values):
        return [document]
    if len({*map(len, values)}) > 1:
        shapes = listed(f"{name} ({len(value):,})" for name, value in document.items())
        raise DataError(f"{path} has columns of different lengths: {shapes}", remedy=_RECORDS)
    return (dict(zip(document, row, strict=True)) for row in zip(*values, strict=True))  # datasets' to_dict


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _is_grid(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], list)


def _refuse_several(path: Path, names: list[str]) -> None:
    problem = f"{path} holds several tables: {listed(names)}"
    remedy = f"Save each as a file of its own, for instance by jq .{names[0]} {path} > {names[0]}.json"
    raise DataError(problem, allowed="one table, as an array of objects", remedy=remedy)


def _rows_of_objects(document: Mapping[str, Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    """Return the rows of objects within an object: {column: {row: value}}, or {row: {column: value}}."""
    first = next(iter(document.values()))
    are_numbers = [all(re.fullmatch(r"-?[0-9]+", name) for name in names) for names in (document, first)]
    are_alike = all({*one} == {*first} for one in document.values())
    if are_numbers[0] or (len(document) > len(first) and not are_numbers[1]):
        return [*map(dict, document.values())]
    if not are_alike:
        return [dict(document)]
    return ({name: column[row] for name, column in document.items()} for row in first)


def with_columns(records: Iterator[Record], columns: Columns, place: Callable[[int], str]) -> Iterator[Record]:
    """Yield records whose first one has all the columns of the first ones, with nested fields and labels by name.

    A column such as data.text is the field `text` of the object `data`. An object that stands for a label is its name.
    What only later records have is left out, which is said at the end.
    """
    used = [*columns.by_setting().values()]
    shaped = _shaper(columns, used)
    shown = [(number, shaped(record)) for number, record in _first(records)]
    if not shown:
        return
    names = dict.fromkeys(name for _, record in shown for name in record)
    number, record = shown[0]
    yield number, {name: record.get(name) for name in names}
    yield from shown[1:]
    late: dict[str, str] = {}
    for number, record in records:
        row = shaped(record)
        if not row.keys() <= names.keys():
            late |= {name: place(number) for name in row.keys() - names.keys() - late.keys()}
        yield number, row
    for name, where in late.items():
        say_once(f"{where} is the first with {name!r}, a column that no row at the beginning has: it is left out")


def _first(records: Iterator[Record]) -> list[Record]:
    """Return the first records, which show what columns there are."""
    first = []
    n_characters = 0
    for record in islice(records, _LOOKED_AT):
        first.append(record)
        n_characters += sum(len(value) for value in record[1].values() if isinstance(value, str))
        if n_characters > _CHARACTERS_LOOKED_AT:
            break
    return first


def _shaper(columns: Columns, used: list[str]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return what gives a record its nested columns, and its labels their names."""
    nested = [name for name in used if "." in name]

    def shaped(record: dict[str, Any]) -> dict[str, Any]:
        if not used and any(isinstance(value, dict) for value in record.values()):  # to guess columns: all fields
            return dict(_fields(record))
        added = {}
        for name in nested:
            if name not in record and name.split(".")[0] in record:
                added[name] = _field(record, name)
        label = columns.label
        if label is not None:
            value = added.get(label, record.get(label))
            if isinstance(value, dict | list):
                added[label] = label_of_object(value)
            if isinstance(added.get(label), dict):
                _ask_for_field(columns, added[label])
        return {**record, **added} if added else record

    return shaped


def _ask_for_field(columns: Columns, value: dict[str, Any]) -> None:
    """Raise DataError for an object that stands for a label and has no name that is known: it offers its fields."""
    names = [f"{columns.label}.{name}" for name, _ in _fields(value)]
    texts = [f"{columns.label}.{name}" for name, one in _fields(value) if isinstance(one, str)]
    problem = f"The labels in {columns.label!r} are objects, such as {json.dumps(value)[:60]}"
    setting = typed(columns.setting.format("label"), next(iter([*texts, *names]), "COLUMN"))
    raise DataError(problem, allowed=listed(names), remedy=f"Set {setting}")


def _fields(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of an object and of those within it, by names such as data.text."""
    for name, value in record.items():
        if isinstance(value, dict) and value:
            yield from _fields(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _field(record: Any, name: str) -> Any:
    """Return a field by a name such as data.text; None if an object on the way is missing."""
    for part in name.split("."):
        record = record.get(part) if isinstance(record, dict) else None
    return record
