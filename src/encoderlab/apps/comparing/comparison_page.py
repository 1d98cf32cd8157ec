"""A comparison of runs on screen and page, and as one table for a paper or a spreadsheet."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from encoderlab.apps.comparing import plots
from encoderlab.apps.comparing.comparison import short_folders
from encoderlab.errors import DataError, SettingError
from encoderlab.metrics.scores import is_lower_better
from encoderlab.reports import wording
from encoderlab.reports.blocks import Block, Heading, Items, Plot, Table, Text, show, write_html_json
from encoderlab.reports.predictions import quoting_writer
from encoderlab.system.files import atomic_write_text

MEASURED = ("seeds", "mean", "std. dev.", "95% interval", "difference (95% interval)", "p", "seconds")
OF_PAPERS = ("seeds", "mean", "95% interval", "difference", "95% interval", "p")
_SIGNED = re.compile(r"\[[+-]?\d|[+-]\d")  # a number with a sign, or an interval
MOST_COMBINATIONS = 0.75  # of the values of two factors: with fewer runs than these, a heat map is mostly empty
SUFFIXES = (".csv", ".md", ".tex")
IN_TEX = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}


def headline(comparison: Mapping[str, Any]) -> str:
    """Return what is compared, in one line."""
    rows = comparison["settings"]
    name = wording.named_score(comparison["score"], comparison)
    counts = f"{wording.counted(sum(row['n'] for row in rows), 'run')} of {comparison['task']}"
    where = (
        f"{comparison['split']} ({wording.counted(comparison['rows'], 'row')}): {wording.counted(len(rows), 'setting')}"
    )
    return f"{name[:1].upper()}{name[1:]} of {counts} on {where}"


def show_comparison(comparison: Mapping[str, Any], paths: Mapping[str, str], file: TextIO | None = None) -> None:
    """Print a comparison from `build_comparison`, on standard error unless `file` is given."""
    show([Heading(headline(comparison)), *_blocks(comparison), Items.files(paths)], file)


def _blocks(comparison: Mapping[str, Any], drawn: Sequence[Plot] = ()) -> list[Block]:
    """Return what page and screen show below the headline."""
    better = "; lower is better" if is_lower_better(comparison["score"]) else ""
    relative = f"Differences are relative to {comparison['reference']}, on the same rows{better}."
    where, names = _folders([run["folder"] for row in comparison["settings"] for run in row["runs"]])
    runs = []
    for row in comparison["settings"]:
        for run in row["runs"]:
            runs.append(f"{names[run['folder']]} (seed {run['seed']}, {run['score']:.4f})")
    differing = [f"{name}: {' | '.join(_in_order(values))}" for name, values in comparison["differing"].items()]
    return [
        Text(relative if len(comparison["settings"]) > 1 else "", tone="quiet"),
        _table(comparison),
        *(Text(note, "Note") for note in comparison["notes"]),
        *drawn,
        Items("They differ in", differing),
        Items("They also differ in, though nobody typed it", list(_not_typed(comparison["not_typed"], names))),
        Items(f"Runs in {where}" if where else "Runs", runs),
    ]


def _folders(folders: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the folder that all runs are in, and their names inside it. Relative paths stay whole: ("", these)."""
    if not any(Path(folder).is_absolute() for folder in folders):
        return "", {folder: folder for folder in folders}
    absolute = {folder: str(Path(folder).absolute()) for folder in folders}
    parent = os.path.commonpath([str(Path(path).parent) for path in absolute.values()])
    return parent, {folder: os.path.relpath(path, parent) for folder, path in absolute.items()}


def _in_order(values: Sequence[str]) -> list[str]:
    """Return the different values, in the order of their numbers if all are numbers."""
    different = list(dict.fromkeys(values))
    try:
        return sorted(different, key=float)
    except ValueError:
        return different


def _not_typed(differing: Mapping[str, Mapping[str, Sequence[str]]], names: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each fact of the machine: its values, and the runs of all but the most frequent one."""
    for name, by_value in differing.items():
        usual = max(by_value, key=lambda value: len(by_value[value]))
        parts = [usual]
        for value, folders in by_value.items():
            if value != usual:
                short = short_folders([names.get(folder, folder) for folder in folders])
                parts.append(f"{value} ({', '.join(short.values())})")
        yield f"{name}: {' | '.join(parts)}"


def _table(comparison: Mapping[str, Any]) -> Table:
    """Return a row for each setting: its scores, and its difference from the reference. The baselines follow."""
    rows = comparison["settings"]
    rows_differ = len({row["training_rows"] for row in rows}) > 1  # as in a learning curve
    cells = []
    for row in rows:
        difference = row["difference"]
        if difference is None:
            against = "the reference" if len(rows) > 1 else ""
            p_value = ""
        else:
            against = wording.signed(difference["value"], difference["interval"])
            p_value = _p_value(difference)
        interval = wording.interval(row["interval"])
        if row["interval_over"] == "rows":
            interval += " over rows"
        n_rows = [wording.number(row["training_rows"])] if rows_differ else []
        measured = [str(row["n"]), wording.score(row["value"]), wording.score(row["deviation"]), interval]
        cells.append([row["label"], *n_rows, *measured, against, p_value, wording.number(row["train_seconds"])])
    for baseline in comparison["baselines"]:
        n_rows = [""] if rows_differ else []
        measured = ["", wording.score(baseline["value"]), "", wording.interval(baseline["interval"]), "", ""]
        cells.append([baseline["label"], *n_rows, *measured, wording.number(baseline["seconds"])])
    columns = ["setting", *(["training rows"] if rows_differ else []), *MEASURED]
    return Table(columns, cells, marked=[row["label"] for row in rows].index(comparison["reference"]))


def _p_value(difference: Mapping[str, Any]) -> str:
    """Return a corrected p-value in words, and what it says of a setting."""
    p_corrected = difference["p_corrected"]
    if p_corrected is None:
        return "-"
    words = "<0.001" if p_corrected < 0.001 else f"{p_corrected:.3f}"
    is_clear = difference["outcome"] in ("higher", "lower")
    return f"{words} {difference['outcome']}" if is_clear else words


def write_comparison(folder: Path, comparison: Mapping[str, Any]) -> dict[str, str]:
    """Write compare.json, and compare.html with a plot of several settings, into `folder`; of two factors that were
    combined, also a heat map.

    Return their paths by name. Raises DataError if the folder cannot be written to.
    """
    metric = wording.words_of(comparison["score"])
    rows = comparison["settings"]
    drawn: list[Plot] = []
    if len(rows) > 1:
        what = f"{metric.capitalize()} of each setting: a mark for each seed, the mean and its 95% interval."
        drawn = [Plot(plots.settings_plot(rows, comparison["reference"], metric), what)]
    grid = _grid(comparison)
    if grid is not None:
        (first, second), means = grid
        what = f"Mean {metric} by {first} and {second}."
        drawn.append(Plot(plots.grid_plot(means, first, second, metric), what))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_html_json(folder / "compare.html", headline(comparison), _blocks(comparison, drawn), comparison)
    except OSError as error:
        raise _not_writable(folder, error) from None
    return {kind: str(folder / f"compare.{kind}") for kind in ("html", "json")}


def _grid(comparison: Mapping[str, Any]) -> tuple[list[str], dict[str, dict[str, float]]] | None:
    """Return the names of two factors, and the mean scores by the first one's values and the second one's; None if the
    settings are not most combinations of two.
    """
    factors = comparison["factors"]
    if len(factors) != 2:
        return None
    first, second = (_in_order(values) for values in factors.values())
    rows = comparison["settings"]
    if min(len(first), len(second)) < 2 or len(rows) <= MOST_COMBINATIONS * len(first) * len(second):
        return None
    means: dict[str, dict[str, float]] = {value: dict.fromkeys(second, float("nan")) for value in first}
    for row, down, across in zip(rows, *factors.values(), strict=True):
        means[down][across] = row["value"]
    return list(factors), means


# One table in a file of its own.


def is_one_table(output: Path, *, overwrite: bool) -> bool:
    """Return whether a comparison is to be written as one table, and not into a folder.

    Raises SettingError for a file of another kind, or one that exists unless it may be overwritten.
    """
    if output.suffix.lower() not in SUFFIXES:
        if output.is_file() or (output.suffix[1:].isalpha() and not output.is_dir()):
            allowed = f"a folder, or a table that ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
            remedy = f"Set output={output.with_suffix('')} for a folder with a page, or {output.with_suffix('.csv')}"
            raise SettingError(f"output={output} is no kind of table", allowed=allowed, remedy=remedy)
        return False
    if output.is_dir():
        raise SettingError(f"output={output} is a folder", remedy="Choose another name for the table")
    if output.exists() and not overwrite:
        raise SettingError(f"output={output} already exists", remedy="Set overwrite=true, or choose another name")
    return True


def write_as_table(path: Path, comparison: Mapping[str, Any]) -> dict[str, str]:
    """Write the comparison as a table in the format that the file's name ends with; return its path by name.

    A csv has every number in full and in a cell of its own, the others what a paper shows. Raises DataError if the file
    cannot be written.
    """
    form = path.suffix.lower()
    text = _as_csv(comparison) if form == ".csv" else _for_paper(comparison, in_tex=form == ".tex")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write_text(path, text)
    except OSError as error:
        raise _not_writable(path, error) from None
    return {"table": str(path)}


def _not_writable(path: Path, error: OSError) -> DataError:
    problem = f"{path} cannot be written to: {error.strerror or error}"
    return DataError(problem, remedy="Set output=... to a place you can write to")


def _as_csv(comparison: Mapping[str, Any]) -> str:
    """Return a row for each setting and baseline, with a column for each factor."""
    factors = comparison["factors"]
    columns = ["setting", *factors, "training_rows", "seeds", "mean", "deviation", "low", "high", "interval_over"]
    columns += ["difference", "difference_low", "difference_high", "p", "p_corrected", "outcome", "train_seconds"]
    file = io.StringIO()
    writer = quoting_writer(file)
    writer.writerow(columns)
    for number, row in enumerate(comparison["settings"]):
        own = [_number(values[number]) for values in factors.values()]
        low, high = row["interval"] or (None, None)
        measured = [row["training_rows"], row["n"], row["value"], row["deviation"], low, high, row["interval_over"]]
        difference = row["difference"] or {}
        further = [difference.get("value"), *(difference.get("interval") or (None, None))]
        further += [difference.get(name) for name in ("p_value", "p_corrected", "outcome")]
        writer.writerow([row["label"], *own, *measured, *further, row["train_seconds"]])
    for baseline in comparison["baselines"]:
        low, high = baseline["interval"] or (None, None)
        own = [None] * len(factors)
        further = [None] * 6
        measured = [None, None, baseline["value"], None, low, high, "rows" if baseline["interval"] else None]
        writer.writerow([baseline["label"], *own, *measured, *further, baseline["seconds"]])
    return file.getvalue()


def _number(text: str) -> float | int | str:
    """Return the number that a text is, or the text."""
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _for_paper(comparison: Mapping[str, Any], *, in_tex: bool) -> str:
    """Return the table in Markdown, or as LaTeX for the package booktabs; what it shows is in a line above or below."""
    factors = comparison["factors"]
    lines = []
    for number, row in enumerate(comparison["settings"]):
        names = [values[number] for values in factors.values()] or [row["label"]]
        difference = row["difference"]
        against = ["", "", ""]
        if difference is not None:
            p_words = _p_words(difference["p_corrected"])
            against = [f"{difference['value']:+.3f}", _bounds(difference["interval"], "+.3f"), p_words]
        mean = wording.score(row["value"])
        if row["deviation"] is not None:
            mean += f" ± {wording.score(row['deviation'])}"
        lines.append([*names, str(row["n"]), mean, _bounds(row["interval"], ".3f"), *against])
    for baseline in comparison["baselines"]:
        names = [baseline["label"], *[""] * (max(len(factors), 1) - 1)]
        lines.append([*names, "", wording.score(baseline["value"]), _bounds(baseline["interval"], ".3f"), "", "", ""])
    columns = [*(factors or ["setting"]), *OF_PAPERS]
    corrected = "p by Holm, intervals uncorrected"
    about = f"{headline(comparison)}. Differences are relative to {comparison['reference']}; {corrected}."
    n_texts = max(len(factors), 1)
    return _tex(about, columns, lines, n_texts) if in_tex else _markdown(about, columns, lines, n_texts)


def _p_words(p_value: float | None) -> str:
    """Return a p-value as a table shows it; "" if there is none."""
    if p_value is None:
        return ""
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _bounds(bounds: Sequence[float] | None, form: str) -> str:
    """Return an interval as papers write it, without a blank at which a line could break."""
    return f"[{bounds[0]:{form}},\N{NO-BREAK SPACE}{bounds[1]:{form}}]" if bounds else ""


def _markdown(about: str, columns: Sequence[str], lines: Sequence[Sequence[str]], n_texts: int) -> str:
    rule = ["---" if number < n_texts else "---:" for number in range(len(columns))]
    rows = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in (columns, *lines)]
    table = [f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:])]
    return "\n".join([*table, "", about, ""])


def _tex(about: str, columns: Sequence[str], lines: Sequence[Sequence[str]], n_texts: int) -> str:
    kinds = "l" * n_texts + "r" * (len(columns) - n_texts)
    rows = [" & ".join(map(_in_tex, row)) + r" \\" for row in (columns, *lines)]
    table = [r"\begin{tabular}{" + kinds + "}", r"\toprule", rows[0], r"\midrule", *rows[1:]]
    return "\n".join([f"% {' '.join(about.split())}", *table, r"\bottomrule", r"\end{tabular}", ""])


def _in_tex(cell: str) -> str:
    """Return a cell in LaTeX; numbers with a sign are formulas, so that it is a minus and not a hyphen."""
    written = "".join(IN_TEX.get(character, character) for character in cell)
    written = written.replace("\N{NO-BREAK SPACE}", "~").replace(" ± ", r"$\,\pm\,$")
    return f"${written.replace('~', chr(92) + ',')}$" if _SIGNED.match(cell) else written
