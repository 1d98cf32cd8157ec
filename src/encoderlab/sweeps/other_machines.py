"""Waits for the jobs of a sweep that other processes run, on this machine or on others."""

from __future__ import annotations

import time

from encoderlab.runs.folders.sweep import STOPPED, JobRecord
from encoderlab.sweeps.sweep import Sweep, say

POLL_SECONDS = 2.0
NAMED = 5  # jobs in a message


def wait_for_others(sweep: Sweep) -> bool:
    """Wait while other processes run jobs of this sweep, and say which.

    Returns True once such a job is free, because it was stopped or because its process is dead; False if all have
    ended.
    """
    left, printed = set(sweep.jobs.values()), ""
    while not sweep.dry:
        running = []
        for key in sorted(left):
            claim = sweep.claims.last(key)  # read before the record: a claim is released after the record is written
            record = sweep.folder.read(key)
            if claim is None or (record is not None and (sweep.is_done(record) or _is_stopped_here(sweep, record))):
                left.discard(key)
            elif sweep.claims.is_free(key, claim):
                return True
            else:
                running.append(f"job {record.number} on {claim.holder}" if record else claim.holder)
        if not running:
            return False
        names = ", ".join(running[:NAMED]) + (", ..." if len(running) > NAMED else "")
        if names != printed:
            say(
                f"waiting for {names}. Jobs that stop, or do not answer for {sweep.takeover_seconds} s, are resumed here"
            )
        printed = names
        time.sleep(min(POLL_SECONDS, sweep.claims.pause))
    return False


def _is_stopped_here(sweep: Sweep, record: JobRecord) -> bool:
    """Return whether a job that this command line has started was stopped by itself, as by scancel."""
    return record.state == STOPPED and record.start == sweep.started
