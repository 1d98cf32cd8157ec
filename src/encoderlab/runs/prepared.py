"""A run that is ready for its first step: what was read and decided before its folder exists."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from encoderlab.data.corpus import Corpus
from encoderlab.models.model import Model
from encoderlab.runs.opening import open_run
from encoderlab.runs.requested import RequestedRun
from encoderlab.runs.run import Run
from encoderlab.runs.start_language import TrainingLanguages
from encoderlab.runs.training import Training
from encoderlab.system.messages import print_lines
from encoderlab.training.batches import Rows
from encoderlab.training.occurring_rows import rows_left_out


@dataclass(slots=True)
class PreparedRun:
    """A run before its first step, to which a recipe may still add.

    The model in `training` has the final settings; `requested` has those before the open ones were decided, and `notes`
    say what was decided. `rows` are those of `train` and of the splits that are scored; `training.rows` may have
    further ones than `train`. `data_notes` say which are read in part, and `pairs` of how many documents and sentences
    they are made (None: labelled rows). `fingerprints` are those of what the run reads besides the data, by the setting
    that names it. `languages` are those of the training texts, where they are compared with those of the encoder to
    start from.
    """

    requested: RequestedRun
    data: Corpus
    rows: Mapping[str, Rows]
    training: Training
    notes: list[str]
    data_notes: list[str]
    pairs: Mapping[str, Any] | None = None
    fingerprints: dict[str, str] = field(default_factory=dict)
    languages: TrainingLanguages | None = None

    @property
    def model(self) -> Model:
        return self.training.model

    def complete_notes(self) -> None:
        """Note a loss of one's own. A resumed run has decided nothing, and repeats the notes of when it began."""
        own_loss = self.model.config.task.own_functions().get("task.loss")
        if own_loss is not None:
            self.notes.append(f"The loss is {own_loss.dotted}: {own_loss.about}")
        if self.requested.notes:
            self.notes = self.requested.notes

    def open_run(self) -> AbstractContextManager[Run]:
        """Open the run's folder, new or resumed, with its settings recorded in it."""
        model = self.model
        return open_run(
            self.requested,
            model.config,
            self.data,
            model.compute,
            model.processes,
            fingerprints=self.fingerprints,
            notes=self.notes,
        )

    def announce(self, run: Run) -> None:
        """Print what is about to be trained, how fast and where."""
        network = self.model.network
        parameters = f"{network.n_parameters + rows_left_out(network):,} parameters"
        print_lines(parameters, *self.training.choices, f"run folder {run.folder}")
