"""Texts without labels: those that a finished model is to read, from a file, standard input or a split of its dataset,
and those that a run learns from besides its rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from encoderlab.config.commands import EmbedConfig, InputConfig, PredictConfig, RunConfig
from encoderlab.data.data import Data
from encoderlab.data.examples import Example, TextExample, WordsExample, grouped, text_of
from encoderlab.data.files import read_unlabelled
from encoderlab.data.formats import Dialect, Format, encoding_of, format_of, is_saved_dataset, text_lines
from encoderlab.data.remote import local_file
from encoderlab.errors import DataError, SettingError
from encoderlab.runs.model import Model

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
        split = replace(dataset, limit=limit).load(cache, model.config.task.target).split(name)
        return split, len(split)
    documents = dataset.documents(cache).by_name
    if name not in documents:
        raise DataError(f"split={name} is not in this dataset", allowed=", ".join(documents))
    return (TextExample(paragraph) for document in documents[name].documents() for paragraph in document), None


def texts_of_file(config: Input, model: Model) -> tuple[Iterable[Example], int, Input]:
    """Return the texts of the file `config.input`, how many they are, and the settings with the column they are in.

    A column that nobody named is guessed if the file lacks that of the training files, and a line says so. Raises
    DataError for anything that cannot be read, or that the model cannot read.
    """
    from encoderlab.data.columns import MissingColumnError, guess_text
    from encoderlab.data.guesses import first_cells

    assert config.input is not None
    path = local_file(config.input, config.cache)
    column, pair_column = text_columns(config, model)
    model.check_paired(pair_column is not None)
    try:
        examples, total = file_examples(model, path, column, pair_column, config.dialect, config.cache)
    except MissingColumnError:
        if config.text_column is not None or pair_column is not None:
            raise
        cells = first_cells(path, format_of(path), dialect_of(model, config.dialect), "{}_column")
        guess = guess_text(cells, str(path), "text_column")
        print(f"encoderlab: {path}: texts are read from {guess!r} (text_column)", file=sys.stderr)
        config = replace(config, text_column=guess)
        examples, total = file_examples(model, path, guess, None, config.dialect, config.cache)
    return examples, total, config


def text_columns(config: InputConfig, model: Model) -> tuple[Any, str | None]:
    """Return the names of the columns with the text (a list if it was joined from several) and its second text, if the
    model reads pairs.
    """
    as_trained = model.file_columns
    return config.text_column or as_trained.text, config.text_pair_column or as_trained.text_pair


def file_examples(
    model: Model, path: Path, text: str, text_pair: str | None, dialect: Dialect, cache: Path
) -> tuple[Iterable[Example], int]:
    """Return the texts of a file in its order, from the columns `text` and `text_pair`, and how many they are.

    What `dialect` leaves open is as in the training files, if there were any, except the encoding, which the file
    shows. A .txt file is read line by line, twice, which loads less than tables need. Raises DataError for anything
    that cannot be read.
    """
    if text_pair is None and format_of(path) is Format.txt:
        encoding = encoding_of(path, dialect.encoding, "encoding")
        total = sum(1 for _ in text_lines(path, encoding))
        if total:
            return (model.example(line) for line in text_lines(path, encoding)), total
        raise DataError(f"{path} has no rows", remedy="Choose a file with rows")
    dialect = dialect_of(model, dialect)
    words = model.config.task.of_words
    split = read_unlabelled(path, text=text, text_pair=text_pair, words=words, dialect=dialect, cache_dir=cache)
    return split, len(split)


def dialect_of(model: Model, dialect: Dialect) -> Dialect:
    """Return the dialect of new files: what is left open is as in the training files, if there were any."""
    return dialect.completed_by(model.file_dialect)


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
        first, tab, second = line.partition("\t") if paired else (line, "", "")
        if paired and not tab:
            problem = f"Line {number} of standard input has no tab"
            raise DataError(problem, allowed="the two texts of a pair separated by a tab")
        yield model.example(first, second if paired else None)


def unlabelled_texts(file: str, config: RunConfig, data: Data) -> list[Example]:
    """Return the texts of the file that `unlabelled` names, without blank ones, read as the run's own rows are.

    Raises DataError if it is missing, cannot be read, or has no texts.
    """
    path = local_file(file, config.cache).expanduser()
    if not path.is_file() and not is_saved_dataset(path):
        raise DataError(f"unlabelled={path} does not exist", allowed="a csv, tsv, xlsx, jsonl, parquet or txt file")
    columns = config.dataset.file_columns
    pair = columns.text_pair if data.paired else None
    words = config.task.of_words
    split = read_unlabelled(path, text=columns.text, text_pair=pair, words=words, cache_dir=config.cache)
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
