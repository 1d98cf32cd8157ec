"""The result of a measurement on a GPU as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.gpu.correctness import STEPS
from benchmarks.gpu.speeds import COMPILED
from benchmarks.machine import provenance_in_words
from benchmarks.page import grid


def gpu_table(result: Mapping[str, Any]) -> str:
    """Return three tables (agreement with the CPU, exact resuming, speeds), and what failed or was dropped."""
    parts = [
        _agreement(result["agreement"]),
        _resumed(result["resume"]),
        _speeds(result["speeds"]),
        [f"**{failed['name']} failed**: {failed['reason']}" for failed in result["failed"]],
        [_dropped(result)] if result["dropped"] else [],
        [f"Device {result['device']}. {provenance_in_words(result)}."],
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _agreement(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    head = [
        f"{STEPS} steps, compared with fp32 on the CPU",
        "first loss differs by",
        "any loss by",
        "gradient norms by",
        "",
    ]
    cells = [
        [
            row["name"],
            f"{row['first_loss']:.1e} (at most {row['first_bound']:.0e})",
            f"{row['loss']:.1e} (at most {row['bound']:.0e})",
            f"{row['gradient_norm']:.1%}",
            _verdict(row, "agrees"),
        ]
        for row in rows
    ]
    return grid(head, cells) if rows else []


def _resumed(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    head = ["a run cut in two, deterministic", "losses", "weights", ""]
    words = {True: "bit-identical", False: "different"}
    cells = [
        [row["name"], words[row["losses_equal"]], words[row["weights_equal"]], _verdict(row, "exact")] for row in rows
    ]
    return grid(head, cells) if rows else []


def _speeds(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    head = [
        "model, length",
        "packed",
        "compiled",
        "batch",
        "real tokens/s",
        "padding",
        "first step after",
        "roof",
        "mfu",
    ]
    cells = [
        [
            f"{row['model']}, {row['length']}",
            "yes" if row["packed"] else "no",
            {"never": "no", "always": "yes", "cuda_graphs": "with CUDA graphs"}[row["compile"]],
            f"{row['batch_size']:,}",
            f"{row['tokens_per_second']:,.0f}",
            f"{row['padding']:.1%}",
            f"{row['first_step_seconds']:.0f} s",
            f"{row['roof'] / 1e12:,.2f} TFLOP/s",
            f"{row['mfu']:.1%}",
        ]
        for row in sorted(rows, key=_place)
    ]
    return grid(head, cells) if rows else []


def _place(row: Mapping[str, Any]) -> tuple[str, int, bool, int]:
    return row["model"], row["length"], row["packed"], list(COMPILED).index(row["compile"])


def _verdict(row: Mapping[str, Any], passed: str) -> str:
    return passed if row["passed"] else "**failed**"


def _dropped(result: Mapping[str, Any]) -> str:
    return f"Dropped, because {result['minutes']:g} minutes were not enough: {'; '.join(result['dropped'])}."
