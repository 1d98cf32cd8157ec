"""encoderlab: train transformer encoders for text.

import encoderlab

config = encoderlab.compose("task=sst2", "model.n_layers=2")
run = encoderlab.train(config)
encoderlab.load(run.folder).predict(["A gorgeous, witty film."])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from encoderlab.system.processes import set_up_libraries

if TYPE_CHECKING:
    from encoderlab.api import Run, compose, distill, finetune, load, pretrain, train
    from encoderlab.apps.sklearn.text_estimators import TextClassifier, TextRegressor

    __version__: str

__all__ = ["Run", "TextClassifier", "TextRegressor", "compose", "distill", "finetune", "load", "pretrain", "train"]

set_up_libraries()


def __getattr__(name: str) -> Any:
    """Return a name of `api`, an estimator, or the version. PyTorch loads at first use, because `--help` does not need
    it.
    """
    if name == "__version__":
        return import_module("importlib.metadata").version("encoderlab")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name.startswith("Text"):  # these need scikit-learn
        return getattr(import_module("encoderlab.apps.sklearn.text_estimators"), name)
    return getattr(import_module("encoderlab.api"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
