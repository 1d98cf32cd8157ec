"""encoderlab embed: writes the encoder's vectors of texts, or of their tokens, as a NumPy array with an index."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
from numpy.lib import format as npy

from encoderlab.config.commands import EmbedConfig, VectorPooling
from encoderlab.data.examples import Example, WordsExample
from encoderlab.data.formats import Format, format_of
from encoderlab.errors import DataError, SettingError
from encoderlab.runs.assembly import Assembly, reopen
from encoderlab.runs.predict import (
    check_sources,
    encoded_rows,
    file_examples,
    in_chunks,
    split_examples,
    standard_input_examples,
    vectors_of,
)
from encoderlab.system.files import atomic_write
from encoderlab.tasks.rows import ExampleRows

SUFFIX, INDEX_SUFFIX = ".npy", ".index.jsonl"


def embed(config: EmbedConfig) -> None:
    """Write a vector for each text of a file, a split or standard input, or for each of its tokens.

    Raises SettingError, DataError.
    """
    config = replace(config, input=None if config.input == "-" else config.input)
    output = _checked_output(config.output)
    check_sources(config)
    if config.tokens and config.pooling is not VectorPooling.mean:
        raise SettingError(
            f"pooling={config.pooling.name} reduces a text to one vector, but tokens=true writes one per token",
            remedy="Remove one of them",
        )
    assembly = reopen(config)
    examples, total = _examples(config, assembly)
    n_rows = n_vectors = n_cut = 0
    with _opened(output) as (array, index):
        _write_header(array, (0, assembly.config.model.d_model))
        for some in in_chunks(examples, total, "embedding"):
            written, cut = _write(config, assembly, some, array, index, (n_rows, n_vectors))
            n_rows, n_vectors, n_cut = n_rows + len(some), n_vectors + written, n_cut + cut
        array.seek(0)
        _write_header(array, (n_vectors, assembly.config.model.d_model))  # NumPy leaves room for the number of rows
    print(_summary(config, assembly, n_rows, n_vectors, n_cut), file=sys.stderr)


def _checked_output(output: str) -> Path:
    """Return the path of the array. Raises SettingError if it does not end in .npy, or if it or its index exists."""
    path = Path(output)
    if path.suffix != SUFFIX:
        wrong = f"output={output} does not end in {SUFFIX}" if output else "output is empty"
        raise SettingError(wrong, allowed=f"a file that ends in {SUFFIX}", remedy="Set output=vectors.npy")
    there = next((file for file in (path, _index_of(path)) if file.exists()), None)
    if there is not None:
        raise SettingError(f"output={output}: {there} already exists", remedy="Choose another name")
    return path


def _index_of(output: Path) -> Path:
    return output.with_suffix(INDEX_SUFFIX)


@contextmanager
def _opened(output: Path) -> Iterator[tuple[BinaryIO, TextIO]]:
    """Open a new array and its index, which appear together or not at all. Raises DataError."""
    try:
        with (
            atomic_write(output) as array_path,
            atomic_write(_index_of(output)) as index_path,
            array_path.open("wb") as array,
            index_path.open("w", encoding="utf-8", newline="\n") as index,
        ):
            yield array, index
    except OSError as error:
        wrong = f"output={output} cannot be written: {error.strerror}"
        raise DataError(wrong, remedy="Choose another folder") from None


def _write_header(array: BinaryIO, shape: tuple[int, int]) -> None:
    npy.write_array_header_1_0(array, {"descr": "<f4", "fortran_order": False, "shape": shape})


def _examples(config: EmbedConfig, assembly: Assembly) -> tuple[Iterable[Example], int | None]:
    """Return the texts, and how many there are if that is known.

    A file is read as the run's own rows are (pairs as pairs) unless the settings say otherwise. Lines are always single
    texts, so that any encoder, whatever it was trained on, can embed single texts.
    """
    if config.split is not None:
        return split_examples(assembly, config.split, config.cache_dir)
    if config.input is None:
        return standard_input_examples(assembly, paired=False), None
    path, dataset = Path(config.input), assembly.config.dataset
    as_trained = config.text_column is None and format_of(path, Format.auto) is not Format.txt
    pair_column = config.text_pair_column or (getattr(dataset, "text_pair", None) if as_trained else None)
    text_column = config.text_column or getattr(dataset, "text", "text")
    return file_examples(assembly, path, text_column, pair_column, config.dialect, config.cache_dir)


def _write(
    config: EmbedConfig,
    assembly: Assembly,
    examples: Sequence[Example],
    array: BinaryIO,
    index: TextIO,
    done: tuple[int, int],
) -> tuple[int, int]:
    """Append the vectors of some examples after the rows and vectors that are `done`.

    Return how many vectors there are, and how many examples were longer than the model reads. Vectors come in the order
    of the batches, and each is written at its place, so that only a batch of them is in memory.
    """
    _check_single(assembly, examples)
    rows = encoded_rows(assembly, examples)
    if config.tokens and assembly.task.windows:
        rows = rows.first_windows()  # otherwise a token could have several vectors
    ends = np.cumsum(rows.lengths if config.tokens else np.ones(len(examples), np.int64))
    places = [0, *ends.tolist()]
    pieces = _pieces(assembly, rows) if config.tokens else [[]] * len(examples)
    for row, (example, tokens) in enumerate(zip(examples, pieces, strict=True)):
        of_tokens = {"start": done[1] + places[row], "tokens": tokens} if config.tokens else {}
        line = {"row": done[0] + row, **of_tokens, **_described(example)}
        index.write(json.dumps(line, ensure_ascii=False) + "\n")
    vector_bytes = 4 * assembly.config.model.d_model
    start = array.seek(0, 2)
    array.truncate(start + vector_bytes * places[-1])
    pooling = None if config.tokens else config.pooling
    for row, vectors in vectors_of(assembly, rows, pooling, normalize=config.normalize):
        array.seek(start + vector_bytes * places[row])
        array.write(np.ascontiguousarray(vectors, dtype="<f4").data)
    return places[-1], int(rows.truncated().sum())


def _check_single(assembly: Assembly, examples: Sequence[Example]) -> None:
    """Raise SettingError for a pair if the model makes one vector of each of its texts."""
    if assembly.model.separates_pairs and any(getattr(example, "text_pair", None) is not None for example in examples):
        raise SettingError(
            "A pair has no single vector: this model reads its texts separately (model.pairs=separate)",
            remedy="Put the first texts and the second texts into two files, and embed each",
        )


def _pieces(assembly: Assembly, rows: ExampleRows) -> list[list[str]]:
    """Return the tokens of each row as the vocabulary spells them."""
    flat, lengths = rows.store["input_ids"].gather(np.arange(len(rows)))
    return [assembly.tokenizer.pieces(ids) for ids in np.split(flat, np.cumsum(lengths)[:-1])]


def _described(example: Example) -> dict[str, Any]:
    if isinstance(example, WordsExample):
        return {"text": " ".join(example.words)}
    return {"text": example.text} | ({} if example.text_pair is None else {"text_pair": example.text_pair})


def _summary(config: EmbedConfig, assembly: Assembly, n_rows: int, n_vectors: int, n_cut: int) -> str:
    """Return one line that says what was written, and how many texts were truncated."""
    output, width = Path(config.output), assembly.config.model.d_model
    of = f" of {n_rows:,} texts" if config.tokens else ""
    line = f"{n_vectors:,} vectors of {width} numbers{of}: {output}; index: {_index_of(output)}"
    if n_cut:
        cut = "1 text was" if n_cut == 1 else f"{n_cut:,} texts were"
        limit = f"model.max_length={assembly.task.max_length} tokens" if config.tokens else assembly.task.limit
        line += f"; {cut} truncated to {limit}"
    return line
