"""What a teacher, or texts to adapt to, add to a training run; without one, nothing.

These are the points of a run where a teacher, or texts to adapt to, come in.
"""

from __future__ import annotations

from typing import Any

from encoderlab.metrics import AnswerScores
from encoderlab.runs.corpora.corpus import Corpus
from encoderlab.runs.folders.folder import RunFolder
from encoderlab.runs.models.assembly import Assembly
from encoderlab.runs.models.pretrained import Pretrained
from encoderlab.tasks.rows import Rows


class Teaching:
    """The points of a run at which a teacher has something to say. This one has nothing to say.

    `encoder` is the teacher's, whose tokenizer a student without a pretrained encoder of its own takes over.
    """

    encoder: Pretrained | None = None

    def prepare(self, assembly: Assembly, corpus: Corpus, rows: Rows) -> Rows:
        """The training rows with the teacher's answers, the student being given the weights it starts from."""
        return rows

    def fingerprints(self) -> dict[str, str]:
        """Fingerprints of the files it reads beside the dataset, by the setting that names them: a resumed run needs the same."""
        return {}

    def train_before(self, folder: RunFolder) -> None:
        """Train whatever has to be trained before this run, inside its `folder`."""

    def seconds_before(self, own: float) -> dict[str, float]:
        """About how long `train_before` takes, by what it does, where the run itself takes `own` seconds."""
        return {}

    def compared(self, assembly: Assembly, corpus: Corpus, folder: RunFolder, split: str, scores: AnswerScores) -> dict[str, Any]:
        """What report.json holds beside the student's `scores` of `split`."""
        return {}


UNTAUGHT = Teaching()
