"""The jobs: what is compared with what, on which data, and the targets."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.jobs.finetuning import FINETUNING
from benchmarks.jobs.job import OURS, Job, Target
from benchmarks.jobs.prediction import PREDICTION
from benchmarks.jobs.pretraining import PRETRAINING
from benchmarks.jobs.starting import STARTING
from benchmarks.jobs.training import TRAINING

JOBS: Mapping[str, Job] = {**TRAINING, **FINETUNING, **PRETRAINING, **STARTING, **PREDICTION}

__all__ = ["JOBS", "OURS", "Job", "Target"]
