"""A teacher of a task: a finished run from whose probabilities a student learns, in addition to the labels (Hinton et
al. 2015).

On a task the rows stay the same, so the teacher's logits are computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from encoderlab.batch import Batch
from encoderlab.config.commands import DistillConfig, OpenRunConfig
from encoderlab.data.examples import Example
from encoderlab.errors import DataError
from encoderlab.metrics import Scores, TaggingScores
from encoderlab.runs.inference.inputs import encoded_rows
from encoderlab.runs.models.assembly import Assembly, reopen
from encoderlab.runs.models.pretrained import encoder_folder
from encoderlab.system.signals import stop_if_interrupted
from encoderlab.training.evaluation import answered

ENCODED_AT_A_TIME = 16_384
NO_ANSWER = -1  # for a word that the teacher did not read; it counts as wrong


@dataclass(frozen=True, slots=True)
class TeacherLogits:
    """Logits for the rows of a split, one row after another.

    `values` is [outputs, classes]; a row has those from `offsets[row]` to `offsets[row + 1]`: one, or one for each
    word.
    """

    values: np.ndarray
    offsets: np.ndarray

    def followed_by(self, more: TeacherLogits) -> TeacherLogits:
        """Return these rows, followed by those of `more`."""
        offsets = np.concatenate([self.offsets, self.offsets[-1] + more.offsets[1:]])
        return TeacherLogits(np.concatenate([self.values, more.values]), offsets)

    def predicted(self, scores: Scores | TaggingScores) -> np.ndarray | list[np.ndarray]:
        """Return the best class of each row in `scores`, or of each of its words that the student predicts."""
        best = self.values.argmax(1)
        if isinstance(scores, Scores):
            return best[self.offsets[scores.rows]]
        found = []
        for row, labels in zip(scores.rows, scores.labels, strict=True):
            answers = best[self.offsets[row] : self.offsets[row + 1]][: len(labels)]
            found.append(np.pad(answers, (0, len(labels) - len(answers)), constant_values=NO_ANSWER))
        return found

    def of(self, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return the first `counts` outputs of each of `rows`, one row after another; no row has fewer."""
        starts = self.offsets[rows]
        assert (starts + counts <= self.offsets[rows + 1]).all(), "the teacher has read fewer words"
        return np.concatenate([self.values[start : start + count] for start, count in zip(starts, counts, strict=True)])

    def too_short_for(self, n_targets: np.ndarray) -> int:
        """Return how many rows have fewer outputs than the student has `n_targets` target positions, [rows]."""
        return int((np.diff(self.offsets) < n_targets).sum())


@dataclass(frozen=True, slots=True)
class TaskTeacher:
    """A finished run, with its classes in the student's order."""

    name: str
    assembly: Assembly
    order: Sequence[int]

    @classmethod
    def open(cls, config: DistillConfig, labels: Sequence[str], words: bool) -> TaskTeacher:
        """Open the run, folder or hub model that `config.teacher` names, to teach a task with `labels`, on texts or on
        `words`.

        Raises DataError if it is missing or damaged, or does not know these labels.
        """
        assert config.teacher is not None
        folder = encoder_folder(config.teacher, "teacher")
        training = config.training
        opened = OpenRunConfig(
            cache_dir=config.cache_dir,
            run=str(folder),
            device=training.device,
            precision=training.precision,
            threads=training.threads,
        )
        assembly = reopen(opened)
        theirs, heads = assembly.task.labels, assembly.task.heads
        remedy = f"Use a teacher that was finetuned on it: encoderlab finetune task={config.task.name} init_from={config.teacher}"
        if heads.vocabulary or (heads.token_classes if words else heads.sequence_classes) is None:
            raise DataError(
                f"teacher={config.teacher} was not trained on a task like {config.task.name}", remedy=remedy
            )
        if missing := [label for label in labels if label not in theirs]:
            raise DataError(
                f"teacher={config.teacher} does not know the label {missing[0]!r}",
                allowed=f"a teacher of all {len(labels)} labels of the task",
                remedy=remedy,
            )
        return cls(config.teacher, assembly, [theirs.index(label) for label in labels])

    def logits(self, examples: Sequence[Example]) -> TeacherLogits:
        """Return its logits for the examples, computed once."""
        found: dict[int, np.ndarray] = {}
        for start in range(0, len(examples), ENCODED_AT_A_TIME):
            rows = encoded_rows(self.assembly, examples[start : start + ENCODED_AT_A_TIME])
            for batch, (logits, counts) in answered(
                self.assembly.scoring_batches(rows), self._answers, self.assembly.compute
            ):
                stop_if_interrupted()
                pieces = np.split(logits, np.cumsum(counts)[:-1])
                found |= {start + int(row): piece for row, piece in zip(batch.rows.tolist(), pieces, strict=True)}
        parts = [found[row] for row in range(len(examples))]
        return TeacherLogits(np.concatenate(parts), np.concatenate([[0], np.cumsum([len(part) for part in parts])]))

    def _answers(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Return the logits of a batch in the student's order of classes, [outputs, classes], and how many each row
        has.
        """
        with torch.inference_mode(), self.assembly.compute.autocast():
            prediction = self.assembly.model(batch)
        length = batch.input_ids.shape[1]
        if prediction.sequence_logits is not None:
            logits, counts = prediction.sequence_logits, np.ones(len(batch), dtype=np.int64)
        else:
            logits = prediction.token_logits
            counts = np.bincount((batch.target_positions // length).cpu().numpy(), minlength=len(batch))
        return logits.float().cpu().numpy()[:, list(self.order)], counts
