"""What a classifier keeps of its training rows, to tell texts that are unlike them: fitted after training, saved beside
the weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

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
MOST_ROWS = 5_000  # of training and of validation, drawn at random: means and a covariance need no more
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
    if "validation" in rows and len(rows["validation"]) >= LEAST_HELD_OUT:
        held_out, _ = _vectors(model, cast("ExampleRows", rows["validation"]))
        return fit_novelty(*_vectors(model, train), held_out)
    return fit_novelty(*_vectors(model, train)) if head_alone else None


def _vectors(model: Model, rows: ExampleRows) -> tuple[np.ndarray, np.ndarray]:
    """Return what the head reads of at most MOST_ROWS of the rows, [rows, width], and their classes."""
    assert rows.targets is not None and rows.targets.of_rows is not None
    labelled = np.flatnonzero(rows.targets.known)
    drawn = np.random.default_rng(model.config.seed).permutation(labelled)[:MOST_ROWS]
    some = PartOfRows(rows, np.sort(drawn))

    def read(prediction: Prediction, batch: Batch) -> Iterable[np.ndarray]:  # noqa: ARG001
        assert prediction.sequence_vectors is not None
        return prediction.sequence_vectors.float().cpu().numpy()

    return np.stack(model.outputs(some, read)), rows.targets.of_rows[some.positions]


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
