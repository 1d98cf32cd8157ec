"""`TextClassifier` and `TextRegressor`: scikit-learn's fit and predict on texts, from a pretrained encoder or from
scratch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from encoderlab.data.examples import TextExample
from encoderlab.errors import DataError, SettingError, one_line
from encoderlab.estimators.fitting import Fit, fitted
from encoderlab.estimators.inputs import InputError, refuse, targets_of, texts_of
from encoderlab.runs.assembly import Assembly, check_paired
from encoderlab.runs.predict import answers_of
from encoderlab.runs.saved_model import SavedModel, save_model
from encoderlab.shipped import SHIPPED
from encoderlab.system.device import choose_compute
from encoderlab.tasks.task import Answer

SETTINGS = {  # the parameters that are settings, by the names of those; None leaves a setting as the command has it
    "learning_rate": "training.learning_rate",
    "epochs": "training.epochs",
    "steps": "training.steps",
    "batch_size": "training.batch_size",
    "max_length": "model.max_length",
    "dropout": "model.dropout",
    "validation_fraction": "dataset.validation_fraction",
    "seed": "seed",
}


class FittedModel:
    """A trained model in memory, on the device that its settings name; it pickles as weights, settings and
    tokenizer.
    """

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
        """Return a prediction for each example, in order. Raises InputError for an example that the model
        cannot read.
        """
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


class _TextEstimator(BaseEstimator):
    """What the two estimators share: their parameters, and how they train."""

    _task: str

    def __init__(
        self,
        *,
        init_from: str | None = SHIPPED,
        learning_rate: float | None = None,
        epochs: float | None = None,
        steps: int | None = None,
        batch_size: int | None = None,
        max_length: int | None = None,
        dropout: float | None = None,
        validation_fraction: float | None = None,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
        run_dir: str | None = None,
        verbose: bool = False,
    ) -> None:
        self.init_from = init_from
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.steps = steps
        self.batch_size = batch_size
        self.max_length = max_length
        self.dropout = dropout
        self.validation_fraction = validation_fraction
        self.seed = seed
        self.settings = settings
        self.run_dir = run_dir
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

    def save(self, path: str | Path) -> None:
        """Write the model to the new folder `path`: encoderlab.load and every command that takes run= open it.

        Raises SettingError if `path` already exists, and NotFittedError.
        """
        check_is_fitted(self)
        self.model_.save(Path(path))

    def _train(self, examples: list[TextExample], targets: Sequence[Any], names: list[str] | None) -> None:
        """Set `model_`. Raises SettingError, TrainingError, and InputError for rows that nothing can be
        learned from.
        """
        if not isinstance(self.settings, Mapping | None):
            raise SettingError(
                f"settings is not a dictionary: {one_line(repr(self.settings))[:80]}",
                allowed='a dictionary such as {"training.warmup": 0.1}',
            )
        chosen = {setting: getattr(self, name) for name, setting in SETTINGS.items()}
        settings = {name: value for name, value in chosen.items() if value is not None} | dict(self.settings or {})
        fit = Fit(self._task, names, self.init_from, settings, self.run_dir, bool(self.verbose))
        try:
            self.model_ = FittedModel(fitted(fit, examples, targets))
        except DataError as error:
            refuse(error)

    def _answers(self, X: Any) -> list[Answer]:
        check_is_fitted(self)
        return self.model_.answers(texts_of(X))


class TextClassifier(ClassifierMixin, _TextEstimator):
    """A classifier of texts, or of pairs of texts, for scikit-learn.

    `init_from` is the pretrained encoder (as in encoderlab finetune; None: fresh weights, as encoderlab train). The
    other parameters are the settings of those names, None being the command's own default; `settings` takes any other
    by its full name, as {"training.warmup": 0.1}, and wins over them. A tenth of the rows is held out to choose the
    checkpoint (`validation_fraction`; 0: none, and the last step is kept). Nothing is left on disk, unless `run_dir`
    names a folder for the run; its rows are then written next to it. Nothing is printed without `verbose`.

    After `fit`: `classes_`, sorted; `model_`, the trained model.
    """

    _task = "classification"

    def fit(self, X: Any, y: Any) -> Self:
        """Train on X, an iterable of texts or of pairs of texts, and y, the class of each.

        Raises InputError (a ValueError), SettingError, TrainingError.
        """
        examples = texts_of(X)
        targets = targets_of(y, len(examples), type(self).__name__)
        check_classification_targets(targets)
        classes, ids = np.unique(targets, return_inverse=True)
        if len(classes) < 2:
            raise InputError(f"y has {len(classes)} class", allowed="at least two classes")
        names = [str(value) for value in classes]
        self._train(examples, [names[id_] for id_ in ids], names)
        self.classes_ = classes
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row of X: [rows], of the type of y."""
        answers = self._answers(X)
        ids = {str(value): id_ for id_, value in enumerate(self.classes_)}
        return self.classes_[np.array([ids[answer.labels[0]] for answer in answers], dtype=np.int64)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of every class for each row of X: [rows, classes], in the order of `classes_`."""
        found = [answer.probabilities for answer in self._answers(X)]
        return np.array(found, dtype=np.float64).reshape(len(found), len(self.classes_))


class TextRegressor(RegressorMixin, _TextEstimator):
    """A regressor of texts, or of pairs of texts, for scikit-learn. Its parameters are those of `TextClassifier`.

    Numbers are scaled to mean 0 and deviation 1 for training, and answers scaled back. After `fit`: `model_`, the
    trained model.
    """

    _task = "regression"

    def fit(self, X: Any, y: Any) -> Self:
        """Train on X, an iterable of texts or of pairs of texts, and y, the number of each. Raises as
        `TextClassifier.fit`.
        """
        examples = texts_of(X)
        targets = targets_of(y, len(examples), type(self).__name__).astype(np.float64)
        self._train(examples, targets.tolist(), None)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted number of each row of X: float64 [rows]."""
        return np.array([answer.number for answer in self._answers(X)], dtype=np.float64)
