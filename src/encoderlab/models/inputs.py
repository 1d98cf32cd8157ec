"""Texts without labels: those that a finished model is to read, from a file, standard input or a split of its dataset,
and those that a run learns from besides its rows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from encoderlab.config.commands import EmbedConfig, InputConfig, PredictConfig, RunConfig
from encoderlab.data.corpus import Corpus
from encoderlab.data.examples import Example, TextExample, WordsExample, text_of
from encoderlab.data.files import format_of_texts, read_unlabelled
from encoderlab.errors import DataError, SettingError
from encoderlab.models.model import Model
from encoderlab.system.messages import say, unsaid
from encoderlab.tables.batches import grouped
from encoderlab.tables.formats import WITHOUT_COLUMNS, Dialect, Format, encoding_of, is_saved_dataset, text_lines
from encoderlab.tables.remote import local_file

# Rows are sorted by length in chunks of this many, or of fewer long ones: enough for batches without padding (with
# 16,384 phrases of film reviews 1% is padding, with 4,096 it is 3%), and memory does not grow with the input.
ROWS_AT_A_TIME = 16_384
CHARACTERS_AT_A_TIME = 2**24
Input = TypeVar("Input", bound=InputConfig)
Text = TypeVar("Text", bound=Example)


def check_sources(config: PredictConfig | EmbedConfig) -> None:
    """Raise SettingError for texts from two sources, or columns without a file, before a model is loaded."""
    sources = [name for name in ("text", "input", "split") if getattr(config, name, None) is not None]
    if len(sources) > 1:
        allowed = "one of them, or none for standard input"
        raise SettingError(f"{' and '.join(sources)} are given together", allowed=allowed)
    if config.input is None and (config.text_column or config.text_pair_column):
        raise SettingError("text_column and text_pair_column name columns of input", remedy="Set input=FILE")


def split_examples(
    model: Model, name: str, cache: Path, *, limited: bool = False
) -> tuple[Iterable[Example], int | None]:
    """Return a split of the run's dataset, and how many rows it has if that is known. Raises DataError if there is
    none.

    It is complete, even if the run was limited to some of its rows, unless `limited` to these. For a pretraining run it
    is the run's own held-out documents, which depend on how they were read, with a paragraph in each row.
    """
    dataset = model.own_dataset
    if not model.config.task.of_documents:
        limit = dataset.limit if limited else None
        with unsaid():  # it was said when the run was trained
            split = replace(dataset, limit=limit).load(cache, model.config.task.target).split(name)
        return split, len(split)
    documents = dataset.documents(cache).by_name
    if name not in documents:
        raise DataError(f"split={name} is not in this dataset", allowed=", ".join(documents))
    return (TextExample(paragraph) for document in documents[name].documents() for paragraph in document), None


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that a finished model is to read: its format, how its cells are read, and the columns of its texts.

    `cells` are the first ones of each column; there are none in a file without columns.
    """

    path: Path
    kind: Format
    dialect: Dialect
    text: str | Sequence[str]
    text_pair: str | None
    cells: Mapping[str, Sequence[str]]


def new_file(path: Path, config: InputConfig, model: Model) -> NewFile:
    """Return how a file is read: by the settings, otherwise as the training files were, otherwise by its first rows.

    A line says which column was guessed. Raises DataError for a file that cannot be read, or if there is a doubt.
    """
    text, text_pair = text_columns(config, model)
    dialect = config.dialect.completed_by(model.file_dialect)
    words = model.config.task.of_words
    return _decided(path, text, text_pair, dialect, words=words, guesses=config.text_column is None)


def _decided(path: Path, text: Any, text_pair: str | None, dialect: Dialect, *, words: bool, guesses: bool) -> NewFile:
    """Return how a file is read, given its columns; a single one may be another, if that `guesses`."""
    from encoderlab.data.guesses import first_cells

    kind = format_of_texts(path, dialect.encoding, words=words)
    if kind is Format.conll and not re.fullmatch(r"-?[0-9]+", str(text)):
        text = "text"  # whose column the first lines show
    if kind in WITHOUT_COLUMNS:
        return NewFile(path, kind, dialect, text, text_pair, {})
    if kind is Format.excel and dialect.sheet is None:
        dialect = replace(dialect, sheet=_sheet(path, text))
    cells = first_cells(path, kind, dialect, "{}_column")
    if guesses and text_pair is None:
        text = _text_column(path, text, cells)
    return NewFile(path, kind, dialect, text, text_pair, cells)


def _sheet(path: Path, text: str | Sequence[str]) -> str:
    """Return the only sheet of a workbook, or the only one with the column of texts. Raises DataError in doubt."""
    from encoderlab.tables.columns import Columns
    from encoderlab.tables.workbooks import sheet_names, sheet_of

    sheets = sheet_names(path)
    return sheets[0] if len(sheets) == 1 else sheet_of(path, None, Columns(text, setting="{}_column"))


def _text_column(path: Path, trained: str | Sequence[str], cells: Mapping[str, Sequence[str]]) -> str | Sequence[str]:
    """Return the columns that texts were `trained` on, or the one that is guessed if the file lacks them."""
    from encoderlab.tables.columns import guess_text

    parts = [trained] if isinstance(trained, str) else trained
    if {*parts} <= {*cells}:
        return trained

    # One of several columns would be half of each text.
    missing = [part for part in parts if part not in cells]
    if len(parts) > 1:
        problem = f"{path} has no column {missing[0]!r}, which is a part of each text that the model was trained on"
        remedy = "Rename the column in the file, or set text_column to the columns to read"
        raise DataError(problem, allowed=f"columns {', '.join(map(repr, parts))}", remedy=remedy)
    same = [name for name in cells if name.strip().casefold() == missing[0].strip().casefold()]
    if len(same) == 1:
        return same[0]
    guess = guess_text(cells, str(path), "text_column")
    say(f"{path}: texts are read from {guess!r} (text_column)")
    return guess


def texts_of_file(config: Input, model: Model) -> tuple[Iterable[Example], int, Input]:
    """Return the texts of the file `config.input`, how many they are, and the settings with the column they are in.

    Raises DataError for anything that cannot be read, or that the model cannot read.
    """
    assert config.input is not None
    model.check_paired(text_columns(config, model)[1] is not None)
    file = new_file(local_file(config.input, config.cache), config, model)
    examples, total = file_examples(model, file, config.cache)
    if isinstance(file.text, str) and (file.cells or file.kind is Format.conll):
        config = replace(config, text_column=file.text)
    return examples, total, config


def text_columns(config: InputConfig, model: Model) -> tuple[Any, str | None]:
    """Return the names of the columns with the text (a list if it was joined from several) and its second text, if the
    model reads pairs.
    """
    as_trained = model.file_columns
    return config.text_column or as_trained.text, config.text_pair_column or as_trained.text_pair


def file_examples(model: Model, file: NewFile, cache: Path) -> tuple[Iterable[Example], int]:
    """Return the texts of a file in its order, and how many they are.

    A .txt file is read line by line, twice, which loads less than tables need. Raises DataError for anything that
    cannot be read.
    """
    path = file.path
    words = model.config.task.of_words
    if file.text_pair is None and file.kind is Format.txt:
        encoding = encoding_of(path, file.dialect.encoding, "encoding")
        total = sum(1 for _ in text_lines(path, encoding))
        if total:
            return (model.example(line) for line in text_lines(path, encoding)), total
        raise DataError(f"{path} has no rows", remedy="Choose a file with rows")
    split = read_unlabelled(
        path, text=file.text, text_pair=file.text_pair, words=words, dialect=file.dialect, cache_dir=cache
    )
    return split, len(split)


def standard_input_examples(model: Model, *, paired: bool) -> Iterator[Example]:
    """Yield an example per line; if `paired`, with a tab between the two texts. Raises DataError at an invalid line."""
    if sys.stdin.isatty():
        print("Reading lines from standard input (end with Ctrl-D).", file=sys.stderr)
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            problem = f"Line {number} of standard input is not UTF-8"
            raise DataError(problem, remedy="Convert it, for instance with iconv") from None
        if number == 1 and _names_columns(line, model.file_columns.texts()):
            say("standard input is read line by line, its first line too; input=/dev/stdin reads it as a table")
        first, tab, second = line.partition("\t") if paired else (line, "", "")
        if paired and not tab:
            problem = f"Line {number} of standard input has no tab"
            raise DataError(problem, allowed="the two texts of a pair separated by a tab")
        yield model.example(first, second if paired else None)


def _names_columns(line: str, texts: Sequence[str]) -> bool:
    """Return whether a line is the header of a table with the columns of `texts` and others."""
    names = [name.strip(' "') for name in re.split(r"[,;\t]", line)]
    return len(names) > 1 and {*texts} <= {*names}


def unlabelled_texts(file: str, config: RunConfig, data: Corpus) -> list[Example]:
    """Return the texts of the file that `unlabelled` names, without blank ones, read as the run's own rows are.

    Raises DataError if it is missing, cannot be read, or has no texts.
    """
    path = local_file(file, config.cache).expanduser()
    if not path.is_file() and not is_saved_dataset(path):
        raise DataError(f"unlabelled={path} does not exist", allowed="a csv, tsv, xlsx, jsonl, parquet or txt file")
    columns = config.dataset.file_columns
    pair = columns.text_pair if data.paired else None
    words = config.task.of_words
    try:
        dialect = Dialect().completed_by(config.dataset.dialect)
        new = _decided(path, columns.text, pair, dialect, words=words, guesses=True)
    except DataError as error:
        if "text_column" not in error.remedy:  # a setting that only commands for new texts have
            raise
        remedy = f"Call the column of its texts {columns.text!r}, as in the training rows"
        raise DataError(error.wrong, allowed=error.allowed, remedy=remedy) from error
    split = read_unlabelled(
        path, text=new.text, text_pair=pair, words=words, dialect=new.dialect, cache_dir=config.cache
    )
    texts = with_text(example.without_html() if config.dataset.strips_html else example for example in split)
    if not texts:
        raise DataError(f"unlabelled={path} has no texts", remedy="Choose a file with some, or remove it")
    return texts


def with_text(examples: Iterable[Example]) -> list[Example]:
    """Return the examples that are not blank."""
    kept = []
    for example in examples:
        has_text = example.words if isinstance(example, WordsExample) else example.text.strip()
        if has_text:
            kept.append(example)
    return kept


def chunks_of(examples: Iterable[Text], most_characters: int = CHARACTERS_AT_A_TIME) -> Iterator[list[Text]]:
    """Yield the examples, up to ROWS_AT_A_TIME at a time; a chunk also ends with the one that reaches
    `most_characters`.
    """
    return grouped(examples, lambda example: len(text_of(example)), most_characters, ROWS_AT_A_TIME)
