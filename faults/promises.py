"""All promises, in the order of RELIABILITY.md."""

from __future__ import annotations

from faults import damage, ranks, resuming, small_disk, while_running, while_saving
from faults.counted import by_tests
from faults.machines.promises import MACHINES
from faults.promise import Promise
from faults.slurm.promises import SLURM
from faults.streams import STREAMS

ACROSS = "tests/test_across_processes.py::test_"


def _of_tests(name: str, sentence: str, *tests: str) -> Promise:
    return Promise(name, sentence, by_tests(*tests), quick=0, tests=tests)


ALL = (
    Promise(
        "killed_while_saving",
        "Killed (kill -9) before, after or during any call of a save or of the deletion that follows, a run still has the "
        "checkpoint being saved or the one before, intact; once saved, it stays; the next save works.",
        while_saving.killed,
        quick=30,
    ),
    Promise(
        "power_lost_while_saving",
        "The same if the machine stops and everything that was not synced is lost (simulated: contents, halves of contents, "
        "names, renames).",
        while_saving.without_power,
        quick=24,
    ),
    Promise(
        "refused_while_saving",
        "A disk that becomes full, read-only or faulty at any call, or fails in a single call, costs one line and never the "
        "last good checkpoint; once there is space, the next save works.",
        while_saving.refused,
        quick=40,
    ),
    Promise(
        "small_disk",
        "On a disk with space for less than one more checkpoint, however much, a save ends with one line, and leaves the last "
        "good checkpoint and no partial files.",
        small_disk.small_disk,
        quick=8,
    ),
    Promise(
        "damage_noticed",
        "Damage to a saved checkpoint, manifest included, is noticed: bits flipped, and files truncated, zeroed, missing or "
        "swapped. The checkpoint is set aside with one line, and the previous one is used.",
        damage.noticed,
        quick=150,
        full=1000,
    ),
    Promise(
        "all_damaged",
        "If every checkpoint is damaged, none is used: each is set aside with one line.",
        damage.nothing_left,
        quick=30,
        full=200,
    ),
    Promise(
        "killed_while_running",
        "Killed up to three times at random moments and resumed, a run ends with the weights, report, predictions and journal "
        "of an undisturbed one.",
        while_running.killed,
        quick=2,
        full=200,
    ),
    Promise(
        "resumed_equals",
        "Resumed from any step, within an epoch or at an evaluation, a run ends bit for bit as if it had never stopped: with "
        "dropout, masked tokens, micro-batches, every schedule, early stopping, the best or the last checkpoint kept, any "
        "batching.",
        resuming.equal,
        quick=2,
    ),
    Promise(
        "nothing_left_out",
        "Every piece of a checkpoint's state is needed for that: if one is reset to its first value, some run of the grid "
        "above ends differently.",
        resuming.nothing_left_out,
        quick=1,
    ),
    Promise(
        "stopped_by_a_signal",
        "SIGTERM or Ctrl-C, to the process or its group, at any moment: exit code 143 or 130, no traceback, and a line that "
        "says how to resume if there is something to resume; a resumed run ends as if never interrupted, even after a second "
        "signal.",
        while_running.signalled,
        quick=3,
        full=60,
    ),
    Promise(
        "stopped_in_its_own_process",
        "The same for a program started by a shell, from the moment it handles signals: while it loads, prepares, trains or "
        "reports.",
        while_running.signalled_process,
        quick=1,
        full=40,
    ),
    Promise(
        "refused_while_running",
        "A disk that becomes full, read-only or faulty at any call ends a run with one line; once there is space, the run "
        "resumes and ends as if nothing had happened.",
        while_running.refused,
        quick=2,
        full=60,
    ),
    Promise(
        "one_folder",
        "If two runs start or resume in one folder at once, one ends as if it were alone, and the other says that the folder "
        "is in use.",
        while_running.one_folder,
        quick=1,
        full=20,
    ),
    Promise(
        "eight_at_once",
        "Eight runs of one task started at the same instant get eight folders.",
        while_running.sweep,
        quick=1,
        full=10,
    ),
    Promise(
        "stopped_under_torchrun",
        "SIGTERM or Ctrl-C to torchrun, or SIGTERM or SIGINT to one of its two ranks, at any moment: one line that says why "
        "the run ended, one that says how to resume if there is something to resume, and no traceback except torchrun's; the "
        "resumed run ends bit for bit like an undisturbed one, under every setting of the grid above, whether each rank holds "
        "the whole model or a shard of it.",
        ranks.signalled,
        quick=0,
        tests=(
            f"{ACROSS}a_signal_to_any_process_stops_all_after_the_same_step",
            f"{ACROSS}two_processes_resume_bit_for_bit_each_with_its_own_dropout",
        ),
    ),
    Promise(
        "rank_lost",
        "If one of two ranks is killed or stops answering, the run ends with one line, and resumes from its last checkpoint.",
        ranks.one_lost,
        quick=0,
        full=12,
        tests=(f"{ACROSS}a_run_that_loses_a_process_ends_with_one_line_and_can_be_resumed",),
    ),
    Promise(
        "other_worlds",
        "A run that changes from one process to two and back takes the same steps over the same rows, and ends with the "
        "scores of one that did not change, except for the order in which sums are rounded.",
        ranks.processes_changed,
        quick=0,
        full=12,
        tests=(f"{ACROSS}two_processes_train_like_one_and_the_run_resumes_in_one",),
    ),
    *STREAMS,
    *MACHINES,
    *SLURM,
    _of_tests(
        "dirty_files",
        "A file is read row by row, unchanged, or refused in one line with its name and line number; no row is dropped.",
        "tests/faults/test_dirty_files.py",
    ),
    _of_tests(
        "any_rows",
        "Any rows written to a file are read back unchanged, or the file is refused.",
        "tests/data/files/test_rows_come_back.py",
    ),
    _of_tests(
        "any_override",
        "Whatever the user types as a setting, there is no traceback, and for an unknown key the closest known one is suggested.",
        "tests/faults/test_any_override.py",
    ),
    _of_tests(
        "hostile_files",
        "A hostile checkpoint, config or table runs no code, leaves the run folder unchanged, and at worst produces an error line.",
        "tests/faults/test_hostile_files.py",
    ),
    _of_tests(
        "hub_faults",
        "A hub that is slow, fails, breaks off or is unreachable costs a bounded number of retries and one line that says "
        "what to do.",
        "tests/faults/test_hub_faults.py",
    ),
)
PROMISES = {promise.name: promise for promise in ALL}
GROUPS = {"machines": MACHINES, "streams": STREAMS}
