"""`TextClassifier` and `TextRegressor`: scikit-learn's fit and predict on texts, from a pretrained encoder or from
scratch.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NoReturn, Self, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from encoderlab.api import compose
from encoderlab.config.commands import RunConfig
from encoderlab.config.composing import quote
from encoderlab.data.data import Data
from encoderlab.data.examples import TextExample
from encoderlab.data.files import FilesDataset
from encoderlab.errors import DataError, SettingError, UserError, one_line
from encoderlab.runs.head_alone import fit_best
from encoderlab.runs.model import Model, Provenance, is_blank
from encoderlab.runs.model_folder import save_model
from encoderlab.runs.prepare import prepare
from encoderlab.runs.scoring import score
from encoderlab.shipped import SHIPPED
from encoderlab.system.processes import SINGLE_PROCESS
from encoderlab.tasks.task import RowPrediction

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
TEXTS = "an iterable with a text in each row, or a pair of texts"
NOT_KEPT = "rows given from Python"  # in place of a file that is gone
# Settings, PyTorch's generator and the standard streams belong to the process: fits in several threads take turns.
_ONE_AT_A_TIME = threading.RLock()


class InputError(DataError, ValueError):
    """Rows that an estimator cannot learn from or predict. It is a ValueError too, as scikit-learn expects."""


@dataclass(kw_only=True, eq=False, repr=False)
class _TextEstimator(BaseEstimator):
    """What the two estimators share: their parameters, and how they train."""

    _task: ClassVar[str]
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
        return tags

    def save(self, path: str | Path) -> None:
        """Write the model to the new folder `path`: encoderlab.load and every command that takes run= open it.

        Raises SettingError if `path` already exists, and NotFittedError.
        """
        check_is_fitted(self)
        path = Path(path)
        if path.exists():
            raise SettingError(f"path={path} already exists", allowed="a new folder", remedy="Choose another name")
        path.parent.mkdir(parents=True, exist_ok=True)
        save_model(self.model_, path, f"# {self.model_.name}\n\nTrained from Python with encoderlab.\n")

    def _train(self, examples: list[TextExample], targets: Sequence[Any], names: list[str] | None) -> None:
        """Set `model_`; `names` are those of the classes, in order. Raises SettingError, TrainingError, and InputError
        for rows that nothing can be learned from.
        """
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
                _write_rows(folder / "rows.parquet", examples, targets)
                command = "train" if self.init_from is None else "finetune"
                self.model_ = _trained(self._config(folder, command, names), command)
        except DataError as error:
            _refuse(error)

    def _config(self, folder: Path, command: str, names: list[str] | None) -> RunConfig:
        """Return the settings of a run on rows.parquet in `folder`, from the shipped configs. Raises SettingError."""
        rows = folder / "rows.parquet"
        values = {setting: getattr(self, name) for name, setting in SETTINGS.items()}
        settings = {name: value for name, value in values.items() if value is not None} | dict(self.settings or {})
        line = [f"task={self._task}", "dataset=files", f"dataset.path={quote(str(rows))}"]
        line += ["dataset.text_pair=text_pair"] if "text_pair" in pq.read_schema(rows).names else []
        line += [] if self.init_from is None else [f"init_from={quote(self.init_from)}"]
        line += [f"{name}={_as_typed(value)}" for name, value in settings.items()]
        config = compose(*line, command=command)
        assert isinstance(config.dataset, FilesDataset)
        if config.folds is not None or config.dry_run:
            raise SettingError("folds and dry_run give no model to predict with", remedy="Remove them from settings")
        dataset = replace(config.dataset, label_names=names)
        return replace(config, dataset=dataset, run_dir=str(folder / "run"), cache_dir=str(folder / "cache"))

    def _predictions(self, X: Any) -> list[RowPrediction]:
        check_is_fitted(self)
        examples = texts_of(X)
        blank = next((row for row, example in enumerate(examples) if is_blank(example)), None)
        if blank is not None:
            raise InputError(f"Row {blank} of X has a blank text", allowed="texts for which something can be predicted")
        try:
            if examples:
                self.model_.check_paired(examples[0].text_pair is not None)
            return self.model_.predictions(examples)
        except DataError as error:
            _refuse(error)


class TextClassifier(ClassifierMixin, _TextEstimator):
    """A classifier of texts, or of pairs of texts, for scikit-learn.

    `init_from` is the pretrained encoder (None: fresh weights). The other parameters are the settings of those names,
    None being the command's own default; `settings` takes any other by its full name, as {"training.warmup": 0.1}, and
    wins over them. A tenth of the rows, if that is at least 50 rows and two per class, is held out to choose the
    checkpoint (`validation_fraction`; 0: none, and the last step is kept). Nothing is left on disk, and nothing is
    printed without `verbose`.

    After `fit`: `classes_`, sorted; `model_`, the trained model.
    """

    _task = "classification"

    def fit(self, X: Any, y: Any) -> Self:
        """Train on X, an iterable of texts or of pairs of texts, and y, the class of each.

        Raises InputError (a ValueError), SettingError, TrainingError.
        """
        examples = texts_of(X)
        targets = _targets(y, len(examples), type(self).__name__)
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
        answers = self._predictions(X)
        ids = {str(value): id_ for id_, value in enumerate(self.classes_)}
        return self.classes_[np.array([ids[answer.labels[0]] for answer in answers], dtype=np.int64)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of every class for each row of X: [rows, classes], in the order of `classes_`."""
        probabilities = [answer.probabilities for answer in self._predictions(X)]
        return np.array(probabilities, dtype=np.float64).reshape(len(probabilities), len(self.classes_))


class TextRegressor(RegressorMixin, _TextEstimator):
    """A regressor of texts, or of pairs of texts, for scikit-learn. Its parameters are those of `TextClassifier`.

    Numbers are scaled to mean 0 and deviation 1 for training, and predictions scaled back. After `fit`: `model_`, the
    trained model.
    """

    _task = "regression"

    def fit(self, X: Any, y: Any) -> Self:
        """Train on X, texts or pairs of texts, and y, their numbers. Raises as `TextClassifier.fit` does."""
        examples = texts_of(X)
        targets = _targets(y, len(examples), type(self).__name__).astype(np.float64)
        self._train(examples, targets.tolist(), None)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted number of each row of X: float64 [rows]."""
        return np.array([answer.number for answer in self._predictions(X)], dtype=np.float64)


def texts_of(X: Any) -> list[TextExample]:
    """Return the rows of X: an iterable of texts or of pairs of texts, or a table of one or two columns of texts.

    Raises InputError for anything else, and if only some rows are pairs.
    """
    if hasattr(X, "__array__"):
        table = np.asarray(X, dtype=object)
        X = (table[:, 0] if table.ndim == 2 and table.shape[1] == 1 else table).tolist()
    if isinstance(X, str) or not isinstance(X, Iterable):
        raise InputError(f"X is not a list of texts: {one_line(repr(X))[:80]}", allowed=TEXTS)
    examples = []
    for row, value in enumerate(X):
        texts = [value] if isinstance(value, str) else value if isinstance(value, tuple | list) else []
        if len(texts) not in (1, 2) or not all(isinstance(text, str) for text in texts):
            raise InputError(f"Row {row} of X is {one_line(repr(value))[:80]}", allowed=TEXTS)
        examples.append(TextExample(str(texts[0]), str(texts[1]) if len(texts) == 2 else None))
    if len({example.text_pair is None for example in examples}) > 1:
        raise InputError("X contains both single texts and pairs of texts", allowed="one of the two")
    return examples


def _targets(y: Any, n_rows: int, estimator: str) -> np.ndarray:
    """Return the targets, [rows]. Raises ValueError unless there is one for each of several rows."""
    if y is None:
        raise InputError(f"{estimator} requires y to be passed, but the target y is None")
    if n_rows < 2:
        raise InputError(f"X has {n_rows} sample{'' if n_rows else 's'}", allowed="at least two")
    targets = column_or_1d(y, warn=True)
    if None in (values := targets.tolist()):
        raise InputError(f"Row {values.index(None)} of y is None", allowed="a target for each row")
    assert_all_finite(targets, input_name="y")
    check_consistent_length(range(n_rows), targets)
    return targets


def _trained(config: RunConfig, command: str) -> Model:
    """Return the model that a run trains, which keeps nothing of its folder."""
    training = prepare(config, command, SINGLE_PROCESS, scored=False)
    with training.open_run() as run:
        training.announce(run)
        result = fit_best(training.model, training.rows, run, training.micro_batches, training.head_alone)
        model, _ = score(training.model, training.rows)
    data = cast("Data", training.data)
    dataset = replace(cast("FilesDataset", model.config.dataset), path=NOT_KEPT)
    kept = replace(model.config, dataset=dataset, run_dir=None, cache_dir=".")
    provenance = Provenance(result.checkpoint, data.paired, data.fingerprints())
    return replace(model, config=kept, provenance=provenance, label_weights=None)


def _refuse(error: UserError) -> NoReturn:
    """Raise a refusal of rows as an InputError, without its remedy, which names settings of files."""
    raise InputError(error.wrong, allowed=error.allowed) from error


def _write_rows(path: Path, examples: Sequence[TextExample], targets: Sequence[Any]) -> None:
    columns: dict[str, Any] = {"text": pa.array([example.text for example in examples], pa.large_string())}
    if examples[0].text_pair is not None:
        columns["text_pair"] = pa.array([example.text_pair for example in examples], pa.large_string())
    columns["label"] = pa.array(targets)
    pq.write_table(pa.table(columns), path)


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
