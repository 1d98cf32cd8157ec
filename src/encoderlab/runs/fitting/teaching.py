"""What a teacher adds to a training run; the base class adds nothing."""

from __future__ import annotations

from typing import Any

from encoderlab.metrics import AnswerScores
from encoderlab.runs.corpora.corpus import Corpus
from encoderlab.runs.models.assembly import Assembly
from encoderlab.runs.models.pretrained import Pretrained
from encoderlab.training.batches import Rows


class Teaching:
    """The points of a run at which a teacher takes part. This base class does nothing.

    `encoder` is the teacher's; a student without a pretrained encoder of its own uses its tokenizer.
    """

    encoder: Pretrained | None = None

    def prepare(self, assembly: Assembly, corpus: Corpus, rows: Rows) -> Rows:
        """Return the training rows with the teacher's outputs."""
        return rows

    def begin(self, assembly: Assembly) -> None:
        """Give the student its initial weights; see `Training.begin`."""

    def fingerprints(self) -> dict[str, str]:
        """Return fingerprints of the files read besides the dataset, by the setting naming them. A resumed run compares
        them.
        """
        return {}

    def compared(self, assembly: Assembly, corpus: Corpus, split: str, scores: AnswerScores) -> dict[str, Any]:
        """Return what report.json holds besides the student's `scores` of `split`."""
        return {}


UNTAUGHT = Teaching()
