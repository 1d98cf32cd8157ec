"""The promises of runs on several machines."""

from __future__ import annotations

from faults.machines import breaking, cost, differing, equality, sharing
from faults.promise import Promise

TESTS = "tests/faults/test_machines.py::test_"

MACHINES = (
    Promise(
        "machines_equal",
        "Training, pretraining, eval and resume on two to four machines (namespaces with their own network, cache and disk), "
        "with one or two processes each, sharded or not: losses equal those of one process up to rounding, scores equal its "
        "scores bit for bit, and a resumed run ends bit for bit like one that never stopped.",
        equality.equal,
        quick=0,
        tests=(f"{TESTS}two_machines_compute_the_same_as_one_process",),
    ),
    Promise(
        "machines_endure",
        "A link with a delay of 1, 20 or 100 ms each way, limited to 100 Mbit/s, losing 1% of its frames, or cut for 5 s, and "
        "a clock 10 s or an hour off: the run ends bit for bit like an undisturbed one.",
        breaking.endured,
        quick=0,
        tests=(f"{TESTS}a_link_has_the_bandwidth_it_is_given_and_counts_its_bytes",),
    ),
    Promise(
        "machines_lost",
        "A link cut for good; a machine that loses power or freezes, or has a process killed or its disk full: within 40 s "
        "(ENCODERLAB_WAIT_SECONDS=15) one line names the machine, nothing saved is lost, and resume=auto ends bit for bit "
        "like an undisturbed run.",
        breaking.lost,
        quick=0,
        tests=(f"{TESTS}a_machine_without_power_is_named_and_the_run_resumes",),
    ),
    Promise(
        "machines_restart",
        "torchrun --max-restarts resumes by itself after a killed process, and once a machine that lost power is back.",
        breaking.restarted,
        quick=0,
        tests=(f"{TESTS}a_machine_without_power_is_named_and_the_run_resumes",),
    ),
    Promise(
        "machines_differ",
        "A machine with another version of the package, setting, number of threads, data file or tokenizer, without the data, "
        "or with a full disk: one line names it before a run folder is created.",
        differing.refused,
        quick=0,
        tests=(f"{TESTS}a_machine_with_another_setting_is_named",),
    ),
    Promise(
        "machines_prepare",
        "Each machine prepares its own cache; a copied cache is recognised and not written to.",
        differing.prepared,
        quick=0,
        tests=(f"{TESTS}two_machines_compute_the_same_as_one_process",),
    ),
    Promise(
        "machines_cost",
        "A step sends 2 (n - 1) / n of the gradients from each of n machines, however many micro-batches there are (within "
        "15%), and a narrow link adds the seconds that these bytes take (within a factor of 2.5).",
        cost.cost,
        quick=0,
        tests=(f"{TESTS}a_link_has_the_bandwidth_it_is_given_and_counts_its_bytes",),
    ),
    Promise(
        "machines_share",
        "Two machines share a sweep's folder: when one is without power or frozen, the other takes over its job after "
        f"takeover_seconds={sharing.TAKEOVER_SECONDS} and ends the sweep bit for bit like an undisturbed one; a frozen one "
        "that wakes ends with one line. With clocks an hour apart, nothing is taken over.",
        sharing.shared,
        quick=0,
        tests=(
            "tests/sweeps/test_other_machines.py::test_a_killed_machine_is_replaced_by_another_that_shares_the_folder",
        ),
    ),
)
