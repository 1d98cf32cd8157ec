"""Distillation on a task: the student's rows with its teacher's logits, and the comparison of both on the same rows
afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from encoderlab.config.commands import DistillConfig, StudentStart
from encoderlab.data.examples import Example, TextExample, WordsExample
from encoderlab.data.files.files import read_unlabelled
from encoderlab.errors import DataError, SettingError
from encoderlab.metrics import AnswerScores, Scores, TaggingScores
from encoderlab.runs.corpora.corpus import Corpus
from encoderlab.runs.distillation.side_by_side import size_and_speed, timed
from encoderlab.runs.distillation.student import check_start, start_student
from encoderlab.runs.distillation.task_teacher import TaskTeacher, TeacherLogits
from encoderlab.runs.distillation.teacher_files import teacher_fingerprints, unlabelled_file
from encoderlab.runs.fitting.teaching import Teaching
from encoderlab.runs.inference.inputs import encoded_rows
from encoderlab.runs.models.assembly import Assembly, check_paired, compute_for
from encoderlab.runs.models.pretrained import load_pretrained, vocabulary_difference
from encoderlab.tasks.rows import ExampleRows, TaughtRows, joined
from encoderlab.training.batches import Rows


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

    def compared(self, assembly: Assembly, corpus: Corpus, split: str, scores: AnswerScores) -> dict[str, Any]:
        """Compare teacher and student on the rows of `split`.

        Each has its main score, `parameters`, `megabytes` of weights in fp32 and `texts_per_second`. The teacher has
        `student_leads_by`, the paired difference, with its 95% interval.
        """
        if not self.config.teacher_weight:
            return {}
        assert isinstance(scores, Scores | TaggingScores), "only classes are distilled"
        examples = list(corpus.split(split))
        answers, teacher_speed = timed(len(examples), lambda: self.teacher.logits(examples))
        _, speed = timed(len(examples), lambda: assembly.evaluate(encoded_rows(assembly, examples)))
        found = {
            "student": {scores.main: scores.figures[scores.main], **size_and_speed(assembly.model.n_parameters, speed)},
            "teacher": {
                "name": self.config.teacher,
                **_beside(scores, answers.predicted(scores), self.config.seed),
                **size_and_speed(self.teacher.assembly.model.n_parameters, teacher_speed),
            },
        }
        return {"distillation": found}

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


def _beside(scores: Scores | TaggingScores, other: Any, seed: int) -> dict[str, Any]:
    """Return the main figure of other predictions for the same rows, and how far the student leads."""
    lead, bounds = scores.lead_on_rows(other, seed)
    return {scores.main: scores.figures[scores.main] - lead, "student_leads_by": lead, "student_leads_by_ci95": bounds}
