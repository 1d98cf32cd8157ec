"""Run folders with the records that a run writes first, and scores of any predictions."""

import json

import numpy as np
import pytest

from encoderlab.metrics import Scores
from encoderlab.metrics.scores import figures_by_class
from encoderlab.reports.parts.run_facts import run_facts
from encoderlab.runs.folder import RunFolder

RECORD = {
    "command": "train",
    "overrides": ["task=sst2", "seed=3", "run_dir=here", "dataset.path=my rows.csv"],
    "versions": {"python": "3.11.7", "torch": "2.13.0", "datasets": None},
    "hardware": {"processor": "a <processor>", "device": "cpu", "device_name": None},
    "git_commit": "abc",
}
CONFIG = """
cache_dir: /cache
task: {schema: classification, name: sst2, score: accuracy}
dataset: {schema: hub, limit: 200, path: owner/name}
training: {schema: training, epochs: 3.0, learning_rate: 0.005, batching: length}
seed: 3
"""
SPLIT = {
    "rows": 200, "labels": {"no": 120, "yes": 80}, "unlabelled": 0, "words_min": 1, "words_median": 7.5, "words_p95": 20.0,
    "words_max": 90, "empty": 1, "duplicates": 2, "shared_with_train": 3, "shared_with_other_label": 4, "fingerprint": "ff00",
}  # fmt: skip
HUB = {"source": "hub", "path": "owner/name", "name": "a config"}


@pytest.fixture
def records():
    """Write a run's records into a folder."""

    def write(root, command="train", config=CONFIG, dataset=None, **changes):
        folder = RunFolder(root)
        data = (
            {"origin": HUB, "labels": ["no", "yes"], "splits": {"train": SPLIT, "test": SPLIT}}
            if dataset is None
            else dataset
        )
        folder.environment.write_text(
            json.dumps(RECORD | {"command": command, "dataset": data} | changes), encoding="utf-8"
        )
        folder.config.write_text(config, encoding="utf-8")
        return folder

    return write


@pytest.fixture
def folder(tmp_path, records):
    """A run folder that contains only its records."""
    return records(tmp_path)


@pytest.fixture
def scores_of():
    """Score predictions, made with these confidences, against labels."""

    def scored(labels, predicted, confidences=None, names=("no", "yes")):
        labels, predicted = np.array(labels), np.array(predicted)
        sure = np.full(len(labels), 0.8) if confidences is None else np.array(confidences)
        probabilities = np.repeat(((1 - sure) / (len(names) - 1))[:, None], len(names), axis=1)
        probabilities[np.arange(len(labels)), predicted] = sure
        found = figures_by_class(labels, predicted, names)
        figures = {"loss": 0.5, "accuracy": float((labels == predicted).mean()), "f1_macro": found["f1_macro"]}
        by_class = (found["per_class"], found["confusion"])
        return Scores(
            len(labels), figures, *by_class, np.arange(len(labels)), labels, predicted, probabilities, list(names)
        )

    return scored


@pytest.fixture
def facts(folder):
    """Return what a report says of the run in `folder`."""
    return run_facts(folder, "train")
