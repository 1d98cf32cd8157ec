"""The promises of runs on several machines."""

from __future__ import annotations

from faults.machines import breaking, cost, differing, equality
from faults.promise import Promise

TESTS = "tests/faults/test_machines.py::test_"

MACHINES = (
    Promise(
        "machines_equal",
        "Training, pretraining, eval and resume on two to four machines (namespaces with network, cache and disk of their own), "
        "with one or two processes each, sharded or not: losses are those of one process up to rounding, scores its bits, and a "
        "resumed run ends with the bits of one that never stopped.",
        equality.equal,
        quick=0,
        tests=(f"{TESTS}two_machines_compute_what_one_process_does",),
    ),
    Promise(
        "machines_endure",
        "A link with 1, 20 or 100 ms each way, of 100 Mbit/s, with 1% of its frames lost, or cut for 5 s, and a clock 10 s off: "
        "the run ends with the bits of one that nothing disturbed.",
        breaking.endured,
        quick=0,
        tests=(f"{TESTS}a_link_is_as_slow_as_it_is_made_and_counts_its_bytes",),
    ),
    Promise(
        "machines_lost",
        "A link cut for good, a machine without power, frozen, with a process killed or its disk full: within "
        f"{breaking.NOTICED_WITHIN} s (ENCODERLAB_WAIT_SECONDS={breaking.WAIT_SECONDS}) one line names the machine, nothing saved "
        "is lost, and resume=auto ends with the bits of a run that nothing disturbed.",
        breaking.lost,
        quick=0,
        tests=(f"{TESTS}a_machine_without_power_is_named_and_the_run_resumes",),
    ),
    Promise(
        "machines_restart",
        "torchrun --max-restarts resumes by itself after a killed process, and once a machine without power is back.",
        breaking.restarted,
        quick=0,
        tests=(f"{TESTS}a_machine_without_power_is_named_and_the_run_resumes",),
    ),
    Promise(
        "machines_differ",
        "A machine with another version of the package, setting, number of threads, data file or tokenizer, without the data, or "
        "with a full disk: one line names it before a run folder is made. A clock an hour off is refused by torchrun.",
        differing.refused,
        quick=0,
        tests=(f"{TESTS}a_machine_with_another_setting_is_named",),
    ),
    Promise(
        "machines_prepare",
        "Each machine prepares its own cache; a cache that was copied to it is recognised and not written to.",
        differing.prepared,
        quick=0,
        tests=(f"{TESTS}two_machines_compute_what_one_process_does",),
    ),
    Promise(
        "machines_cost",
        "A step sends 2 (n - 1) / n of the gradients from each of n machines, once for any accumulation (within 15%), and a narrow "
        "link adds the seconds that these bytes take (within a factor of 2.5).",
        cost.cost,
        quick=0,
        tests=(f"{TESTS}a_link_is_as_slow_as_it_is_made_and_counts_its_bytes",),
    ),
)
