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
        "Killed (kill -9) before, after or within any call of a save or of the deleting that follows it, a run has the "
        "checkpoint being saved or the one before, whole; once saved, it stays; the next save works.",
        while_saving.killed,
        quick=30,
    ),
    Promise(
        "power_lost_while_saving",
        "The same where the machine stops, and whatever was not synced is gone (simulated: contents, halves of "
        "contents, names, renames).",
        while_saving.without_power,
        quick=24,
    ),
    Promise(
        "refused_while_saving",
        "A disk that is full, read-only or failing from any call on, or in any one call, costs one line and never the "
        "last good checkpoint; once there is room, the next save works.",
        while_saving.refused,
        quick=40,
    ),
    Promise(
        "small_disk",
        "On a disk with room for less than one more checkpoint, whatever the room, a save ends with one line, leaves "
        "the last good checkpoint and nothing half written.",
        small_disk.small_disk,
        quick=8,
    ),
    Promise(
        "damage_noticed",
        "Damage to a saved checkpoint, manifest included, is noticed: flipped bits, files cut off, zeroed, missing or "
        "exchanged. It is set aside with one line, and the one before is used.",
        damage.noticed,
        quick=150,
        full=1000,
    ),
    Promise(
        "all_damaged",
        "Where every checkpoint is damaged, none is used: each is set aside with one line.",
        damage.nothing_left,
        quick=30,
        full=200,
    ),
    Promise(
        "killed_while_running",
        "Killed up to three times at random moments of its life and gone on with, a run ends with the weights, report, "
        "predictions and journal of one that was left alone.",
        while_running.killed,
        quick=2,
        full=200,
    ),
    Promise(
        "resumed_equals",
        "Gone on with from any step, within an epoch or at an evaluation, a run ends bit for bit as if it had never "
        "stopped: with dropout, masked tokens, batches in parts, every schedule, early stopping, the best or the last "
        "kept, any batching.",
        resuming.equal,
        quick=2,
    ),
    Promise(
        "nothing_left_out",
        "Every piece of a checkpoint's state is needed for that: put back to its first value, some run of the grid "
        "above ends otherwise.",
        resuming.nothing_left_out,
        quick=1,
    ),
    Promise(
        "stopped_by_a_signal",
        "SIGTERM or Ctrl-C, to the process or its group, at any moment: exit code 143 or 130, no traceback, a line that "
        "says how to go on where there is something to go on with; what goes on ends as if nothing had been, also after "
        "a second signal.",
        while_running.signalled,
        quick=3,
        full=60,
    ),
    Promise(
        "stopped_in_its_own_process",
        "The same for a program as a shell starts it, from the moment it answers signals: while it loads, prepares, "
        "trains or reports.",
        while_running.signalled_process,
        quick=1,
        full=40,
    ),
    Promise(
        "refused_while_running",
        "A disk that is full, read-only or failing from any call of a run on ends it with one line, and once there is "
        "room it goes on and ends as if nothing had been.",
        while_running.refused,
        quick=2,
        full=60,
    ),
    Promise(
        "one_folder",
        "Of two runs that begin, or go on, in one folder at once, one ends as if it were alone, and the other says that "
        "it is taken.",
        while_running.one_folder,
        quick=1,
        full=20,
    ),
    Promise(
        "eight_at_once",
        "Eight runs of one task started in the same instant get eight folders.",
        while_running.sweep,
        quick=1,
        full=10,
    ),
    Promise(
        "stopped_under_torchrun",
        "SIGTERM or Ctrl-C to torchrun, or SIGTERM or SIGINT to one of its two ranks, at any moment: one line that says why it "
        "ended, one that says how to go on where there is something to go on with, and no traceback but torchrun's; what goes on "
        "ends bit for bit as one that was left alone, under every setting of the grid above, whether each rank holds the model "
        "or a piece of it.",
        ranks.signalled,
        quick=0,
        tests=(
            f"{ACROSS}a_signal_to_any_process_stops_all_after_the_same_step",
            f"{ACROSS}two_processes_go_on_bit_for_bit_with_the_dropout_of_each",
        ),
    ),
    Promise(
        "rank_lost",
        "Where one of two ranks is killed or stops answering, the run ends with one line, and goes on from its last checkpoint.",
        ranks.one_lost,
        quick=0,
        full=12,
        tests=(f"{ACROSS}a_run_that_loses_a_process_ends_with_one_line_and_goes_on",),
    ),
    Promise(
        "other_worlds",
        "A run that goes from one process to two and back takes the same steps over the same rows, and ends with the scores of "
        "one that did not, but for the order in which sums are rounded.",
        ranks.worlds,
        quick=0,
        full=12,
        tests=(f"{ACROSS}two_processes_train_as_one_does_and_the_run_goes_on_in_one",),
    ),
    *STREAMS,
    *MACHINES,
    *SLURM,
    _of_tests(
        "dirty_files",
        "A file is read row by row as it stands, or refused in one line with its name and line; no row is dropped.",
        "tests/faults/test_dirty_files.py",
    ),
    _of_tests(
        "any_rows",
        "Whatever rows are written to a file, they are read back equal, or the file is refused.",
        "tests/data/files/test_rows_come_back.py",
    ),
    _of_tests(
        "any_override",
        "Whatever is typed as a setting, there is no traceback, and a wrong key gets the closest right one.",
        "tests/faults/test_any_override.py",
    ),
    _of_tests(
        "hostile_files",
        "A hostile checkpoint, config or table runs no code, leaves the run folder alone and at worst gets a line.",
        "tests/faults/test_hostile_files.py",
    ),
    _of_tests(
        "hub_faults",
        "A hub that is slow, fails, breaks off or is not there costs bounded retries and one line that says how to go on.",
        "tests/faults/test_hub_faults.py",
    ),
)
PROMISES = {promise.name: promise for promise in ALL}
GROUPS = {"machines": MACHINES, "streams": STREAMS}
