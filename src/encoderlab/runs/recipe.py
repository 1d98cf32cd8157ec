"""A recipe: what a command adds to the training of a model, in five moments of `train_once`.

A run from scratch adds nothing and has the `Recipe` below. What finetuning, distillation and contrastive pretraining
add is told in `recipes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from encoderlab.config.commands import RunConfig
from encoderlab.data.data import Data
from encoderlab.data.documents import Documents
from encoderlab.models.model import Model
from encoderlab.models.pretrained import load_start
from encoderlab.runs.fit import Result, fit
from encoderlab.runs.prepared import PreparedRun
from encoderlab.runs.run import Run
from encoderlab.system.processes import Processes


@dataclass(frozen=True, slots=True)
class Start:
    """What a run starts from: an `encoder` (None: fresh weights), and a `teacher`, whose tokenizer a student may have.

    `fingerprints` are hashes of their weights, by the setting that names them.
    """

    encoder: Model | None = None
    teacher: Model | None = None
    fingerprints: Mapping[str, str] = field(default_factory=dict)


class Recipe:
    """The five moments, each as in a run from scratch."""

    def start(self, config: RunConfig, processes: Processes) -> Start:
        """Return what the run starts from. Raises SettingError or DataError for what does not suit it."""
        encoder, fingerprints = load_start(config, processes)
        return Start(encoder, None, fingerprints)

    def check(self, data: Data | Documents) -> None:
        """Raise DataError for rows that cannot be learned from, before anything slow."""

    def rows(self, prepared: PreparedRun, start: Start) -> None:
        """Add to the training rows what else there is to learn from."""

    def before_first_step(self, prepared: PreparedRun) -> None:
        """Change the model before its first step, unless the run continues from a checkpoint."""

    def fit(self, prepared: PreparedRun, run: Run) -> Result:
        """Train the model, and leave the weights in it that are kept."""
        return fit(prepared.training, run)
