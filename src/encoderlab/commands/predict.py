"""encoderlab predict: one prediction for each input row, in order."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

from encoderlab.config.commands import PredictConfig, PredictionFormat, Probabilities
from encoderlab.data.examples import Example, Split, texts_of
from encoderlab.errors import SettingError, one_line
from encoderlab.metrics.comparison import SEPARATOR
from encoderlab.models import inputs
from encoderlab.models.folder import model_folder, open_model
from encoderlab.models.kept_predictions import (
    Answers,
    KeptAnswers,
    fingerprint_of_model,
    kept_beside,
    partial_of,
    threads_of_partial,
)
from encoderlab.models.model import Model, unless_blank
from encoderlab.models.row_files import (
    WRITERS,
    Row,
    check_output,
    check_size,
    format_to_write,
    output_file,
    printable_row,
    types_of,
    without_formulas,
)
from encoderlab.reports.predictions import carried_names, cell
from encoderlab.system.messages import RowsDone, rows_done
from encoderlab.tables.columns import joined_columns
from encoderlab.tasks.rows import ExampleRows
from encoderlab.tasks.task import UNLIKE_TRAINING, UNSURE

SHOWN = 3  # classes on a terminal
MUCH_LONGER = 1.25  # times the longest training row
CHARACTERS_AT_A_TIME = 2**20  # of rows that are predicted together, and kept together: some minutes of a large model
FEW = 1000  # rows that are not worth keeping while they are predicted
EMPTY = ("text", "predicted")  # the header of a table without rows

Answered = tuple[Row, Row]  # the cells of a row of the input, and those of its prediction


def predict(config: PredictConfig) -> None:
    """Predict for a text, a file, a split, or the lines of standard input. Raises SettingError, DataError."""
    config = replace(config, input=None if config.input == "-" else config.input)
    _check_settings(config)
    form = format_to_write(config.format, config.output)
    config = replace(config, threads=config.threads or threads_of_partial(config.output))
    model = open_model(config, or_graph=True)
    model.abstention(config.min_probability, config.unlike_training)  # refuses what the model cannot do
    if config.input is None:
        examples, total = _examples(config, model)
    else:
        examples, total, config = inputs.texts_of_file(config, model)
    check_size(form, total, config.output)
    carried = examples.carried if isinstance(examples, Split) else None
    on_terminal = config.output is None and sys.stdout.isatty()
    in_lines = on_terminal and config.format is None
    if in_lines:
        config = replace(config, probabilities=Probabilities.all)
    counted = Counter[str]()
    with _kept(config, model, total) as kept, output_file(config.output) as file:
        answered = _answered(config, model, examples, total, kept, counted)
        rows, names = _named(answered, flat=form is not PredictionFormat.jsonl and not in_lines)
        if in_lines:
            show_predictions(rows, inputs.text_columns(config, model)[0] if config.input else "text")
        else:
            rows = map(printable_row, rows) if on_terminal else rows
            if config.escape_formulas and form is PredictionFormat.csv:
                rows = map(without_formulas, rows)
            types = {names.get(name, name): kind for name, kind in types_of(carried).items()}
            WRITERS[form](file, rows, types, EMPTY)
    if counted["unseen"]:
        longest_row = model.origin.longest_row
        is_one = counted["rows"] == 1
        words = "This row is" if is_one else f"{counted['unseen']:,} of {counted['rows']:,} rows are"
        words += " much longer than any that the model was trained on"
        trained = f"({longest_row:,} tokens), so little is known of how right its answers are there"
        print(f"encoderlab: {words} {trained}", file=sys.stderr)
    if config.output is not None:
        cut = f"; {counted['truncated']:,} truncated to {model.task.limit}" if counted["truncated"] else ""
        print(f"encoderlab: wrote {counted['rows']:,} rows to {config.output}{cut}", file=sys.stderr)


def _check_settings(config: PredictConfig) -> None:
    """Refuse settings that contradict each other, before a model is loaded."""
    inputs.check_sources(config)
    if config.text_pair is not None and config.text is None:
        raise SettingError("text_pair is given without text", remedy="Set text=... too")
    check_output(config)


def _examples(config: PredictConfig, model: Model) -> tuple[Iterable[Example], int | None]:
    """Return the examples to predict that are in no file, and how many there are if that is known."""
    if config.text is not None:
        model.check_paired(config.text_pair is not None)
        return [model.example(config.text, config.text_pair)], 1
    if config.split is not None:
        return inputs.split_examples(model, config.split, config.cache)
    paired = inputs.text_columns(config, model)[1] is not None
    model.check_paired(paired)
    return inputs.standard_input_examples(model, paired=paired), None


def _kept(config: PredictConfig, model: Model, total: int | None) -> AbstractContextManager[KeptAnswers | None]:
    """Open what keeps the predictions until the output is finished; nothing for few rows or standard output."""
    output = config.output
    if output is None or (Path(output).exists() and not Path(output).is_file()):  # a device
        return nullcontext()
    if total is not None and total <= FEW and not partial_of(output).exists():
        return nullcontext()
    facts = {
        "model": fingerprint_of_model(model_folder(config.run)),
        "version": version("encoderlab"),
        "device": str(model.compute.device),
        "precision": str(model.compute.precision),
        "threads": model.compute.threads,
        "probabilities": config.probabilities.name,
        "min_probability": config.min_probability,
        "unlike_training": config.unlike_training,
    }
    return kept_beside(output, facts, anew=config.overwrite)


def _answered(
    config: PredictConfig,
    model: Model,
    examples: Iterable[Example],
    total: int | None,
    kept: KeptAnswers | None,
    counted: Counter[str],
) -> Iterator[Answered]:
    """Yield the input's columns of each row, and the cells of its prediction; count rows and truncated texts.

    What is `kept` is not predicted again.
    """
    columns_of = _input_columns(config, model, examples)
    with rows_done("predicting", total) as done:
        for some in inputs.chunks_of(examples, CHARACTERS_AT_A_TIME):
            answers = None if kept is None else kept.of(some)
            if answers is not None:
                done.update(len(some), known=True)
            else:
                answers = _answers(config, model, some, done)
                if kept is not None:
                    kept.add(some, answers)
            columns = columns_of(counted["rows"], some)
            counted.update(rows=len(some), truncated=answers["truncated"], unseen=answers["unseen"])
            yield from zip(columns, answers["cells"], strict=True)


def _answers(config: PredictConfig, model: Model, some: Sequence[Example], done: RowsDone) -> Answers:
    """Return the `cells` of each prediction, and how many texts were `truncated`, or are of an `unseen` length."""
    abstention = model.abstention(config.min_probability, config.unlike_training)
    rows = model.rows(some)
    cells = []
    for example, predicted in zip(some, model.outputs(rows, model.read_predictions, done.update), strict=True):
        row = model.task.cells(predicted, example, abstention)
        if config.probabilities is not Probabilities.all:
            row.pop("probabilities", None)
        cells.append(unless_blank(example, row))
    return {"cells": cells, "truncated": int(rows.truncated().sum()), "unseen": _unseen_lengths(model, rows)}


def _input_columns(
    config: PredictConfig, model: Model, examples: Iterable[Example]
) -> Callable[[int, Sequence[Example]], Iterator[Row]]:
    """Return what yields the input's columns of successive examples, given the number of the first.

    A file's columns keep their order; texts are as the model reads them. A split's are its texts behind the others.
    """
    carried = examples.carried if isinstance(examples, Split) else None
    names: list[Any] = ["text", "text_pair"]
    if config.input:
        names = [name or "text_pair" for name in inputs.text_columns(config, model)]
    own_names = {name: name for name in carried.column_names} if carried is not None else {}
    if not config.input:
        own_names = carried_names(own_names, names)

    def columns(first: int, some: Sequence[Example]) -> Iterator[Row]:
        others: Any = {} if carried is None else carried[first : first + len(some)]
        for place, example in enumerate(some):
            row = {own: others[name][place] for name, own in own_names.items()}
            pairs = zip(names, texts_of(example), strict=False)
            yield row | {name: text for name, text in pairs if isinstance(name, str)}  # joined columns are in the row

    return columns


def _named(answered: Iterator[Answered], *, flat: bool) -> tuple[Iterator[Row], dict[str, str]]:
    """Return the rows to write, and the name that each column of the input has there: none is lost to one of ours.

    Where rows are `flat`, predicted lists are one text, and each class has a column.
    """
    as_cells = _flat if flat else dict
    first = next(answered, None)
    if first is None:
        return iter(()), {}
    given, cells = first
    names = carried_names(given, as_cells(cells))

    def rows() -> Iterator[Row]:
        for given, cells in chain([first], answered):
            yield {names[name]: value for name, value in given.items()} | as_cells(cells)

    return rows(), names


def _unseen_lengths(model: Model, rows: ExampleRows) -> int:
    """Return how many of the rows are so much longer than every training row that nothing is known of such a length."""
    longest_row = model.origin.longest_row
    if longest_row is None:
        return 0
    return int((rows.lengths > MUCH_LONGER * longest_row).sum())


def _flat(cells: Row) -> Row:
    """Return the cells of a prediction for a table: lists as one text, and a column for each class."""
    chances = cells.get("probabilities")
    flat = {name: value for name, value in cells.items() if name != "probabilities" or not isinstance(value, dict)}
    separator = SEPARATOR if isinstance(cells["predicted"], list) else " "
    flat |= {name: separator.join(map(str, value)) for name, value in flat.items() if isinstance(value, list)}
    if isinstance(chances, dict):
        flat |= {f"probability_{label}": chance for label, chance in chances.items()}
    return flat


def show_predictions(rows: Iterator[Row], columns: str | Sequence[str]) -> None:
    """Print a line for each row: the prediction, the most probable classes, and the text, which is in `columns`."""
    names = [columns] if isinstance(columns, str) else columns
    for row in rows:
        predicted = row["predicted"]
        chances = row.get("probabilities")
        text = joined_columns(str(row[name]) for name in names if name in row)
        words = ", ".join(predicted) or "no label" if isinstance(predicted, list) else str(cell(predicted))
        known = chances.items() if isinstance(chances, dict) and text.strip() else ()  # or a column
        best = sorted(known, key=lambda pair: -pair[1])[:SHOWN]
        classes = ", ".join(f"{label} {chance:.3f}" for label, chance in best)
        unsure = UNLIKE_TRAINING if row.get("reason") == UNLIKE_TRAINING else UNSURE
        unsure = unsure if text.strip() else "no text"
        print(one_line("  ".join(filter(None, [words or unsure, classes and f"({classes})", text]))))
