"""The settings and the last steps shared by sources whose columns the user names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from encoderlab.data.documents import Documents, as_documents
from encoderlab.data.examples import Splits
from encoderlab.data.sources.dataset import DatasetConfig
from encoderlab.errors import SettingError
from encoderlab.settings import setting

if TYPE_CHECKING:
    from encoderlab.batch import TargetKind
    from encoderlab.data.sources.columns import Rows, Wanted
    from encoderlab.data.sources.labels import Labels


@dataclass
class ColumnDataset(DatasetConfig):
    """Rows with a text (or two, or words) and a label in columns the user names."""

    targets: ClassVar[tuple[str, ...]] = ("label", "label_set", "number")

    text: str = setting("text", "The column of the text, or of the words; in CoNLL files its name or number.")
    text_pair: str | None = setting(None, "The column of the second text, for pairs.")
    label: str | None = setting("label", "The column of the label, or of the words' labels; null reads texts without labels.")
    label_columns: list[str] | None = setting(
        None, "For task=multilabel, in place of label: columns of 0 and 1, one for each label, as [joy,anger]."
    )
    label_separator: str | None = setting(
        None, "For task=multilabel: what stands between the labels of a cell; null: the first of | ; , that training has."
    )
    label_names: list[str] | None = setting(None, "The labels in order, or names for the labels 0, 1, ...; else they are sorted.")
    validation_fraction: float = setting(0.1, "How much of training to take for validation, where there is none.", least=0, below=1)
    test_fraction: float = setting(0.0, "How much of training to take for testing, where there is no test split.", least=0, below=1)
    split_seed: int = setting(0, "Draws which rows are taken.", least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.validation_fraction + self.test_fraction >= 1:
            fractions = f"validation_fraction={self.validation_fraction:g} and dataset.test_fraction={self.test_fraction:g}"
            raise SettingError(f"dataset.{fractions} leave no training rows", allowed="a sum below 1")
        label = [self.label] if self.label_columns is None else self.label_columns
        named = [name for name in (self.text, self.text_pair, *label) if name is not None]
        repeated = next((name for name in named if named.count(name) > 1), None)
        if repeated is not None:
            raise SettingError(f"dataset.text, text_pair and label name the column {repeated!r} twice", allowed="a column each")
        if self.label_separator == "":
            raise SettingError("dataset.label_separator is empty", allowed="a text such as |, or null")
        names = self.label_names
        if names is not None and (len(names) < 2 or len(set(names)) < len(names)):
            raise SettingError(f"dataset.label_names is [{', '.join(names)}]", allowed="at least two names, none twice")

    def wanted(self, target: TargetKind = "label") -> Wanted:
        """The columns to read for `target`. Raises SettingError where the settings name others."""
        from encoderlab.data.sources.columns import Wanted

        if self.label_columns is None or self.label is None:
            return Wanted(self.text, self.text_pair, self.label, target=target)
        if target != "label_set":
            raise SettingError(
                "dataset.label_columns names a column for each label, and the task asks for one label or number",
                remedy="Use task=multilabel, or dataset.label=COLUMN",
            )
        return Wanted(self.text, self.text_pair, None, target=target, label_columns=tuple(self.label_columns))

    def read_documents(self, cache_dir: Path) -> Documents:
        """Each row as a document, whose paragraphs are the lines of its text, and of its second text where one is chosen.

        A row of words is a document of one paragraph.
        """
        unlabelled = replace(self, label=None)
        return as_documents(unlabelled.limited(unlabelled.read_document_rows(cache_dir)))

    def read_document_rows(self, cache_dir: Path) -> Splits:
        """All splits whole, a document in each row."""
        return self.read(cache_dir)

    def splits(
        self,
        rows: dict[str, Rows],
        origin: dict[str, Any],
        class_names: list[str] | None = None,
        target: TargetKind = "label",
    ) -> Splits:
        """The splits of a dataset from the rows of each, read for `target`, with what is taken from training.

        `class_names` names the labels 0, 1, ... where the source knows names. Raises DataError where a label is unknown to
        training or all but equal to another, SettingError where `label_names` do not fit.
        """
        from encoderlab.data.sources.labels import as_split
        from encoderlab.data.sources.targets import with_targets
        from encoderlab.data.splitting import hold_out

        if self.label is not None and target != "label":
            rows = with_targets(rows, target, self.label, self.label_columns, self.label_separator)
        labels = None if self.label is None or target == "number" else self._labels(rows, class_names)
        by_name = {name: as_split(part, labels) for name, part in rows.items()}
        wanted = {"validation": self.validation_fraction, "test": self.test_fraction}
        fractions = {name: fraction for name, fraction in wanted.items() if fraction and name not in by_name}
        by_name |= hold_out(by_name["train"], fractions, self.split_seed)
        if fractions:
            origin = origin | {"taken_from_train": fractions, "split_seed": self.split_seed}
        ordered = {name: by_name[name] for name in ("train", "validation", "test") if name in by_name}
        return Splits(ordered, labels.names if labels else [], origin)

    def _labels(self, rows: dict[str, Rows], class_names: list[str] | None) -> Labels:
        """The names of the labels, in order; a label that has a column of its own is one even where no row bears it."""
        from encoderlab.data.sources.labels import Labels, name_labels, refuse_labels_alike

        refuse_labels_alike(rows.values())
        if self.label_columns is not None and self.label_names is None:
            return Labels(self.label_columns, self.label_columns)
        return name_labels(rows["train"], self.label_names, class_names)
