"""Saved results: a JSON file of each promise's trials, and the table of RELIABILITY.md made from them."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import provenance, provenance_in_words
from benchmarks.page import with_tables
from benchmarks.processes import ROOT
from faults.promise import Promise, Trial

FOLDER = Path(__file__).resolve().parent / "results"
PAGE = ROOT / "RELIABILITY.md"
TABLE = "promises"
CONFIDENCE = 0.95
HEAD = ("promise", "test", "trials", "failures", "95% upper bound", "to repeat")
Result = dict[str, Any]


def result(promise: Promise, trials: Sequence[Trial], seed: int, seconds: float, command: str) -> Result:
    """Return the result of a promise's trials."""
    failed = [{"case": trial.case, "failure": trial.failure} for trial in trials if trial.failure]
    counts = {"trials": len(trials), "failures": len(failed), "upper_bound": upper_bound(len(failed), len(trials))}
    how = {"seed": seed, "seconds": round(seconds, 1), "command": command, "time": time.strftime("%H:%M:%S")}
    return {**counts, "failed": failed, **how, "instruction_set": _instruction_set(), **provenance()}


def upper_bound(failures: int, trials: int) -> float:
    """Return the upper 95% bound on the failure rate by Clopper and Pearson (1934, one-sided).

    If the trials cover every case, such as every call, nothing was sampled: the bound is what as many random trials
    would show.
    """
    from scipy.stats import binomtest

    found = binomtest(failures, trials, alternative="less").proportion_ci(CONFIDENCE, method="exact")
    return float(found.high)


def keep(name: str, found: Result) -> None:
    """Write a result to its file."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def kept() -> dict[str, Result]:
    """Return every saved result by name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}


def rewrite(promises: Sequence[Promise]) -> None:
    """Put the table into RELIABILITY.md. Raises DataError if it has no place there."""
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), {TABLE: table(promises, kept())}), encoding="utf-8")


def table(promises: Sequence[Promise], results: dict[str, Result]) -> str:
    """Return a row for each promise, the failures below, and where the figures come from."""
    lines = [_row(HEAD), _row(["---", "---", "---:", "---:", "---:", "---"])]
    lines += [_row(_cells(promise, results.get(promise.name))) for promise in promises]
    measured = [promise.name for promise in promises if promise.name in results]
    failures = [f"* {name}, {one['case']}: {one['failure']}" for name in measured for one in results[name]["failed"]]
    if failures:
        lines += ["", "What failed:", "", *failures]
    return "\n".join([*lines, "", *_sources({name: results[name] for name in measured})])


def _cells(promise: Promise, found: Result | None) -> list[str]:
    test, command = f"`{promise.test}`", f"`{promise.command}`"
    if found is None:
        return [promise.sentence, test, "not tried", "", "", command]
    return [
        promise.sentence,
        test,
        f"{found['trials']:,}",
        str(found["failures"]),
        f"{found['upper_bound']:.2%}",
        command,
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _sources(results: dict[str, Result]) -> list[str]:
    """Return a line for each machine and state of the code that figures come from."""
    made: dict[str, list[str]] = {}
    for name, found in results.items():
        made.setdefault(f"{provenance_in_words(found)}; {found['instruction_set']}", []).append(name)
    return [f"{', '.join(names)}: {source}." for source, names in made.items()]


def _instruction_set() -> str:
    import torch

    return torch.backends.cpu.get_cpu_capability()
