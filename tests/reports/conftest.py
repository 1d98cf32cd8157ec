"""Scores of any predictions, a run's facts, and the text of a page."""

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from encoderlab.metrics.texts import classification_scores

ATTACK = "<script>alert('x')</script>\x1b[31m"
SPLIT = {
    "rows": 200, "labels": {"no": 120, "yes": 80}, "unlabelled": 0, "words_min": 1, "words_median": 7.5, "words_p95": 20.0,
    "words_max": 90, "empty": 1, "duplicates": 2, "conflicting": 0, "shared_with_train": 3, "shared_with_other_label": 4, "markup": 0.0, "fingerprint": "ff00",
}  # fmt: skip


class Example:
    """A row of a split: one text, or two."""

    def __init__(self, text, text_pair=None):
        self.text, self.text_pair = text, text_pair


class Rows(list):
    """The rows of a split."""

    carried = None

    def where(self, row):
        return f"a folder/rows.csv, line {row + 2}"


class Words:
    """A row of labelled words."""

    def __init__(self, *words):
        self.words = words


class Page(HTMLParser):
    """What a page shows, its tags, and what it would load."""

    VOID = {"meta", "path", "use", "rect", "line", "circle", "br"}

    def __init__(self, path):
        super().__init__()
        self.text, self.tags, self.loaded, self._open = "", [], [], []
        self.feed(path.read_text(encoding="utf-8"))
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.loaded += [value for name, value in attributes if name in ("src", "xlink:href") and value[0] != "#"]
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data if "style" not in self._open else ""


@pytest.fixture
def facts():
    """What a report says of a run besides its scores."""
    environment = {
        "command": "train",
        "overrides": ["task=sst2", "seed=3", "run_dir=here", "dataset.path=my rows.csv"],
        "versions": {"python": "3.11.7", "torch": "2.13.0", "datasets": None},
        "hardware": {"processor": f"a {ATTACK}", "device": "cpu", "device_name": None},
        "git_commit": "abc",
        "dataset": {
            "origin": {"source": "hub", "path": "owner/name", "name": "a config"},
            "splits": {"train": SPLIT, "test": SPLIT},
        },
    }
    return {"environment": environment, "settings": {"training.epochs": 3.0}, "language": "de"}


@pytest.fixture
def run():
    """A run without scores."""
    checkpoint = {"step": 1_700, "chosen_by": "accuracy", "chosen_on": "validation"}
    model = {"parameters": 1_234_567, "parameters_by_part": {"encoder": 1_234_000, "head": 567}}
    names = {"command": "train", "task": "sst2", "data": None, "seed": 3, "init_from": None, "model": model}
    return {**names, "throughput": {"train_seconds": 3.0}, "checkpoint": checkpoint, "notes": ["a note"]}


@pytest.fixture
def scores_of():
    """Score predictions, made with these confidences, against labels."""

    def scored(labels, predicted, confidences=None, names=("no", "yes")):
        labels, predicted = np.array(labels), np.array(predicted)
        sure = np.full(len(labels), 0.8) if confidences is None else np.array(confidences)
        probabilities = np.repeat(((1 - sure) / (len(names) - 1))[:, None], len(names), axis=1)
        probabilities[np.arange(len(labels)), predicted] = sure
        scores = classification_scores(labels, predicted, names, "accuracy", positive=1)
        return replace(scores, values=scores.values | {"loss": 0.5}, probabilities=probabilities)

    return scored
