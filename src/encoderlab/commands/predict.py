"""encoderlab predict: one prediction for each input row, in order."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, time
from itertools import chain, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

from encoderlab.config.commands import PredictConfig, PredictionFormat, Probabilities
from encoderlab.data.examples import Example, Split, texts_of
from encoderlab.data.files import first_cells
from encoderlab.data.formats import format_of
from encoderlab.errors import DataError, SettingError, one_line, printable
from encoderlab.metrics.comparison import SEPARATOR
from encoderlab.reports import wording
from encoderlab.reports.predictions import carried_names, cell, in_json, quoting_writer
from encoderlab.runs import inputs
from encoderlab.runs.model import Model, unless_blank
from encoderlab.runs.model_folder import open_model
from encoderlab.system.files import atomic_write
from encoderlab.tasks.rows import ExampleRows

if TYPE_CHECKING:
    import pyarrow

Row = dict[str, Any]  # the cells of a row by column
Types = Mapping[str, "pyarrow.DataType"]  # of the input's columns

ENDINGS = {f".{form.name}": form for form in PredictionFormat}
NOT_WRITTEN = (".tsv", ".json", ".xls", ".gz", ".zst")  # as people might expect
BINARY = (PredictionFormat.parquet, PredictionFormat.xlsx)
SHOWN = 3  # classes on a terminal
MUCH_LONGER = 1.25  # times the longest training row
FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # a cell that begins with one of them is computed by spreadsheets
EMPTY = ("text", "predicted")  # the header of a table without rows
ROWS_IN_A_GROUP = 4096  # of a Parquet file: this many are in memory at a time
FIRST_YEAR = 1901  # from which Excel's days are those of the calendar
EXCEL_ROWS, EXCEL_CELL = 1_048_576, 32_767  # support.microsoft.com, "Excel specifications and limits"


def predict(config: PredictConfig) -> None:
    """Predict for a text, a file, a split, or the lines of standard input. Raises SettingError, DataError."""
    config = replace(config, input=None if config.input == "-" else config.input)
    _check_settings(config)
    form = _format(config)
    model = open_model(config, or_graph=True)
    check_certainty(config.min_probability, model)
    try:
        examples, total = _examples(config, model)
    except DataError as error:
        from encoderlab.data.columns import MissingColumnError, guess_text

        typed = config.text_column is not None or _text_columns(config, model)[1] is not None
        if config.input is None or typed or not isinstance(error, MissingColumnError):
            raise
        path = Path(config.input)
        dialect = inputs.dialect_of(model, config.dialect)
        guess = guess_text(first_cells(path, format_of(path), dialect), str(path), "text_column")
        print(f"encoderlab: {path}: texts are read from {guess!r} (text_column)", file=sys.stderr)
        config = replace(config, text_column=guess)
        examples, total = _examples(config, model)
    carried = examples.carried if isinstance(examples, Split) else None
    schema = [] if carried is None else carried.features.arrow_schema
    types = {column.name: column.type for column in schema if not column.type.num_fields}
    on_terminal = config.output is None and sys.stdout.isatty()
    in_lines = on_terminal and config.format is None
    if in_lines:
        config = replace(config, probabilities=Probabilities.all)
    counted = Counter[str]()
    rows = _rows(config, model, examples, total, counted)
    with _output(config.output) as file:
        if in_lines:
            show_rows(rows, _text_columns(config, model)[0] if config.input else "text")
        else:
            rows = map(_printable, rows) if on_terminal else rows
            escaped = config.escape_formulas and form is PredictionFormat.csv
            WRITERS[form](file, map(_without_formulas, rows) if escaped else rows, types)
    if counted["unseen"]:
        longest_row = model.origin.longest_row
        words = f"{counted['unseen']:,} of {wording.counted(counted['rows'], 'row')} are much longer than any that the"
        trained = f"model was trained on ({longest_row:,} tokens), so their probabilities mean little"
        print(f"encoderlab: {words} {trained}", file=sys.stderr)
    if config.output is not None:
        cut = f"; {counted['truncated']:,} truncated to {model.task.limit}" if counted["truncated"] else ""
        print(f"encoderlab: wrote {counted['rows']:,} rows to {config.output}{cut}", file=sys.stderr)


def _check_settings(config: PredictConfig) -> None:
    """Refuse settings that contradict each other, before a model is loaded."""
    inputs.check_sources(config)
    if config.text_pair is not None and config.text is None:
        raise SettingError("text_pair is given without text", remedy="Set text=... too")
    if config.output is not None and Path(config.output).exists() and not config.overwrite:
        remedy = "Choose another name, or set overwrite=true"
        raise SettingError(f"output={config.output} already exists", remedy=remedy)


def check_certainty(min_probability: float | None, model: Model) -> None:
    """Raise SettingError for `min_probability` if the model does not predict one label per row or word."""
    if min_probability is not None and not model.task.gives_one_label:
        wrong = "min_probability needs a model with one label per row, and this one predicts numbers or sets of labels"
        raise SettingError(wrong, remedy="Remove min_probability")


def _format(config: PredictConfig) -> PredictionFormat:
    """Return the format that is set, or that of `output`'s extension. Raises SettingError if it cannot be written."""
    extension = Path(config.output or "").suffix.lower()
    if config.format is None and extension in NOT_WRITTEN:
        wrong = f"Predictions cannot be written as {extension} ({config.output})"
        raise SettingError(wrong, allowed=", ".join(ENDINGS), remedy="Choose one of these, or set format")
    form = config.format or ENDINGS.get(extension, PredictionFormat.csv)
    if form in BINARY and config.output is None:
        wrong = f"format={form.name} cannot be written to standard output"
        raise SettingError(wrong, remedy=f"Set output=FILE.{form.name}")
    return form


def _examples(config: PredictConfig, model: Model) -> tuple[Iterable[Example], int | None]:
    """Return the examples to predict, and how many there are if that is known."""
    if config.text is not None:
        model.check_paired(config.text_pair is not None)
        return [model.example(config.text, config.text_pair)], 1
    if config.split is not None:
        return inputs.split_examples(model, config.split, config.cache)
    column, pair_column = _text_columns(config, model)
    model.check_paired(pair_column is not None)
    if config.input is not None:
        place = (Path(config.input), column, pair_column, config.dialect, config.cache)
        return inputs.file_examples(model, *place)
    return inputs.standard_input_examples(model, paired=pair_column is not None), None


def _text_columns(config: PredictConfig, model: Model) -> tuple[Any, str | None]:
    """Return the names of the columns with the text (a list if it was joined from several) and its second text, if the
    model reads pairs.
    """
    dataset = model.config.dataset
    column = config.text_column or getattr(dataset, "text", "text")
    return column, config.text_pair_column or getattr(dataset, "text_pair", None)


def _rows(
    config: PredictConfig, model: Model, examples: Iterable[Example], total: int | None, counted: Counter[str]
) -> Iterator[Row]:
    """Yield each row of the input, with its columns, and its prediction; count rows and truncated texts."""
    carried = examples.carried if isinstance(examples, Split) else None
    names = [name or "text_pair" for name in _text_columns(config, model)] if config.input else ["text", "text_pair"]
    for some in inputs.in_chunks(examples, total, "predicting"):
        rows = model.rows(some)
        first = counted["rows"]
        others: Any = repeat({}) if carried is None else carried.select(range(first, first + len(some)))
        counted.update(rows=len(some), truncated=int(rows.truncated().sum()), unseen=_unseen_lengths(model, rows))
        answers = model.outputs(rows, model.task.predictions)
        for example, predicted, other in zip(some, answers, others, strict=False):
            pairs = zip(names, texts_of(example), strict=False)
            texts = {name: text for name, text in pairs if isinstance(name, str)}  # joined columns are carried
            columns = {name: texts.get(name, other[name]) for name in other} | texts
            cells = model.task.cells(predicted, example, config.min_probability or 0.0)
            if config.probabilities is not Probabilities.all:
                cells.pop("probabilities", None)
            cells = unless_blank(example, cells)
            renamed = carried_names(columns, cells)
            yield {renamed[name]: value for name, value in columns.items()} | cells


def _unseen_lengths(model: Model, rows: ExampleRows) -> int:
    """Return how many of the rows are so much longer than every training row that nothing is known of such a length."""
    longest_row = model.origin.longest_row
    if longest_row is None:
        return 0
    return int((rows.lengths > MUCH_LONGER * longest_row).sum())


def _printable(value: Any) -> Any:
    """Return a row or a value of it for a terminal, which would obey the control characters in a text."""
    if isinstance(value, dict):
        return {printable(name): _printable(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_printable(one) for one in value]
    return printable(value) if isinstance(value, str) else value


def _without_formulas(row: Row) -> Row:
    """Return the row with an apostrophe before each text that a spreadsheet would compute, and before such names."""
    unsafe = lambda value: isinstance(value, str) and value.startswith(FORMULAS)  # noqa: E731
    return {f"'{name}" if unsafe(name) else name: f"'{one}" if unsafe(one) else one for name, one in row.items()}


def _flat(row: Row) -> Row:
    """Return the cells of a row of a table: lists as one text, and a column for each class."""
    chances = row.get("probabilities")
    flat = {name: value for name, value in row.items() if name != "probabilities" or not isinstance(value, dict)}
    separator = SEPARATOR if isinstance(row["predicted"], list) else " "
    flat |= {name: separator.join(map(str, value)) for name, value in flat.items() if isinstance(value, list)}
    if isinstance(chances, dict):
        flat |= {f"probability_{label}": chance for label, chance in chances.items()}
    return flat


def _write_csv(file: TextIO, rows: Iterator[Row], types: Types) -> None:
    """Write a header and the rows, each as soon as it is known."""
    writer, first = quoting_writer(file), next(rows, None)
    csv.writer(file, lineterminator="\n").writerow(EMPTY if first is None else _flat(first))
    for row in chain([] if first is None else [first], rows):
        writer.writerow(map(cell, _flat(row).values()))


def _write_jsonl(file: TextIO, rows: Iterator[Row], types: Types) -> None:
    """Write one object per line, each as soon as it is known."""
    for row in rows:
        file.write(json.dumps(row, ensure_ascii=False, default=in_json) + "\n")


def _write_parquet(file: TextIO, rows: Iterator[Row], types: Types) -> None:
    """Write the cells, one group of rows at a time; the input's columns keep their `types`."""
    import pyarrow
    import pyarrow.parquet

    flat = map(_flat, rows)
    group = list(islice(flat, ROWS_IN_A_GROUP))
    kinds = {}
    for name in group[0] if group else EMPTY:
        known = (row[name] for row in group if row[name] is not None)  # a blank text has no prediction
        ours = pyarrow.float64() if isinstance(next(known, None), float) else pyarrow.string()
        kinds[name] = types.get(name, types.get(name.removeprefix("input_"), ours))
    schema = pyarrow.schema(kinds)
    with pyarrow.parquet.ParquetWriter(cast("BinaryIO", file.buffer), schema) as writer:
        while group:
            writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))
            group = list(islice(flat, ROWS_IN_A_GROUP))


def _write_xlsx(file: TextIO, rows: Iterator[Row], types: Types) -> None:
    """Write a sheet, in which no text is a formula. Raises DataError for what Excel cannot hold."""
    import openpyxl
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.utils.exceptions import IllegalCharacterError

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("predictions")

    def cells(values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            one = WriteOnlyCell(sheet, value)
            one.data_type = "s" if isinstance(value, str) else one.data_type
            yield one

    for number, row in enumerate(map(_flat, rows)):
        if number == 0:
            sheet.append(cells(row))
        try:
            if number >= EXCEL_ROWS - 1 or any(len(one) > EXCEL_CELL for one in row.values() if isinstance(one, str)):
                raise IllegalCharacterError
            sheet.append(cells(map(_excel_cell, row.values())))
        except IllegalCharacterError:
            allowed = f"{EXCEL_ROWS:,} rows, {EXCEL_CELL:,} characters in a cell, and no control characters"
            wrong = f"Row {number + 1:,} does not fit into an Excel sheet"
            raise DataError(wrong, allowed=allowed, remedy="Write csv or parquet") from None
    book.save(cast("BinaryIO", file.buffer))


def _excel_cell(value: Any) -> Any:
    """Return a value as a cell of a sheet: dates and times as such, if Excel has them."""
    if isinstance(value, time):
        return value if value.tzinfo is None else cell(value)
    is_date = isinstance(value, date) and value.year >= FIRST_YEAR and getattr(value, "tzinfo", None) is None
    return value if is_date else cell(value)


def show_rows(rows: Iterator[Row], columns: str | Sequence[str]) -> None:
    """Print a line for each row: the prediction, the most probable classes, and the text, which is in `columns`."""
    names = [columns] if isinstance(columns, str) else columns
    for row in rows:
        predicted, chances = row["predicted"], row.get("probabilities")
        text = " | ".join(str(row[name]) for name in names if name in row)
        words = ", ".join(predicted) or "no label" if isinstance(predicted, list) else str(cell(predicted))
        known = chances.items() if isinstance(chances, dict) and text.strip() else ()  # or a column
        best = sorted(known, key=lambda pair: -pair[1])[:SHOWN]
        classes = ", ".join(f"{label} {chance:.3f}" for label, chance in best)
        unsure = "unsure" if text.strip() else "no text"
        print(one_line("  ".join(filter(None, [words or unsure, classes and f"({classes})", text]))))


WRITERS = dict(zip(PredictionFormat, (_write_csv, _write_jsonl, _write_parquet, _write_xlsx), strict=True))


@contextmanager
def _output(path: str | None) -> Iterator[TextIO]:
    """Open standard output, or a file that appears whole or not at all. Raises DataError."""
    try:
        if path is None:
            yield sys.stdout
            sys.stdout.flush()
        else:
            with atomic_write(Path(path)) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
                yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        if path is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python tries again at exit
        where = "Standard output" if path is None else f"output={path}"
        remedy = f"Free space, or {'set output=FILE' if path is None else 'choose another folder'}"
        raise DataError(f"{where} cannot be written: {error.strerror}", remedy=remedy) from None
