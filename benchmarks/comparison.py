"""Run a job: all its sides in turn, round after round (A B A B ...), each in its own process."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.jobs import Job
from benchmarks.machine import provenance
from benchmarks.minilm import NOT_INSTALLED, minilm_folder
from benchmarks.processes import finished, python
from benchmarks.roof import probe
from benchmarks.sides import Figures, Side, filled

Result = dict[str, Any]
REMEDIES = {
    "hub": "no hub is set: put HF_ENDPOINT=URL in front, such as the URL of the stand-in ../shared/hub/serve.py",
    "shared": "--shared is not a folder that contains peers/common.py",
    "accelerate": 'accelerate is not installed: pip install -e ".[bench]"',
    "minilm": NOT_INSTALLED,
    "onnxruntime": 'onnxruntime is not installed: pip install -e ".[onnx]"',
    "sentence_transformers": "sentence-transformers is not installed: pip install sentence-transformers",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """How jobs are run: `shared` is the folder of the peers' scripts; `small` runs only a few steps."""

    rounds: int
    threads: int
    shared: Path
    small: bool = False

    def missing(self, side: Side) -> str:
        """Return why a side cannot be run; nothing if it can."""
        found = {
            "hub": bool(os.environ.get("HF_ENDPOINT")),
            "shared": (self.shared / "peers" / "common.py").is_file(),
            "accelerate": find_spec("accelerate") is not None,
            "minilm": minilm_folder() is not None,
            "onnxruntime": find_spec("onnxruntime") is not None and find_spec("onnxscript") is not None,
            "sentence_transformers": find_spec("sentence_transformers") is not None,
        }
        return "; ".join(REMEDIES[need] for need in side.needs if not found[need])


def missing(job: Job, settings: Settings) -> str:
    """Return why the job cannot be run; nothing if ours and one peer can."""
    ours, *peers = job.sides
    without = [settings.missing(peer) for peer in peers]
    return settings.missing(ours) or (without[0] if all(without) else "")


def compare(job: Job, settings: Settings) -> Result:
    """Run all rounds. Raises TrainingError if a side fails."""
    made = provenance()
    sides = [side for side in job.sides if not settings.missing(side)]
    for side in job.sides:
        if side not in sides:
            print(f"  {side.name} is left out: {settings.missing(side)}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as work:
        threads = str(settings.threads)
        environment = {"OMP_NUM_THREADS": threads, "RAYON_NUM_THREADS": threads, **job.environment}
        if not settings.small:  # figures are saved, so the first round must find nothing prepared
            environment["ENCODERLAB_CACHE"] = f"{work}/cache"
        places = {"work": work, "threads": threads, "shared": str(settings.shared), "minilm": str(minilm_folder())}
        for arguments in job.setup:
            finished(python(*filled(arguments, places)), environment)
        roofs = probe(job.shape, job.tokens, threads=settings.threads, small=settings.small) if job.shape else {}
        rounds = [_round(job, sides, places, environment, number, settings.small) for number in range(settings.rounds)]
    for figures in rounds:
        _add_shares(job, sides, figures, roofs)
    commands = {side.name: " ".join(["python", *side.command(small=settings.small)]) for side in sides}
    ran = {"threads": settings.threads, "roofs": roofs, "commands": commands, "seeds": list(range(settings.rounds))}
    return {**made, **ran, "rounds": rounds}


def _round(
    job: Job, sides: list[Side], places: dict[str, str], environment: dict[str, str], number: int, small: bool
) -> dict[str, Figures]:
    """Run each side once; the seed is the round's number."""
    found = {}
    with _folder(places["work"]) as shared:
        for side in sides:
            with _folder(shared) as folder:
                here = {**places, "round": shared, "folder": folder, "seed": str(number)}
                found[side.name] = side.run(here, environment, small=small)
            print(
                f"  round {number + 1}, {side.name}: {job.figure} {found[side.name].get(job.figure)}", file=sys.stderr
            )
    return found


@contextmanager
def _folder(inside: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir=inside) as folder:
        yield folder


def _add_shares(job: Job, sides: list[Side], figures: dict[str, Figures], roofs: dict[str, float]) -> None:
    """Add to each side its fraction of the roof, in the precision of ours."""
    roof = roofs.get(figures[sides[0].name].get("precision", ""))
    for side in sides:
        measured = figures[side.name]
        if roof and measured.get("tokens_per_second"):
            length = measured["tokens_per_second"] / measured["examples_per_second"]
            measured["mfu"] = round((side.shape or job.shape).share_of(roof, measured["tokens_per_second"], length), 4)
