"""The trained model inside an estimator: answers texts, and pickles as weights, settings and tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from encoderlab.data.examples import TextExample
from encoderlab.errors import DataError, SettingError
from encoderlab.estimators.inputs import refuse
from encoderlab.runs.assembly import Assembly, check_paired
from encoderlab.runs.predict import answers_of
from encoderlab.runs.saved_model import SavedModel, save_model
from encoderlab.system.device import choose_compute
from encoderlab.tasks.task import Answer


class FittedModel:
    """A trained model in memory, its weights on the device that its settings name."""

    def __init__(self, saved: SavedModel) -> None:
        weights = {name: weight.detach().cpu() for name, weight in saved.weights.items()}
        self.saved = replace(saved, weights=weights)
        training = saved.config.training
        compute = choose_compute(
            training.device, training.precision.value, training.threads, width=saved.config.model.d_model
        )
        model = self.saved.model().to(compute.device)
        self._assembly = Assembly(saved.config, compute, saved.tokenizer, saved.task(), model, saved.origin)

    def __reduce__(self) -> tuple[Any, ...]:
        return FittedModel, (self.saved,)  # opened again, also on a machine with another device

    def answers(self, examples: Sequence[TextExample]) -> list[Answer]:
        """Return a prediction for each example, in order. Raises InputError for an example that the model cannot read."""
        try:
            if examples:
                check_paired(self._assembly, examples[0].text_pair is not None)
            return answers_of(self._assembly, examples)
        except DataError as error:
            refuse(error)

    def save(self, path: Path) -> None:
        """Write the model folder `path`. Raises SettingError if it already exists."""
        if path.exists():
            raise SettingError(f"path={path} already exists", allowed="a new folder", remedy="Choose another name")
        path.parent.mkdir(parents=True, exist_ok=True)
        save_model(self.saved, path, f"# {self.saved.config.task.name}\n\nTrained from Python with encoderlab.\n")
