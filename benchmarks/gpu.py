"""Pretraining on a CUDA card: real tokens per second and the share of its bf16 roof, for tiny, mini and base."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.machine import provenance, said
from benchmarks.page import grid
from benchmarks.processes import finished, python
from benchmarks.roof import probe
from benchmarks.shapes import SHAPES
from benchmarks.sides import journalled
from benchmarks.synthetic import write_documents
from encoderlab.errors import TrainingError

COMPILED = "training.compile=always"  # `auto` would not compile so short a run
QUIET = (COMPILED, "baselines=false", "training.evaluate_every=1000000", "training.keep=last", "training.log_every=10")
PIECES = 30_522


@dataclass(frozen=True, slots=True)
class Scale:
    """A model, the length of its sequences, and the batch sizes to try."""

    model: str
    length: int
    batches: tuple[int, ...]


SCALES = {
    "tiny_128": Scale("tiny", 128, (1024, 2048, 4096)),
    "mini_128": Scale("mini", 128, (512, 1024, 2048)),
    "base_128": Scale("base", 128, (256, 512, 1024)),
    "base_512": Scale("base", 512, (64, 128, 256)),
}
SMALL = {"tiny_128": Scale("tiny", 32, (8,))}


@dataclass(frozen=True, slots=True)
class Corpus:
    """Made-up documents: `words` in all, of `distinct` ones, cut by a vocabulary of `pieces`; a share is `held_out`."""

    words: int = 3_000_000
    distinct: int = 40_000
    pieces: int = PIECES
    held_out: float = 0.02


def gpu() -> str | None:
    """The name of the first CUDA card; None if there is none. A child asks, so that this process stays without torch."""
    code = "import json, torch; print(json.dumps({'card': torch.cuda.get_device_name() if torch.cuda.is_available() else None}))"
    return json.loads(finished(python("-c", code)).last_line)["card"]


def measure(names: Sequence[str], device: str, *, small: bool) -> dict[str, Any]:
    """The best batch size of each scale, with its figures. Raises TrainingError if no batch size of one can be trained."""
    corpus = Corpus(20_000, 800, 500, 0.2) if small else Corpus()
    scales = SMALL if small else {name: SCALES[name] for name in names}
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        write_documents(Path(folder) / "documents.txt", corpus.words, corpus.distinct)
        found = {name: _best(scale, corpus, Path(folder), device, small) for name, scale in scales.items()}
    return {**provenance(), "device": gpu() if device == "cuda" else device, "scales": found}


def _best(scale: Scale, corpus: Corpus, folder: Path, device: str, small: bool) -> dict[str, Any]:
    tried = [_tried(scale, batch, corpus, folder, device, 20 if small else 110) for batch in scale.batches]
    best = max(tried, key=lambda figures: figures.get("tokens_per_second", 0))
    if "tokens_per_second" not in best:
        raise TrainingError(f"{scale.model} at {scale.length} cannot be trained on {device}: {best['failed']}")
    tokens = round(best["batch"] * best["tokens_per_second"] / best["examples_per_second"])
    shape = replace(SHAPES[scale.model], vocabulary=corpus.pieces, mlm_rate=0.15)
    roof = probe(shape, tokens, device, small=small)["bfloat16"]
    share = shape.share_of(roof, best["tokens_per_second"], tokens / best["batch"])
    return {"model": scale.model, "length": scale.length, **best, "roof": roof, "mfu": round(share, 4), "tried": tried}


def _tried(scale: Scale, batch: int, corpus: Corpus, folder: Path, device: str, steps: int) -> dict[str, Any]:
    """The figures of a run with that batch size, or why there are none: it may well not fit into the card's memory."""
    data = ("task=pretraining", "dataset=files", f"dataset.path={folder}/documents.txt", "dataset.pack=segments")
    held_out = (f"dataset.validation_fraction={corpus.held_out}", f"tokenizer.vocabulary_size={corpus.pieces}")
    model = (f"model={scale.model}", f"model.max_length={scale.length}", "model.attention_dropout=0")
    compute = (f"training.batch_size={batch}", f"training.steps={steps}", f"training.device={device}")
    run = folder / f"{scale.model}-{scale.length}-{batch}"
    run.mkdir()
    command = python("-m", "encoderlab", "pretrain", *data, *held_out, *model, *compute, *QUIET, f"run_dir={run}/run")
    try:
        figures = journalled(finished(command, {"ENCODERLAB_CACHE": f"{folder}/cache"}), run, compiled=True)
    except TrainingError as error:
        print(f"  {scale.model} at {scale.length}, batch {batch}: {error}", file=sys.stderr)
        return {"batch": batch, "failed": str(error)}
    print(f"  {scale.model} at {scale.length}, batch {batch}: {figures['tokens_per_second']:,.0f} tokens/s", file=sys.stderr)
    return {"batch": batch, **figures}


def gpu_table(result: Mapping[str, Any]) -> str:
    """A row for each scale."""
    rows = [
        [
            f"{found['model']}, {found['length']}",
            f"{found['batch']:,}",
            f"{found['tokens_per_second']:,.0f}",
            f"{found['padding']:.1%}",
            f"{found['first_step_seconds']:.0f} s",
            f"{found['roof'] / 1e12:,.2f} TFLOP/s",
            f"{found['mfu']:.1%}",
        ]
        for found in result["scales"].values()
    ]
    head = ["model, length", "best batch", "real tokens/s", "padding", "first step after", "bf16 roof", "mfu"]
    return "\n".join([*grid(head, rows), "", f"On {result['device']}. {said(result)}."])
