"""encoderlab on a CUDA GPU: whether it computes what a CPU computes and resumes exactly, then how fast it pretrains.

Rows are measured in order while time remains, and the others are named.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.jobs import logged
from benchmarks.processes import Finished, OutOfTimeError, finished, grid, provenance, python
from benchmarks.roof import SHAPES, probe
from benchmarks.synthetic import write_documents
from encoderlab.errors import TrainingError

STEPS = 12  # of the checks
HALF = 6
MLM_PROBABILITY = 0.15
# The rows of a batch differ in length, so there is padding to remove. No scoring during training, and no baselines.
SHORT = (
    *("task=pretraining", "dataset=files", "training.batching=random", "baselines=false"),
    *("training.evaluate_every=1000000", "training.keep=last"),
)
# All start from the shipped encoder: with trained weights, a wrong mask or position changes the loss itself, and not
# only its last digits. There is no dropout, because every kind of device draws different numbers.
SAME_RUN = (
    *("dataset.pack=sentences", "init_from=mini-en", "tokenizer=as_pretrained", "model=as_pretrained"),  # with padding
    *("model.dropout=0", "model.attention_dropout=0", "training.batch_size=32", f"training.steps={STEPS}"),
    "training.keep_state=true",
    *("training.log_every=1", "training.learning_rate=1e-4"),
)
DETERMINISTIC = (
    *("model.dropout=0.1", "model.attention_dropout=0.1"),
    *("training.deterministic=true", f"training.checkpoint_every={HALF}"),
)
# The largest differences from fp32 on the CPU, in nats, that rounding explains: of the first loss, when the weights are
# still the same, and of any loss. results/gpu.md says why.
AGREEMENTS = {
    "fp32": (("training.precision=fp32", "training.compile=never"), 2e-5, 1e-4),
    "bf16": (("training.precision=bf16", "training.compile=never"), 2e-3, 1e-1),
    "bf16-compiled": (("training.precision=bf16", "training.compile=always"), 2e-3, 1e-1),
}
SCALES = {"mini_128": ("mini", 128, 1024), "base_128": ("base", 128, 256), "base_512": ("base", 512, 64)}
COMPILED = {"never": "not compiled", "always": "compiled"}
LINE = re.compile(r"(not compiled \(.*?\)|compiled)(?:$|,)", re.MULTILINE)
PADDED = "from encoderlab.network.heads import EncoderWithHeads; EncoderWithHeads.packs = False; "
MAIN = "import sys; from encoderlab.cli.main import main; sys.argv[0] = 'encoderlab'; main()"
SPEED_HEAD = ("model, length", "packed", "compiled", "batch", "real tokens/s", "padding", "first step", "roof", "mfu")


@dataclass(slots=True)
class Budget:
    """The time that all rows may take together, and the names of those that failed or did not fit."""

    ends: float
    failed: list[str]
    dropped: list[str]

    def left(self) -> float:
        """Return the seconds that are left, at least 0."""
        return max(self.ends - time.monotonic(), 0.0)

    def row(self, name: str, measure: Callable[[], list[str]]) -> list[list[str]]:
        """Return the measured row in a list; an empty one if it failed or there was not enough time."""
        try:
            row = [name, *measure()] if self.left() else None
        except OutOfTimeError:
            row = None
        except TrainingError as error:
            self.failed.append(f"{name}: {error}")
            return []
        if row is None:
            self.dropped.append(name)
            return []
        print(f"  {' | '.join(row)}", file=sys.stderr)
        return [row]


@dataclass(frozen=True, slots=True)
class Runs:
    """Short pretraining runs on made-up documents, each in its own process, on the device under test."""

    folder: Path
    device: str
    vocabulary: int
    held_out: float
    budget: Budget

    def pretrain(self, name: str, *words: str, packed: bool = True) -> Finished:
        """Pretrain in the folder `name`/run. Raises TrainingError if it fails, OutOfTimeError."""
        (self.folder / name).mkdir(exist_ok=True)
        data = (f"dataset.path={self.folder}/documents.txt", f"dataset.validation_fraction={self.held_out}")
        run = f"run_dir={self.folder / name / 'run'}"
        return self.encoderlab(*SHORT, *data, f"training.device={self.device}", *words, run, packed=packed)

    def encoderlab(self, *words: str, packed: bool = True) -> Finished:
        """Run the command `pretrain` with padding removed, or left in. Its allocators are those of our command line."""
        environment = {"ENCODERLAB_CACHE": str(self.folder / "cache")}
        if sys.platform == "linux":  # too late once PyTorch is loaded
            environment |= {"THP_MEM_ALLOC_ENABLE": "1", "PYTORCH_ALLOC_CONF": "expandable_segments:True"}
        command = python("-c", f"{'' if packed else PADDED}{MAIN}", "pretrain", *words)
        return finished(command, environment, seconds_at_most=self.budget.left())

    def steps(self, name: str) -> list[dict[str, Any]]:
        """Return the logged steps of the run in `name`/run."""
        lines = (self.folder / name / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [line for line in map(json.loads, lines) if line["kind"] == "step"]


def measure(names: Sequence[str], device: str, minutes: float, *, small: bool) -> tuple[str, list[str]]:
    """Return the tables of all rows that `minutes` are enough for, and the names of those that failed.

    A `small` measurement only checks that everything works, on any device, and compiles nothing. Raises TrainingError
    if there is no run on the CPU to compare with.
    """
    budget = Budget(time.monotonic() + 60 * minutes, [], [])
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        vocabulary, held_out, length = (500, 0.2, 32) if small else (30_522, 0.02, 128)
        runs = Runs(Path(folder), device, vocabulary, held_out, budget)
        write_documents(runs.folder / "documents.txt", *((8_000, 500) if small else (1_500_000, 40_000)))
        runs.pretrain(
            "reference", *SAME_RUN, f"model.max_length={length}", "training.device=cpu", *AGREEMENTS["fp32"][0]
        )
        agreements = list(AGREEMENTS)
        compiling = ["never", "always"]
        checks = []
        resumed = []
        speeds = []
        for name in agreements[:2] if small else agreements:
            checks += budget.row(name, lambda name=name: _agreement(runs, length, name))
        for compile_ in compiling[:1] if small else compiling:
            resumed += budget.row(COMPILED[compile_], lambda compile_=compile_: _resumed(runs, length, compile_))
        scales = {"tiny_32": ("tiny", 32, 8)} if small else {name: SCALES[name] for name in names}
        # The last are dropped if time runs out, so packed rows that need no compiler, which takes a minute and more,
        # come first.
        variants = [(True, "never"), (True, "always"), (False, "never"), (False, "always")]
        for (packed, compile_), scale in product(variants[:1] if small else variants, scales.values()):
            name = f"{scale[0]}, {scale[1]}"
            speeds += budget.row(name, lambda s=scale, p=packed, c=compile_: _speed(runs, s, p, c, small=small))
    head = (f"{STEPS} steps, compared with fp32 on the CPU", "first loss differs by", "any loss by", "gradients by", "")
    tables = [grid(head, checks), grid(["a run cut in two", "losses", "weights"], resumed), grid(SPEED_HEAD, speeds)]
    failed = [row[0] for row in (*checks, *resumed) if "**different**" in row] + budget.failed
    notes = [f"Failed: {'; '.join(failed)}."] if failed else []
    notes += [f"Dropped, because {minutes:g} minutes were not enough: {'; '.join(budget.dropped)}."] * bool(
        budget.dropped
    )
    return "\n\n".join(["\n".join(table) for table in tables] + [*notes, f"Device {device}. {provenance()}."]), failed


def _agreement(runs: Runs, length: int, name: str) -> list[str]:
    words, first_bound, bound = AGREEMENTS[name]
    runs.pretrain(name, *SAME_RUN, f"model.max_length={length}", *words)
    found = compared(runs.steps("reference"), runs.steps(name))
    agrees = found["first_loss"] <= first_bound and found["loss"] <= bound
    losses = f"{found['first_loss']:.1e} (at most {first_bound:.0e})", f"{found['loss']:.1e} (at most {bound:.0e})"
    return [*losses, f"{found['gradient_norm']:.1%}", "agrees" if agrees else "**different**"]


def compared(reference: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the difference of two runs' first losses, the largest of all losses, and that of gradient norms.

    Losses differ in nats, norms relative to the reference. A number that is not finite or missing differs by infinity.
    """
    pairs = list(zip(reference, other, strict=False))
    complete = len(reference) == len(other) > 0
    if not complete or any(None in (step["loss"], step["gradient_norm"]) for pair in pairs for step in pair):
        return dict.fromkeys(("first_loss", "loss", "gradient_norm"), math.inf)
    losses = [abs(step["loss"] - expected["loss"]) for expected, step in pairs]
    norms = [abs(step["gradient_norm"] / expected["gradient_norm"] - 1) for expected, step in pairs]
    return {"first_loss": losses[0], "loss": max(losses), "gradient_norm": max(norms)}


def _resumed(runs: Runs, length: int, compile_: str) -> list[str]:
    """Train a run, then its second half again from the checkpoint in the middle, in a new process; compare both."""
    runs.pretrain("whole", *SAME_RUN, f"model.max_length={length}", *DETERMINISTIC, f"training.compile={compile_}")
    whole, half = (runs.folder / name / "run" for name in ("whole", "half"))
    shutil.copytree(whole, half)
    for checkpoint in (half / "checkpoints").glob("step-*"):  # as if killed after the one in the middle
        if int(checkpoint.name.removeprefix("step-")) > HALF:
            shutil.rmtree(checkpoint)
    shutil.rmtree(half / "model")
    (half / "report.json").unlink()
    runs.encoderlab(f"resume={half}")
    losses = [[(step["loss"], step["gradient_norm"]) for step in runs.steps(name)] for name in ("whole", "half")]
    weights = [hashlib.sha256((run / "model" / "model.safetensors").read_bytes()).digest() for run in (whole, half)]
    for run in (whole, half):
        shutil.rmtree(run.parent)
    return ["bit-identical" if run == reference else "**different**" for run, reference in (losses, weights)]


def _speed(runs: Runs, scale: tuple[str, int, int], packed: bool, compile_: str, *, small: bool) -> list[str]:
    model, length, batch_size = scale
    words = (
        *("dataset.pack=segments", f"model={model}", f"model.max_length={length}", "model.attention_dropout=0"),
        *(f"training.batch_size={batch_size}", f"training.steps={15 if small else 60}", "training.log_every=5"),
        *("training.precision=bf16", f"training.compile={compile_}", f"tokenizer.vocabulary_size={runs.vocabulary}"),
    )
    done = runs.pretrain("speed", *words, packed=packed)
    announced = (LINE.findall(done.errors) or ["without saying whether it was compiled"])[0]
    if compile_ != "never" and announced != COMPILED[compile_]:
        raise TrainingError(f"It ran {announced}")
    numbers = logged(done, runs.folder / "speed", compiled=compile_ != "never")
    shutil.rmtree(runs.folder / "speed")  # a checkpoint of a large model takes a gigabyte
    shape = replace(SHAPES[model], vocabulary=runs.vocabulary, mlm_rate=MLM_PROBABILITY)
    left = runs.budget.left()
    roof = probe(shape, batch_size * length, runs.device, 2, small=small, seconds_at_most=left)["bfloat16"]
    mfu = shape.mfu(roof, numbers["tokens_per_second"], numbers["tokens_per_second"] / numbers["examples_per_second"])
    speed = [f"{numbers['tokens_per_second']:,.0f}", f"{numbers['padding']:.1%}"]
    share = [f"{numbers['first_step_seconds']:.0f} s", f"{roof / 1e12:,.2f} TFLOP/s", f"{mfu:.1%}"]
    return ["yes" if packed else "no", COMPILED[compile_], f"{batch_size:,}", *speed, *share]
