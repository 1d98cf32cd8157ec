"""Supervised contrastive learning (Khosla et al. 2020): vectors of texts of one label near each other, others apart.

The encoder that the run starts from gives the targets of a second loss: the distance of the new vectors to the old
ones keeps what was there. A row without a label takes part only in that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from encoderlab.errors import DataError, SettingError
from encoderlab.network.config import HeadSizes
from encoderlab.settings import setting
from encoderlab.tasks.task import TaskConfig
from encoderlab.tasks.vectors import Encoding

if TYPE_CHECKING:
    from encoderlab.batch import Batch, TeacherOutputs
    from encoderlab.data.examples import Split
    from encoderlab.data.token_store import TokenStore
    from encoderlab.data.tokenizers import Tokenizer
    from encoderlab.metrics.pretraining import ContrastMetrics
    from encoderlab.tasks.contrastive_rows import ContrastiveRows
    from encoderlab.training.config import TrainingConfig


@dataclass
class ContrastiveConfig(TaskConfig):
    """The vectors of texts of one label near each other, those of others apart (encoderlab pretrain init_from=...)."""

    command: ClassVar[str] = "pretrain"
    of_vectors: ClassVar[bool] = True

    set_column: str | None = setting(
        None,
        "Column that names the set of a row, if there are several: only rows of one set are compared; null: one set.",
    )
    temperature: float = setting(0.1, "Divides the cosines that are compared: a low one looks at near rows.", above=0)
    contrast_weight: float = setting(1.0, "Weight of the contrastive loss.", minimum=0)
    keep_vectors: float = setting(
        0.3, "Weight of the cosine distance to the starting encoder's vectors of whole texts.", minimum=0
    )
    keep_tokens: float = setting(
        0.3,
        "Weight of the cosine distance to its vectors of tokens: those of texts without a label, if there are any.",
        minimum=0,
    )
    freeze_tokens: bool = setting(True, "Keep the embeddings of tokens as they are.")
    compared_rows: int = setting(
        64, "Rows that are compared with one another, all of one set: a micro-batch of the batch.", minimum=2
    )
    compared_labels: int = setting(16, "Labels of which a micro-batch has equally many rows.", minimum=2)
    related_share: float = setting(
        0.5,
        "Share of the micro-batches whose labels lie near each other, by the starting encoder.",
        minimum=0,
        maximum=1,
    )
    labelled_length: int = setting(
        64, "Most tokens of a text with a label; of others model.max_length is read.", minimum=5, maximum=1048576
    )
    unlabelled_tokens: int = setting(
        8192, "Tokens, padding included, of texts without a label in each step.", minimum=1
    )

    def build(self, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> Contrastive:
        return Contrastive(self, tokenizer, labels, max_length)

    def n_micro_batches(self, training: TrainingConfig) -> int:
        """Return in how many micro-batches a step is computed. Raises SettingError if it is set to another number."""
        number = max(round(training.batch_size / self.compared_rows), 1)
        if training.accumulate not in (None, number):
            problem = f"training.accumulate={training.accumulate} would change which rows are compared with one another"
            remedy = "Remove it; task.compared_rows sets the size of a micro-batch, training.batch_size their number"
            raise SettingError(problem, remedy=remedy)
        return number

    @property
    def separates_pairs(self) -> bool:
        return True

    def main_score_of(self, labels: Sequence[str]) -> str:
        return "label_accuracy"


class Contrastive(Encoding):
    """Trains the vector of a text by its label, and keeps it and those of its tokens near the starting encoder's."""

    config: ContrastiveConfig

    # Returns the starting encoder's vectors for a batch. It is set before a run; without one, texts are only read.
    teacher: Callable[[Batch], TeacherOutputs] | None = None

    def __init__(self, config: ContrastiveConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> None:
        super().__init__(config, tokenizer, max_length)
        self.heads = HeadSizes(own_vectors=True)
        self.freezes_tokens = config.freeze_tokens
        self.n_labels = len(labels)  # of all sets together; the encoder does not keep their names

    def rows_of_split(self, store: TokenStore, split: Split) -> ContrastiveRows:
        """Return the tokenised texts of a split with their sets and labels. Raises DataError for pairs and words."""
        from encoderlab.tasks.contrastive_rows import ContrastiveRows

        if "second" in store or "word_starts" in store:
            held = "pairs of texts" if "second" in store else "sequences of words"
            remedy = "Remove dataset.text_pair" if "second" in store else "Choose a dataset of texts"
            raise DataError(f"The rows are {held}, but task={self.config.name} compares single texts", remedy=remedy)
        labels = np.array([-1 if label is None else label for label in split.targets()], np.int64)
        sets = self._sets_of(split)
        return ContrastiveRows(store, self.format, labels, sets, self.n_labels, self.config, self.with_vectors)

    def with_vectors(self, batch: Batch) -> Batch:
        """Return `batch` with the starting encoder's vectors. Raises DataError if that is unknown."""
        if self.teacher is None:
            problem = f"{self.config.name} was trained beside another encoder and cannot be scored without it"
            raise DataError(problem, remedy="See the scores in its report.json")
        vectors = replace(
            self.teacher(batch),
            sequence_vector_weight=self.config.keep_vectors,
            token_vector_weight=self.config.keep_tokens,
        )
        return replace(batch, teacher=vectors)

    def _sets_of(self, split: Split) -> list[str]:
        """Return the name of each row's set. Raises DataError if there is no such column."""
        column = self.config.set_column
        if column is None:
            return [""] * len(split)
        names = [] if split.carried is None else split.carried.column_names
        if column not in names:
            problem = f"There is no column {column!r} that names the set of a row (task.set_column)"
            raise DataError(problem, allowed=", ".join(names))
        assert split.carried is not None
        return [str(name) for name in split.carried[column]]

    @property
    def limit(self) -> str:
        return f"task.labelled_length={self.config.labelled_length} tokens (without a label {super().limit})"

    def metrics(self) -> ContrastMetrics:
        from encoderlab.metrics.pretraining import ContrastMetrics

        return ContrastMetrics(self.n_labels)
