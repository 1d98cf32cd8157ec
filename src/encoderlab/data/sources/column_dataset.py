"""The settings and last steps that all sources with named columns share."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from encoderlab.data.documents import Documents, as_documents
from encoderlab.data.examples import Splits
from encoderlab.data.sources.dataset import DatasetConfig
from encoderlab.errors import DataError, SettingError
from encoderlab.settings import setting

if TYPE_CHECKING:
    from encoderlab.batch import TargetKind
    from encoderlab.data.sources.columns import Rows, Wanted
    from encoderlab.data.sources.labels import Labels

MAIN_SPLITS = ("train", "validation", "test")  # in this order; others follow


class OnInvalidTags(Enum):
    """What to do with invalid sequences of BIO or BIOES labels, such as I-person at the start of an entity."""

    error = "error"
    repair = "repair"


@dataclass
class ColumnDataset(DatasetConfig):
    """Rows with a text (or two, or words) and a label, in columns that the user names."""

    targets: ClassVar[tuple[str, ...]] = ("label", "label_set", "number")

    text: str = setting("text", "The column of the text, or of the words; in CoNLL files a name or a number.")
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
    # A list or a mapping; OmegaConf has no such union.
    label_names: Any = setting(
        None,
        "The labels in order, or names for the labels 0, 1, ..., or a mapping ({1: bad, 2: bad, 3: good}); null: sorted.",
    )
    on_invalid_tags: OnInvalidTags = setting(
        OnInvalidTags.error, "Invalid BIO or BIOES labels: error, or repair (read them as conlleval does; for IOB1)."
    )
    group: str | None = setting(None, "A column such as an author: rows with the same value are held out together.")
    carry: list[str] | None = setting(
        None, "Further columns to copy to predictions, such as an id; null: all others, []: none."
    )
    validation_fraction: float = setting(
        0.1, "Share of training rows to hold out if there is no validation split.", least=0, below=1
    )
    test_fraction: float = setting(
        0.0, "Share of training rows to hold out if there is no test split.", least=0, below=1
    )
    split_seed: int = setting(0, "Seed that selects the rows to hold out.", least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.validation_fraction + self.test_fraction >= 1:
            fractions = (
                f"validation_fraction={self.validation_fraction:g} and dataset.test_fraction={self.test_fraction:g}"
            )
            raise SettingError(f"dataset.{fractions} leave no training rows", allowed="a sum below 1")
        label = [self.label] if self.label_columns is None else self.label_columns
        named = [name for name in (self.text, self.text_pair, *label) if name is not None]
        if self.fold is not None and self.test_fraction:
            raise SettingError(
                f"dataset.test_fraction={self.test_fraction:g} takes test rows from training, but every fold is tested anyway",
                remedy="Remove dataset.test_fraction",
            )
        repeated = next((name for name in named if named.count(name) > 1), None)
        if repeated is not None:
            raise SettingError(
                f"dataset.text, text_pair and label name the column {repeated!r} twice",
                allowed="a different column for each",
            )
        if self.label_separator == "":
            raise SettingError("dataset.label_separator is empty", allowed="a text such as |, or null")
        if self.label_names is not None:
            self.label_names = _label_names(self.label_names)

    def wanted(self, target: TargetKind = "label") -> Wanted:
        """Return the columns to read for `target`. Raises SettingError if the settings name others."""
        from encoderlab.data.sources.columns import Wanted

        group = [self.group] if self.group is not None and self.group not in (self.text, self.text_pair) else []
        others = None if self.carry is None else (*self.carry, *group)
        if self.label_columns is None or self.label is None:
            return Wanted(self.text, self.text_pair, self.label, target=target, others=others)
        if target != "label_set":
            raise SettingError(
                "dataset.label_columns names a column for each label, but the task predicts one label or number per row",
                remedy="Use task=multilabel, or dataset.label=COLUMN",
            )
        columns = tuple(self.label_columns)
        return Wanted(self.text, self.text_pair, None, target=target, label_columns=columns, others=others)

    def read_documents(self, cache_dir: Path) -> Documents:
        """Return each row as a document; its paragraphs are the lines of its text and, if chosen, of its second text.

        A row of words is a document of one paragraph.
        """
        unlabelled = replace(self, label=None)
        return as_documents(unlabelled.limited(unlabelled.read_document_rows(cache_dir)))

    def read_document_rows(self, cache_dir: Path) -> Splits:
        """Return all splits whole, with a document in each row."""
        return self.read(cache_dir)

    def splits(
        self,
        rows: dict[str, Rows],
        origin: dict[str, Any],
        class_names: list[str] | None = None,
        target: TargetKind = "label",
    ) -> Splits:
        """Return the splits of a dataset from the rows of each, read for `target`, with rows held out from training.

        `class_names` names the labels 0, 1, ... if the source knows names. Raises DataError if a label is missing from
        training or almost equals another, SettingError if `label_names` do not fit.
        """
        from encoderlab.data.sources.labels import as_split, refuse_other_targets
        from encoderlab.data.sources.targets import with_targets
        from encoderlab.data.splitting import hold_out, uneven_parts

        labels = None
        if self.label is not None and target != "label":
            rows = with_targets(rows, target, self.label, self.label_columns, self.label_separator)
        if self.label is not None and target == "label" and self.label_names is None and class_names is None:
            refuse_other_targets(rows["train"], self.label)
        if self.label is not None and target != "number":
            rows, labels = self._labelled(rows, class_names)
        by_name = {name: as_split(part, labels) for name, part in rows.items()}
        wanted = {"validation": self.validation_fraction, "test": self.test_fraction}
        fractions = {name: fraction for name, fraction in wanted.items() if fraction and name not in by_name}
        groups, found = self._groups(rows["train"]), Splits(by_name, labels.names if labels else [], origin)
        if self.fold is not None:
            found, groups = self.in_fold(found, self.fold, groups)
            fractions.pop("test", None)
        parts = hold_out(found.by_name["train"], fractions, self.split_seed, groups)
        for warning in uneven_parts(parts, fractions, grouped=groups is not None):
            print(f"encoderlab: {warning}", file=sys.stderr)
        by_name = found.by_name | parts
        if fractions:
            found = replace(found, origin=found.origin | {"taken_from_train": fractions, "split_seed": self.split_seed})
        return replace(found, by_name={name: by_name[name] for name in (*MAIN_SPLITS, *by_name) if name in by_name})

    @property
    def row_seed(self) -> int:
        """See `DatasetConfig.row_seed`."""
        return self.split_seed

    def _labelled(self, rows: dict[str, Rows], class_names: list[str] | None) -> tuple[dict[str, Rows], Labels]:
        """Return the rows with the labels that a mapping gives them, and the names of the labels, in order.

        A label with a column of its own counts even if no row has it.
        """
        from encoderlab.data.sources.labels import (
            Labels,
            mapped_labels,
            name_labels,
            refuse_labels_alike,
            with_valid_entities,
        )

        refuse_labels_alike(rows.values())
        names = self.label_names
        if isinstance(names, dict):
            rows = {name: mapped_labels(part, names, class_names) for name, part in rows.items()}
            names, class_names = list(dict.fromkeys(names.values())), None
        if self.label_columns is not None and names is None:
            return rows, Labels(self.label_columns, self.label_columns)
        labels = name_labels(rows["train"], names, class_names)
        return with_valid_entities(rows, labels, repair=self.on_invalid_tags is OnInvalidTags.repair)

    def _groups(self, rows: Rows) -> list[Any] | None:
        """Return the values that keep rows together. Raises DataError if there is no such column."""
        from encoderlab.data.sources.columns import listed

        if self.group is None:
            return None
        column = {
            getattr(self, setting): rows.columns[setting]
            for setting in ("text", "text_pair")
            if setting in rows.columns
        }
        column |= rows.carried
        if self.group not in column:
            existing = listed(column)
            raise DataError(
                f"{rows.where(0)} has no column {self.group!r} to group by",
                allowed=existing,
                remedy="Check dataset.group",
            )
        return [tuple(value) if isinstance(value, list) else value for value in column[self.group].to_pylist()]


def _label_names(given: Any) -> list[str] | dict[str, str]:
    """Return label names as strings: a list, or a mapping from values. Raises SettingError if they are neither, or too
    few.
    """
    names = list(given.values()) if isinstance(given, dict) else given
    if not isinstance(names, list) or any(isinstance(name, dict | list) or name is None for name in names):
        raise SettingError(
            f"dataset.label_names is {given!r}",
            allowed="a list such as [bad,good], or a mapping such as {0:bad,1:good}",
        )
    texts = [_as_written(name) for name in names]
    if len(set(texts)) < 2 or (isinstance(given, list) and len(set(texts)) < len(texts)):
        raise SettingError(f"dataset.label_names is [{', '.join(texts)}]", allowed="at least two different names")
    return dict(zip(map(_as_written, given), texts, strict=True)) if isinstance(given, dict) else texts


def _as_written(value: Any) -> str:
    """Return a value of YAML as data files write it: true and not True."""
    return value if isinstance(value, str) else json.dumps(value)
