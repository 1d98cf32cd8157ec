"""All promises, in the order of RELIABILITY.md."""

from __future__ import annotations

from faults import damage, small_disk, while_saving
from faults.promise import Promise

ALL = (
    Promise(
        "killed_while_saving",
        "Killed (kill -9) before, after or within any call of a save or of the deleting that follows it, "
        "a run has the checkpoint being saved or the one before, whole; once saved, it stays; the next save works.",
        while_saving.killed,
        quick=30,
    ),
    Promise(
        "power_lost_while_saving",
        "The same where the machine stops, and whatever was not synced is gone "
        "(simulated: contents, halves of contents, names, renames).",
        while_saving.without_power,
        quick=24,
    ),
    Promise(
        "refused_while_saving",
        "A disk that is full, read-only or failing from any call on, or in any one call, costs one line and never the last "
        "good checkpoint; once there is room, the next save works.",
        while_saving.refused,
        quick=40,
    ),
    Promise(
        "small_disk",
        "On a disk with room for less than one more checkpoint, whatever the room, a save ends with one line, leaves the last good "
        "checkpoint and nothing half written.",
        small_disk.small_disk,
        quick=8,
    ),
    Promise(
        "damage_noticed",
        "Damage to a saved checkpoint, manifest included, is noticed: flipped bits, files cut off, zeroed, missing or exchanged. "
        "It is set aside with one line, and the one before is used.",
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
)
PROMISES = {promise.name: promise for promise in ALL}
