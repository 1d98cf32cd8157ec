"""The settings and the last steps shared by sources whose columns the user names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoderlab.data.documents import Documents, as_documents
from encoderlab.data.examples import Splits
from encoderlab.data.sources.dataset import DatasetConfig
from encoderlab.errors import SettingError
from encoderlab.settings import setting

if TYPE_CHECKING:
    from encoderlab.data.sources.columns import Rows, Wanted


@dataclass
class ColumnDataset(DatasetConfig):
    """Rows with a text (or two, or words) and a label in columns the user names."""

    text: str = setting("text", "The column of the text, or of the words; in CoNLL files its name or number.")
    text_pair: str | None = setting(None, "The column of the second text, for pairs.")
    label: str | None = setting("label", "The column of the label, or of the words' labels; null reads texts without labels.")
    label_names: list[str] | None = setting(None, "The labels in order, or names for the labels 0, 1, ...; else they are sorted.")
    validation_fraction: float = setting(0.1, "How much of training to take for validation, where there is none.", least=0, below=1)
    test_fraction: float = setting(0.0, "How much of training to take for testing, where there is no test split.", least=0, below=1)
    split_seed: int = setting(0, "Draws which rows are taken.", least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.validation_fraction + self.test_fraction >= 1:
            fractions = f"validation_fraction={self.validation_fraction:g} and dataset.test_fraction={self.test_fraction:g}"
            raise SettingError(f"dataset.{fractions} leave no training rows", allowed="a sum below 1")
        named = [name for name in (self.text, self.text_pair, self.label) if name is not None]
        repeated = next((name for name in named if named.count(name) > 1), None)
        if repeated is not None:
            raise SettingError(f"dataset.text, text_pair and label name the column {repeated!r} twice", allowed="a column each")
        names = self.label_names
        if names is not None and (len(names) < 2 or len(set(names)) < len(names)):
            raise SettingError(f"dataset.label_names is [{', '.join(names)}]", allowed="at least two names, none twice")

    def wanted(self) -> Wanted:
        """The columns to read."""
        from encoderlab.data.sources.columns import Wanted

        return Wanted(self.text, self.text_pair, self.label)

    def read_documents(self, cache_dir: Path) -> Documents:
        """Each row as a document, whose paragraphs are the lines of its text, and of its second text where one is chosen.

        A row of words is a document of one paragraph.
        """
        unlabelled = replace(self, label=None)
        return as_documents(unlabelled.limited(unlabelled.read_document_rows(cache_dir)))

    def read_document_rows(self, cache_dir: Path) -> Splits:
        """All splits whole, a document in each row."""
        return self.read(cache_dir)

    def splits(self, rows: dict[str, Rows], origin: dict[str, Any], class_names: list[str] | None = None) -> Splits:
        """The splits of a dataset from the rows of each, with what is taken from training.

        `class_names` names the labels 0, 1, ... where the source knows names. Raises DataError where a label is unknown to
        training or all but equal to another, SettingError where `label_names` do not fit.
        """
        from encoderlab.data.sources.labels import as_split, name_labels, refuse_labels_alike
        from encoderlab.data.splitting import hold_out

        labels = None
        if self.label is not None:
            refuse_labels_alike(rows.values())
            labels = name_labels(rows["train"], self.label_names, class_names)
        by_name = {name: as_split(part, labels) for name, part in rows.items()}
        wanted = {"validation": self.validation_fraction, "test": self.test_fraction}
        fractions = {name: fraction for name, fraction in wanted.items() if fraction and name not in by_name}
        by_name |= hold_out(by_name["train"], fractions, self.split_seed)
        if fractions:
            origin = origin | {"taken_from_train": fractions, "split_seed": self.split_seed}
        ordered = {name: by_name[name] for name in ("train", "validation", "test") if name in by_name}
        return Splits(ordered, labels.names if labels else [], origin)
