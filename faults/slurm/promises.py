"""The promises of runs under Slurm."""

from __future__ import annotations

from faults.promise import Promise
from faults.slurm import jobs

SLURM = (
    Promise(
        "slurm",
        "docs/train.sbatch trains on two nodes of a Slurm cluster (of namespaces, on CPUs); at its time limit it saves, is "
        "requeued and resumes; cancelled, it saves and the same command line resumes it; a drained node is not used. "
        "hydra/launcher=slurm runs a sweep.",
        jobs.jobs,
        quick=0,
        tests=("tests/faults/test_slurm.py::test_a_job_trains_on_two_nodes",),
    ),
)
