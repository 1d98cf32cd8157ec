"""`TextClassifier` and `TextRegressor`: scikit-learn's fit, predict and transform on texts, from a pretrained encoder
or from scratch.
"""

from __future__ import annotations

import io
import json
import re
import threading
from collections.abc import Mapping
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NoReturn, Self, cast

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import TransformerTags
from sklearn.utils.validation import check_is_fitted

from encoderlab.apps.sklearn.inputs import (
    TEXT_PAIR,
    WEIGHT,
    InputError,
    TrainingRows,
    classes_of,
    examples_of,
    has_several_labels,
    label_sets,
    refuse_blanks,
    row_weights,
    single_targets,
)
from encoderlab.config.commands import TRAINING_CONFIGS, RunConfig
from encoderlab.config.composing import composed, parse_command_line
from encoderlab.data.examples import TextExample
from encoderlab.data.files import FilesDataset
from encoderlab.errors import DataError, SettingError, TrainingError, UserError, one_line
from encoderlab.models.folder import save_model
from encoderlab.models.model import Model, Provenance
from encoderlab.recipes.finetuning import Finetuning
from encoderlab.runs.fit_branch import fit_linear
from encoderlab.runs.prepared import PreparedRun
from encoderlab.runs.recipe import Recipe, StartingWeights
from encoderlab.runs.requested import requested_run
from encoderlab.runs.scoring import score
from encoderlab.runs.train import prepare
from encoderlab.settings import quote
from encoderlab.shipped import SHIPPED
from encoderlab.system.processes import SINGLE_PROCESS
from encoderlab.tasks.rows import example_rows
from encoderlab.tasks.task import RowPrediction
from encoderlab.training.occurring_rows import put_back_rows

SETTINGS = {  # the parameters that are settings, by the names of those; None leaves a setting as the command has it
    "learning_rate": "training.learning_rate",
    "epochs": "training.epochs",
    "steps": "training.steps",
    "batch_size": "training.batch_size",
    "max_length": "model.max_length",
    "dropout": "model.dropout",
    "validation_fraction": "dataset.validation_fraction",
    "seed": "seed",
    "class_weight": "task.class_weights",
}
NOT_KEPT = "rows given from Python"  # in place of a file that is gone
# Settings, PyTorch's generator and the standard streams belong to the process: fits in several threads take turns.
_ONE_AT_A_TIME = threading.RLock()


@dataclass(kw_only=True, eq=False, repr=False)
class _TextEstimator(BaseEstimator):
    """What the two estimators share: their parameters, and how they train."""

    _task: ClassVar[str]
    class_weight: ClassVar[Any] = None  # a parameter of the classifier alone
    init_from: str | None = SHIPPED
    learning_rate: float | None = None
    epochs: float | None = None
    steps: int | None = None
    batch_size: int | None = None
    max_length: int | None = None
    dropout: float | None = None
    validation_fraction: float | None = None
    seed: int = 0
    settings: Mapping[str, Any] | None = None
    verbose: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        return tags

    def transform(self, X: Any) -> np.ndarray:
        """Return the trained encoder's vector of each row of X, float32 [rows, d_model]: the mean of its tokens'."""
        examples = self._readable(X)
        return self.model_.vectors(self.model_.rows(examples))

    def save(self, path: str | Path) -> None:
        """Write the model to the new folder `path`: encoderlab.load and every command that takes run= open it.

        Raises SettingError if `path` already exists, and NotFittedError.
        """
        check_is_fitted(self)
        path = Path(path)
        if path.exists():
            raise SettingError(f"path={path} already exists", allowed="a new folder", remedy="Choose another name")
        path.parent.mkdir(parents=True, exist_ok=True)
        save_model(self.model_, path, f"# {self.model_.task_name}\n\nTrained from Python with encoderlab.\n")

    def _train(self, rows: TrainingRows) -> None:
        """Set `model_`. Raises SettingError, TrainingError, and InputError for rows that teach nothing."""
        if not isinstance(self.settings, Mapping | None):
            raise SettingError(
                f"settings is not a dictionary: {one_line(repr(self.settings))[:80]}",
                allowed='a dictionary such as {"training.warmup": 0.1}',
            )
        quiet = [] if self.verbose else [redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO())]
        try:
            with ExitStack() as stack:
                for context in (_ONE_AT_A_TIME, *quiet, torch.random.fork_rng()):
                    stack.enter_context(context)
                folder = Path(stack.enter_context(TemporaryDirectory(prefix="encoderlab-fit-")))
                rows.write(folder / "rows.parquet")
                command = "train" if self.init_from is None else "finetune"
                self.model_ = _trained(self._config(folder, command, rows))
        except DataError as error:
            _refuse(error)
        except (SettingError, TrainingError) as error:
            raise self._in_own_words(error) from error

    def _in_own_words(self, error: UserError) -> UserError:
        """Return the error with the estimator's parameters in the place of the settings that they set."""

        def own_words(text: str) -> str:
            for name, setting in SETTINGS.items():
                if getattr(self, name) is not None and setting not in (self.settings or {}):
                    text = re.sub(rf"(?<![\w.]){re.escape(setting)}(?![\w.])(?!\.\w)", name, text)
            return text

        return type(error)(own_words(error.wrong), allowed=own_words(error.allowed), remedy=own_words(error.remedy))

    def _config(self, folder: Path, command: str, rows: TrainingRows) -> RunConfig:
        """Return the settings of a run on rows.parquet in `folder`, from the shipped configs. Raises SettingError."""
        path = folder / "rows.parquet"
        task = "multilabel" if rows.has_several_labels else self._task
        values = {setting: getattr(self, name) for name, setting in SETTINGS.items()}
        settings = {name: value for name, value in values.items() if value is not None} | dict(self.settings or {})
        settings.setdefault("training.measure", False)  # two fits with one random_state are to be equal
        line = [f"task={task}", "dataset=files", f"dataset.path={quote(str(path))}"]
        line += [] if rows.examples[0].text_pair is None else [f"dataset.text_pair={TEXT_PAIR}"]
        line += [] if self.init_from is None else [f"init_from={quote(self.init_from)}"]
        line += [f"{name}={_as_typed(value)}" for name, value in settings.items()]
        config = composed(parse_command_line(TRAINING_CONFIGS[command], line))
        assert isinstance(config.dataset, FilesDataset)
        if config.folds is not None or config.dry_run:
            raise SettingError("folds and dry_run give no model to predict with", remedy="Remove them from settings")
        dataset = replace(config.dataset, label_names=rows.label_names, label_columns=rows.label_columns)
        return replace(config, dataset=dataset, run_dir=str(folder / "run"), cache_dir=str(folder / "cache"))

    def _readable(self, X: Any) -> list[TextExample]:
        """Return the rows of X. Raises NotFittedError, and InputError for rows that the model cannot read."""
        check_is_fitted(self)
        examples = examples_of(X)
        refuse_blanks(examples)
        try:
            if examples:
                self.model_.check_paired(examples[0].text_pair is not None)
        except DataError as error:
            _refuse(error)
        return examples

    def _predictions(self, X: Any) -> list[RowPrediction]:
        examples = self._readable(X)
        try:
            return self.model_.predictions(examples)
        except DataError as error:
            _refuse(error)


@dataclass(kw_only=True, eq=False, repr=False)
class TextClassifier(ClassifierMixin, _TextEstimator):
    """A classifier of texts, or of pairs of texts, for scikit-learn.

    `init_from` is the pretrained encoder (None: fresh weights). The other parameters are the settings of those names,
    None being the command's own default; `settings` takes any other by its full name, as {"training.warmup": 0.1}, and
    wins over them. A tenth of the rows, if that is at least 50 rows and two per class, is held out to choose the
    checkpoint (`validation_fraction`; 0: none, and the last step is kept). Nothing is left on disk, and nothing is
    printed without `verbose`.

    `class_weight` is what each class weighs in the loss: "balanced" (rare ones more), or a number for each, by class;
    others weigh 1. With several columns of 0 and 1 in y, a row has any number of labels, one for each column.

    After `fit`: `classes_`, sorted, or of several labels the names of the columns, or their numbers; `model_`, the
    trained model.
    """

    _task = "classification"
    class_weight: Any = None  # pyright: ignore[reportIncompatibleVariableOverride]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on X, an iterable of texts or of pairs of texts, and y, the class of each, or 0 or 1 for each of
        several labels: [rows, labels]. `sample_weight` is what each row weighs in the loss.

        Raises InputError (a ValueError), SettingError, TrainingError.
        """
        examples = examples_of(X)
        refuse_blanks(examples)
        name = type(self).__name__
        if has_several_labels(y):
            classes, targets = label_sets(y, len(examples), name)
        else:
            classes, ids = classes_of(y, len(examples), name)
            targets = np.array([str(value) for value in classes], object)[ids]
        names = [str(value) for value in classes]
        self._train(TrainingRows(examples, targets, names, row_weights(sample_weight, len(examples))))
        self.classes_ = classes
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row of X, of the type of y: [rows]; of several labels, 0 or 1 for
        each: [rows, labels].
        """
        answers = self._predictions(X)
        ids = {str(value): id_ for id_, value in enumerate(self.classes_)}
        if self.model_.task.config.target == "label_set":
            marks = np.zeros((len(answers), len(ids)), np.int64)
            for row, answer in enumerate(answers):
                marks[row, [ids[label] for label in answer.labels]] = 1
            return marks
        return self.classes_[np.array([ids[answer.labels[0]] for answer in answers], dtype=np.int64)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of every class, or of each of several labels, for each row of X: [rows, classes], in
        the order of `classes_`.
        """
        probabilities = [answer.probabilities for answer in self._predictions(X)]
        return np.array(probabilities, dtype=np.float64).reshape(len(probabilities), len(self.classes_))


class TextRegressor(RegressorMixin, _TextEstimator):
    """A regressor of texts, or of pairs of texts, for scikit-learn. Its parameters are those of `TextClassifier`
    without `class_weight`.

    Numbers are scaled to mean 0 and deviation 1 for training, and predictions scaled back. After `fit`: `model_`, the
    trained model.
    """

    _task = "regression"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on X, texts or pairs of texts, and y, their numbers. Raises as `TextClassifier.fit` does."""
        examples = examples_of(X)
        refuse_blanks(examples)
        targets = single_targets(y, len(examples), type(self).__name__).astype(np.float64)
        self._train(TrainingRows(examples, targets, None, row_weights(sample_weight, len(examples))))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted number of each row of X: float64 [rows]."""
        return np.array([answer.number for answer in self._predictions(X)], dtype=np.float64)


class _Weighted(Recipe):
    """A recipe whose training rows weigh as much as they are said to."""

    def extend_rows(self, prepared: PreparedRun, start: StartingWeights) -> None:
        """Weigh the training rows, after the recipe's own have been added."""
        super().extend_rows(prepared, start)
        weights = _weights_of(prepared)
        if weights is None:
            return
        if not weights.any():
            raise DataError("All rows with a weight above 0 are held out", allowed="a weight above 0 in training")
        train = example_rows(prepared.training.rows)
        further = len(train) - len(weights)  # the names of labels, and unlabelled texts, follow the rows
        if further:
            further_weights = np.ones(further) if train.weights is None else train.weights[len(weights) :]
            weights = np.concatenate([weights, weights.mean() * further_weights])
        prepared.training.rows = train.weighted(weights)


class _WeightedFinetuning(_Weighted, Finetuning):
    """Finetuning on rows with weights."""


def _trained(config: RunConfig) -> Model:
    """Return the model that a run trains, which keeps nothing of its folder."""
    recipe = _WeightedFinetuning() if config.command == "finetune" else _Weighted()
    prepared = prepare(requested_run(config, SINGLE_PROCESS), SINGLE_PROCESS, recipe, scored=False)
    data = prepared.data
    with prepared.open_run() as run:
        prepared.announce(run)
        result = recipe.fit(prepared, run)
        linear = None
        if _weights_of(prepared) is None:  # which a linear model would not know of
            linear = fit_linear(prepared.model, data, result.out_of_fold, prepared.training.label_weights)
        model = score(prepared.model, prepared.rows, linear).model
        put_back_rows(model.network)
    dataset = replace(cast("FilesDataset", model.config.dataset), path=NOT_KEPT)
    kept = replace(model.config, dataset=dataset, run_dir=None, cache_dir=".")
    return replace(model, config=kept, provenance=Provenance(result.checkpoint, data.paired, data.fingerprints()))


def _weights_of(prepared: PreparedRun) -> np.ndarray | None:
    """Return the weights of the labelled training rows: float64 [rows]; None if they have none."""
    carried: Any = prepared.data.split("train").carried
    if carried is None or WEIGHT not in carried.column_names:
        return None
    return np.asarray(carried[WEIGHT], np.float64)


def _refuse(error: UserError) -> NoReturn:
    """Raise a refusal of rows as an InputError, without its remedy, which names settings of files."""
    raise InputError(error.wrong, allowed=error.allowed) from error


def _as_typed(value: Any, *, inside: bool = False) -> str:
    """Return a value of Python as a command line gives it. A string is as typed already, but quoted `inside` a list."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):  # see `config.composing`
        plain = {str(name): one for name, one in value.items()}
        return json.dumps(plain, ensure_ascii=False, default=lambda number: number.item())  # NumPy's
    if isinstance(value, list | tuple):
        return f"[{','.join(_as_typed(one, inside=True) for one in value)}]"
    if isinstance(value, bool | None):
        return json.dumps(value)
    return quote(value) if inside and isinstance(value, str) else str(value)
