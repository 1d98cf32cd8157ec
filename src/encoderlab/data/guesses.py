"""Which columns of a file, and which sheet of a workbook, are read where nobody named them: by name and cells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoderlab.errors import DataError
from encoderlab.system.messages import say
from encoderlab.tables.columns import Columns, described, guess_label, guess_text
from encoderlab.tables.formats import Dialect, Format

if TYPE_CHECKING:
    import pyarrow as pa

    from encoderlab.data.dataset import ColumnDataset
    from encoderlab.network.config import TargetKind


def guessed_columns(
    dataset: ColumnDataset, path: Path, kind: Format, target: TargetKind, error: DataError
) -> dict[str, str]:
    """Return the columns of the file that stand for the defaults of `text` and `label` it lacks, and say so.

    Of a workbook, also the only sheet that has such columns. Raises `error` if a column was named that is missing,
    another DataError if there is a doubt.
    """
    if kind in (Format.txt, Format.conll, Format.folder):
        raise error
    if target == "words":
        guesses = _guessed_words(dataset, path, kind, error)
    elif kind is Format.excel and dataset.dialect.sheet is None:
        guesses = _guessed_sheet(dataset, path, target, error)
    else:
        where = str(path) if dataset.dialect.sheet is None else f"{path}, sheet {dataset.dialect.sheet!r}"
        guesses = _guesses(dataset, first_cells(path, kind, dataset.dialect), target, where, error)
    if not guesses:
        raise error  # of another split's file
    named = []
    for option, name in guesses.items():
        read = f"the sheet {name!r} is read" if option == "sheet" else f"{option}s are read from {name!r}"
        named.append(f"{read} (dataset.{option})")
    say(f"{path}: {', '.join(named)}")
    return guesses


def _guessed_words(dataset: ColumnDataset, path: Path, kind: Format, error: DataError) -> dict[str, str]:
    """Return the columns of words and of their labels that stand for the defaults of `text` and `label`."""
    from encoderlab.tables.word_files import guess_words

    arrays = first_arrays(path, kind, dataset.dialect, of_words=True)
    lacks_text = dataset.text not in arrays
    lacks_label = dataset.label not in (None, *arrays)
    if (lacks_text and dataset.text != "text") or (lacks_label and dataset.label != "label"):
        raise error
    text = None if lacks_text else str(dataset.text)
    label = None if lacks_label else str(dataset.label)
    return guess_words(arrays, str(path), text=text, label=label)


def _guessed_sheet(dataset: ColumnDataset, path: Path, target: TargetKind, error: DataError) -> dict[str, str]:
    """Return the only sheet in which columns can be guessed (unless the workbook has one sheet), and these."""
    from encoderlab.tables.workbooks import quoted, sheet_names

    sheets = sheet_names(path)
    by_sheet: dict[str, dict[str, str]] = {}
    descriptions = []
    for sheet in sheets:
        cells = first_cells(path, Format.excel, replace(dataset.dialect, sheet=sheet))
        where = f"{path}, sheet {sheet!r}"
        try:
            guesses = _guesses(dataset, cells, target, where, error)
        except DataError:
            if len(sheets) == 1:
                raise
        else:
            labels = cells.get(guesses.get("label", ""), [])
            is_a_key = len(labels) > 1 and len({*labels}) == len(labels)  # as in a table that explains codes
            if not is_a_key or len(sheets) == 1:
                by_sheet[sheet] = guesses
        descriptions.append(f"sheet {sheet!r}: {described(cells) or 'empty'}")
    if len(sheets) == 1:
        return by_sheet[sheets[0]]
    if len(by_sheet) == 1:
        sheet, guesses = next(iter(by_sheet.items()))
        return {"sheet": sheet, **guesses}
    if dataset.text != "text" and dataset.label != "label":
        raise error
    sheet = next(iter(by_sheet), sheets[0])
    if by_sheet:
        problem = f"{path} has texts and labels in several sheets"
        raise DataError(problem, allowed=quoted(by_sheet), remedy=f"Set dataset.sheet={sheet!r}")
    problem = f"{path} does not show which sheet and which columns to read"
    remedy = f"Set dataset.sheet={sheet!r} dataset.text=COLUMN dataset.label=COLUMN"
    raise DataError(problem, allowed="; ".join(descriptions), remedy=remedy)


def _guesses(
    dataset: ColumnDataset, cells: dict[str, list[str]], target: TargetKind, where: str, error: DataError
) -> dict[str, str]:
    """Return the columns, given their first cells, that stand for the defaults of `text` and `label`."""
    columns = dataset.columns(target)
    lacks_text = not {*columns.parts} <= {*cells}
    lacks_label = columns.label not in (None, *cells)
    if (lacks_text and dataset.text != "text") or (lacks_label and dataset.label != "label"):
        raise error
    guesses: dict[str, str] = {}
    if lacks_text:
        named = (dataset.text_pair, dataset.label)
        texts = {name: values for name, values in cells.items() if name not in named}
        guesses["text"] = guess_text(texts, where)
    if lacks_label:
        read = (*guesses.values(), *columns.texts())
        labels = {name: values for name, values in cells.items() if name not in read}
        guesses["label"] = guess_label(labels, target, where)
    return guesses


def first_cells(path: Path, kind: Format, dialect: Dialect, setting: str = "dataset.{}") -> dict[str, list[str]]:
    """Return the first cells of each column of a file as texts, to guess by what the columns hold.

    `setting` is how messages name a column's setting, with {} for text or label.
    """
    cells = {}
    for name, array in first_arrays(path, kind, dialect, setting).items():
        cells[name] = ["" if value is None else as_cell(value) for value in array.to_pylist()]
    return cells


def first_arrays(
    path: Path, kind: Format, dialect: Dialect, setting: str = "dataset.{}", *, of_words: bool = False
) -> dict[str, pa.Array]:
    """Return the first cells of each column of a file (`of_words`: also lists of them); see `first_cells`."""
    from encoderlab.tables.readers import read_batches

    named = ()
    if of_words and kind is Format.parquet:
        import pyarrow.parquet as pq
        from pyarrow import types

        schema = pq.read_schema(path)
        named = tuple(one.name for one in schema if types.is_list(one.type) or types.is_large_list(one.type))
    columns = Columns(named, setting=setting, target="words" if of_words else "label", others=True)
    _, arrays = next(read_batches(path, kind, columns, dialect), (0, {}))
    return arrays


def as_cell(value: Any) -> str:
    """Return a value as a text: truth values as in JSON."""
    return str(value).lower() if isinstance(value, bool) else str(value)
