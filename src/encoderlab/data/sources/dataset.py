"""The dataset settings every source shares, and their one verb: load."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from encoderlab.data.examples import Split, Splits
from encoderlab.errors import DataError
from encoderlab.settings import check_settings, setting


@dataclass
class DatasetConfig(ABC):
    """Where examples come from."""

    group: ClassVar[str] = "dataset"

    limit: int | None = setting(None, "Use at most this many rows of each split, spread evenly over it.", least=1)

    def __post_init__(self) -> None:
        check_settings(self, self.group)

    def load(self, cache_dir: Path) -> Splits:
        """Read all splits, each cut to `limit` rows.

        Whatever takes long to read or build is kept under `cache_dir`. Raises DataError where the rows cannot be read as they are
        meant or `cache_dir` cannot be written to, SettingError where a setting does not fit the rows.
        """
        _refuse_unwritable(cache_dir)
        splits = self.read(cache_dir)
        return replace(splits, by_name={name: self._limited(split) for name, split in splits.by_name.items()})

    @abstractmethod
    def read(self, cache_dir: Path) -> Splits:
        """Read all splits whole; see `load`."""

    def _limited(self, split: Split) -> Split:
        if self.limit is None or len(split) <= self.limit:
            return split
        return split.take(np.linspace(0, len(split) - 1, self.limit).round().astype(int).tolist())


def _refuse_unwritable(cache_dir: Path) -> None:
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=cache_dir).close()
    except OSError as error:
        raise DataError(
            f"cache_dir={cache_dir} is no folder that can be written to ({error.strerror})",
            remedy="Type cache_dir=FOLDER with one that can be, or set ENCODERLAB_CACHE to it",
        ) from error
