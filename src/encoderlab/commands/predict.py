"""encoderlab predict: one answer for each row given, in order."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TextIO

import torch
from tqdm import tqdm

from encoderlab.aside import written_aside
from encoderlab.config import PredictConfig, PredictionFormat
from encoderlab.data.examples import Example, TextExample, WordsExample
from encoderlab.data.sources.files import read_unlabelled
from encoderlab.data.sources.formats import Quoting
from encoderlab.errors import DataError, SettingError
from encoderlab.reports.answers import ANSWER_FORMATS, Answered
from encoderlab.runs.assembly import Assembly, cache_folder, check_paired, reopen
from encoderlab.runs.corpus import Corpus
from encoderlab.tasks.rows import hold_encoded
from encoderlab.tasks.task import Answer

ROWS_AT_A_TIME = 4096  # sorted by length among themselves, so that little is padded, and memory does not grow with the input


def predict(config: PredictConfig) -> None:
    """Answer for a text, a file, a split, or the lines of standard input. Raises SettingError, DataError."""
    _check_settings(config)
    assembly = reopen(config)
    if config.format is PredictionFormat.glue and assembly.task.heads.sequence_classes is None:
        raise SettingError("format=glue takes one answer a row, and this model answers for each word", allowed="csv, jsonl")
    examples, total = _examples(config, assembly)
    with _output(config.output) as file:
        ANSWER_FORMATS[config.format.value](file, _answered(assembly, examples, total), assembly.task.labels)


def _check_settings(config: PredictConfig) -> None:
    """Refuse what contradicts itself, before a model is loaded."""
    given = [name for name in ("text", "input", "split") if getattr(config, name) is not None]
    if len(given) > 1:
        raise SettingError(
            f"{' and '.join(given)} are given together", allowed="one of text, input and split, or none for standard input"
        )
    if config.text_pair is not None and config.text is None:
        raise SettingError("text_pair is given without text", remedy="Type text=... text_pair=...")
    if (config.text_column or config.text_pair_column) and config.input is None:
        raise SettingError("text_column names a column of input, which is not given", remedy="Type input=FILE")
    if config.output is not None and (not config.output or Path(config.output).exists()):
        wrong = f"output={config.output} is already there" if config.output else "output is empty"
        raise SettingError(wrong, remedy="Choose another name")


def _examples(config: PredictConfig, assembly: Assembly) -> tuple[Iterable[Example], int | None]:
    """What to answer for, and how many rows that is, as far as it is known."""
    words = assembly.task.heads.asks_tokens
    if config.text is not None:
        check_paired(assembly, config.text_pair is not None)
        return [_example(config.text, config.text_pair, words)], 1
    if config.split is not None:  # whole, even if the run was limited to some of its rows
        corpus = Corpus.load(replace(assembly.config.dataset, limit=None), cache_folder(config.cache_dir))
        split = corpus.split(config.split)
        return split, len(split)
    dataset = assembly.config.dataset
    column = config.text_column or getattr(dataset, "text", "text")
    pair_column = config.text_pair_column or getattr(dataset, "text_pair", None)
    check_paired(assembly, pair_column is not None)
    if config.input is not None:
        quoting = getattr(dataset, "quoting", Quoting.auto)
        split = read_unlabelled(Path(config.input), text=column, text_pair=pair_column, words=words, quoting=quoting)
        return split, len(split)
    if sys.stdin.isatty():
        print("Reading lines from standard input; Ctrl-D ends it.", file=sys.stderr)
    return _lines(sys.stdin.buffer, pair_column is not None, words), None


def _lines(stream: BinaryIO, paired: bool, words: bool) -> Iterator[Example]:
    """A line, an example; for a task on pairs, a tab between the two texts."""
    for number, raw in enumerate(stream, start=1):
        try:
            line = raw.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise DataError(f"Line {number} of standard input is not UTF-8", remedy="Convert it, for instance with iconv") from None
        first, tab, second = line.partition("\t") if paired else (line, "", "")
        if paired and not tab:
            raise DataError(
                f"Line {number} of standard input has no tab", allowed="the two texts of a pair with a tab between them"
            )
        yield _example(first, second if paired else None, words)


def _example(text: str, text_pair: str | None, words: bool) -> Example:
    return WordsExample(tuple(text.split())) if words else TextExample(text, text_pair)


def _answered(assembly: Assembly, examples: Iterable[Example], total: int | None) -> Iterator[Answered]:
    rest = iter(examples)
    with tqdm(total=total, desc="predicting", unit=" rows", file=sys.stderr, disable=None, leave=False) as bar:
        while some := list(islice(rest, ROWS_AT_A_TIME)):
            yield from map(_joined, some, _answers(assembly, some))
            bar.update(len(some))


def _answers(assembly: Assembly, examples: list[Example]) -> list[Answer]:
    """The model's answers for a handful of examples, in their order."""
    task = assembly.task
    asked = task.heads.asks_tokens
    rows = hold_encoded(task.encode(examples), task.tokenizer.vocabulary_size, tokens_asked=asked)
    answers: dict[int, Answer] = {}
    with torch.inference_mode():
        for batch in assembly.scoring_batches(rows):
            with assembly.compute.autocast():
                prediction = assembly.model(batch)
            answers.update(zip(batch.rows.tolist(), task.answers(prediction, batch), strict=True))
    return [answers[row] for row in range(len(examples))]


def _joined(example: Example, answer: Answer) -> Answered:
    if isinstance(example, WordsExample):
        return Answered(" ".join(example.words), None, answer.labels, None, len(example.words))
    return Answered(example.text, example.text_pair, answer.labels, answer.probabilities, 1)


@contextmanager
def _output(path: str | None) -> Iterator[TextIO]:
    """Standard output, or a new file that appears whole or not at all."""
    if path is None:
        yield sys.stdout
        return
    with written_aside(Path(path)) as aside:
        try:
            file = aside.open("w", encoding="utf-8", newline="")
        except OSError as error:
            raise DataError(f"output={path} cannot be written: {error.strerror}", remedy="Choose another folder") from None
        with file:
            yield file
