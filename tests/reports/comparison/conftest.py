"""A comparison of two settings, as `build_comparison` returns it."""

import copy

import pytest

RUN = {"folder": "outputs/a", "seed": 0, "score": 0.81}
COMPARISON = {
    "task": "films", "split": "test", "rows": 1200, "figure": "accuracy", "positive_label": None,
    "differing": {"training.learning_rate": ["0.001", "0.01"], "model.name": ["tiny", "mini|small"]},
    "varied": ["training.learning_rate"], "reference": "learning_rate=0.001", "learning_curve": None, "notes": ["One *seed* each"],
    "settings": [
        {
            "label": "learning_rate=0.001", "values": {"training.learning_rate": 0.001, "model.name": "tiny"}, "n": 2, "value": 0.82,
            "deviation": 0.01, "interval": [0.8, 0.84], "interval_over": "seeds", "train_seconds": 12.0, "difference": None,
            "runs": [RUN, RUN | {"folder": "outputs/b", "seed": 1, "score": 0.83}],
        },
        {
            "label": "learning_rate=0.01", "values": {"training.learning_rate": 0.01, "model.name": "mini|small"}, "n": 1, "value": 0.75,
            "deviation": None, "interval": [0.7, 0.8], "interval_over": "rows", "train_seconds": None,
            "difference": {"value": -0.07, "interval": [-0.1, -0.04], "p_value": 0.0002, "p_corrected": 0.0004, "outcome": "worse", "test": ["paired"]},
            "runs": [RUN | {"folder": "outputs/c", "score": 0.75}],
        },
    ],
}  # fmt: skip


@pytest.fixture
def comparison():
    return copy.deepcopy(COMPARISON)
