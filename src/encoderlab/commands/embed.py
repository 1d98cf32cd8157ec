"""encoderlab embed: writes the encoder's vectors of texts, or of their tokens, as a NumPy array with an index."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from encoderlab.config.commands import EmbedConfig, VectorPooling
from encoderlab.data.examples import Example, WordsExample
from encoderlab.data.formats import Format, format_of
from encoderlab.errors import SettingError
from encoderlab.reports.predictions import VectorFile, check_output, index_of, vector_file
from encoderlab.runs.assembly import Assembly, reopen
from encoderlab.runs.inputs import (
    check_sources,
    encoded_rows,
    file_examples,
    in_chunks,
    split_examples,
    standard_input_examples,
)
from encoderlab.runs.predict import vectors_of
from encoderlab.tasks.rows import ExampleRows


def embed(config: EmbedConfig) -> None:
    """Write a vector for each text of a file, a split or standard input, or for each of its tokens.

    Raises SettingError, DataError.
    """
    check_output(config.output)
    check_sources(config)
    if config.tokens and config.pooling is not VectorPooling.mean:
        raise SettingError(
            f"pooling={config.pooling.name} reduces a text to one vector, but tokens=true writes one per token",
            remedy="Remove one of them",
        )
    assembly = reopen(config)
    examples, total = _examples(config, assembly)
    output = Path(config.output)
    with vector_file(output, assembly.config.model.d_model) as file:
        n_cut = sum(_write(config, assembly, some, file) for some in in_chunks(examples, total, "embedding"))
    print(_summary(config, assembly, file, n_cut), file=sys.stderr)


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


def _write(config: EmbedConfig, assembly: Assembly, examples: Sequence[Example], file: VectorFile) -> int:
    """Write the vectors of some examples; return how many examples were longer than the model reads."""
    _check_single(assembly, examples)
    rows = encoded_rows(assembly, examples)
    rows = (
        rows.first_windows() if config.tokens and assembly.task.windows else rows
    )  # otherwise a token could have several vectors
    lines = [_described(example) for example in examples]
    if config.tokens:
        lines = [{"tokens": pieces} | line for pieces, line in zip(_pieces(assembly, rows), lines, strict=True)]
    places = file.reserve(lines, rows.lengths.tolist() if config.tokens else None)
    pooling = None if config.tokens else config.pooling
    for row, vectors in vectors_of(assembly, rows, pooling, normalize=config.normalize):
        file.put(places[row], vectors)
    return int(rows.truncated().sum())


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


def _summary(config: EmbedConfig, assembly: Assembly, file: VectorFile, n_cut: int) -> str:
    """Return one line that says what was written, and how many texts were truncated."""
    output, width = Path(config.output), assembly.config.model.d_model
    of = f" of {file.n_rows:,} texts" if config.tokens else ""
    line = f"{file.n_vectors:,} vectors of {width} numbers{of}: {output}; index: {index_of(output)}"
    if n_cut:
        cut = "1 text was" if n_cut == 1 else f"{n_cut:,} texts were"
        limit = f"model.max_length={assembly.task.max_length} tokens" if config.tokens else assembly.task.limit
        line += f"; {cut} truncated to {limit}"
    return line
