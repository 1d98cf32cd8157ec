"""Compares runs: the settings that differ, their scores over seeds, and how far each setting is from a reference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from encoderlab.errors import SettingError, closest
from encoderlab.metrics.comparison import (
    PAIRED,
    Difference,
    difference_over_seeds,
    holm,
    mean_over_runs,
    paired_difference,
)
from encoderlab.metrics.scores import is_lower_better
from encoderlab.reports.comparison.learning_curve import learning_curve_of, why_no_curve
from encoderlab.reports.parts.console import OF_POSITIVE
from encoderlab.reports.parts.run_report import json_safe
from encoderlab.runs.folders.finished import FinishedRun, check_comparable, read_answers

LEVEL = 0.05
BOOTSTRAP_SEED = 0  # fixed, so that the same command prints the same figures


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
    differing = _differing(runs)
    groups: dict[str, dict[int, FinishedRun]] = {}
    repeated = 0
    for run in sorted(runs, key=lambda run: run.folder.report.stat().st_mtime_ns):
        group = groups.setdefault(repr([run.settings.get(name) for name in differing]), {})
        repeated += run.seed in group
        group[run.seed] = run
    ordered = [[group[seed] for seed in sorted(group)] for group in groups.values()]
    values = [{name: group[0].settings.get(name) for name in differing} for group in ordered]
    labels = _labels(values)
    notes = [f"Skipped {repeated} of the runs, because a newer one has the same settings and seed"] if repeated else []
    found = [Setting(label, value, group) for label, value, group in zip(labels, values, ordered, strict=True)]
    names = distinguishing(values)
    words = {name: list(dict.fromkeys(repr(value[name]) for value in values)) for name in names}
    return sorted(found, key=lambda setting: [_order(setting.values[name], words[name]) for name in names]), notes


def _differing(runs: Sequence[FinishedRun]) -> list[str]:
    """Return the settings that are not the same in all runs; one that a run does not have counts as null."""
    names = dict.fromkeys(name for run in runs for name in run.settings)
    return [name for name in names if len({repr(run.settings.get(name)) for run in runs}) > 1]


def _order(value: Any, as_met: Sequence[str]) -> tuple[bool, float]:
    """Return the sort key: numbers by size, then everything else in the order of the runs, such as
    `model=tiny,mini,small`.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return not is_number, float(value) if is_number else as_met.index(repr(value))


def distinguishing(values: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return as few of the differing settings as distinguish all runs, first those that imply others.

    `encoder` implies the shape of tiny, mini and small, and the settings of a pretrained encoder; a setting that all
    have is preferred to one that some lack.
    """

    def says_less(name: str) -> tuple[bool, ...]:
        return name != "encoder", name.rpartition(".")[2] != "name", any(value[name] is None for value in values)

    names = sorted(values[0], key=says_less) if values else []
    chosen: list[str] = []
    for name in names:
        if _kinds(values, [*chosen, name]) > _kinds(values, chosen):
            chosen.append(name)
    for name in reversed(chosen):
        others = [other for other in chosen if other != name]
        chosen = others if _kinds(values, others) == _kinds(values, chosen) else chosen
    return chosen


def _kinds(values: Sequence[Mapping[str, Any]], names: Sequence[str]) -> int:
    return len({repr([value[name] for name in names]) for value in values})


def _labels(values: Sequence[Mapping[str, Any]]) -> list[str]:
    names = distinguishing(values)
    if not names:
        return ["all runs"] * len(values)
    short = short_names(names)
    return [
        ", ".join(f"{word}={shown(value[name])}" for word, name in zip(short, names, strict=True)) for value in values
    ]


def short_names(names: Sequence[str]) -> list[str]:
    """Return the names without their groups if that is unambiguous."""
    last = [name.rpartition(".")[2] for name in names]
    return [
        name if last.count(end) > 1 or end in ("name", "path") else end for name, end in zip(names, last, strict=True)
    ]


def shown(value: Any) -> str:
    """Return a setting's value as a user writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def build_comparison(
    runs: Sequence[FinishedRun], figure: str | None = None, reference: str | None = None
) -> dict[str, Any]:
    """Return the content of compare.json: JSON-safe.

    `figure` names the score (None: the one the reports show first), `reference` the folder of a run that the others are
    compared with (None: the best). Raises DataError if the runs cannot be compared, SettingError for a figure they do
    not have.
    """
    check_comparable(runs)
    figure = _checked_figure(runs, figure)
    settings, notes = settings_of(runs)
    means = [mean_over_runs([run.scores[figure] for run in setting.runs]) for setting in settings]
    place = _reference(settings, [mean.value for mean in means], figure, reference)
    differences = _differences(settings, place, figure)
    rows = []
    for setting, mean, difference in zip(settings, means, differences, strict=True):
        rows.append(_row(setting, figure, asdict(mean), difference))
    first, varied = runs[0], distinguishing([setting.values for setting in settings])
    return json_safe(
        {
            "task": first.report["task"],
            "split": first.split,
            "rows": first.scores["n"],
            "figure": figure,
            "positive_label": first.scores.get("positive_label"),
            "differing": {name: [shown(setting.values[name]) for setting in settings] for name in settings[0].values},
            "varied": varied,
            "reference": settings[place].label,
            "settings": rows,
            "learning_curve": learning_curve_of([setting.runs for setting in settings], varied, figure),
            "notes": [
                *notes,
                *why_no_curve([setting.runs for setting in settings], varied),
                *_notes(settings, differences, first, chosen=reference is None),
            ],
        }
    )


def _checked_figure(runs: Sequence[FinishedRun], figure: str | None) -> str:
    first, *others = dict.fromkeys(run.report["main_figure"] for run in runs)
    if figure is None and others:
        remedy = f"Set figure={' or figure='.join((first, *others))}"
        raise SettingError(f"The runs have different main figures: {' and '.join((first, *others))}", remedy=remedy)
    figure = str(figure or first)
    labels = dict.fromkeys(str(run.scores.get("positive_label")) for run in runs)
    if figure in OF_POSITIVE and len(labels) > 1:
        remedy = "Set figure=f1_macro, or train with one task.positive_label"
        raise SettingError(f"{figure} refers to different labels: {' and '.join(labels)}", remedy=remedy)
    for run in runs:
        if not isinstance(value := run.scores.get(figure), int | float) or not math.isfinite(value):
            known = [name for name, value in run.scores.items() if isinstance(value, float)]
            near = closest(figure, known)
            remedy = f"Did you mean figure={near}?" if near and near != figure else ""
            raise SettingError(f"{run.folder.root} has no figure {figure}", allowed=", ".join(known), remedy=remedy)
    return figure


def _reference(settings: Sequence[Setting], means: Sequence[float], figure: str, reference: str | None) -> int:
    if reference is None:
        best = min(means) if is_lower_better(figure) else max(means)
        return means.index(best)
    wanted = Path(reference).resolve()
    for place, setting in enumerate(settings):
        if any(wanted == run.folder.root.resolve() for run in setting.runs):
            return place
    folders = ", ".join(str(setting.runs[0].folder.root) for setting in settings)
    raise SettingError(
        f"reference={reference} is not one of the compared runs", allowed=f"one of them, such as {folders}"
    )


def _differences(settings: Sequence[Setting], place: int, figure: str) -> list[dict[str, Any] | None]:
    """Return each setting's difference from the reference; None for the reference. p-values are corrected over all of
    them.
    """
    if len(settings) < 2:
        return [None]
    runs = [run for setting in settings for run in setting.runs]
    is_paired = figure in PAIRED and all(run.folder.predictions.is_file() for run in runs)
    answers = dict(zip((run.folder for run in runs), read_answers(runs), strict=True)) if is_paired else {}

    def difference(setting: Setting) -> Difference:
        sides = (setting, settings[place])
        if is_paired:
            mine, other = ([answers[run.folder] for run in side.runs] for side in sides)
            return paired_difference(mine, other, figure, BOOTSTRAP_SEED)
        return difference_over_seeds(*([run.scores[figure] for run in side.runs] for side in sides))

    found = {other: asdict(difference(setting)) for other, setting in enumerate(settings) if other != place}
    tested = [other for other in found if found[other]["p_value"] is not None]
    for other, corrected in zip(tested, holm([found[other]["p_value"] for other in tested]), strict=True):
        found[other]["p_corrected"] = corrected
    return [_judged(found[other]) if other in found else None for other in range(len(settings))]


def _judged(difference: dict[str, Any]) -> dict[str, Any]:
    corrected = difference.get("p_corrected")
    outcome = "not tested" if corrected is None else "not distinguishable"
    if corrected is not None and corrected < LEVEL:
        outcome = "higher" if difference["value"] > 0 else "lower"
    return {**difference, "p_corrected": corrected, "outcome": outcome}


def _row(setting: Setting, figure: str, mean: dict[str, Any], difference: dict[str, Any] | None) -> dict[str, Any]:
    """Return one setting: its mean over the runs. With one run, the interval is the run's own, over the rows."""
    own = setting.runs[0].scores.get(f"{figure}_ci95")
    seconds = [run.seconds for run in setting.runs if run.seconds is not None]
    over = "seeds" if mean["interval"] else "rows" if own else None
    return {
        "label": setting.label,
        "values": setting.values,
        **mean,
        "interval": mean["interval"] or own,
        "interval_over": over,
        "parameters": setting.runs[0].report["model"]["parameters"],
        "train_seconds": sum(seconds) / len(seconds) if seconds else None,
        "runs": [
            {"folder": str(run.folder.root), "seed": run.seed, "score": run.scores[figure]} for run in setting.runs
        ],
        "difference": difference,
    }


def _notes(
    settings: Sequence[Setting], differences: Sequence[dict[str, Any] | None], first: FinishedRun, *, chosen: bool
) -> list[str]:
    """Return notes that a reader of the table should know."""
    tested = [difference for difference in differences if difference and difference["p_value"] is not None]
    lacking = [
        str(run.folder.root) for setting in settings for run in setting.runs if not run.folder.predictions.is_file()
    ]
    found = []
    if lacking and len(settings) > 1:
        found.append(f"Nothing is compared row by row, because {', '.join(lacking[:3])} has no predictions.csv")
    if any(len(setting.runs) == 1 for setting in settings):
        found.append("With one seed, the interval covers the rows but not the variation between seeds. Add seeds")
    if any(len(setting.runs) > 1 for setting in settings):
        found.append("Intervals over seeds are Student's t; they do not cover the choice of rows")
    if tested:
        tests = sorted({difference["test"] for difference in tested})
        found.append(f"Differences are tested by {' and '.join(tests)}")
    if len(tested) > 1:
        found.append(
            f"p-values are corrected for {len(tested)} comparisons by Holm's method; the intervals are not corrected"
        )
    if len(tested) > 1 and chosen:
        found.append("The reference was chosen as the best on these same rows, so its score is slightly too good")
    if first.report["checkpoint"].get("chosen_on") == first.split:
        found.append(
            f"Checkpoints were chosen on {first.split}, the split that is compared, so all scores are slightly too good"
        )
    return found
