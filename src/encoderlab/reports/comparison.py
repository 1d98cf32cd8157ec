"""Compares runs: the settings that differ, their scores over seeds, and how far each setting is from a reference."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO, TypeGuard

from encoderlab.errors import DataError, SettingError, closest
from encoderlab.metrics.comparison import (
    PAIRED,
    Difference,
    difference_over_seeds,
    holm,
    mean_over_runs,
    paired_difference,
)
from encoderlab.metrics.scores import is_lower_better
from encoderlab.reports import plots
from encoderlab.reports.finished import FinishedRun, check_comparable, read_answers
from encoderlab.reports.page import page
from encoderlab.reports.predictions import as_csv
from encoderlab.reports.screen import show
from encoderlab.reports.tables import (
    OF_POSITIVE,
    Block,
    Heading,
    Items,
    Plot,
    Table,
    Text,
    counted,
    interval,
    json_safe,
    named_score,
    notes,
    number,
    score,
    words_of,
)
from encoderlab.system.files import atomic_write, atomic_write_text

LEVEL = 0.05
BOOTSTRAP_SEED = 0  # fixed, so that the same command prints the same numbers
SHARE, TRAINING_ROWS = "dataset.train_share", "training rows"
MEASURED = ("seeds", "mean", "std. dev.", "95% interval", "difference (95% interval)", "p", "seconds")
MOST_FOLDERS, MOST_VALUES = 12, 4  # printed
MOST_SWEPT, MOST_LINES, MOST_SETTINGS = 6, 12, 60  # drawn
WIDE = 160  # characters per line if the output is not a terminal, because a wrapped table is unreadable


@dataclass(frozen=True, slots=True)
class Setting:
    """Runs that differ only in their seeds. `values` are the settings in which it differs from the others."""

    label: str
    values: dict[str, Any]
    runs: list[FinishedRun]


def settings_of(runs: Sequence[FinishedRun]) -> tuple[list[Setting], list[str]]:
    """Return the runs by their settings, and notes on skipped ones: of runs with equal settings and seed, the newest is
    kept.
    """
    names = dict.fromkeys(name for run in runs for name in run.settings)
    differing = [name for name in names if len({repr(run.settings.get(name)) for run in runs}) > 1]
    groups: dict[str, dict[int, FinishedRun]] = {}
    repeated = 0
    for run in sorted(runs, key=lambda run: (run.folder / "report.json").stat().st_mtime_ns):
        group = groups.setdefault(repr([run.settings.get(name) for name in differing]), {})
        repeated += run.seed in group
        group[run.seed] = run
    ordered = [[group[seed] for seed in sorted(group)] for group in groups.values()]
    values = [{name: group[0].settings.get(name) for name in differing} for group in ordered]
    varied = distinguishing(values)
    short = short_names(varied)
    settings = []
    for value, group in zip(values, ordered, strict=True):
        words = (f"{word}={setting_value(value[name])}" for word, name in zip(short, varied, strict=True))
        settings.append(Setting(", ".join(words) or "all runs", value, group))
    as_met = {name: list(dict.fromkeys(repr(value[name]) for value in values)) for name in varied}
    settings.sort(key=lambda setting: [_order(setting.values[name], as_met[name]) for name in varied])
    note = f"Skipped {repeated} of the runs, because a newer one has the same settings and seed"
    return settings, [note] if repeated else []


def _order(value: Any, as_met: Sequence[str]) -> tuple[bool, float]:
    """Return the sort key: numbers by size, then everything else in the order of the runs, such as
    `model=tiny,mini,small`.
    """
    return not _is_number(value), float(value) if _is_number(value) else as_met.index(repr(value))


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def distinguishing(values: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return as few of the differing settings as distinguish all runs, first those that imply others.

    `encoder` implies the shape of tiny, mini and small, and the settings of a pretrained encoder; a setting that all
    have is preferred to one that some lack.
    """

    def says_less(name: str) -> tuple[bool, ...]:
        return name != "encoder", name.rpartition(".")[2] != "name", any(value[name] is None for value in values)

    def kinds(names: Sequence[str]) -> int:
        return len({repr([value[name] for name in names]) for value in values})

    chosen: list[str] = []
    for name in sorted(values[0], key=says_less) if values else []:
        if kinds([*chosen, name]) > kinds(chosen):
            chosen.append(name)
    for name in reversed(chosen):
        others = [other for other in chosen if other != name]
        chosen = others if kinds(others) == kinds(chosen) else chosen
    return chosen


def short_names(names: Sequence[str]) -> list[str]:
    """Return the names without their groups if that is unambiguous."""
    last = [name.rpartition(".")[2] for name in names]
    return [
        name if last.count(end) > 1 or end in ("name", "path") else end for name, end in zip(names, last, strict=True)
    ]


def setting_value(value: Any) -> str:
    """Return a setting's value as a user writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def build_comparison(
    runs: Sequence[FinishedRun], figure: str | None = None, reference: str | None = None
) -> dict[str, Any]:
    """Return the content of compare.json: JSON-safe.

    `figure` names the score (None: the one the reports show first), `reference` the folder of a run that the others are
    compared with (None: the best). Raises DataError if the runs cannot be compared, SettingError for a score they do
    not have.
    """
    check_comparable(runs)
    figure = _checked_score(runs, figure)
    settings, skipped = settings_of(runs)
    means = [mean_over_runs([run.scores[figure] for run in setting.runs]) for setting in settings]
    place = _reference(settings, [mean.value for mean in means], figure, reference)
    differences = _differences(settings, place, figure)
    rows = [
        _row(setting, figure, asdict(mean), difference)
        for setting, mean, difference in zip(settings, means, differences, strict=True)
    ]
    first = runs[0]
    return json_safe(
        {
            "task": first.report["task"],
            "split": first.split,
            "rows": first.scores["n"],
            "figure": figure,
            "positive_label": first.scores.get("positive_label"),
            "differing": {
                name: [setting_value(setting.values[name]) for setting in settings] for name in settings[0].values
            },
            "varied": distinguishing([setting.values for setting in settings]),
            "reference": settings[place].label,
            "settings": rows,
            "notes": [*skipped, *_notes(settings, differences, first, is_best=reference is None)],
        }
    )


def _checked_score(runs: Sequence[FinishedRun], figure: str | None) -> str:
    first, *others = dict.fromkeys(run.report["main_figure"] for run in runs)
    if figure is None and others:
        remedy = f"Set figure={' or figure='.join((first, *others))}"
        raise SettingError(f"The runs have different main scores: {' and '.join((first, *others))}", remedy=remedy)
    figure = str(figure or first)
    labels = dict.fromkeys(str(run.scores.get("positive_label")) for run in runs)
    if figure in OF_POSITIVE and len(labels) > 1:
        remedy = "Set figure=f1_macro, or train with one task.positive_label"
        raise SettingError(f"{figure} refers to different labels: {' and '.join(labels)}", remedy=remedy)
    for run in runs:
        if not _is_number(value := run.scores.get(figure)) or not math.isfinite(value):
            known = [name for name, value in run.scores.items() if isinstance(value, float)]
            near = closest(figure, known)
            remedy = f"Did you mean figure={near}?" if near and near != figure else ""
            raise SettingError(f"{run.folder} has no score {figure}", allowed=", ".join(known), remedy=remedy)
    return figure


def _reference(settings: Sequence[Setting], means: Sequence[float], figure: str, reference: str | None) -> int:
    if reference is None:
        return means.index(min(means) if is_lower_better(figure) else max(means))
    folder = Path(reference).resolve()
    for place, setting in enumerate(settings):
        if any(folder == run.folder.resolve() for run in setting.runs):
            return place
    folders = ", ".join(str(setting.runs[0].folder) for setting in settings)
    wrong = f"reference={reference} is not one of the compared runs"
    raise SettingError(wrong, allowed=f"one of them, such as {folders}")


def _differences(settings: Sequence[Setting], place: int, figure: str) -> list[dict[str, Any] | None]:
    """Return each setting's difference from the reference; None for the reference. p-values are corrected over all of
    them.
    """
    if len(settings) < 2:
        return [None]
    runs = [run for setting in settings for run in setting.runs]
    is_paired = figure in PAIRED and all(run.predictions.is_file() for run in runs)
    answers = dict(zip((run.folder for run in runs), read_answers(runs), strict=True)) if is_paired else {}

    def difference(setting: Setting) -> Difference:
        sides = (setting, settings[place])
        if is_paired:
            mine, other = ([answers[run.folder] for run in side.runs] for side in sides)
            return paired_difference(mine, other, figure, BOOTSTRAP_SEED)
        return difference_over_seeds(*([run.scores[figure] for run in side.runs] for side in sides))

    measured = {other: asdict(difference(setting)) for other, setting in enumerate(settings) if other != place}
    tested = [one for one in measured.values() if one["p_value"] is not None]
    corrected = iter(holm([one["p_value"] for one in tested]))
    for one in measured.values():
        one["p_corrected"] = next(corrected) if one["p_value"] is not None else None
        one["outcome"] = _outcome(one["value"], one["p_corrected"])
    return [measured.get(other) for other in range(len(settings))]


def _outcome(value: float, p_corrected: float | None) -> str:
    if p_corrected is None:
        return "not tested"
    return ("higher" if value > 0 else "lower") if p_corrected < LEVEL else "not distinguishable"


def _row(setting: Setting, figure: str, mean: dict[str, Any], difference: dict[str, Any] | None) -> dict[str, Any]:
    """Return one setting: its mean over the runs. With one run, the interval is the run's own, over the rows."""
    first = setting.runs[0]
    own = first.scores.get(f"{figure}_ci95")
    seconds = [run.seconds for run in setting.runs if run.seconds is not None]
    return {
        "label": setting.label,
        "values": setting.values,
        **mean,
        "interval": mean["interval"] or own,
        "interval_over": "seeds" if mean["interval"] else "rows" if own else None,
        "parameters": first.report["model"]["parameters"],
        "training_rows": first.training_rows,
        "train_seconds": sum(seconds) / len(seconds) if seconds else None,
        "runs": [{"folder": str(run.folder), "seed": run.seed, "score": run.scores[figure]} for run in setting.runs],
        "difference": difference,
    }


def _notes(
    settings: Sequence[Setting], differences: Sequence[dict[str, Any] | None], first: FinishedRun, *, is_best: bool
) -> Iterator[str]:
    """Yield notes that a reader of the table should know."""
    tests = [difference["test"] for difference in differences if difference and difference["p_value"] is not None]
    lacking = [str(run.folder) for setting in settings for run in setting.runs if not run.predictions.is_file()]
    if lacking and len(settings) > 1:
        yield f"Nothing is compared row by row, because {', '.join(lacking[:3])} has no predictions.csv"
    if any(len(setting.runs) == 1 for setting in settings):
        yield "With one seed, the interval covers the rows but not the variation between seeds. Add seeds"
    if any(len(setting.runs) > 1 for setting in settings):
        yield "Intervals over seeds are Student's t; they do not cover the choice of rows"
    if tests:
        yield f"Differences are tested by {' and '.join(sorted(set(tests)))}"
    if len(tests) > 1:
        yield f"p-values are corrected for {len(tests)} comparisons by Holm's method; the intervals are not corrected"
    if len(tests) > 1 and is_best:
        yield "The reference was chosen as the best on these same rows, so its score is slightly too good"
    if first.report["checkpoint"].get("chosen_on") == first.split:
        yield (
            f"Checkpoints were chosen on {first.split}, the split that is compared, so all scores are slightly too good"
        )


def headline(comparison: Mapping[str, Any]) -> str:
    """Return what is compared, in one line."""
    rows = comparison["settings"]
    settings = "one setting" if len(rows) == 1 else f"{len(rows)} settings"
    where = f"{comparison['split']} ({comparison['rows']:,} rows)"
    name = named_score(comparison["figure"], comparison)
    runs = counted(sum(row["n"] for row in rows), "run")
    return f"{name[:1].upper()}{name[1:]} of {runs} of {comparison['task']} on {where}: {settings}"


def settings_table(comparison: Mapping[str, Any]) -> Table:
    """Return a row for each setting: what distinguishes it, its scores, and its difference from the reference."""
    varied, rows = comparison["varied"], comparison["settings"]
    counts = [TRAINING_ROWS] if SHARE in varied else []
    columns = [*(short_names(varied) or [""]), *counts, *MEASURED]
    reference = [row["label"] == comparison["reference"] for row in rows].index(True)
    cells = []
    for row in rows:
        names = [setting_value(row["values"][name]) for name in varied] or [row["label"]]
        difference, against = row["difference"], "the reference" if len(rows) > 1 else ""
        if difference is not None:
            low, high = difference["interval"] or (None, None)
            bounds = "" if low is None else f" ({low:+.3f} to {high:+.3f})"
            against = f"{difference['value']:+.3f}{bounds}"
        over = " over rows" if row["interval_over"] == "rows" else ""
        cells.append(
            [
                *names,
                *([number(row["training_rows"])] if counts else []),
                str(row["n"]),
                score(row["value"]),
                score(row["deviation"]),
                f"{interval(row['interval'])}{over}",
                against,
                _p_value(difference),
                number(row["train_seconds"]),
            ]
        )
    return Table(columns, cells, max(len(varied), 1), reference if len(rows) > 1 else None)


def _p_value(difference: Mapping[str, Any] | None) -> str:
    if difference is None:
        return ""
    corrected, outcome = difference["p_corrected"], difference["outcome"]
    if corrected is None:
        return "-"
    marked = "" if outcome == "not distinguishable" else f" {outcome}"
    return ("<0.001" if corrected < 0.001 else f"{corrected:.3f}") + marked


def show_comparison(comparison: Mapping[str, Any], paths: Mapping[str, str], file: TextIO | None = None) -> None:
    """Print a comparison from `build_comparison`, on standard error unless `file` is given."""
    # First the settings that distinguish all runs; of many values, each distinct one once.
    ordered = sorted(comparison["differing"].items(), key=lambda one: one[0] not in comparison["varied"])
    differing = [
        f"{name}: {' | '.join(values if len(values) <= MOST_VALUES else dict.fromkeys(values))}"
        for name, values in ordered
    ]
    folders = [run["folder"] for row in comparison["settings"] for run in row["runs"]]
    more = [f"and {len(folders) - MOST_FOLDERS} more"] if len(folders) > MOST_FOLDERS else []
    blocks: list[Block] = [
        Heading(headline(comparison)),
        Items("They differ in", differing),
        settings_table(comparison),
        *notes(comparison["notes"]),
        Items("Runs", [*folders[:MOST_FOLDERS], *more]),
        Items("Files", [f"{name}: {path}" for name, path in paths.items()]),
    ]
    show(blocks, file, WIDE)


def write_comparison(folder: Path, comparison: Mapping[str, Any], runs: Sequence[FinishedRun]) -> dict[str, str]:
    """Write compare.json, compare.csv (a line for each run), compare.html and plots into `folder`.

    They replace those of an earlier comparison. Return their paths by name. Raises DataError if the folder cannot be
    written to.
    """
    drawn = _plots(comparison, {str(run.folder): run.journal() for run in runs})  # first: a journal may be damaged
    paths = {kind: folder / f"compare.{kind}" for kind in ("html", "csv", "json")}
    try:
        (folder / "plots").mkdir(parents=True, exist_ok=True)
        for name, plot in drawn.items():
            with atomic_write(folder / "plots" / f"{name}.png") as temporary:
                plots.write_png(plot.figure, temporary)
        content = {
            "html": page(headline(comparison), _page_blocks(comparison, drawn)),
            "csv": _run_table(comparison),
            "json": json.dumps(comparison, indent=2, ensure_ascii=False) + "\n",
        }
        for kind, path in paths.items():
            atomic_write_text(path, content[kind])
    except OSError as error:
        remedy = "Set output=... to a folder you can write to"
        raise DataError(f"{folder} cannot be written to: {error.strerror or error}", remedy=remedy) from None
    return {kind: str(path) for kind, path in paths.items()} | {"plots": str(folder / "plots")}


def _differing_table(comparison: Mapping[str, Any]) -> Table:
    labels = [row["label"] for row in comparison["settings"]]
    rows = [[name, *values] for name, values in comparison["differing"].items()]
    return Table(["setting", *labels], rows, n_texts=1 + len(labels))


def _page_blocks(comparison: Mapping[str, Any], drawn: Mapping[str, Plot]) -> list[Block]:
    name = words_of(comparison["figure"])
    better = "; lower is better" if is_lower_better(comparison["figure"]) else ""
    runs = [
        [row["label"], run["folder"], str(run["seed"]), f"{run['score']:.4f}"]
        for row in comparison["settings"]
        for run in row["runs"]
    ]
    blocks: list[Block] = [
        Text(f"Differences are relative to {comparison['reference']}, on the same rows{better}.", tone="quiet"),
        settings_table(comparison),
        *notes(comparison["notes"]),
    ]
    for plot in drawn.values():
        blocks += [Heading(plot.description.partition(":")[0]), plot]
    if comparison["differing"]:
        blocks += [Heading("Settings that differ"), _differing_table(comparison)]
    return [*blocks, Heading("Runs"), Table(("setting", "folder", "seed", name), runs, n_texts=2)]


def _plots(comparison: Mapping[str, Any], journals: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Plot]:
    """Return each plot by its name; `journals` are the runs' logged lines by folder."""
    metric, rows = words_of(comparison["figure"]), comparison["settings"]
    drawn = {}
    if len(rows) > 1:
        what = f"{metric.capitalize()} of each setting: a mark for each seed, the mean and its 95% interval."
        drawn["scores"] = Plot(plots.settings_plot(rows[:MOST_SETTINGS], comparison["reference"], metric), what)
    for name in _swept(comparison)[:MOST_SWEPT]:
        what = f"{metric.capitalize()} against {name}: a mark for each seed, a line through the means."
        key = f"{metric.replace(' ', '_')}_against_{name.rpartition('.')[2].replace(' ', '_')}"
        drawn[key] = Plot(plots.swept_plot(_swept_lines(comparison, name)[:MOST_LINES], name, metric), what)
    each = [
        (row["label"] if place == 0 else None, line, journals.get(run["folder"], []))
        for line, row in enumerate(rows[:MOST_LINES])
        for place, run in enumerate(row["runs"])
    ]
    if (figure := plots.runs_plot(each, comparison["figure"])) is not None:
        what = "Curves: training loss and evaluations of all runs against steps, one colour per setting."
        drawn["curves"] = Plot(figure, what)
    return drawn


def _swept(comparison: Mapping[str, Any]) -> list[str]:
    """Return the settings with several numbers; a share of the training rows counts as their number, and models as
    their parameters.
    """
    rows = comparison["settings"]
    names = []
    for name in comparison["varied"]:
        values = [row["values"][name] for row in rows]
        if name == SHARE and all(row["training_rows"] for row in rows):
            names.append(TRAINING_ROWS)
        elif all(map(_is_number, values)) and len(set(values)) > 1:
            names.append(name)
        elif name == "encoder" and len({row["parameters"] for row in rows}) > 1:
            names.append("parameters")
    return names


def _swept_lines(comparison: Mapping[str, Any], name: str) -> list[plots.Swept]:
    """Return a line for each combination of the other settings that distinguish runs."""
    key = {"parameters": "parameters", TRAINING_ROWS: "training_rows"}.get(name)
    replaced = {"parameters": "encoder", TRAINING_ROWS: SHARE}.get(name, name)
    others = [other for other in comparison["varied"] if other != replaced]
    groups: dict[str, list[tuple[float, Mapping[str, Any]]]] = {}
    for row in comparison["settings"]:
        label = ", ".join(f"{other.rpartition('.')[2]}={setting_value(row['values'][other])}" for other in others)
        groups.setdefault(label, []).append((row[key] if key else row["values"][name], row))
    lines = []
    for label, group in groups.items():
        ordered = sorted(group, key=lambda one: one[0])
        points = [(x, run["score"]) for x, row in ordered for run in row["runs"]]
        lines.append(plots.Swept(label, points, [(x, row["value"]) for x, row in ordered]))
    return lines


def _run_table(comparison: Mapping[str, Any]) -> str:
    """Return a line of CSV for each run: its setting, seed and score, and the setting's numbers."""
    measured = ("value", "deviation", "interval", "interval_over", "train_seconds")
    tested = ("value", "interval", "p_value", "p_corrected", "test")
    columns = ["setting", *comparison["differing"], "seed", comparison["figure"], "mean", *measured[1:]]
    columns += ["difference", *(f"difference_{name}" for name in tested[1:]), "folder"]
    lines = []
    for row in comparison["settings"]:
        numbers = [row[name] for name in measured] + [(row["difference"] or {}).get(name) for name in tested]
        for run in row["runs"]:
            lines.append([row["label"], *row["values"].values(), run["seed"], run["score"], *numbers, run["folder"]])
    return as_csv(columns, lines)
