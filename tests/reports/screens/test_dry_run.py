"""The screen of a dry run: size, length and cost of the run in familiar units."""

import copy
import io

import pytest

from encoderlab.reports.screens.dry_run import show_dry_run

FACTS = {
    "task": "films",
    "seed": 3,
    "choices": ["cpu, float32"],
    "rows": {"train": 12_000, "test": 500},
    "model": {"parameters": 4000, "learning": 3000, "parameters_by_part": {"encoder": 3800, "head": 200}},
    "steps": {
        "total": 1125,
        "per_epoch": 375,
        "epochs": 3.0,
        "batch_size": 32,
        "budget": None,
        "warmup": 60,
        "evaluations": 1,
        "tokens": 1.2e6,
    },
    "padding_fraction": 0.125,
    "memory": {"device": "cpu", "estimate": 3 * 2**20, "peak": 3 * 2**30, "free": None, "checkpoint": 2**20},
    "time": {
        "warm_up_steps": 2,
        "measured_steps": 5,
        "total": 150.0,
        "low": 5.0,
        "high": 7200.0,
        "training": 100.0,
        "step": 0.004,
        "evaluation": 40.0,
    },
    "figures": {"test": ["n", "loss", "accuracy", "confusion"]},
}


def shown(files=("report.json",), baselines=None, **changes):
    facts = copy.deepcopy(FACTS)
    for name, more in changes.items():
        facts[name] |= more
    file = io.StringIO()
    show_dry_run(
        facts, "train", {"linear": "", "slow": "too many rows"} if baselines is None else baselines, files, file
    )
    return " ".join(file.getvalue().split())


def test_size_length_and_cost_are_shown():
    screen = shown()
    assert "train films, seed 3" in screen
    assert all(
        words in screen for words in ("12,000 train", "500 test", "1,125", "32 rows", "3.00 epochs", "12.5% padding")
    )
    assert all(words in screen for words in ("3 MiB", "3.0 GiB", "1 MiB"))
    assert "12,000 tokens/s" in screen


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0042, "4.2 ms"),
        (0.04, "40 ms"),
        (4.2, "4.2 s"),
        (40, "40 s"),
        (720, "12 min"),
        (5400, "1.5 h"),
        (3.1 * 86_400, "3.1 days"),
    ],
)
def test_times_are_in_the_unit_a_reader_would_use(seconds, words):
    assert f"evaluation {words}" in shown(time={"evaluation": seconds})


def test_frozen_weights_a_budget_and_the_files_to_be_written_are_named():
    assert "1,000 parameters" in shown()
    assert "training.budget=30m" in shown(steps={"budget": "30m"})
    assert "too many rows" in shown() and "report.json, model/" in shown(files=("report.json", "model/"))
    assert "loss, accuracy" in shown() and "confusion" in shown()
