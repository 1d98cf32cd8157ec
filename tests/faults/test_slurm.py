"""Runs under Slurm; skipped where it is not installed. scripts/faults run slurm tries all of it."""

import pytest

from faults.promise import Conditions, UnavailableError
from faults.slurm import jobs


@pytest.mark.slow
def test_a_job_trains_on_two_nodes(tmp_path):
    try:
        trials = list(jobs.jobs(Conditions(1, 0, tmp_path.resolve())))
    except UnavailableError as error:
        pytest.skip(str(error))
    assert [(trial.case, trial.failure) for trial in trials if trial.failure] == []
