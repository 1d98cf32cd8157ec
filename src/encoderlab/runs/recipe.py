"""A recipe: what a command adds to the training of a model, in five moments of the pipeline (`train`).

A run from scratch adds nothing, and has the `Recipe` below. Those of finetuning, distillation and contrastive
pretraining are in `recipes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from encoderlab.config.commands import RunConfig
from encoderlab.data.corpus import Corpus
from encoderlab.models.model import Model
from encoderlab.models.pretrained import load_start
from encoderlab.runs.fit import Result, fit
from encoderlab.runs.prepared import PreparedRun
from encoderlab.runs.run import Run
from encoderlab.system.processes import Processes


@dataclass(frozen=True, slots=True)
class StartingWeights:
    """The weights that a run starts from: an `encoder` (None: fresh ones), and a `teacher`, whose tokenizer a student
    may take.

    `fingerprints` are hashes of their weights, by the setting that names them.
    """

    encoder: Model | None = None
    teacher: Model | None = None
    fingerprints: Mapping[str, str] = field(default_factory=dict)


class Recipe:
    """The five moments, each as in a run from scratch."""

    def start(self, config: RunConfig, processes: Processes) -> StartingWeights:
        """Return what the run starts from. Raises SettingError or DataError for what does not suit it."""
        encoder, fingerprints = load_start(config, processes)
        return StartingWeights(encoder, None, fingerprints)

    def check(self, data: Corpus) -> None:
        """Raise DataError for rows that cannot be learned from, before anything slow."""

    def extend_rows(self, prepared: PreparedRun, start: StartingWeights) -> None:
        """Add to the training rows what else there is to learn from; or change the weights to start from.

        After this, only those rows of the token table are trained that occur. The encoder in `start` shares its memory
        with the model's.
        """

    def before_first_step(self, prepared: PreparedRun) -> None:
        """Change the model before the first step of the run. One that continues from a checkpoint calls it too."""

    def fit(self, prepared: PreparedRun, run: Run) -> Result:
        """Train the model, and leave in it the weights to keep."""
        return fit(prepared.training, run)
