"""Saved results: a JSON file for each, and RESULTS.md, whose tables are rewritten while its prose stays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from encoderlab.errors import DataError

FOLDER = Path(__file__).resolve().parent / "results"
PAGE = Path(__file__).resolve().parent / "RESULTS.md"
Result = dict[str, Any]


def keep(name: str, result: Result) -> None:
    """Write a result to its file."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def kept() -> dict[str, Result]:
    """Return every saved result by name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}


def rewrite(tables: Mapping[str, str]) -> None:
    """Put tables between their markers in RESULTS.md. Raises DataError if one has no place there."""
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")


def with_tables(page: str, tables: Mapping[str, str], title: str = "RESULTS.md") -> str:
    """Return the page with each table between its markers and the rest unchanged. Raises DataError if markers are
    missing.
    """
    for name, table in tables.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise DataError(f"{title} has no place for {name}", remedy=f"Write {begin} and {end} where it belongs")
        page = f"{before}{begin}\n{table}\n{end}{after}"
    return page


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table with numbers aligned right."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---", *["---:"] * (len(head) - 1)], *rows)]


def mebibytes(count: float) -> str:
    """Return a number of bytes in readable units."""
    return f"{count / 2**20:,.0f} MiB"
