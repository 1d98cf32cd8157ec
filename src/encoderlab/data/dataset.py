"""The dataset settings that every source shares: load examples or documents, limit, divide and label rows."""

from __future__ import annotations

import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from encoderlab.data.data import MAIN_SPLITS, VALIDATION_FRACTION, Data
from encoderlab.data.documents import Documents, as_documents
from encoderlab.data.examples import Folded, Split
from encoderlab.data.splits import assign_folds, held_out_parts, nested_share, parse_fold
from encoderlab.errors import DataError, SettingError, closest
from encoderlab.settings import check_settings, setting

if TYPE_CHECKING:
    from encoderlab.network.config import TargetKind
    from encoderlab.tables.columns import Columns
    from encoderlab.tables.formats import Dialect
    from encoderlab.tables.raw_rows import RawRows


class Pack(Enum):
    """What each side of a pretraining pair consists of."""

    sentences = "sentences"  # a single sentence
    segments = "segments"  # a run of sentences as long as fits, as in BERT (Devlin et al. 2019, appendix A.2)


@dataclass
class DatasetConfig(ABC):
    """Where examples come from."""

    targets: ClassVar[tuple[str, ...]] = ("label", "words")  # the kinds of target its rows can have

    limit: int | None = setting(None, "Use at most this many rows of each split, spread evenly over it.", minimum=1)
    train_share: float = setting(
        1.0,
        "Use this share of the training rows, stratified by label; smaller shares are within larger ones; other "
        "splits stay whole.",
        above=0,
        maximum=1,
    )
    fold: str | None = setting(
        None,
        "Test on one fold of the training rows and train on the others, such as 2/5 (the second of five); folds=5 "
        "runs all five.",
    )
    pack: Pack = setting(
        Pack.sentences,
        "For pretraining: sentences (pairs of single sentences) or segments (runs of sentences up to the length, as "
        "BERT did).",
    )

    def __post_init__(self) -> None:
        check_settings(self, "dataset")
        if self.fold is not None:
            parse_fold(self.fold)

    def load(self, cache_dir: Path, target: TargetKind = "label") -> Data:
        """Read all splits, each limited to `limit` rows; `target` is the kind of target a row is to have.

        Anything slow to read or build is cached under `cache_dir`. Raises DataError if the rows cannot be read as
        configured or `cache_dir` cannot be written to, SettingError if a setting does not fit the rows.
        """
        _refuse_unwritable(cache_dir)
        if self.is_stream:
            problem = "dataset.streaming=true gives documents for pretraining, not rows"
            raise DataError(problem, remedy="Set dataset.streaming=false")
        if target not in self.targets:
            problem = f"dataset={self.option} has one label in each row, but the task needs a {target}"
            raise DataError(problem, allowed="dataset=files, dataset=hub", remedy="Use task=classification")
        splits = self.limited(self.read(cache_dir, target))
        # ColumnDataset.build_splits has already made the fold, before it held out validation rows.
        if self.fold is not None and splits.folded is None:
            splits = self.in_fold(splits, self.fold)
        if self.train_share == 1:
            return splits
        return splits.changed(lambda train: nested_share(train, self.train_share, self.row_seed), ["train"])

    def in_fold(self, splits: Data, fold: str) -> Data:
        """Return the splits with a fold of the training rows as the only test split; `origin` counts dropped rows."""
        number, folds = parse_fold(fold)
        whole = splits.by_name["train"].evenly(self.limit)
        assigned = assign_folds(whole, folds, self.row_seed, splits.labels, self.kept_together(whole))
        origin = splits.origin | {"fold": fold, "unused_test_rows": len(splits.by_name.get("test", ()))}
        validation = {name: splits.by_name[name] for name in ("validation",) if name in splits.by_name}
        train, test = (whole.take(np.flatnonzero((assigned == number) == is_test)) for is_test in (False, True))
        by_name = {"train": train, **validation, "test": test}
        return Data(by_name, splits.labels, origin, folded=Folded(whole, assigned))

    def kept_together(self, split: Split) -> list[Any] | None:
        """Return a value for each row, which stays in one part with other rows of that value; None: with no others."""
        return None

    @property
    def is_stream(self) -> bool:
        """Return whether `documents` are an endless stream, which a run reads during training."""
        return False

    @property
    def leaves_validation_open(self) -> bool:
        """Return whether the rows decide how many of them are held out for validation."""
        return False

    @property
    def first_file(self) -> str | None:
        """Return the first of a user's own files that the rows come from; None for other sources."""
        return None

    def as_one_file(self, trained: DatasetConfig | None, labels: list[str] | None) -> DatasetConfig | None:
        """Return the settings that read a user's own file whole, with these `labels` and otherwise like the data that a
        model was `trained` on; None for a dataset with splits of its own.
        """
        return None

    @property
    def file_columns(self) -> Columns:
        """Return the columns that a further file of such rows is expected to have."""
        from encoderlab.tables.columns import USUAL_COLUMNS

        return USUAL_COLUMNS

    @property
    def strips_html(self) -> bool:
        """Return whether texts are read without HTML."""
        return False

    @property
    def dialect(self) -> Dialect:
        """Return how files are read; what it leaves open is decided for each."""
        from encoderlab.tables.formats import Dialect

        return Dialect()

    @property
    def slice_columns(self) -> list[str]:
        """Return the columns by whose values reports show scores too."""
        return []

    @property
    def row_seed(self) -> int:
        """Return the seed that decides which training rows go where."""
        return 0

    @property
    def option(self) -> str:
        """Return what `dataset=` is set to for this dataset."""
        return type(self).__name__.removesuffix("Dataset").lower()

    def documents(self, cache_dir: Path) -> Documents:
        """Return all splits as documents without labels, each limited to `limit`.

        Raises as `load` does, and DataError if there are no documents.
        """
        _refuse_unwritable(cache_dir)
        if self.fold is not None or self.train_share != 1:
            name = "train_share" if self.fold is None else "fold"
            problem = f"dataset.{name} divides labelled rows, but these are documents"
            raise SettingError(problem, remedy=f"Remove dataset.{name}")
        if self.is_stream and self.limit is not None:
            problem = f"dataset.limit={self.limit} does not apply to dataset.streaming=true, which has no end"
            raise SettingError(problem, remedy="Remove dataset.limit and set training.steps")
        return self.read_documents(cache_dir)

    @abstractmethod
    def read(self, cache_dir: Path, target: TargetKind = "label") -> Data:
        """Read all splits whole; see `load`."""

    @property
    def sentence_language(self) -> str:
        """Return the language of the documents, by punkt_tab's name."""
        return "english"

    def read_documents(self, cache_dir: Path) -> Documents:
        """Return the documents, limited to `limit`; see `documents`."""
        remedy = "Set dataset=articles, which needs no download"
        raise DataError(f"dataset={self.option} holds no documents", remedy=remedy)

    def limited(self, splits: Data) -> Data:
        """Return the splits, each limited to `limit` rows."""
        if self.limit is None:
            return splits
        return splits.changed(lambda split: split.evenly(self.limit), splits.by_name)


@dataclass
class ColumnDataset(DatasetConfig):
    """Rows with a text (or two, or words) and a label, in columns that the user names."""

    targets: ClassVar[tuple[str, ...]] = ("label", "label_set", "number", "words")

    # A name or a list; OmegaConf has no such union.
    text: Any = setting(
        "text", "The column of the text, or of the words; [subject,body] joins several; in CoNLL files a number."
    )
    text_pair: str | None = setting(None, "The column of the second text, for pairs.")
    label: str | None = setting(
        "label", "The column of the label, or of the words' labels; null reads texts without labels."
    )
    label_columns: list[str] | None = setting(
        None, "For task=multilabel, instead of label: columns of 0 and 1, one per label, such as [joy,anger]."
    )
    label_separator: str | None = setting(
        None, "For task=multilabel: the separator of labels in a cell; null: the first of | ; , found in training."
    )
    no_answer: list[str] | None = setting(
        None, "Values of the label column that mean no answer, such as [-99,N/A]: their rows have no label."
    )
    # A list or a mapping; OmegaConf has no such union.
    label_names: Any = setting(
        None,
        "The labels in order, or names for the labels 0, 1, ..., or a mapping ({1: bad, 2: bad, 3: good}); null: "
        "sorted.",
    )
    strip_html: bool = setting(False, "Remove HTML from texts: tags, comments, scripts, and names such as &amp;.")
    group: str | None = setting(None, "A column such as an author: rows with the same value are held out together.")
    slices: list[str] | None = setting(
        None, "Columns such as [language,month]: the report also has the score of each of their values."
    )
    validation_fraction: float | None = setting(
        None,
        "Share of training rows to hold out if there is no validation split; null: 0.1, but none in a run with a test "
        "split and too few rows to choose a checkpoint by (training.min_validation_rows).",
        minimum=0,
        below=1,
    )
    test_fraction: float = setting(
        0.0, "Share of training rows to hold out if there is no test split.", minimum=0, below=1
    )
    split_seed: int = setting(0, "Seed that selects the rows to hold out.", minimum=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.text, int) and not isinstance(self.text, bool):  # as YAML reads a column that is a number
            self.text = str(self.text)
        texts = [self.text] if isinstance(self.text, str) else self.text
        if not isinstance(texts, list) or not texts or not all(isinstance(name, str) for name in texts):
            raise SettingError(f"dataset.text is {self.text!r}", allowed="a column, or a list of columns")
        named = [name for name in (*texts, self.text_pair, *(self.label_columns or [self.label])) if name is not None]
        if len(set(named)) < len(named):  # a model would read the labels
            raise SettingError(f"The columns {', '.join(named)} (dataset.text, text_pair, label) are not all different")
        if sum(self.held_out.values()) >= 1:
            problem = "dataset.validation_fraction and dataset.test_fraction leave no training rows"
            raise SettingError(problem, allowed="a sum below 1")
        if self.fold is not None and self.test_fraction:
            problem = f"dataset.test_fraction={self.test_fraction:g} takes test rows, but every fold is tested anyway"
            raise SettingError(problem, remedy="Remove dataset.test_fraction")
        if self.label_names is not None:
            self.label_names = _label_names(self.label_names)

    @property
    def drops_missing(self) -> bool:
        """Return whether rows without a label or a text are left out instead of refused."""
        return False

    @property
    def file_columns(self) -> Columns:
        from encoderlab.tables.columns import Columns

        return Columns(self.text, self.text_pair, self.label)

    @property
    def strips_html(self) -> bool:
        return self.strip_html

    def columns(self, target: TargetKind = "label") -> Columns:
        """Return the columns to read for `target`. Raises SettingError if the settings name others."""
        from encoderlab.tables.columns import Columns

        label_columns = None if self.label is None else self.label_columns
        if label_columns is not None and target != "label_set":
            raise SettingError("dataset.label_columns needs task=multilabel", remedy="Or set dataset.label=COLUMN")
        return Columns(
            self.text,
            self.text_pair,
            self.label if label_columns is None else None,
            target=target,
            label_columns=tuple(label_columns or ()),
            others=True,
            drop=self.drops_missing,
            strip_html=self.strip_html,
        )

    def read_documents(self, cache_dir: Path) -> Documents:
        """Return each row as a document."""
        unlabelled = replace(self, label=None)
        return as_documents(unlabelled.limited(unlabelled.read_document_rows(cache_dir)))

    def read_document_rows(self, cache_dir: Path) -> Data:
        """Return all splits whole, with a document in each row."""
        return self.read(cache_dir)

    def _with_labels(
        self, rows: dict[str, RawRows], target: TargetKind, *, has_class_names: bool
    ) -> tuple[dict[str, RawRows], dict[str, Any]]:
        """Return the rows with the labels that their cells hold, each in one spelling, and what was decided of them.

        Raises DataError if a cell holds something else.
        """
        from encoderlab.data import labels
        from encoderlab.tables import label_columns

        assert self.label is not None
        stated = [*self.label_names] if self.label_names else []  # names, or the values that a mapping names
        decided: dict[str, Any] = {}
        if target == "label_set" and self.label_columns is None:
            rows, format = label_columns.with_label_sets(rows, self.label_separator, stated, self.label)
            decided["labels"] = "a list of labels" if format is None else format.described()
        if target == "label":
            rows = label_columns.with_single_labels(rows, self.label)
        if self.label_columns is None and not has_class_names:
            rows, decided["spellings"] = label_columns.with_one_spelling(rows, stated, self.label)
        if target == "label" and not has_class_names:
            label_columns.refuse_splits_without_labels(rows)
        if target == "label" and not stated and not has_class_names:
            labels.refuse_other_targets(rows["train"], self.label)
        return rows, decided

    def build_splits(
        self,
        rows: dict[str, RawRows],
        origin: dict[str, Any],
        class_names: list[str] | None = None,
        target: TargetKind = "label",
        decided: dict[str, Any] | None = None,
    ) -> Data:
        """Return the splits of a dataset from the rows of each, read for `target`, with rows held out from training.

        `class_names` names the labels 0, 1, ... if the source knows names; `decided` has the settings that the rows
        decided. Raises DataError if a label is missing from training, SettingError if `label_names` do not fit.
        """
        from encoderlab.data import labels

        # From what stands in the label column to targets: numbers, or ids of labels.
        known = None
        if self.label is not None and target == "number":
            rows = labels.with_numbers(rows, self.label)
        if self.label is not None and target != "number":
            rows, read = self._with_labels(rows, target, has_class_names=class_names is not None)
            origin = origin | {"reading": read} if read else origin
            known = labels.name_labels(rows["train"], self.label_names or self.label_columns, class_names)
            rows, known = labels.with_valid_entities(rows, known)
        by_name = {name: labels.as_split(part, known) for name, part in rows.items()}

        # A fold of the training rows takes the place of the test split.
        fractions = {name: fraction for name, fraction in self.held_out.items() if fraction and name not in by_name}
        splits = Data(by_name, known.names if known else [], origin)
        if self.fold is not None:
            splits = self.in_fold(splits, self.fold)
            fractions.pop("test", None)

        # Splits that the source does not have are held out from training, unless another fraction is 0.
        train = splits.by_name["train"]
        by_name = dict(splits.by_name)
        origin = dict(splits.origin)
        undivided = None
        kept_together = self.kept_together(train)  # refuses an unknown column
        if fractions:
            part = held_out_parts(train, fractions, self.split_seed, kept_together)
            part_of = {name: number for number, name in enumerate(["train", *fractions])}
            for name, number in part_of.items():
                by_name[name] = train.take(np.flatnonzero(part == number))
            origin |= {"taken_from_train": fractions, "split_seed": self.split_seed}
            if "validation" in fractions:
                undivided = partial(_take_all_but, train, part, part_of.get("test"))

        by_name = {name: by_name[name] for name in (*MAIN_SPLITS, *by_name) if name in by_name}
        self._check_slices(by_name)
        return Data(by_name, splits.labels, origin, decided or {}, folded=splits.folded, undivided=undivided)

    @property
    def leaves_validation_open(self) -> bool:
        return self.validation_fraction is None

    @property
    def slice_columns(self) -> list[str]:
        return self.slices or []

    @property
    def row_seed(self) -> int:
        return self.split_seed

    @property
    def held_out(self) -> dict[str, float]:
        """Return the share of the training rows that becomes each split, if there is none of that name."""
        validation = VALIDATION_FRACTION if self.validation_fraction is None else self.validation_fraction
        return {"test": self.test_fraction, "validation": validation}  # the test rows do not depend on the others

    def _check_slices(self, by_name: Mapping[str, Split]) -> None:
        """Raise DataError if a split lacks a column of `slices`."""
        for name, split in by_name.items():
            existing = [] if split.carried is None else split.carried.column_names
            for column in self.slice_columns:
                if column not in existing:
                    near = closest(column, existing)
                    problem = f"The rows of {name} have no further column {column!r} (dataset.slices)"
                    remedy = f"Did you mean {near}?" if near else "Remove it from dataset.slices"
                    raise DataError(problem, allowed=", ".join(existing) or "none", remedy=remedy)

    def kept_together(self, split: Split) -> list[Any] | None:
        """Return the value of `group` in each row. Raises DataError if there is no such column."""
        if self.group is None:
            return None
        named = {"text": str(self.text), "words": str(self.text), "text_pair": self.text_pair}
        columns = {named[column]: (split.table, column) for column in split.table.column_names if column in named}
        if split.carried is not None:
            columns |= {column: (split.carried, column) for column in split.carried.column_names}
        if self.group not in columns:
            problem = f"There is no column {self.group!r} to group by (dataset.group)"
            raise DataError(problem, allowed=", ".join(map(str, columns)))
        rows, name = columns[self.group]
        values = rows.select_columns([name]).with_format("arrow")[:][name].to_pylist()
        return [tuple(value) if isinstance(value, list) else value for value in values]


def _take_all_but(split: Split, part: np.ndarray, number: int | None) -> Split:
    """Return the rows of a split but those of the part with this number (None: all rows)."""
    return split if number is None else split.take(np.flatnonzero(part != number))


def _refuse_unwritable(cache_dir: Path) -> None:
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=cache_dir).close()
    except OSError as error:
        problem = f"cache_dir={cache_dir} is not a writable folder ({error.strerror})"
        raise DataError(problem, remedy="Set cache_dir or ENCODERLAB_CACHE to one") from error


def _label_names(value: Any) -> list[str] | dict[str, str]:
    """Return label names as strings: a list, or a mapping from values. Raises SettingError for anything else."""
    names = list(value.values()) if isinstance(value, dict) else value
    is_plain = isinstance(names, list) and not any(isinstance(name, dict | list | None) for name in names)
    texts = [_as_written(name) for name in names] if is_plain else []
    if len(set(texts)) < (2 if isinstance(value, dict) else max(len(texts), 2)):
        allowed = "a list such as [bad,good], or a mapping such as {0:bad,1:good}, with two different names or more"
        raise SettingError(f"dataset.label_names is {value!r}", allowed=allowed)
    return dict(zip(map(_as_written, value), texts, strict=True)) if isinstance(value, dict) else texts


def _as_written(value: Any) -> str:
    """Return a value of YAML as data files write it: true and not True."""
    return value if isinstance(value, str) else json.dumps(value)
