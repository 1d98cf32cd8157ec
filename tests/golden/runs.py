"""Tiny trainings whose final weights are compared bit for bit.

As a program it prints, as JSON, what the weights depend on and the hash of each training's. `--record` writes them to
weights.json:

    python tests/golden/runs.py --threads 1 --record

A hash there changes with each change of our own that moves a last digit, such as another order of sums; then record it
anew, and say in the commit why it moved.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

WEIGHTS = Path(__file__).parent / "weights.json"
LITTLE = ("model.n_layers=2", "model.d_model=64", "model.n_heads=2", "model.max_length=24", "training.steps=12")
DATA = {
    "train": (
        "task=brackets",
        "model=tiny",
        "dataset.limit=200",
        "training.batch_size=16",
        "training.evaluations=null",
    ),
    "pretrain": (
        "dataset=files",
        "dataset.path=documents.txt",
        "tokenizer.vocabulary_size=100",
        "training.batch_size=16",
    ),
}
CASES = [(command, precision) for command in DATA for precision in ("fp32", "bf16")]


def depends_on(threads: int) -> str:
    """Return what decides the last digits on a CPU: PyTorch's build with its libraries, the instruction set, and the
    threads.
    """
    import torch

    build = hashlib.sha256(torch.__config__.show().encode()).hexdigest()[:12]
    bf16 = "AVX-512 bf16" if torch.cpu._is_avx512_bf16_supported() else "no bf16 units"
    bf16 = "AMX" if torch.cpu._is_amx_tile_supported() else bf16
    instructions = f"{platform.machine()} {_vendor()} {torch.backends.cpu.get_cpu_capability()}, {bf16}"
    return f"torch {torch.__version__} (build {build}), {instructions}, threads {threads}"


def _vendor() -> str:
    """The maker of the processor: MKL takes other kernels for some than for others with the same instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id")), platform.processor()
    )


def hashes(threads: int, further: Iterable[str] = ()) -> dict[str, str]:
    """The hash of the final weights of each case, trained in a folder of its own."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ENCODERLAB_CACHE"] = f"{folder}/cache"
        os.chdir(folder)
        try:
            _write_documents(Path("documents.txt"))
            return {
                f"{command} {precision}": _trained(command, precision, threads, further) for command, precision in CASES
            }
        finally:
            os.chdir(before)


def _write_documents(path: Path) -> None:
    """Write forty documents of three sentences, with words built by counting.

    The words are too long to be taken for abbreviations: with or without NLTK's punkt_tab, the sentences are the same.
    """
    sentences = (
        " ".join(f"{'abcdefg'[n % 7]}{'aeiou'[(n + place) % 5]}llerstone" for place in range(6)) for n in range(120)
    )
    lines = [f"{sentence.capitalize()}." for sentence in sentences]
    path.write_text("\n\n".join(" ".join(lines[start : start + 3]) for start in range(0, 120, 3)), encoding="utf-8")


def _trained(command: str, precision: str, threads: int, further: Iterable[str]) -> str:
    from safetensors.numpy import load

    from encoderlab.cli import main as cli

    run = f"{command}_{precision}"
    settings = (
        "baselines=false",
        "training.device=cpu",
        f"training.precision={precision}",
        f"training.threads={threads}",
    )
    output = StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        cli.run([command, *DATA[command], *LITTLE, *settings, *further, f"run_dir={run}"])
    last = Path(run, "checkpoints", "step-12")  # as trained: the model's head has a temperature in it
    tensors = load((last / "model.safetensors").read_bytes())
    found = hashlib.sha256()
    for name in sorted(tensors):
        found.update(f"{name} {tensors[name].shape}".encode() + tensors[name].tobytes())
    return found.hexdigest()


def known() -> dict[str, dict[str, str]]:
    """The recorded hashes, by what they depend on and by case."""
    return json.loads(WEIGHTS.read_text(encoding="utf-8"))


def main(arguments: list[str]) -> dict[str, Any]:
    """Run all cases and record them if requested."""
    parser = argparse.ArgumentParser(description="Hashes of the final weights of tiny trainings.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--record", action="store_true", help=f"write them to {WEIGHTS.name}")
    parser.add_argument("settings", nargs="*", help="further settings of each run, such as training.deterministic=true")
    chosen = parser.parse_args(arguments)
    found = {"depends_on": depends_on(chosen.threads), "hashes": hashes(chosen.threads, chosen.settings)}
    if chosen.record:
        recorded = known() if WEIGHTS.exists() else {}
        recorded[found["depends_on"]] = found["hashes"]
        WEIGHTS.write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
