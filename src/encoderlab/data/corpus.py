"""What a run learns from and is scored on: labelled rows (`data.Data`), or documents without labels (`Documents`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoderlab.data.examples import Split
from encoderlab.data.survey import SplitSurvey
from encoderlab.data.token_store import TokenStore
from encoderlab.errors import DataError

if TYPE_CHECKING:
    from encoderlab.data.tokenizers import Tokenizer


@dataclass(eq=False)
class Corpus(ABC):
    """All splits of a dataset by name (train, validation, test, perhaps others), and where its rows came from.

    `labels` are the names of the labels in the order of their ids. `origin` has the source's name, revision and files
    as far as known, and is kept with the run. `decided` holds settings of the dataset that were decided from its rows.
    `unlabelled` are rows of the training file that were left out because they have no label (None: there are none).
    """

    by_name: dict[str, Any]
    labels: list[str] = field(default_factory=list)
    origin: dict[str, Any] = field(default_factory=dict)
    decided: dict[str, Any] = field(default_factory=dict)
    unlabelled: Split | None = None

    def split(self, name: str) -> Any:
        """Return the split of that name. Raises DataError if there is none."""
        if name not in self.by_name:
            raise DataError(f"split={name} is not in this dataset", allowed=", ".join(self.by_name))
        return self.by_name[name]

    @property
    def has_validation(self) -> bool:
        return "validation" in self.by_name

    # What documents have none of

    @property
    def survey(self) -> Mapping[str, SplitSurvey] | None:
        """Return the statistics of each split; None: there are no labels to count."""
        return None

    @property
    def paired(self) -> bool:
        """Return whether an example is two texts."""
        return False

    @property
    def n_undivided(self) -> int:
        """Return the number of training rows before some were held out for validation; 0: they are drawn each epoch."""
        return 0

    # What both have, each in its way

    @abstractmethod
    def scored_splits(self) -> list[str]:
        """Return the splits that a report scores, the main one last. Raises DataError if there are none."""

    @abstractmethod
    def training_texts(self) -> Iterator[str]:
        """Yield the texts of the training split, as many as training a tokenizer needs."""

    @abstractmethod
    def tokenize(self, name: str, tokenizer: Tokenizer, cache: Path) -> TokenStore:
        """Return the ids of a split from the store in `cache`, which is written if it is missing."""

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Return what environment.json records about the data."""

    @abstractmethod
    def fingerprints(self) -> dict[str, str]:
        """Return a fingerprint of each split."""
