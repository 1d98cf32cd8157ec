"""What a classifier keeps of its training rows, to tell texts that are unlike them: fitted after training, saved beside
the weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import safetensors.torch
import torch

from encoderlab.batch import Batch, Prediction
from encoderlab.errors import DataError
from encoderlab.exchange.weights import read_weights
from encoderlab.metrics.novelty import Novelty, fit_novelty
from encoderlab.runs.model import Model
from encoderlab.tasks.rows import ExampleRows, PartOfRows
from encoderlab.training.batches import Rows

NOVELTY = "novelty.safetensors"
MOST_ROWS = 2_000  # of training, drawn at random: more found no more of CLINC150's texts out of scope
LEAST_OF_CLASS = 5  # of these, if a class has so many
MOST_HELD_OUT = 1_000
LEAST_HELD_OUT = 50


def novelty_of(model: Model, rows: Mapping[str, Rows], *, head_alone: bool) -> Novelty | None:
    """Return how unlike the training rows a text is, with the novelty of validation rows to compare it with.

    Without enough of these, it is that of training rows by cross-validation if the `head_alone` was fitted. A trained
    encoder has drawn its training rows together: 44% of test rows would seem unlike them, not the stated 5% (CLINC150,
    8 rows a class). None in that case, and if a text has not one of several classes or is a pair.
    """
    train = cast("ExampleRows", rows["train"])
    if not model.config.task.one_class_per_text or "second" in train.store:
        return None
    n_held_out = len(rows["validation"]) if "validation" in rows else 0
    if n_held_out < LEAST_HELD_OUT and not head_alone:
        return None
    assert train.targets is not None and train.targets.of_rows is not None
    random = np.random.default_rng(model.config.seed)
    drawn = _of_every_class(random.permutation(np.flatnonzero(train.targets.known)), train.targets.of_rows)
    vectors = _vectors(model, PartOfRows(train, drawn))
    classes = train.targets.of_rows[drawn]
    if n_held_out < LEAST_HELD_OUT:
        return fit_novelty(vectors, classes)
    some = np.sort(random.permutation(n_held_out)[:MOST_HELD_OUT])
    held_out = PartOfRows(cast("ExampleRows", rows["validation"]), some)
    return fit_novelty(vectors, classes, _vectors(model, held_out))


def _of_every_class(order: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the first LEAST_OF_CLASS rows of each class in this order, and then others, up to MOST_ROWS; ascending."""
    import pandas as pd

    of_rows: Any = pd.Series(classes[order])
    is_early = of_rows.groupby(of_rows).cumcount().to_numpy() < LEAST_OF_CLASS
    drawn = np.concatenate([order[is_early], order[~is_early]])
    return np.sort(drawn[: max(MOST_ROWS, int(is_early.sum()))])


def _vectors(model: Model, rows: ExampleRows) -> np.ndarray:
    """Return what the head reads of each row: [rows, width]."""

    def read(prediction: Prediction, batch: Batch) -> Iterable[np.ndarray]:  # noqa: ARG001
        assert prediction.sequence_vectors is not None
        return prediction.sequence_vectors.float().cpu().numpy()

    return np.stack(model.outputs(rows, read))


def write_novelty(folder: Path, novelty: Novelty) -> None:
    """Write it as a file of `folder`."""
    tensors = {
        "whitening": torch.from_numpy(novelty.whitening),
        "means": torch.from_numpy(novelty.means),
        "held_out": torch.from_numpy(novelty.held_out),
    }
    (folder / NOVELTY).write_bytes(safetensors.torch.save(tensors))


def read_novelty(folder: Path, width: int, n_classes: int) -> Novelty | None:
    """Return that of a model folder whose head reads vectors of this width; None if it has none.

    Raises DataError if the file is damaged.
    """
    if not (folder / NOVELTY).is_file():
        return None
    tensors = read_weights(folder / NOVELTY)
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    expected = {"whitening": (width, width), "means": shapes.get("means"), "held_out": shapes.get("held_out")}
    n_means, *rest = shapes.get("means") or (0,)
    if shapes != expected or rest != [width] or not 0 < n_means <= n_classes or not tensors["held_out"].numel():
        raise DataError(f"{folder / NOVELTY} is damaged: its shapes are {shapes}", remedy="Use another copy")
    arrays = {name: tensor.float().numpy() for name, tensor in tensors.items()}
    return Novelty(**arrays)
