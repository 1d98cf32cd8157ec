"""The promises of runs on several machines."""

from __future__ import annotations

from faults.machines import equality
from faults.promise import Promise

TESTS = "tests/faults/test_machines.py::test_"

MACHINES = (
    Promise(
        "machines_equal",
        "Training, pretraining, eval and resume on two to four machines (namespaces with a network, caches and disks of their "
        "own), with one or two processes each, sharded or not: the losses of one process up to rounding, its scores bit for bit, "
        "and after resuming the bits of a run that never stopped.",
        equality.equal,
        quick=0,
        tests=(f"{TESTS}two_machines_compute_what_one_process_does",),
    ),
)
