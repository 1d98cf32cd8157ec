"""encoderlab verify: checks that a run's files, numbers, config and data are intact and consistent."""

from __future__ import annotations

from pathlib import Path

from encoderlab.config.preparation_settings import VerifyConfig
from encoderlab.encoders.catalogue import REINSTALL, shipped_location
from encoderlab.errors import DataError
from encoderlab.runs.folders.folder import RunFolder
from encoderlab.runs.inspection.verification import findings


def verify(config: VerifyConfig) -> None:
    """Print a line for each part of the run, or of the model if there is no run.

    Raises DataError if a part is damaged or inconsistent, or if there is neither a run nor a model.
    """
    shipped = shipped_location(config.run)
    given = shipped or Path(config.run)
    folder = RunFolder(given.parent if given.name == "model" and RunFolder(given.parent).config.exists() else given)
    bad, all_ = [], 0
    for finding in findings(folder, config.cache_dir):
        print(f"{'good' if finding.good else 'BAD '}  {finding.part:<28}  {finding.words}")
        all_ += 1
        bad += [] if finding.good else [finding.part]
    if bad:
        is_resumable = not folder.finished and all(part.startswith("checkpoints/") for part in bad)
        remedy = "A damaged checkpoint is not used: resume= starts from the newest good one" if is_resumable else ""
        remedy = REINSTALL if shipped else remedy
        raise DataError(
            f"{len(bad)} of {all_} parts of {folder.root} are damaged or inconsistent: {', '.join(bad)}", remedy=remedy
        )
