"""The corpus of a run: its splits, their statistics and token stores, and how much of its rows a model reads."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from encoderlab.batch import Encoded, TargetKind
from encoderlab.data.dataset import DatasetConfig
from encoderlab.data.examples import Split, Splits, TextExample
from encoderlab.data.survey import SplitSurvey, survey
from encoderlab.data.token_store import TokenStore, kept_store
from encoderlab.errors import DataError
from encoderlab.tasks.rows import ExampleRows, store_encoded
from encoderlab.tasks.task import Task
from encoderlab.training.batches import Rows

STORE_VERSION = 3  # increase it when the columns of the store or their meaning change
ROWS_LOOKED_AT = 20_000  # to measure lengths: enough to find the longest 1%, tokenised in a second or two
MANY = 0.1  # of the rows: more of them are worth a remedy
LEAST_LENGTH = 32  # tokens: shorter sequences save nothing, and later inputs may be longer than the training rows


@dataclass(frozen=True, slots=True)
class Corpus:
    """The examples of a run and their statistics; `cache` is the folder of token stores."""

    splits: Splits
    survey: dict[str, SplitSurvey]
    cache: Path

    @classmethod
    def load(cls, dataset: DatasetConfig, cache: Path, target: TargetKind = "label") -> Corpus:
        """Read the dataset for `target` and survey it. Raises DataError, SettingError as `DatasetConfig.load` does."""
        splits = dataset.load(cache, target)
        return cls(splits, survey(splits), cache)

    @classmethod
    def load_unsplit(cls, dataset: DatasetConfig, cache: Path, target: TargetKind) -> Corpus:
        """Read a dataset as a single split named `all`; none of its rows are for training."""
        splits = dataset.load(cache, target)
        splits = replace(splits, by_name={"all": splits.by_name["train"]})
        return cls(splits, survey(splits), cache)

    def split(self, name: str) -> Split:
        """Return the split of that name. Raises DataError if there is none."""
        if name not in self.splits.by_name:
            raise DataError(f"split={name} is not in this dataset", allowed=", ".join(self.splits.by_name))
        return self.splits.by_name[name]

    def labelled(self, name: str) -> bool:
        """Return whether every row of the split has a known target. Raises DataError if only some have one."""
        unknown, rows = self.survey[name].unlabelled, len(self.split(name))
        if 0 < unknown < rows:
            wrong = f"{unknown} of {rows} rows of the split {name} have no label"
            raise DataError(wrong, allowed="a label in every row, or in none", remedy="Remove the rows without a label")
        return unknown == 0 and rows > 0

    def check_training_labels(self) -> None:
        """Raise DataError if nothing can be learned from training: it has no labels, or only one label or number."""
        if not self.labelled("train"):
            remedy = "Set dataset.label to the column that holds them"
            raise DataError("The training split has no labels", remedy=remedy)
        survey = self.survey["train"]
        names: set[Any] = {name for name, count in survey.labels.items() if count}
        if survey.numbers is not None:
            names = {survey.numbers["min"], survey.numbers["max"]}
        if len(names) < 2:
            wrong = f"All training rows have the label {names.pop()!r}"
            raise DataError(wrong, allowed="at least two labels or numbers", remedy="Check dataset.label")

    @property
    def labels(self) -> list[str]:
        """Return the names of the labels, in the order of their ids."""
        return self.splits.labels

    def description(self) -> dict[str, Any]:
        """Return what environment.json records about the data."""
        survey = {name: asdict(split) for name, split in self.survey.items()}
        return {"origin": self.splits.origin, "labels": self.splits.labels, "splits": survey}

    @property
    def paired(self) -> bool:
        """Return whether an example is two texts."""
        example = next(iter(next(iter(self.splits.by_name.values()))), None)
        return isinstance(example, TextExample) and example.text_pair is not None

    def fingerprints(self) -> dict[str, str]:
        """Return a fingerprint of each split's rows."""
        return {name: split.fingerprint for name, split in self.survey.items()}

    def scored_splits(self) -> list[str]:
        """Return the splits a report scores: additional ones, validation and test, if they have labels; the main one
        comes last.

        Raises DataError if neither validation nor test has labels.
        """
        main = [name for name in ("validation", "test") if name in self.splits.by_name]
        further = [name for name in self.splits.by_name if name not in ("train", *main)]
        scored = [name for name in (*further, *main) if self.labelled(name)]
        if not set(main) & set(scored):
            remedy = "Hold rows out of training with dataset.validation_fraction=0.1, or set dataset.validation=FILE"
            raise DataError("No split has labels to score on", remedy=remedy)
        return scored

    def training_texts(self) -> Iterator[str]:
        """Yield all texts of the training split, to train a tokenizer on."""
        return self.split("train").texts()

    def needed_length(self, task: Task) -> int:
        """Return how many tokens 99% of the training rows, or of a sample of many, need as the task encodes them, from
        LEAST_LENGTH up to its own limit.
        """
        train = self.split("train")
        looked_at = np.unique(np.linspace(0, len(train) - 1, min(len(train), ROWS_LOOKED_AT)).round().astype(np.int64))
        encoded = _encoded(train.take(looked_at.tolist()), task, "measuring texts")
        lengths = np.fromiter((len(one.input_ids) for one in encoded), np.int64)
        return min(max(int(np.percentile(lengths, 99, method="higher")), LEAST_LENGTH), task.max_length)

    def rows(self, name: str, task: Task) -> ExampleRows:
        """Return the encoded rows of a split from a token store, opened from the cache or written there."""
        fingerprint = self.fingerprints()[name]
        key = hashlib.sha256(f"{STORE_VERSION} {fingerprint} {task.key}".encode()).hexdigest()[:24]

        def make(folder: Path) -> TokenStore:
            encoded = _encoded(self.split(name), task, f"tokenising {name}")
            return store_encoded(folder, encoded, task.tokenizer.vocabulary_size, task.heads)

        return ExampleRows(kept_store(self.cache / "tokens" / key, make))


def _encoded(split: Split, task: Task, description: str) -> Iterator[Encoded]:
    examples = iter(split)
    with tqdm(total=len(split), desc=description, unit=" rows", file=sys.stderr, disable=None, leave=False) as bar:
        while some := list(islice(examples, 1000)):
            yield from task.encode(some)
            bar.update(len(some))


def reading_notes(rows: Mapping[str, Rows], task: Task) -> list[str]:
    """Return a sentence for each split that has rows longer than the model reads at once."""
    notes = [_note(f"of the rows of {name}", part, task) for name, part in rows.items()]
    return [note for note in notes if note]


def _note(of_rows: str, rows: Rows, task: Task) -> str:
    if task.windows is None or not isinstance(rows, ExampleRows):
        share = rows.truncated_share()
        has_windows = task.heads.sequence_target is not None and task.heads.token_classes is None
        remedy = "; task.windows=mean reads them whole" if share > MANY and has_windows else ""
        return f"{share:.1%} {of_rows} were truncated to {task.limit}{remedy}" if share else ""
    windows, too_long = rows.windows(), int(rows.truncated().sum())
    several = windows > 1
    if not several.any():
        return ""
    capped = f"; {too_long:,} longer ones in {task.windows.most} of them (task.max_windows)" if too_long else ""
    read = f"read in windows of {task.max_length} tokens, {windows[several].mean():.1f} on average (task.windows)"
    return f"{several.mean():.1%} {of_rows} were {read}{capped}"
