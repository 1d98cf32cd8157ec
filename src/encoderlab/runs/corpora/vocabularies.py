"""Tokenizers from any source, and the texts that they are trained on and compared on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from encoderlab.data.examples import Splits
from encoderlab.data.sources.column_dataset import ColumnDataset
from encoderlab.data.sources.dataset import DatasetConfig
from encoderlab.data.sources.wikipedia import WikipediaDataset
from encoderlab.data.tokenizers.config import PretrainedConfig
from encoderlab.data.tokenizers.tokenizer import Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.runs.folder import RunFolder


def texts_by_split(dataset: DatasetConfig, cache: Path) -> dict[str, Callable[[], Iterator[str]]]:
    """Return the texts of each split, read again at each call: those that `train`, or for articles `pretrain`, would
    use.

    Raises DataError, SettingError as `DatasetConfig.load` does.
    """
    if isinstance(dataset, WikipediaDataset):
        documents = dataset.documents(cache).by_name
        return {name: split.texts for name, split in documents.items()}
    return {name: split.texts for name, split in _rows(dataset, cache).by_name.items()}


def open_tokenizer(named: str) -> Tokenizer:
    """Open the tokenizer of a run folder, its model/ folder, a folder with a tokenizer.json, or a name on the hub.

    Raises DataError if there is none.
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
    """Return the rows, without labels if they cannot be read with them: labels only make the split the same as in
    training.
    """
    try:
        return dataset.load(cache)
    except (DataError, SettingError):
        if not isinstance(dataset, ColumnDataset) or dataset.label is None:
            raise
        return replace(dataset, label=None, label_names=None).load(cache)
