"""The texts of a run that nobody has labelled, read from the file that `unlabelled` names."""

from __future__ import annotations

from collections.abc import Iterable

from encoderlab.config.commands import RunConfig
from encoderlab.data.data import Data
from encoderlab.data.examples import Example, WordsExample
from encoderlab.data.files import read_unlabelled
from encoderlab.data.formats import is_saved_dataset
from encoderlab.data.remote import local_file
from encoderlab.errors import DataError


def texts_of_file(file: str, config: RunConfig, data: Data) -> list[Example]:
    """Return the texts of the file that `unlabelled` names, without blank ones, read as the run's own rows are.

    Raises DataError if it is missing, cannot be read, or has no texts.
    """
    path = local_file(file, config.cache).expanduser()
    if not path.is_file() and not is_saved_dataset(path):
        raise DataError(f"unlabelled={path} does not exist", allowed="a csv, tsv, xlsx, jsonl, parquet or txt file")
    dataset = config.dataset
    text = getattr(dataset, "text", "text")
    pair = getattr(dataset, "text_pair", None) if data.paired else None
    split = read_unlabelled(path, text=text, text_pair=pair, words=config.task.of_words, cache_dir=config.cache)
    strips = getattr(dataset, "strip_html", False)
    texts = with_text(example.without_html() if strips else example for example in split)
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
