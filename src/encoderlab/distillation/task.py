"""A teacher of a task: a finished run from whose probabilities a student learns, in addition to the labels (Hinton et
al. 2015).

On a task the rows stay the same, so the teacher's logits are computed once.

Distillation on a task: the student's rows with its teacher's logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from encoderlab.batch import Batch
from encoderlab.config.commands import DistillConfig, OpenRunConfig, StudentStart
from encoderlab.data.examples import Example, TextExample, WordsExample
from encoderlab.data.files import read_unlabelled
from encoderlab.distillation.student import check_start, start_student
from encoderlab.distillation.teacher import teacher_fingerprints, unlabelled_file
from encoderlab.errors import DataError, SettingError
from encoderlab.runs.assembly import Assembly, check_paired, compute_for, reopen
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.fitting.teaching import Teaching
from encoderlab.runs.inference.inputs import encoded_rows
from encoderlab.runs.pretrained import encoder_folder, load_pretrained, vocabulary_difference
from encoderlab.system.signals import stop_if_interrupted
from encoderlab.tasks.rows import ExampleRows, TaughtRows, joined
from encoderlab.training.batches import Rows
from encoderlab.training.evaluation import predict_batches

ENCODED_AT_A_TIME = 16_384


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
            for batch, (logits, counts) in predict_batches(
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


class TaskDistillation(Teaching):
    """A teacher, and what its student learns from it."""

    def __init__(self, config: DistillConfig, corpus: Corpus, words: bool) -> None:
        assert config.teacher is not None
        self.config = config
        self.encoder = load_pretrained(config.teacher, "teacher") if config.init_from is None else None
        self.teacher = TaskTeacher.open(config, corpus.labels, words)
        check_paired(self.teacher.assembly, corpus.paired)
        compute_for(config)  # opening the teacher has changed threads and kernels

    def prepare(self, assembly: Assembly, corpus: Corpus, rows: Rows) -> Rows:
        """See `Teaching.prepare`: also adds the texts of `unlabelled`. Raises DataError for a file that cannot be read."""
        if self.encoder is not None:
            self._check_tokenizer(assembly)
            check_start(assembly.config.model, self.encoder.config, self.config.start)
        if not self.config.teacher_weight:
            return rows
        assert isinstance(rows, ExampleRows)
        logits = self.teacher.logits(list(corpus.split("train")))
        n_targets = (
            rows.store["target_positions"].lengths()
            if "target_positions" in rows.store
            else np.ones(len(rows), dtype=np.int64)
        )
        if few := logits.too_short_for(n_targets):
            raise DataError(
                f"The teacher reads fewer words of {few:,} rows than the student",
                remedy=f"Set model.max_length to at most {self.teacher.assembly.config.model.max_length}, the teacher's",
            )
        if self.config.unlabelled is not None:
            more = self._unlabelled(assembly, corpus)
            found = self.teacher.logits(more)
            rows, logits = joined([rows, encoded_rows(assembly, _labelled(more, found))]), logits.followed_by(found)
        return TaughtRows(rows, logits, self.config.temperature, self.config.teacher_weight)

    def begin(self, assembly: Assembly) -> None:
        """See `Teaching.begin`: without a pretrained encoder of its own, the student gets parts of its teacher."""
        if self.encoder is not None:
            start_student(assembly.model, assembly.config.model, self.encoder, self.config.start)

    def fingerprints(self) -> dict[str, str]:
        """See `Teaching.fingerprints`."""
        return teacher_fingerprints(self.config)

    def _check_tokenizer(self, assembly: Assembly) -> None:
        """Raise SettingError if tables would be copied whose rows mean other tokens."""
        assert self.encoder is not None
        difference = vocabulary_difference(assembly.tokenizer, self.encoder.tokenizer)
        if self.config.start is not StudentStart.fresh and difference:
            raise SettingError(
                f"start={self.config.start.value} needs the teacher's tokenizer, but the student has another: {difference}",
                remedy="Use tokenizer=as_pretrained, or start=fresh",
            )

    def _unlabelled(self, assembly: Assembly, corpus: Corpus) -> list[Example]:
        dataset, words = self.config.dataset, assembly.task.heads.token_classes is not None
        path = unlabelled_file(self.config.unlabelled or "")
        pair = getattr(dataset, "text_pair", None) if corpus.paired else None
        found = read_unlabelled(path, text=getattr(dataset, "text", "text"), text_pair=pair, words=words)
        texts = [one for one in found if (one.words if isinstance(one, WordsExample) else one.text.strip())]
        if not texts:
            raise DataError(f"unlabelled={path} has no texts", remedy="Choose a file with some, or remove it")
        return texts


def _labelled(examples: Sequence[Example], logits: TeacherLogits) -> list[Example]:
    """Return the examples with the teacher's best class as their label."""
    best = logits.values.argmax(1)
    found: list[Example] = []
    for row, example in enumerate(examples):
        answers = best[logits.offsets[row] : logits.offsets[row + 1]].tolist()
        if isinstance(example, TextExample):
            found.append(replace(example, label=answers[0]))
        else:
            answers += [answers[-1]] * (len(example.words) - len(answers))  # words beyond the teacher's length
            found.append(WordsExample(example.words, tuple(answers)))
    return found
