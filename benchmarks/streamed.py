"""How the cost of reading a stream grows with its text: the same documents in more and more shards, read by two
processes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backports import zstd

from benchmarks.page import grid, mebibytes
from benchmarks.processes import finished, python
from benchmarks.synthetic import documents

SHARDS, DOCUMENTS = 8, 250  # before they are repeated
WINDOW = 1_000_000
TIMES, TIMES_SMALL = (1, 10, 100, 1_000), (1, 2)


def measure(folder: Path, threads: int, small: bool) -> list[dict[str, Any]]:
    """Return documents per second and peak memory of reading 1 to 1,000 times the text, with `threads` processes of one
    thread.
    """
    per_shard, window = (50, 20_000) if small else (DOCUMENTS, WINDOW)
    texts = documents(SHARDS * per_shard)
    points = []
    for times in TIMES_SMALL if small else TIMES:
        shards = folder / f"shards-{times}"
        characters = _write(shards, texts, per_shard, times)
        total = SHARDS * per_shard * times
        data = (
            "--path",
            f"{shards}/*.zst",
            "--documents",
            str(total),
            "--window",
            str(window),
            "--cache",
            str(folder / "cache"),
        )
        torchrun = (
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={threads}",
            "-m",
            "benchmarks.ours.stream",
        )
        environment = {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
        done = finished(python(*torchrun, *data), environment)
        points.append(
            {"times": times, "shards": SHARDS * times, "characters": characters, **json.loads(done.last_line)}
        )
        print(f"  x{times}: {points[-1]['documents'] / points[-1]['seconds']:,.0f} documents/s", file=sys.stderr)
    return points


def _write(folder: Path, texts: list[str], per_shard: int, times: int) -> int:
    """Write the documents to shards, repeated as often as given; return the total number of characters."""
    folder.mkdir()
    for shard in range(SHARDS):
        some = texts[shard * per_shard : (shard + 1) * per_shard]
        lines = "\n".join(json.dumps({"text": text}) for text in some)
        first = folder / f"{shard:04}.jsonl.zst"
        first.write_bytes(zstd.compress(lines.encode()))
        for copy in range(1, times):
            os.link(first, folder / f"{copy * SHARDS + shard:04}.jsonl.zst")
    return times * sum(map(len, texts))


def streamed_rows(result: Mapping[str, Any]) -> list[str]:
    """Return the rows of the table."""
    rows = []
    for point in result["points"]:
        read = f"{point['documents']:,} in {point['shards']:,} shards"
        speed = f"{point['documents'] / point['seconds']:,.0f}"
        each = f"{point['documents'] / point['processor_seconds']:,.0f}"
        size = f"{point['characters'] / 1e6:,.0f} MB"
        rows.append(
            [
                read,
                size,
                str(point["windows"]),
                f"{point['seconds']:,.1f}",
                speed,
                each,
                mebibytes(point["peak_memory"]),
            ]
        )
    head = ["documents", "text", "windows", "seconds", "documents/s", "per second and core", "peak memory of a process"]
    return grid(head, rows)
