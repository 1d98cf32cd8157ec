"""The labelled examples of a run: its splits, what is known of them, and the settings that reading them decided."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoderlab.data.corpus import Corpus
from encoderlab.data.examples import Folded, Split
from encoderlab.data.survey import SplitSurvey, survey_of
from encoderlab.data.token_store import TokenStore, tokenize_split
from encoderlab.errors import DataError

if TYPE_CHECKING:
    from encoderlab.data.tokenizers import Tokenizer

VALIDATION_FRACTION = 0.1
MAIN_SPLITS = ("train", "validation", "test")  # in this order; others follow


@dataclass(eq=False)
class Data(Corpus):
    """Labelled rows.

    If validation was held out from training, `undivided` returns the training rows with those.
    """

    by_name: dict[str, Split]
    folded: Folded | None = None  # all training rows, if `test` is a fold of them
    undivided: Callable[[], Split] | None = None
    may_lack_labels: bool = False  # some rows of a split may have no label, and it still counts as labelled

    def split(self, name: str) -> Split:
        return super().split(name)

    @cached_property
    def survey(self) -> dict[str, SplitSurvey]:
        """Return the statistics of each split; every row is read once for them."""
        return survey_of(self.by_name, self.labels)

    @property
    def paired(self) -> bool:
        return next(iter(self.by_name.values())).paired

    @property
    def n_undivided(self) -> int:
        held_out = self.by_name["validation"] if "validation" in self.origin.get("taken_from_train", {}) else ()
        return len(self.by_name["train"]) + len(held_out)

    def changed(self, change: Callable[[Split], Split], names: Collection[str]) -> Data:
        """Return the data with a change to some splits; one to `train` also concerns those held out from it."""
        by_name = {name: change(split) if name in names else split for name, split in self.by_name.items()}
        undivided = self.undivided
        changed = None if undivided is None else lambda: change(undivided())
        return replace(self, by_name=by_name, undivided=changed)

    def without_validation(self) -> Data:
        """Return the data with the rows that were held out for validation back in training."""
        assert self.undivided is not None, "no rows were held out for validation"
        by_name = {name: split for name, split in self.by_name.items() if name != "validation"}
        fractions = {name: share for name, share in self.origin["taken_from_train"].items() if name != "validation"}
        origin = {name: value for name, value in self.origin.items() if name not in ("taken_from_train", "split_seed")}
        if fractions:
            origin |= {"taken_from_train": fractions, "split_seed": self.origin["split_seed"]}
        decided = self.decided | {"validation_fraction": 0.0}
        by_name["train"] = self.undivided()
        return replace(self, by_name=by_name, origin=origin, decided=decided, undivided=None)

    def as_one_split(self) -> Data:
        """Return the data with the rows of train, which are not for training, as the only split, named `all`."""
        return Data({"all": self.by_name["train"]}, self.labels, self.origin)

    def is_labelled(self, name: str) -> bool:
        """Return whether every row of the split has a known target. Raises DataError if only some have one."""
        unknown = self.survey[name].unlabelled
        rows = len(self.split(name))
        if 0 < unknown < rows and self.may_lack_labels:
            return True
        if 0 < unknown < rows:
            problem = f"{unknown} of {rows} rows of the split {name} have no label"
            raise DataError(
                problem, allowed="a label in every row, or in none", remedy="Remove the rows without a label"
            )
        return unknown == 0 and rows > 0

    def check_training_labels(self) -> None:
        """Raise DataError if nothing can be learned from training: it has no labels, or only one label or number."""
        if not self.is_labelled("train"):
            remedy = "Set dataset.label to the column that holds them"
            raise DataError("The training split has no labels", remedy=remedy)
        train = self.survey["train"]
        different: set[Any] = {name for name, count in train.labels.items() if count}
        if train.numbers is not None:
            different = {train.numbers["min"], train.numbers["max"]}
        if self.split("train").target == "label_set":
            n_rows = len(self.split("train"))
            different |= {f"not {name}" for name, count in train.labels.items() if 0 < count < n_rows}
        if len(different) < 2:
            problem = f"All training rows have the label {different.pop()!r}"
            raise DataError(problem, allowed="at least two labels or numbers", remedy="Check dataset.label")

    def description(self) -> dict[str, Any]:
        splits = {name: asdict(split_survey) for name, split_survey in self.survey.items()}
        return {"origin": self.origin, "labels": self.labels, "splits": splits}

    def fingerprints(self) -> dict[str, str]:
        return {name: split_survey.fingerprint for name, split_survey in self.survey.items()}

    def scored_splits(self) -> list[str]:
        """Return the splits a report scores: additional ones, validation and test, if they have labels; the main one
        comes last.

        Raises DataError if neither validation nor test has labels.
        """
        main = [name for name in ("validation", "test") if name in self.by_name]
        further = [name for name in self.by_name if name not in ("train", *main)]
        scored = [name for name in (*further, *main) if self.is_labelled(name)]
        if not set(main) & set(scored):
            remedy = "Hold rows out of training with dataset.validation_fraction=0.1, or set dataset.validation=FILE"
            raise DataError("No split has labels to score on", remedy=remedy)
        return scored

    def training_texts(self) -> Iterator[str]:
        return self.split("train").texts()

    def tokenize(self, name: str, tokenizer: Tokenizer, cache: Path) -> TokenStore:
        return tokenize_split(self.split(name), self.survey[name].texts_fingerprint, tokenizer, cache, name)
