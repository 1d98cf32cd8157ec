"""A labelled file that a finished model is to be scored on: its columns are those of the training rows, if it has them.

What differs from training is said: in a line at once, and as a note of the report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from encoderlab.config.commands import EvalConfig
from encoderlab.data.data import Data
from encoderlab.data.dataset import ColumnDataset, DatasetConfig
from encoderlab.data.files import FilesDataset
from encoderlab.data.guesses import first_arrays, first_cells
from encoderlab.errors import DataError, closest
from encoderlab.models.model import Model
from encoderlab.settings import setting_name, typed
from encoderlab.system.messages import say
from encoderlab.tables.columns import guess_label, guess_text, listed_names
from encoderlab.tables.formats import WITHOUT_COLUMNS, Format, format_of, paths_of
from encoderlab.tables.workbooks import sheet_names, sheet_of

Cells = Mapping[str, Sequence[str]]  # the first cells of each column


def as_trained(config: EvalConfig, model: Model) -> tuple[DatasetConfig | None, list[str]]:
    """Return the dataset of an evaluation, with the columns that the model was trained on where none were named; and
    notes on what differs.

    A column that the file lacks is looked for: a text as `predict` does, a label by the labels the model knows. Raises
    DataError if there is a doubt, or if a part of a text is missing.
    """
    dataset = config.dataset
    trained = model.config.dataset
    if not isinstance(dataset, FilesDataset) or not isinstance(trained, ColumnDataset):
        return dataset, []
    path = paths_of(dataset.path or dataset.train, "dataset.path", config.cache)[0]
    kind = format_of(path, dataset.format)
    if kind in WITHOUT_COLUMNS:
        return dataset, []
    sheet = _sheet(dataset, trained, path, kind)
    if kind is Format.excel and sheet is None:
        return dataset, []  # which of several sheets is meant is decided by columns of the usual names
    dialect = replace(dataset.dialect.completed_by(trained.dialect), sheet=sheet)

    # The columns that are named on the command line stay; the others are those of the training rows.
    target = model.config.task.target
    named = set(map(setting_name, config.overrides or ()))
    if target == "words":
        return _with_word_columns(dataset, trained, {*first_arrays(path, kind, dialect, of_words=True)}, named), []
    cells = first_cells(path, kind, dialect)
    columns: dict[str, Any] = {}
    notes = []
    if dataset.text == "text" and "dataset.text" not in named:
        columns["text"], different = _text(path, trained, cells)
        notes += different
    if dataset.text_pair is None and "dataset.text_pair" not in named and trained.text_pair is not None:
        columns["text_pair"] = _second_text(path, trained.text_pair, cells)
    if dataset.label == "label" and dataset.label_columns is None and "dataset.label" not in named:
        read = {*_parts(columns.get("text", dataset.text)), columns.get("text_pair", dataset.text_pair)}
        others = {name: values for name, values in cells.items() if name not in read}
        chosen, different = _label(path, trained, others, model)
        columns |= chosen
        notes += different
    if dataset.slices is None and "dataset.slices" not in named and trained.slices is not None:
        columns["slices"] = [name for name in trained.slices if name in cells] or None
    for note in notes:
        say(note)
    return replace(dataset, sheet=sheet, **columns), notes


def reading_note(data: Data) -> str:
    """Return a note on which columns of a file of one's own were read; "" for rows that are in none."""
    reading = data.origin.get("reading", {})
    if "file" not in reading:
        return ""
    texts = " and ".join(map(repr, [*reading["texts"], *filter(None, [reading.get("text_pair")])]))
    labels = f", labels from {reading['label']!r}" if "label" in reading else ""
    return f"Texts of {Path(reading['file']).name} are read from {texts}{labels}"


def _sheet(dataset: FilesDataset, trained: ColumnDataset, path: Path, kind: Format) -> str | None:
    """Return the sheet to read: the one that is set, the one of training, or the only one with the columns; None if
    there is a doubt, or in other files.
    """
    if kind is not Format.excel or dataset.sheet is not None:
        return dataset.sheet
    sheets = sheet_names(path)
    if trained.dialect.sheet in sheets:
        return trained.dialect.sheet
    try:
        return sheets[0] if len(sheets) == 1 else sheet_of(path, None, trained.file_columns)
    except DataError:
        return None


def _parts(text: Any) -> list[str]:
    return [text] if isinstance(text, str) else list(text)


def _with_word_columns(
    dataset: FilesDataset, trained: ColumnDataset, existing: set[str], named: set[str]
) -> FilesDataset:
    """Return the settings with the columns of words and of their labels as in training, if the file has them."""
    columns: dict[str, Any] = {}
    if dataset.text == "text" and "dataset.text" not in named and {*_parts(trained.text)} <= existing:
        columns["text"] = trained.text
    if dataset.label == "label" and "dataset.label" not in named and trained.label in existing:
        columns["label"] = trained.label
    return replace(dataset, **columns)


def _text(path: Path, trained: ColumnDataset, cells: Cells) -> tuple[Any, list[str]]:
    """Return the columns of the text as in training, or the one that is guessed, with a note. Raises DataError."""
    missing = [part for part in _parts(trained.text) if part not in cells]
    if not missing:
        return trained.text, []
    if len(_parts(trained.text)) > 1:  # one of several columns would be half of each text
        problem = f"{path} has no column {missing[0]!r}, which is a part of each text that the model was trained on"
        remedy = "Rename the column in the file, or set dataset.text to the columns to read"
        raise DataError(problem, allowed=f"columns {', '.join(map(repr, trained.text))}", remedy=remedy)
    guess = _same_name(missing[0], cells)
    if guess is None:
        others = {name: values for name, values in cells.items() if name not in (trained.label, trained.text_pair)}
        try:
            guess = guess_text(others, str(path))
        except DataError as error:
            raise _in_doubt(path, missing[0], "texts", error) from None
    return guess, [f"{_lacks(path, missing[0], 'texts')}: texts are read from {guess!r} (dataset.text)"]


def _second_text(path: Path, trained: str, cells: Cells) -> str:
    """Return the column of the second text. Raises DataError if the file has none of its name."""
    found = trained if trained in cells else _same_name(trained, cells)
    if found is not None:
        return found
    problem = f"{path} has no column {trained!r}, and the model was trained on pairs of texts"
    remedy = f"Set {typed('dataset.text_pair', closest(trained, cells) or 'COLUMN')}"
    raise DataError(problem, allowed=listed_names(cells), remedy=remedy)


def _label(
    path: Path, trained: ColumnDataset, cells: Cells, model: Model
) -> tuple[dict[str, str | list[str]], list[str]]:
    """Return the settings of the columns of labels, and a note if these are not those of the training rows.

    Raises DataError if the columns do not show which holds the labels.
    """
    if trained.label_columns is not None and "label" not in cells:
        missing = [name for name in trained.label_columns if name not in cells]
        if missing:
            problem = f"{path} has no column {missing[0]!r}, which is one of the labels that the model was trained on"
            raise DataError(problem, allowed=listed_names(trained.label_columns), remedy="Add it, or set dataset.label")
        return {"label_columns": trained.label_columns}, []
    if trained.label is None or trained.label_columns is not None:
        return {}, []
    if trained.label in cells:
        return {"label": trained.label}, []

    # The only column whose cells are labels of the model, otherwise one by its name.
    guess = _same_name(trained.label, cells) or _with_labels_of(model, cells)
    if guess is None:
        try:
            guess = guess_label(cells, model.config.task.target, str(path))
        except DataError as error:
            raise _in_doubt(path, trained.label, "labels", error) from None
    return {"label": guess}, [
        f"{_lacks(path, trained.label, 'labels')}: labels are read from {guess!r} (dataset.label)"
    ]


def _with_labels_of(model: Model, cells: Cells) -> str | None:
    """Return the only column whose cells are all labels of the model; None if there is no such one."""
    known = {label.casefold() for label in model.labels}
    found = []
    for name, values in cells.items():
        filled = {value.strip().casefold() for value in values} - {""}
        if filled and filled <= known:
            found.append(name)
    return found[0] if len(found) == 1 else None


def _same_name(name: str, cells: Cells) -> str | None:
    """Return the only column with this name in another case, or with blanks around it; None if there is none."""
    same = [other for other in cells if other.strip().casefold() == name.strip().casefold()]
    return same[0] if len(same) == 1 else None


def _lacks(path: Path, name: str, what: str) -> str:
    return f"{path} has no column {name!r}, which held the {what} in training"


def _in_doubt(path: Path, name: str, what: str, error: DataError) -> DataError:
    """Return the error that says what differs from training too."""
    problem = f"{_lacks(path, name, what)}, and does not show which other one does"
    return DataError(problem, allowed=error.allowed, remedy=error.remedy)
