"""The dataset settings that every source shares, and their methods: load examples, or documents."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from encoderlab.data.documents import Documents, refuse_lone_document
from encoderlab.data.examples import Split, Splits
from encoderlab.data.folds import Fold, assign_folds, divide, nested_share
from encoderlab.errors import DataError, SettingError
from encoderlab.settings import check_settings, setting

if TYPE_CHECKING:
    from encoderlab.batch import TargetKind


class Pack(Enum):
    """What each side of a pretraining pair consists of.

    `sentences`: a single sentence. `segments`: a run of sentences as long as fits, as in BERT (Devlin et al. 2019,
    appendix A.2).
    """

    sentences = "sentences"
    segments = "segments"


@dataclass
class DatasetConfig(ABC):
    """Where examples come from."""

    targets: ClassVar[tuple[str, ...]] = ("label",)  # the kinds of target its rows can have

    limit: int | None = setting(None, "Use at most this many rows of each split, spread evenly over it.", least=1)
    train_share: float = setting(
        1.0,
        "Use this share of the training rows, stratified by label; smaller shares are within larger ones; other splits stay whole.",
        above=0,
        most=1,
    )
    fold: str | None = setting(
        None,
        "Test on one fold of the training rows and train on the others, such as 2/5 (the second of five); folds=5 runs all five.",
    )
    pack: Pack = setting(
        Pack.sentences,
        "For pretraining: sentences (pairs of single sentences) or segments (runs of sentences up to the length, as BERT did).",
    )

    def __post_init__(self) -> None:
        check_settings(self, "dataset")
        if self.fold is not None:
            Fold.parse(self.fold)

    def load(self, cache_dir: Path, target: TargetKind = "label") -> Splits:
        """Read all splits, each limited to `limit` rows; `target` is the kind of target a row is to have.

        Anything slow to read or build is cached under `cache_dir`. Raises DataError if the rows cannot be read as
        configured or `cache_dir` cannot be written to, SettingError if a setting does not fit the rows.
        """
        _refuse_unwritable(cache_dir)
        if target not in self.targets:
            name = type(self).__name__.removesuffix("Dataset").lower()
            wanted = "a number" if target == "number" else "a set of labels"
            raise DataError(
                f"dataset={name} has one label in each row, but the task needs {wanted}",
                allowed="dataset=files, dataset=hub",
                remedy="Use task=classification, or another dataset",
            )
        splits = self.limited(self.read(cache_dir, target))
        if self.fold is not None and splits.folded is None:
            splits, _ = self.in_fold(splits, self.fold)
        if self.train_share == 1:
            return splits
        train = nested_share(splits.by_name["train"], self.train_share, self.row_seed)
        return replace(splits, by_name=splits.by_name | {"train": train})

    def in_fold(
        self, splits: Splits, fold: str, kept_together: Sequence[Any] | None = None
    ) -> tuple[Splits, list[Any] | None]:
        """Return the splits with a fold of the training rows as test split, and `kept_together` for the remaining
        training rows.

        Existing test splits are dropped, and `origin` counts the rows of `test`.
        """
        kept = self.evenly(len(splits.by_name["train"]))
        whole, one = splits.by_name["train"].take(kept.tolist()), Fold.parse(fold)
        groups = None if kept_together is None else [kept_together[row] for row in kept]
        assigned = assign_folds(whole, one.of, self.row_seed, splits.labels, groups)
        parts, folded = divide(whole, one, assigned)
        unused = len(splits.by_name.get("test", ()))
        origin = splits.origin | {"fold": fold, "unused_test_rows": unused}
        left = None if groups is None else [groups[row] for row in np.flatnonzero(assigned != one.number)]
        given = {name: splits.by_name[name] for name in ("validation",) if name in splits.by_name}
        by_name = {"train": parts["train"], **given, "test": parts["test"]}
        return replace(splits, by_name=by_name, origin=origin, folded=folded), left

    @property
    def is_stream(self) -> bool:
        """Return whether `documents` are an endless stream, which a run reads during training."""
        return False

    @property
    def row_seed(self) -> int:
        """Return the seed that decides which training rows go where."""
        return 0

    def documents(self, cache_dir: Path) -> Documents:
        """Return all splits as documents for pretraining, each limited to `limit` of them; labels are neither needed
        nor read.

        Raises as `load` does, and DataError if there are no documents, or only one to train on.
        """
        _refuse_unwritable(cache_dir)
        if self.fold is not None or self.train_share != 1:
            name = "train_share" if self.fold is None else "fold"
            raise SettingError(
                f"dataset.{name} divides labelled rows, but these are documents", remedy=f"Remove dataset.{name}"
            )
        documents = self.read_documents(cache_dir)
        total = documents.by_name["train"].total
        if total is not None:
            refuse_lone_document(total)
        return documents

    @abstractmethod
    def read(self, cache_dir: Path, target: TargetKind = "label") -> Splits:
        """Read all splits whole; see `load`."""

    @property
    def sentence_language(self) -> str:
        """Return the language of the documents, by punkt_tab's name."""
        return "english"

    def read_documents(self, cache_dir: Path) -> Documents:
        """Return the documents, limited to `limit`; see `documents`."""
        raise DataError(
            f"dataset={type(self).__name__.removesuffix('Dataset').lower()} holds no documents",
            allowed="articles, wikipedia, hub, files",
            remedy="Set dataset=articles, which needs no download",
        )

    def limited(self, splits: Splits) -> Splits:
        """Return the splits, each limited to `limit` rows."""
        return replace(splits, by_name={name: self._limited(split) for name, split in splits.by_name.items()})

    def _limited(self, split: Split) -> Split:
        return split if self.limit is None or len(split) <= self.limit else split.take(self.evenly(len(split)).tolist())

    def evenly(self, total: int) -> np.ndarray:
        """Return which of `total` rows `limit` keeps, spread evenly: int64 [at most limit]."""
        if self.limit is None or total <= self.limit:
            return np.arange(total)
        return np.linspace(0, total - 1, self.limit).round().astype(np.int64)


def _refuse_unwritable(cache_dir: Path) -> None:
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=cache_dir).close()
    except OSError as error:
        raise DataError(
            f"cache_dir={cache_dir} is not a writable folder ({error.strerror})",
            remedy="Set cache_dir or ENCODERLAB_CACHE to a writable folder",
        ) from error
