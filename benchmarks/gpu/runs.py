"""Short pretraining runs on documents of made-up words, each in its own process."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.processes import Finished, finished, python
from benchmarks.synthetic import write_documents

# The rows of a batch differ in length, so there is padding to remove. No scoring during training, and no baselines.
SHORT = (
    *("task=pretraining", "dataset=files", "training.batching=random"),
    *("baselines=false", "training.evaluate_every=1000000", "training.keep=last"),
)
PADDED = "benchmarks.ours.padded"  # encoderlab with padding left in
# `encoderlab.cli.main` sets them before PyTorch is loaded, which would be too late in PADDED.
ALLOCATORS = (
    {"THP_MEM_ALLOC_ENABLE": "1", "PYTORCH_ALLOC_CONF": "expandable_segments:True"} if sys.platform == "linux" else {}
)


@dataclass(frozen=True, slots=True)
class Runs:
    """Where runs are written, the generated corpus they read, and the device under test."""

    folder: Path
    device: str
    words: int
    distinct_words: int
    vocabulary: int
    held_out: float

    def write_corpus(self) -> None:
        """Write the documents that all runs read."""
        write_documents(self.folder / "documents.txt", self.words, self.distinct_words)

    def corpus(self) -> tuple[str, ...]:
        """Return the settings of the documents."""
        return (f"dataset.path={self.folder}/documents.txt", f"dataset.validation_fraction={self.held_out}")

    def pretrain(self, name: str, *settings: str, seconds: float, packed: bool = True) -> Finished:
        """Pretrain in the folder `name`/run, for at most `seconds`. Raises TrainingError if it fails."""
        (self.folder / name).mkdir(exist_ok=True)
        run = f"run_dir={self.folder / name / 'run'}"
        return self._encoderlab(*SHORT, *self.corpus(), *settings, run, seconds=seconds, packed=packed)

    def resume(self, name: str, *, seconds: float) -> Finished:
        """Resume the run in `name`/run."""
        return self._encoderlab(f"resume={self.folder / name / 'run'}", seconds=seconds)

    def cut_in_two(self, name: str, copy: str, step: int) -> None:
        """Copy the finished run in `name`/run, without what was written after the checkpoint of `step`: as if killed
        then.
        """
        run = self.folder / copy / "run"
        shutil.copytree(self.folder / name / "run", run)
        for checkpoint in (run / "checkpoints").glob("step-*"):
            if int(checkpoint.name.removeprefix("step-")) > step:
                shutil.rmtree(checkpoint)
        for folder in (run / "model", run / "plots"):
            shutil.rmtree(folder, ignore_errors=True)
        (run / "report.json").unlink()

    def weights_hash(self, name: str) -> str:
        """Return the SHA-256 of the final weights of the run in `name`/run."""
        return hashlib.sha256((self.folder / name / "run" / "model" / "model.safetensors").read_bytes()).hexdigest()

    def remove(self, *names: str) -> None:
        """Remove the folders of runs: a checkpoint of a large model takes a gigabyte."""
        for name in names:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def steps(self, name: str) -> list[dict[str, Any]]:
        """Return the logged steps of the run in `name`/run."""
        lines = (self.folder / name / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [line for line in map(json.loads, lines) if line["kind"] == "step"]

    def _encoderlab(self, *settings: str, seconds: float, packed: bool = True) -> Finished:
        command = python("-m", "encoderlab" if packed else PADDED, "pretrain", *settings)
        return finished(
            command, {"ENCODERLAB_CACHE": str(self.folder / "cache"), **ALLOCATORS}, seconds_at_most=seconds
        )
