"""encoderlab verify: whether a run's files, numbers, config and data are as they should be."""

from __future__ import annotations

from pathlib import Path

from encoderlab.command_settings import VerifyConfig
from encoderlab.errors import DataError
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.verification import findings


def verify(config: VerifyConfig) -> None:
    """Print a line for each part of the run. Raises DataError where one is not as it should be, or there is no run."""
    given = Path(config.run)
    folder = RunFolder(given.parent if given.name == "model" and not RunFolder(given).config.exists() else given)
    bad, all_ = [], 0
    for finding in findings(folder, config.cache_dir):
        print(f"{'good' if finding.good else 'BAD '}  {finding.part:<28}  {finding.words}")
        all_ += 1
        bad += [] if finding.good else [finding.part]
    if bad:
        can_go_on = not folder.finished and all(part.startswith("checkpoints/") for part in bad)
        remedy = "A damaged checkpoint is not used: resume= goes on from the newest that is good" if can_go_on else ""
        raise DataError(f"{len(bad)} of {all_} parts of {folder.root} are not as they should be: {', '.join(bad)}", remedy=remedy)
