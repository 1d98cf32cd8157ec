"""Predictions of a finished run: the texts it reads, what it predicts for them, and their vectors."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch.nn import functional as F

from encoderlab.batch import Batch, Prediction
from encoderlab.config.commands import EmbedConfig, PredictConfig, VectorPooling
from encoderlab.data.examples import Example, TextExample, WordsExample, grouped, text_of
from encoderlab.data.files import read_unlabelled
from encoderlab.data.formats import Dialect, Format, encoding_of, format_of, text_lines
from encoderlab.errors import DataError, SettingError
from encoderlab.model.config import Pairs, Pooling
from encoderlab.model.heads import ClsPool, MeanPool, pool_windows
from encoderlab.model.packing import FIRST_TOKENS
from encoderlab.runs.assembly import Assembly, own_dataset
from encoderlab.runs.corpus import Corpus
from encoderlab.system.progress import progress_bar
from encoderlab.tasks.config import DocumentTaskConfig
from encoderlab.tasks.rows import ExampleRows, hold_encoded
from encoderlab.tasks.task import RowPrediction
from encoderlab.training.evaluation import predict_batches

# Rows are sorted by length in chunks of this many, or of fewer long ones: enough for batches without padding (with
# 16,384 phrases of film reviews 1% is padding, with 4,096 it is 3%), and memory does not grow with the input.
ROWS_AT_A_TIME = 16_384
CHARACTERS_AT_A_TIME = 2**24
ENCODED_AT_A_TIME = 2048
POOLINGS = {VectorPooling.cls: ClsPool(), VectorPooling.mean: MeanPool()}
Output = TypeVar("Output")


def check_sources(config: PredictConfig | EmbedConfig) -> None:
    """Raise SettingError for texts from two sources, or columns without a file, before a model is loaded."""
    sources = [name for name in ("text", "input", "split") if getattr(config, name, None) is not None]
    if len(sources) > 1:
        allowed = "one of them, or none for standard input"
        raise SettingError(f"{' and '.join(sources)} are given together", allowed=allowed)
    if config.input is None and (config.text_column or config.text_pair_column):
        raise SettingError("text_column and text_pair_column name columns of input", remedy="Set input=FILE")


def reads_words(assembly: Assembly) -> bool:
    """Return whether the run's examples are sequences of words and not texts."""
    return assembly.task.heads.token_classes is not None


def example_of(text: str, text_pair: str | None, words: bool) -> Example:
    """Return one text or a pair as an example; for `words`, the text split at white space."""
    return WordsExample(tuple(text.split())) if words else TextExample(text, text_pair)


def split_examples(
    assembly: Assembly, name: str, cache: Path, *, limited: bool = False
) -> tuple[Iterable[Example], int | None]:
    """Return a split of the run's dataset, and how many rows it has if that is known. Raises DataError if there is
    none.

    It is complete, even if the run was limited to some of its rows, unless `limited` to these. For a pretraining run it
    is the run's own held-out documents, which depend on how they were read, with a paragraph in each row.
    """
    dataset = own_dataset(assembly)
    if not isinstance(assembly.config.task, DocumentTaskConfig):
        limit = dataset.limit if limited else None
        split = Corpus.load(replace(dataset, limit=limit), cache, assembly.config.task.target).split(name)
        return split, len(split)
    documents = dataset.documents(cache).by_name
    if name not in documents:
        raise DataError(f"split={name} is not in this dataset", allowed=", ".join(documents))
    return (TextExample(paragraph) for document in documents[name].documents() for paragraph in document), None


def file_examples(
    assembly: Assembly, path: Path, text: str, text_pair: str | None, dialect: Dialect, cache: Path
) -> tuple[Iterable[Example], int]:
    """Return the texts of a file in its order, from the columns `text` and `text_pair`, and how many they are.

    What `dialect` leaves open is as in the training files, if there were any, except the encoding, which the file
    shows. A .txt file is read line by line, twice, which loads less than tables need. Raises DataError for anything
    that cannot be read.
    """
    if text_pair is None and format_of(path) is Format.txt:
        encoding, of_words = encoding_of(path, dialect.encoding, "encoding"), reads_words(assembly)
        if total := sum(1 for _ in text_lines(path, encoding)):
            return (example_of(line, None, of_words) for line in text_lines(path, encoding)), total
        raise DataError(f"{path} has no rows", remedy="Choose a file with rows")
    dialect = dialect_of(assembly, dialect)
    words = reads_words(assembly)
    split = read_unlabelled(path, text=text, text_pair=text_pair, words=words, dialect=dialect, cache_dir=cache)
    return split, len(split)


def dialect_of(assembly: Assembly, dialect: Dialect) -> Dialect:
    """Return the dialect of new files: what is left open is as in the training files, if there were any."""
    return dialect.completed_by(getattr(assembly.config.dataset, "dialect", dialect))


def standard_input_examples(assembly: Assembly, *, paired: bool) -> Iterator[Example]:
    """Yield an example per line; if `paired`, with a tab between the two texts. Raises DataError at an invalid line."""
    if sys.stdin.isatty():
        print("Reading lines from standard input (end with Ctrl-D).", file=sys.stderr)
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            wrong = f"Line {number} of standard input is not UTF-8"
            raise DataError(wrong, remedy="Convert it, for instance with iconv") from None
        first, tab, second = line.partition("\t") if paired else (line, "", "")
        if paired and not tab:
            wrong = f"Line {number} of standard input has no tab"
            raise DataError(wrong, allowed="the two texts of a pair separated by a tab")
        yield example_of(first, second if paired else None, reads_words(assembly))


def in_chunks(examples: Iterable[Example], total: int | None, doing: str) -> Iterator[list[Example]]:
    """Yield the examples, up to ROWS_AT_A_TIME at a time, with a progress bar on standard error.

    A chunk also ends with the example that reaches CHARACTERS_AT_A_TIME.
    """
    with progress_bar(doing, "rows", total, leave=False) as bar:
        length = lambda example: len(text_of(example))  # noqa: E731
        for some in grouped(examples, length, CHARACTERS_AT_A_TIME, ROWS_AT_A_TIME):
            yield some
            bar.update(len(some))


def encoded_rows(assembly: Assembly, examples: Sequence[Example]) -> ExampleRows:
    """Return the examples as rows for the model, encoded in parts, so that few are in memory as lists."""
    task = assembly.task
    if getattr(assembly.config.dataset, "strip_html", False):
        examples = [example.without_html() for example in examples]
    starts = range(0, len(examples), ENCODED_AT_A_TIME)
    encoded = (one for start in starts for one in task.encode(examples[start : start + ENCODED_AT_A_TIME]))
    return hold_encoded(encoded, task.tokenizer.vocabulary_size, task.heads)


def is_blank(example: Example) -> bool:
    """Return whether nothing can be predicted for the example, because a text of it is empty or white space."""
    return isinstance(example, TextExample) and not (
        example.text.strip() and (example.text_pair is None or example.text_pair.strip())
    )


def unless_blank(example: Example, prediction: dict[str, Any]) -> dict[str, Any]:
    """Return the prediction; for a blank example, the same keys without values."""
    if not is_blank(example):
        return prediction
    empty = {"probabilities": dict.fromkeys(prediction.get("probabilities", {}))}
    return {name: empty.get(name) for name in prediction}


def predictions_of(assembly: Assembly, examples: Sequence[Example]) -> list[RowPrediction]:
    """Return the model's prediction for each example. Raises DataError for one that it cannot read."""
    return outputs_of(assembly, encoded_rows(assembly, examples), assembly.task.predictions)


def outputs_of(
    assembly: Assembly, rows: ExampleRows, read: Callable[[Prediction, Batch], Iterable[Output]]
) -> list[Output]:
    """Return what `read` makes of the model's output for each row: an item for each row of a batch."""

    def predict(batch: Batch) -> Iterable[Output]:
        with torch.inference_mode():
            with assembly.compute.autocast():
                prediction = assembly.model(batch)
            return read(prediction, batch)

    outputs: dict[int, Output] = {}
    for batch, of_rows in predict_batches(assembly.scoring_batches(rows), predict, assembly.compute):
        outputs.update(zip(batch.rows.tolist(), of_rows, strict=True))
    return [outputs[row] for row in range(len(rows))]


def vectors_of(
    assembly: Assembly, rows: ExampleRows, pooling: VectorPooling | None = None, *, normalize: bool = False
) -> np.ndarray:
    """Return the vector of each row, [rows, d_model]; for a row in several windows, the mean of theirs.

    Without a `pooling`, it is that of the first token for an encoder whose sentence vectors were trained so, else the
    mean.
    """
    model = assembly.config.model
    if pooling is None:
        of_first = model.pooling is Pooling.cls and model.pairs is Pairs.separate
        pooling = VectorPooling.cls if of_first else VectorPooling.mean
    selection = FIRST_TOKENS if pooling is VectorPooling.cls else None
    of_rows = np.empty((len(rows), assembly.config.model.d_model), np.float32)

    @torch.inference_mode()
    def encode(batch: Batch) -> np.ndarray:
        with assembly.compute.autocast():
            tokens = (batch.input_ids, batch.token_type_ids, batch.attention_mask)
            hidden = assembly.model.encoder.encode(*tokens, selection=selection)
        vectors = POOLINGS[pooling](hidden.float(), batch.attention_mask)
        if batch.attention_mask is not None:  # a row without tokens, such as an empty text, is zero
            vectors = vectors.where(batch.attention_mask.any(dim=1, keepdim=True), 0.0)
        if batch.row_of_sequence is not None:
            vectors = pool_windows(vectors, batch.row_of_sequence, len(batch), "mean")
        return (F.normalize(vectors, dim=-1) if normalize else vectors).cpu().numpy()

    for batch, vectors in predict_batches(assembly.scoring_batches(rows), encode, assembly.compute):
        of_rows[batch.rows.cpu().numpy()] = vectors
    return of_rows
