"""A comparison as words and tables: on screen, as Markdown, and as rows of a CSV file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from rich.text import Text

from encoderlab.reports.comparison.comparison import short_names, shown
from encoderlab.reports.comparison.learning_curve import curve_table
from encoderlab.reports.parts.console import (
    console_on,
    figure,
    line,
    listing,
    named_figure,
    number,
    table_of,
    table_of_rows,
)

FIGURES = ("seeds", "mean", "std. dev.", "95% interval", "difference (95% interval)", "p", "seconds")
MOST_FOLDERS = 12
MOST_VALUES = 4  # of a setting, one per line of the table; beyond that, each distinct value once
WIDE = 160  # characters per line if the output is not a terminal, because a wrapped table is unreadable


def show_comparison(comparison: Mapping[str, Any], paths: Mapping[str, str], file: TextIO | None = None) -> None:
    """Print a comparison from `build_comparison`, on standard error unless `file` is given."""
    console = console_on(file)
    console.width = console.width if console.is_terminal else WIDE
    console.print()
    console.print(Text(headline(comparison), style="bold"))
    listing(console, "They differ in", [f"{name}: {' | '.join(values)}" for name, values in _differing(comparison)])
    console.print()
    table = table_of(*columns(comparison))
    for row in comparison["settings"]:
        table.add_row(*cells(row, comparison))
    console.print(table)
    console.print()
    if curve := comparison["learning_curve"]:
        console.print(table_of_rows(curve_table(curve)))
        console.print()
        console.print(Text(f"{curve['verdict']}.", style="bold"), soft_wrap=True)
    for note in comparison["notes"]:
        line(console, "Note", note)
    folders = [run["folder"] for row in comparison["settings"] for run in row["runs"]]
    listing(
        console,
        "Runs",
        [
            *folders[:MOST_FOLDERS],
            *([f"and {len(folders) - MOST_FOLDERS} more"] if len(folders) > MOST_FOLDERS else []),
        ],
    )
    if paths:
        listing(console, "Files", [f"{name}: {path}" for name, path in paths.items()])


def headline(comparison: Mapping[str, Any]) -> str:
    """Return what is compared, in one line."""
    rows = comparison["settings"]
    runs = sum(row["n"] for row in rows)
    settings = "one setting" if len(rows) == 1 else f"{len(rows)} settings"
    where = f"{comparison['split']} ({comparison['rows']:,} rows)"
    counted = "1 run" if runs == 1 else f"{runs} runs"
    figure = named_figure(comparison["figure"], comparison)
    return f"{figure[:1].upper()}{figure[1:]} of {counted} of {comparison['task']} on {where}: {settings}"


def _differing(comparison: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Return every setting that differs with its values, in the order of the table; first those that distinguish all
    runs.
    """
    distinguishing = comparison["varied"]
    ordered = sorted(comparison["differing"].items(), key=lambda one: one[0] not in distinguishing)
    return [(name, values if len(values) <= MOST_VALUES else list(dict.fromkeys(values))) for name, values in ordered]


def columns(comparison: Mapping[str, Any]) -> list[str]:
    """Return the column names of the table: the distinguishing settings, and the figures."""
    return [*(short_names(comparison["varied"]) or [""]), *FIGURES]


def cells(row: Mapping[str, Any], comparison: Mapping[str, Any]) -> list[str]:
    """Return a setting's line of the table, one cell for each of its `columns`."""
    difference = row["difference"]
    is_reference = row["label"] == comparison["reference"] and len(comparison["settings"]) > 1
    if difference is None:
        against, p_value = ("the reference" if is_reference else ""), ""
    else:
        against = f"{difference['value']:+.3f}{_bounds(difference['interval'], '+.3f')}"
        p_value = _p_value(difference)
    interval = _bounds(row["interval"], ".3f").strip(" ()") + (" over rows" if row["interval_over"] == "rows" else "")
    deviation = figure(row["deviation"])
    values = [shown(row["values"][name]) for name in comparison["varied"]] or [row["label"]]
    return [
        *values,
        str(row["n"]),
        figure(row["value"]),
        deviation,
        interval,
        against,
        p_value,
        number(row["train_seconds"]),
    ]


def _bounds(interval: list[float] | None, form: str) -> str:
    return f" ({interval[0]:{form}} to {interval[1]:{form}})" if interval else ""


def _p_value(difference: Mapping[str, Any]) -> str:
    corrected = difference["p_corrected"]
    if corrected is None:
        return "-"
    marked = "" if difference["outcome"] == "not distinguishable" else f" {difference['outcome']}"
    return ("<0.001" if corrected < 0.001 else f"{corrected:.3f}") + marked


def markdown(comparison: Mapping[str, Any]) -> str:
    """Return the comparison as a section of a Markdown document."""
    lines = [f"## {escaped(headline(comparison))}", ""]
    lines += rows_of_table(columns(comparison), [cells(row, comparison) for row in comparison["settings"]])
    if curve := comparison["learning_curve"]:
        heading, *rows = curve_table(curve)
        lines += ["", "### Learning curve", "", f"{escaped(curve['verdict'])}.", "", *rows_of_table(heading, rows)]
    lines += ["", *(f"- {escaped(note)}." for note in comparison["notes"])]
    if comparison["differing"]:
        labels = [row["label"] for row in comparison["settings"]]
        rows = [[name, *values] for name, values in comparison["differing"].items()]
        lines += ["", "### Settings that differ", "", *rows_of_table(["", *labels], rows)]
    lines += [
        "",
        "### Runs",
        "",
        *(f"- {escaped(run['folder'])}" for row in comparison["settings"] for run in row["runs"]),
    ]
    return "\n".join(lines) + "\n"


def rows_of_table(head: Any, rows: Any) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    for one in (head, ["---", *["---:"] * (len(head) - 1)], *rows):
        yield "| " + " | ".join(escaped(cell) if set(cell) - {"-", ":"} else cell for cell in one) + " |"


def escaped(text: str) -> str:
    """Return the text escaped for Markdown: without table cells, tags or emphasis."""
    escaped = "".join(f"\\{letter}" if letter in "\\`*_{}[]<>#|~" else letter for letter in text)
    return " ".join(escaped.split())
