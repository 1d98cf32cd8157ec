"""What a teacher adds to a training run; the base class adds nothing."""

from __future__ import annotations

from encoderlab.runs.assembly import Assembly
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.pretrained import Pretrained
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


UNTAUGHT = Teaching()
