"""Sweeps of the smallest runs, in their own folder."""

from pathlib import Path

import pytest

from tests.experiment_models import REVERSE_MODEL

WITHOUT_HEADS = [setting for setting in REVERSE_MODEL if not setting.startswith("model.n_heads=")]  # sweeps vary them
TINY = (
    "task=reverse",
    *WITHOUT_HEADS,
    *("training=smoke", "dataset.limit=60", "training.steps=4", "baselines=false", "training.threads=1"),
)


@pytest.fixture(autouse=True, scope="module")
def _plots_not_laid_out(plots_not_laid_out) -> None:
    pass


@pytest.fixture
def sweep(command):
    """Run a sweep in the folder `sweep`, and return its jobs' run folders, sorted by name."""

    def run(*arguments):
        command("train", "-m", *TINY, *arguments, "sweep_dir=sweep")
        return sorted(path.parent for path in Path("sweep").glob("*/report.json"))

    return run
