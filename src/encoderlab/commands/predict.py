"""encoderlab predict: one prediction for each input row, in order."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

from encoderlab.config.commands import PredictConfig, PredictionFormat
from encoderlab.data.examples import Example, Split, WordsExample
from encoderlab.errors import DataError, SettingError
from encoderlab.reports.predictions import OPEN_WORD, TEXT_FORMATS, Answered, Wanted, write_parquet
from encoderlab.runs.assembly import Assembly, check_paired, reopen
from encoderlab.runs.inputs import (
    check_sources,
    encoded_rows,
    example_of,
    file_examples,
    in_chunks,
    reads_words,
    split_examples,
    standard_input_examples,
)
from encoderlab.runs.predict import answers_of_rows
from encoderlab.system.files import atomic_write
from encoderlab.tasks.task import Answer

if TYPE_CHECKING:
    import datasets

ENDINGS = {f".{form.name}": form for form in PredictionFormat}
NOT_WRITTEN = (".tsv", ".json", ".xlsx", ".xls", ".gz", ".zst")  # as people might expect


def predict(config: PredictConfig) -> None:
    """Predict for a text, a file, a split, or the lines of standard input. Raises SettingError, DataError."""
    _check_settings(config)
    form = _form(config)
    assembly = reopen(config, or_graph=True)
    wanted = _wanted(config, assembly)
    examples, total = _examples(config, assembly)
    carried = examples.carried if isinstance(examples, Split) else None
    wanted = wanted if carried is None else replace(wanted, carried=carried.features.arrow_schema)
    counted = Counter[str]()
    rows = _answered(assembly, examples, total, carried, counted)
    with _output(config.output) as file:
        if form is PredictionFormat.parquet:
            write_parquet(cast("BinaryIO", file.buffer), rows, wanted)
        else:
            TEXT_FORMATS[form.value](file, rows, wanted)
    if config.output is not None:
        cut = f"; {counted['truncated']:,} truncated to {assembly.task.limit}" if counted["truncated"] else ""
        print(f"encoderlab: wrote {counted['rows']:,} rows to {config.output}{cut}", file=sys.stderr)


def _check_settings(config: PredictConfig) -> None:
    """Refuse settings that contradict each other, before a model is loaded."""
    check_sources(config)
    if config.text_pair is not None and config.text is None:
        raise SettingError("text_pair is given without text", remedy="Set text=... too")
    if config.output is not None and (not config.output or Path(config.output).exists()):
        wrong = f"output={config.output} already exists" if config.output else "output is empty"
        raise SettingError(wrong, remedy="Choose another name")
    if config.unsure is not None and config.min_probability is None:
        raise SettingError("unsure has no effect without min_probability", remedy="Set min_probability=0.8")


def _form(config: PredictConfig) -> PredictionFormat:
    """Return the format: the one set, or the one of `output`'s extension. Raises SettingError if it cannot be written
    there.
    """
    extension = Path(config.output or "").suffix.lower()
    if config.format is None and extension in NOT_WRITTEN:
        raise SettingError(
            f"Predictions cannot be written as {extension} ({config.output})",
            allowed=", ".join(ENDINGS),
            remedy="Choose one of these extensions, or set format",
        )
    form = config.format or ENDINGS.get(extension, PredictionFormat.csv)
    if form is PredictionFormat.parquet and config.output is None:
        raise SettingError("format=parquet cannot be written to standard output", remedy="Set output=FILE.parquet")
    return form


def _wanted(config: PredictConfig, assembly: Assembly) -> Wanted:
    """Return what to write for each prediction. Raises SettingError if the model cannot predict it."""
    labels, heads = assembly.task.labels, assembly.task.heads
    unsure = OPEN_WORD if heads.sequence_classes is None and config.unsure is None else config.unsure
    if config.min_probability is not None and heads.sequence_target != "label":
        raise SettingError(
            "min_probability needs a model with one label per row, and this one predicts a number or any number of "
            "labels",
            remedy="Remove min_probability",
        )
    if config.min_probability is not None and unsure in labels:
        raise SettingError(
            f"unsure={unsure} is one of the model's labels", remedy="Set unsure=... to a word that is not a label"
        )
    if config.top_k is not None and config.top_k > len(labels):
        wrong = f"top_k={config.top_k} is more than this model has classes"
        raise SettingError(wrong, allowed=f"at most {len(labels)}", remedy="" if labels else "Remove top_k")
    return Wanted(labels, config.top_k, config.min_probability, config.unsure, heads.sequence_target)


def _examples(config: PredictConfig, assembly: Assembly) -> tuple[Iterable[Example], int | None]:
    """Return the examples to predict, and how many there are if that is known."""
    if config.text is not None:
        check_paired(assembly, config.text_pair is not None)
        return [example_of(config.text, config.text_pair, reads_words(assembly))], 1
    if config.split is not None:
        return split_examples(assembly, config.split, config.cache_dir)
    dataset = assembly.config.dataset
    column = config.text_column or getattr(dataset, "text", "text")
    pair_column = config.text_pair_column or getattr(dataset, "text_pair", None)
    check_paired(assembly, pair_column is not None)
    if config.input is not None:
        return file_examples(assembly, Path(config.input), column, pair_column, config.dialect, config.cache_dir)
    return standard_input_examples(assembly, paired=pair_column is not None), None


def _answered(
    assembly: Assembly,
    examples: Iterable[Example],
    total: int | None,
    carried: datasets.Dataset | None,
    counted: Counter[str],
) -> Iterator[Answered]:
    """Yield the prediction of each example with its `carried` columns, and count rows and truncated texts."""
    for some in in_chunks(examples, total, "predicting"):
        rows = encoded_rows(assembly, some)
        first = counted["rows"]
        others: Any = repeat({}) if carried is None else carried.select(range(first, first + len(some)))
        counted.update(rows=len(some), truncated=int(rows.truncated().sum()))
        yield from map(_joined, some, answers_of_rows(assembly, rows), others)


def _joined(example: Example, answer: Answer, carried: dict[str, Any]) -> Answered:
    if isinstance(example, WordsExample):
        return Answered(" ".join(example.words), None, answer, len(example.words), carried)
    return Answered(example.text, example.text_pair, answer, carried=carried)


@contextmanager
def _output(path: str | None) -> Iterator[TextIO]:
    """Open standard output, or a new file that appears whole or not at all. Raises DataError if it cannot
    be written.
    """
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
