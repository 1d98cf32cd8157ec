"""The whole measurement on a GPU: correctness, then resuming, then speeds, within one time budget."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.budget import Budget, Rows
from benchmarks.gpu.correctness import agreement_rows, reference_row, resume_rows
from benchmarks.gpu.runs import Runs
from benchmarks.gpu.speeds import SCALES, Roofs, Scale, speed_rows
from benchmarks.machine import provenance
from benchmarks.processes import finished, python
from encoderlab.errors import TrainingError

STEPS, SMALL_STEPS = 60, 15
SMALL_SCALES = {"tiny_32": Scale("tiny", 32, 8)}
PARTS = ("agreement", "resume", "speeds")


def gpu_name() -> str | None:
    """Return the name of the first CUDA GPU; None if there is none. A child asks, so that this process stays without
    torch.
    """
    code = "import json, torch; print(json.dumps({'gpu': torch.cuda.get_device_name() if torch.cuda.is_available() else None}))"
    return json.loads(finished(python("-c", code)).last_line)["gpu"]


def measure(names: Sequence[str], device: str, minutes: float, *, small: bool) -> dict[str, Any]:
    """Return the figures of all rows that `minutes` are enough for, with the names of the others; those named in
    `names` for speed.

    A `small` measurement only checks that everything works, on any device, and compiles nothing. Raises TrainingError
    if there is no run on the CPU to compare with.
    """
    budget, reference = Budget(60 * minutes), Rows()
    parts = {part: Rows() for part in PARTS}
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        runs = _runs(Path(folder), device, small=small)
        runs.write_corpus()
        scales = SMALL_SCALES if small else {name: SCALES[name] for name in names}
        steps, length, compiled = SMALL_STEPS if small else STEPS, 32 if small else 128, not small
        reference.measure([reference_row(runs, length)], budget)
        if not reference.figures:
            raise TrainingError(_why_no_reference(reference))
        parts["agreement"].measure(agreement_rows(runs, length, compiled=compiled), budget)
        parts["resume"].measure(resume_rows(runs, length, compiled=compiled), budget)
        speeds = speed_rows(runs, scales, Roofs(runs, small=small), steps, compiled=compiled)
        parts["speeds"].measure(speeds, budget)
    return {
        **provenance(),
        "device": device,
        "minutes": minutes,
        **{part: rows.figures for part, rows in parts.items()},
        "failed": [failed for rows in parts.values() for failed in rows.failed],
        "dropped": [name for rows in parts.values() for name in rows.dropped],
    }


def _runs(folder: Path, device: str, *, small: bool) -> Runs:
    if small:
        return Runs(folder, device, words=8_000, distinct_words=500, vocabulary=500, held_out=0.2)
    return Runs(folder, device, words=1_500_000, distinct_words=40_000, vocabulary=30_522, held_out=0.02)


def _why_no_reference(reference: Rows) -> str:
    reason = reference.failed[0]["reason"] if reference.failed else "there was not enough time"
    return f"There is no run on the CPU to compare with: {reason}"


def what_is_wrong(result: dict[str, Any]) -> list[str]:
    """Return the names of the rows that failed, and of the checks that did not pass."""
    checks = [*result["agreement"], *result["resume"]]
    return [check["name"] for check in checks if not check["passed"]] + [failed["name"] for failed in result["failed"]]
