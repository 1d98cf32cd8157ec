"""How fast a GPU pretrains: real tokens per second and share of peak, with packing, compilation and CUDA graphs on and
off.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from benchmarks.gpu.budget import Row
from benchmarks.gpu.runs import Runs
from benchmarks.roof import probe
from benchmarks.shapes import SHAPES, Shape
from benchmarks.sides import journalled
from encoderlab.errors import TrainingError

MLM_PROBABILITY = 0.15
LOGGED_EVERY = 5  # steps
LINE = re.compile(
    r"(not compiled \(.*?\)|compiled with CUDA graphs|compiled)(?:$|,)", re.MULTILINE
)  # of `training.compilation`


@dataclass(frozen=True, slots=True)
class Scale:
    """A model, the length of its sequences, and the number of them in a batch."""

    model: str
    length: int
    batch_size: int


@dataclass(frozen=True, slots=True)
class Variant:
    """What is on: packing, which removes padding, and compilation, with or without CUDA graphs."""

    packed: bool
    compile: str

    @property
    def name(self) -> str:
        """Return the variant in words."""
        return f"{'packed' if self.packed else 'padded'}, {COMPILED[self.compile]}"


COMPILED = {"never": "not compiled", "always": "compiled", "cuda_graphs": "compiled with CUDA graphs"}
# The last are dropped if time runs out, so packed rows that need no compiler, which takes a minute and more, come
# first. CUDA graphs need fixed shapes: nothing is packed.
VARIANTS = (
    Variant(True, "never"),
    Variant(True, "always"),
    Variant(False, "cuda_graphs"),
    Variant(False, "never"),
    Variant(False, "always"),
)
SCALES = {
    "mini_128": Scale("mini", 128, 1024),
    "base_128": Scale("base", 128, 256),
    "base_512": Scale("base", 512, 64),
}


class Roofs:
    """The FLOP/s that the device reaches in bf16 on the matrix products of a step, probed once for each model and size
    of step.

    A `small` probe is quick and rough.
    """

    def __init__(self, runs: Runs, *, small: bool) -> None:
        self.runs, self.small = runs, small
        self._probed: dict[tuple[str, int], float] = {}

    def of(self, scale: Scale, seconds: float) -> float:
        """Return the roof of a scale; a probe takes at most `seconds`. Raises OutOfTimeError."""
        tokens = scale.batch_size * scale.length
        if (scale.model, tokens) not in self._probed:
            found = probe(self.shape(scale), tokens, self.runs.device, small=self.small, seconds_at_most=seconds)
            self._probed[scale.model, tokens] = found["bfloat16"]
        return self._probed[scale.model, tokens]

    def shape(self, scale: Scale) -> Shape:
        """Return the shape of the model with the vocabulary of the runs."""
        return replace(SHAPES[scale.model], vocabulary=self.runs.vocabulary, mlm_rate=MLM_PROBABILITY)


def speed_rows(runs: Runs, scales: Mapping[str, Scale], roofs: Roofs, steps: int, *, compiled: bool) -> list[Row]:
    """Return a row for each variant of each scale, including compiled ones if `compiled`."""
    variants = [variant for variant in VARIANTS if compiled or variant.compile == "never"]
    return [
        Row(f"{name}, {variant.name}", f"speed {variant.compile}", partial(_speed, runs, scale, variant, roofs, steps))
        for variant in variants
        for name, scale in scales.items()
    ]


def what_was_compiled(errors: str) -> str | None:
    """Return what a run printed about compilation; None if nothing."""
    found = LINE.findall(errors)
    return found[0] if found else None


def _speed(runs: Runs, scale: Scale, variant: Variant, roofs: Roofs, steps: int, seconds: float) -> dict[str, Any]:
    ends, run = time.monotonic() + seconds, f"{scale.model}-{scale.length}"
    done = runs.pretrain(run, *_settings(runs, scale, variant, steps), seconds=seconds, packed=variant.packed)
    printed = what_was_compiled(done.errors)
    if printed is None or (variant.compile != "never" and printed != COMPILED[variant.compile]):
        raise TrainingError(f"It ran {printed or 'without saying whether it was compiled'}")
    figures = journalled(done, runs.folder / run, compiled=variant.compile != "never")
    runs.remove(run)
    roof = roofs.of(scale, ends - time.monotonic())
    length = figures["tokens_per_second"] / figures["examples_per_second"]
    share = roofs.shape(scale).share_of(roof, figures["tokens_per_second"], length)
    return {**asdict(scale), **asdict(variant), **figures, "roof": roof, "mfu": round(share, 4)}


def _settings(runs: Runs, scale: Scale, variant: Variant, steps: int) -> tuple[str, ...]:
    model = (
        "dataset.pack=segments",
        f"model={scale.model}",
        f"model.max_length={scale.length}",
        "model.attention_dropout=0",
    )
    length = (
        f"training.batch_size={scale.batch_size}",
        f"training.steps={steps}",
        f"training.log_every={LOGGED_EVERY}",
    )
    device = (f"training.device={runs.device}", "training.precision=bf16", f"training.compile={variant.compile}")
    return (*model, *length, *device, f"tokenizer.vocabulary_size={runs.vocabulary}")
