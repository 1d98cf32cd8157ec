"""Tokenizers wherever they lie, and the texts that they are trained on and compared on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from encoderlab.data.documents import DocumentSplit
from encoderlab.data.examples import Split, Splits, WordsExample
from encoderlab.data.sources.column_dataset import ColumnDataset
from encoderlab.data.sources.dataset import DatasetConfig
from encoderlab.data.sources.wikipedia import WikipediaDataset
from encoderlab.data.tokenizer import Tokenizer
from encoderlab.data.tokenizer_config import PretrainedConfig
from encoderlab.errors import DataError, SettingError
from encoderlab.runs.document_corpus import TOKENIZER_CHARACTERS
from encoderlab.runs.folder import RunFolder


def texts_by_split(dataset: DatasetConfig, cache: Path) -> dict[str, Callable[[], Iterator[str]]]:
    """The texts of each split of a dataset, read anew at each call: the same that `train`, or of articles `pretrain`, would learn.

    Raises DataError, SettingError as `DatasetConfig.load` does.
    """
    if isinstance(dataset, WikipediaDataset):
        documents = dataset.documents(cache).by_name
        return {name: partial(texts_of_documents, split) for name, split in documents.items()}
    return {name: partial(texts_of_split, split) for name, split in _rows(dataset, cache).by_name.items()}


def texts_of_split(split: Split) -> Iterator[str]:
    """All texts of a split in its order, pairs one after the other, words with a blank between them."""
    for example in split:
        if isinstance(example, WordsExample):
            yield " ".join(example.words)
        else:
            yield example.text
            if example.text_pair is not None:
                yield example.text_pair


def texts_of_documents(split: DocumentSplit) -> Iterator[str]:
    """The paragraphs of the first documents, as many as a tokenizer needs to be trained."""
    characters = 0
    for document in split.documents():
        yield from document
        characters += sum(map(len, document))
        if characters > TOKENIZER_CHARACTERS:
            return


def open_tokenizer(named: str) -> Tokenizer:
    """The tokenizer of a run folder, its model/ folder, a folder with a tokenizer.json, or a name on the hub.

    Raises DataError where there is none.
    """
    given = Path(named).expanduser()
    if (kept := RunFolder(given).model / "tokenizer.json").is_file():
        return Tokenizer.load(kept)
    try:
        return PretrainedConfig(name=str(given) if given.is_dir() else named).build(tuple, given)
    except DataError as error:
        raise DataError(
            error.wrong.replace("tokenizer.name=", "compare="),
            allowed="run folders, folders with a tokenizer.json, or names on the hub",
            remedy="Check the name and the network (HF_ENDPOINT)",
        ) from error


def _rows(dataset: DatasetConfig, cache: Path) -> Splits:
    """The rows, read without labels where they cannot be read with them: those only make the split the one of a training."""
    try:
        return dataset.load(cache)
    except (DataError, SettingError):
        if not isinstance(dataset, ColumnDataset) or dataset.label is None:
            raise
        return replace(dataset, label=None, label_names=None).load(cache)
