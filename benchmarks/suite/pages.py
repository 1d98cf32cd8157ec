"""SUITE.md, its chart, and the results it is made from: tables are rewritten, prose stays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.page import with_tables
from benchmarks.suite.chart import draw
from benchmarks.suite.sets import GROUPS, SETS
from benchmarks.suite.tables import commands, origins, set_table, summary
from benchmarks.suite.targets import targets_table
from encoderlab.errors import DataError

NAME, CHART = "SUITE.md", "suite.png"
SHIPPED = Path(__file__).resolve().parents[1] / NAME
Result = dict[str, Any]


def results_folder(folder: Path) -> Path:
    """Return the folder of the results for the page in `folder`: a JSON file for each data set."""
    return folder / "results" / "suite"


def write(folder: Path) -> int:
    """Write SUITE.md and its chart into `folder` from the results there, and return the number of data sets.

    A folder without SUITE.md gets the shipped page. Raises DataError if there are no results.
    """
    results = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in results_folder(folder).glob("*.json")
    }
    if not results:
        raise DataError(f"{results_folder(folder)} holds no results", remedy="Run python -m benchmarks suite first")
    page = folder / NAME
    text = (page if page.is_file() else SHIPPED).read_text(encoding="utf-8")
    page.write_text(with_tables(text, tables(results), NAME), encoding="utf-8")
    draw(results, folder / CHART)
    return len(results)


def tables(results: Mapping[str, Result]) -> dict[str, str]:
    """Return what goes between the markers of the page, by their names."""
    chart = f"![Scores on each data set, and how far each kind of run is ahead of the linear model]({CHART})"
    return {
        "summary": f"{summary(results)}\n\n{chart}",
        "targets": targets_table(results),
        "sets": "\n\n".join(_sections(results)),
        "origins": origins(results),
        "commands": commands(results),
    }


def _sections(results: Mapping[str, Result]) -> list[str]:
    found = []
    for group, title in GROUPS.items():
        names = [name for name, one in SETS.items() if one.group == group and name in results]
        found += [f"## {title}"] if names else []
        found += [f"### {name}\n\n{set_table(results[name])}" for name in names]
    return found
