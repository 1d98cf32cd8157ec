"""What compact storage changes, measured on a few sentences for each kind of head."""

import math

import pytest
import torch

from encoderlab.exchange.compact_weights import TABLE, expanded
from encoderlab.runs.models.compact_model import _largest, in_compact_storage
from encoderlab.runs.models.saved_model import Origin
from encoderlab.tasks.config import ClassificationConfig, MultilabelConfig, RegressionConfig, TaggingConfig
from encoderlab.tasks.texts import EncodingConfig
from tests.runs.small_assembly import LABELS, assembly_of

TASKS = {
    "label": ClassificationConfig(name="digits"),
    "label_set": MultilabelConfig(name="digits"),
    "number": RegressionConfig(name="digits", mean=0.0, deviation=1.0),
    "words": TaggingConfig(name="digits"),
    "nothing": EncodingConfig(name="digits"),
}


def saved_of(task):
    labels = [] if isinstance(task, RegressionConfig | EncodingConfig) else LABELS
    return assembly_of(task, labels).saved(Origin({}, False, {}))


@pytest.mark.parametrize("kind", TASKS)
def test_vectors_and_probabilities_change_a_little(kind):
    saved = saved_of(TASKS[kind])
    stored, change = in_compact_storage(saved)
    assert stored.weights[TABLE].dtype is torch.int8 and saved.weights[TABLE].dtype is torch.float32
    assert 0 < change.vector < 0.05
    assert (change.probability is None) == (kind in ("number", "nothing"))
    assert change.probability is None or 0 < change.probability < 0.1


def test_a_model_stored_compactly_changes_no_more():
    once, _ = in_compact_storage(saved_of(TASKS["label"]))
    opened = saved_of(TASKS["label"])
    opened.weights.update(expanded(once.weights))
    _, change = in_compact_storage(opened)
    assert change.vector < 1e-6 and change.probability < 1e-6


def test_a_change_that_is_not_a_number_is_the_largest():
    assert math.isnan(_largest(torch.tensor([1.0, math.nan, 2.0]).unbind()))
