"""Compares finished runs: the settings that differ, their scores over seeds, and how far each is from a reference.

Only runs that were scored on the same rows are compared.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from encoderlab.apps.comparing.finished_runs import FinishedRun, read_predictions
from encoderlab.errors import DataError, SettingError
from encoderlab.metrics.comparison import (
    BOOTSTRAP,
    FEW_DIFFERING,
    MCNEMAR,
    difference_over_seeds,
    holm,
    paired_difference,
)
from encoderlab.metrics.intervals import Mean, mean_of
from encoderlab.metrics.scores import PredictionScores, is_lower_better, within_range
from encoderlab.reports import wording
from encoderlab.reports.blocks import json_safe
from encoderlab.reports.comparisons import BASELINE_NAMES

LEVEL = 0.05
BOOTSTRAP_SEED = 0  # fixed, so that the same command prints the same numbers
# What grows with the steps of a run, and so with its rows, changes nothing else about how it is trained.
SCALED = ("training.evaluate_every",)
# Unless somebody typed it, it belongs to what differs by machine, where it is listed.
OF_MACHINE = ("training.precision",)

Records = Collection[Mapping[str, Any]]
Settings = Mapping[str, Sequence[FinishedRun]]  # by what distinguishes them, such as "n_layers=2"


def check_comparable(runs: Iterable[FinishedRun]) -> None:
    """Raise DataError if the runs have different tasks, or were scored on different splits or rows."""
    first, *others = runs
    for other in others:
        if other.scored != first.scored:
            tasks = f"{other.report['task']} and {first.report['task']}"
            splits = f"{other.split} and {first.split}"
            problem = f"{other.folder} and {first.folder} were scored on different rows of {first.split}"
            remedy = "Score both on the same rows with encoderlab eval run=... split=... dataset=..., and compare those"
            raise DataError(f"{problem} (tasks: {tasks}; splits: {splits})", remedy=remedy)


def runs_by_setting(runs: Sequence[FinishedRun], differing: Sequence[str]) -> tuple[Settings, dict[str, str]]:
    """Return the runs that differ only in seed by what distinguishes them from the others, of equal ones the newest;
    and the short names of what distinguishes them.

    They are in the order of the numbers that distinguish them; other values are in the order of the runs.
    """
    settings = [run.settings for run in runs]
    explicit = _explicit_of_any(runs)
    distinct = distinguishing(settings, differing, explicit)
    exclusive = _exclusive(settings, distinct, [name for name in differing if name in explicit])
    short_names = _short_names([*distinct, *(name for name in exclusive if name not in distinct)])
    shown = {name: shown_values(runs, name) for name in short_names}
    groups: dict[str, dict[int, FinishedRun]] = {}
    for run in sorted(runs, key=_order(runs, short_names)):
        words = []
        for name, short in short_names.items():
            value = run.settings.get(name)
            if value is not None or name not in exclusive:
                words.append(f"{short}={shown[name][repr(value)]}")
        group = groups.setdefault(", ".join(words) or "all runs", {})
        with_seed = (group.get(run.seed, run), run)
        group[run.seed] = max(with_seed, key=lambda run: (run.folder / "report.json").stat().st_mtime_ns)
    return {label: [group[seed] for seed in sorted(group)] for label, group in groups.items()}, short_names


def _order(runs: Sequence[FinishedRun], names: Iterable[str]) -> Callable[[FinishedRun], list[tuple[int, float]]]:
    """Return the key by which runs are sorted: the values of the settings with these names, numbers as such."""
    places: dict[str, dict[str, tuple[int, float]]] = {}
    for name in names:
        values = [run.settings.get(name) for run in runs]
        places[name] = {repr(value): _place(value, n) for n, value in reversed([*enumerate(values)])}

    def key(run: FinishedRun) -> list[tuple[int, float]]:
        return [by_value[repr(run.settings.get(name))] for name, by_value in places.items()]

    return key


def _place(value: Any, first: int) -> tuple[int, float]:
    """Return where a value is sorted, of which run number `first` is the first to have it: numbers, texts, nothing."""
    if value is None:
        return 2, 0.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 0, float(value)
    return 1, float(first)


def _explicit_of_any(runs: Sequence[FinishedRun]) -> frozenset[str]:
    """Return the names of the settings that were typed for any of the runs."""
    return frozenset().union(*(run.explicit or () for run in runs))


def _short_names(names: Sequence[str]) -> dict[str, str]:
    """Return each setting's name without its group where that is unambiguous, by its whole name."""
    ends = [name.rpartition(".")[2] for name in names]
    short_names = {}
    for name, end in zip(names, ends, strict=True):
        is_clear = ends.count(end) == 1 and end not in ("name", "path")
        short_names[name] = end if is_clear else name
    return short_names


def distinguishing(
    settings: Sequence[Mapping[str, Any]], differing: Sequence[str], explicit: Collection[str] = ()
) -> list[str]:
    """Return a few of the `differing` settings that distinguish all, first those that imply others.

    `encoder` implies the model's other settings. A setting that was typed (`explicit`) is preferred to one that follows
    from it, such as how often a run is evaluated; one that all have to one that some lack.
    """

    def says_less(name: str) -> tuple[bool, ...]:
        is_typed = name in explicit
        is_of_typed_group = name.partition(".")[0] in explicit
        some_lack = any(run_settings.get(name) is None for run_settings in settings)
        return name != "encoder", not is_typed, not is_of_typed_group, name.rpartition(".")[2] != "name", some_lack

    def kinds(names: Sequence[str]) -> int:
        return len({repr([run_settings.get(name) for name in names]) for run_settings in settings})

    selected: list[str] = []
    for name in sorted(differing, key=says_less):
        if kinds([*selected, name]) > kinds(selected):
            selected.append(name)
    return selected


def _exclusive(
    settings: Sequence[Mapping[str, Any]], selected: Sequence[str], candidates: Sequence[str]
) -> dict[str, None]:
    """Return pairs of settings of which each run has exactly one, such as steps or epochs: one of the `selected`, and
    one of the `candidates`.
    """
    exclusive: dict[str, None] = {}
    for name in selected:
        for other in candidates:
            if all((run_settings.get(name) is None) != (run_settings.get(other) is None) for run_settings in settings):
                exclusive |= {name: None, other: None}
    return exclusive


def setting_value(value: Any) -> str:
    """Return a setting's value as a user writes it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def shown_values(runs: Sequence[FinishedRun], name: str) -> dict[str, str]:
    """Return how a setting's values are shown, by their repr: numbers as they were typed, and folders by as much of
    their paths as distinguishes them.
    """
    shown: dict[str, str] = {}
    paths: list[str] = []
    for run in runs:
        value = run.settings.get(name)
        typed = (run.typed or {}).get(name)
        if repr(value) not in shown:
            shown[repr(value)] = typed if typed and _is_number(typed, value) else setting_value(value)
            paths += [value] if isinstance(value, str) and value.startswith(("/", "~", ".", "outputs/")) else []
    short_paths = short_folders(paths)
    return {key: short_paths.get(text, text) for key, text in shown.items()}


def _is_number(text: str, value: Any) -> bool:
    """Return whether a text is a way to write this number."""
    try:
        return isinstance(value, float) and float(text) == value
    except ValueError:
        return False


def short_folders(paths: Sequence[str]) -> dict[str, str]:
    """Return the end of each path that tells it from the others: their names, if these differ."""
    parts = {path: [*Path(path).parts] for path in paths}
    for length in range(1, max(map(len, parts.values()), default=1) + 1):
        ends = {path: str(Path(*own[-length:])) for path, own in parts.items()}
        if len(set(ends.values())) == len(parts):
            return ends
    return {path: path for path in paths}


def build_comparison(
    runs: Sequence[FinishedRun], metric: str | None = None, reference: str | None = None
) -> dict[str, Any]:
    """Return the content of compare.json: JSON-safe.

    `metric` names the score (None: the reports' first), `reference` the folder of a run that the others are compared
    with (None: the best). Raises DataError if the runs cannot be compared, SettingError for a score they do not have.
    """
    check_comparable(runs)
    metric = _checked_score(runs, metric)
    first = runs[0]

    # Runs that differ only in their seeds are one row of the comparison.
    names = dict.fromkeys(name for run in runs for name in run.settings)
    chosen = [name for name in names if name not in OF_MACHINE or name in _explicit_of_any(runs)]
    differing = [name for name in chosen if len({repr(run.settings.get(name)) for run in runs}) > 1]
    settings, short_names = runs_by_setting(runs, differing)
    means = {label: mean_of([run.scores[metric] for run in own]) for label, own in settings.items()}

    # Every row is compared with the reference, on the predictions for the same rows of the data.
    best = _reference(settings, means, metric, reference)
    differences = _differences(settings, best, metric)
    rows = [_row(label, settings[label], means[label], metric) for label in settings]
    shown = {name: shown_values(runs, name) for name in differing}
    values = {name: [shown[name][repr(own[0].settings.get(name))] for own in settings.values()] for name in differing}
    notes = [*_notes(runs, rows, differences.values(), chosen=reference is None), *_recipe_note(runs, rows, values)]
    notes += [note for label, own in differences.items() for note in _few_rows_note(label, own, best)]
    return json_safe(
        {
            "task": first.report["task"],
            "split": first.split,
            "rows": first.scores["n"],
            "score": metric,
            "positive_label": first.scores.get("positive_label"),
            "differing": values,
            "factors": {short: values[name] for name, short in short_names.items()},
            "not_typed": _not_typed(runs),
            "reference": best,
            "settings": [row | {"difference": differences.get(row["label"])} for row in rows],
            "baselines": list(_baselines(settings, metric)),
            "notes": notes,
        }
    )


def _not_typed(runs: Sequence[FinishedRun]) -> dict[str, dict[str, list[str]]]:
    """Return what runs differ in although nobody typed it, such as threads and versions: the runs by value."""
    names = dict.fromkeys(name for run in runs for name in run.machine)
    differing: dict[str, dict[str, list[str]]] = {}
    for name in names:
        by_value: dict[str, list[str]] = {}
        for run in runs:
            by_value.setdefault(run.machine.get(name, "unknown"), []).append(str(run.folder))
        is_typed = all(f"training.{name}" in (run.typed or {}) for run in runs)
        if len(by_value) > 1 and not is_typed:
            differing[name] = by_value
    return differing


def _checked_score(runs: Sequence[FinishedRun], metric: str | None) -> str:
    main_scores = list(dict.fromkeys(run.report["main_score"] for run in runs))
    if metric is None and len(main_scores) > 1:
        remedy = f"Set score={' or score='.join(main_scores)}"
        raise SettingError(f"The runs have different main scores: {' and '.join(main_scores)}", remedy=remedy)
    metric = metric or str(main_scores[0])
    labels = dict.fromkeys(str(run.scores.get("positive_label")) for run in runs)
    if metric in wording.OF_POSITIVE and len(labels) > 1:
        remedy = "Set score=f1_macro, or train with one task.positive_label"
        raise SettingError(f"{metric} refers to different labels: {' and '.join(labels)}", remedy=remedy)
    for run in runs:
        known = [name for name, value in run.scores.items() if isinstance(value, float) and math.isfinite(value)]
        if metric not in known:
            raise SettingError(f"{run.folder} has no score {metric}", allowed=", ".join(known))
    return metric


def _reference(settings: Settings, means: Mapping[str, Mean], metric: str, reference: str | None) -> str:
    """Return the label of the setting with the run in the folder `reference`, or the best."""
    if reference is None:
        return (min if is_lower_better(metric) else max)(means, key=lambda label: means[label].value)
    for label, runs in settings.items():
        if Path(reference).resolve() in [run.folder.resolve() for run in runs]:
            return label
    allowed = f"one of them, such as {next(iter(settings.values()))[0].folder}"
    raise SettingError(f"reference={reference} is not one of the compared runs", allowed=allowed)


def _differences(settings: Settings, reference: str, metric: str) -> dict[str, dict[str, Any]]:
    """Return each other setting's difference from the reference, with corrected p-values."""
    # Differences are paired over the rows if all runs have kept their predictions, and otherwise over the seeds.
    runs = [run for own in settings.values() for run in own]
    has_rows = len(settings) > 1 and all(run.predictions.is_file() for run in runs)
    predictions: dict[Path, PredictionScores] = {}
    if has_rows:
        folders = [run.folder for run in runs]
        predictions = dict(zip(folders, read_predictions(runs), strict=True))
    is_paired = has_rows and all(metric in scores.values for scores in predictions.values())
    theirs = settings[reference]
    differences = {}
    for label, own in settings.items():
        if label == reference:
            continue
        if is_paired:
            own_predictions = [predictions[run.folder] for run in own]
            their_predictions = [predictions[run.folder] for run in theirs]
            difference = paired_difference(own_predictions, their_predictions, metric, BOOTSTRAP_SEED)
        else:
            own_scores = [run.scores[metric] for run in own]
            difference = difference_over_seeds(own_scores, [run.scores[metric] for run in theirs], metric)
        differences[label] = asdict(difference) | {"p_corrected": None, "outcome": "not tested"}

    # The more settings are tested, the smaller a p-value must be (Holm 1979).
    tested = [difference for difference in differences.values() if difference["p_value"] is not None]
    corrected = holm([difference["p_value"] for difference in tested])
    for difference, p_corrected in zip(tested, corrected, strict=True):
        difference["p_corrected"] = p_corrected
        difference["outcome"] = "not distinguishable"
        if p_corrected < LEVEL:
            difference["outcome"] = "higher" if difference["value"] > 0 else "lower"
    return differences


def _row(label: str, runs: Sequence[FinishedRun], mean: Mean, metric: str) -> dict[str, Any]:
    """Return one setting: its mean over the runs. With one run, the interval is the run's own, over the rows."""
    over_rows = runs[0].scores.get(f"{metric}_ci95")
    over_seeds = mean.interval if mean.deviation else None  # seeds that are all the same say nothing about others
    interval_over = None
    if over_seeds:
        interval_over = "seeds"
    elif over_rows:
        interval_over = "rows"
    seconds = [run.report["throughput"].get("train_seconds") for run in runs]
    return {
        "label": label,
        **asdict(mean),
        "interval": within_range(metric, over_seeds or over_rows),
        "interval_over": interval_over,
        "training_rows": runs[0].training_rows,
        "train_seconds": None if None in seconds else sum(seconds) / len(seconds),
        "runs": [{"folder": str(run.folder), "seed": run.seed, "score": run.scores[metric]} for run in runs],
    }


def _baselines(settings: Settings, metric: str) -> Iterator[dict[str, Any]]:
    """Yield the runs' baselines with this score: once, or per setting if it differs, as on shares of the rows."""
    distinct: dict[str, dict[float, dict[str, Any]]] = {}
    for label, runs in settings.items():
        for name, own in runs[0].report.get("baselines", {}).items():
            if own.get(metric) is not None:
                distinct.setdefault(name, {}).setdefault(own[metric], own | {"setting": label})
    for name, scored in distinct.items():
        for value, own in scored.items():
            where = f" ({own['setting']})" if len(scored) > 1 else ""
            yield {
                "name": name,
                "label": f"{BASELINE_NAMES.get(name, name)}{where}",
                "value": value,
                "interval": own.get(f"{metric}_ci95"),
                "seconds": own.get("seconds"),
            }


def _notes(runs: Sequence[FinishedRun], rows: Records, differences: Records, *, chosen: bool) -> Iterator[str]:
    """Yield notes that a reader of the table should know; `chosen`: the reference is the best."""
    split = runs[0].split
    yield from _branch_note(runs)
    tests = [difference["test"] for difference in differences if difference["test"]]
    repeated = len(runs) - sum(row["n"] for row in rows)
    if repeated:
        yield f"Skipped {repeated} of the runs, because a newer one has the same settings and seed"
    if any(row["n"] == 1 for row in rows):
        yield "With one seed, the interval covers the rows but not the variation between seeds. Add seeds"
    if tests:
        corrected = f", with Holm's correction of the p-values for {len(tests)} comparisons" if len(tests) > 1 else ""
        corrected += "; the intervals are not corrected" if len(tests) > 1 else ""
        yield f"Differences are tested by {' and '.join(sorted(set(tests)))}{corrected}"
    if len(tests) > 1 and chosen:
        yield "The reference was chosen as the best on these same rows, so its score is slightly too good"
    if runs[0].report["checkpoint"].get("chosen_on") == split:
        yield f"Checkpoints were chosen on {split}, the split that is compared, so all scores are slightly too good"


def _branch_note(runs: Sequence[FinishedRun]) -> Iterator[str]:
    """Yield a note that scores include a linear model beside the network, with those of the networks alone."""
    branches = [run.report["linear_branch"] for run in runs if run.report.get("linear_branch", {}).get("weight")]
    if not branches:
        return
    name = branches[0].get("score", "")
    alone = []
    for branch in branches:
        of_split = branch.get("splits", {}).get(runs[0].split)
        if of_split is not None:
            alone.append(f"{of_split['network']:.3f}")
    networks = f": the networks alone have {wording.words_of(name)} {', '.join(alone)}" if alone else ""
    n_runs = wording.counted(len(branches), "run")
    yield f"The score of {n_runs} is that of network and linear model (task.linear_weight=0 leaves it out){networks}"


def _few_rows_note(label: str, difference: Mapping[str, Any], reference: str) -> Iterator[str]:
    """Yield a note on two runs that differ in few rows; nothing if there are more or none, or nothing is
    known of the rows."""
    won = difference["won"]
    lost = difference["lost"]
    if won is None or not 0 < won + lost <= FEW_DIFFERING:
        return
    rows = f"{label} alone is right on {wording.counted(won, 'row')}, {reference} alone on {lost:,}"
    by_tests = f"p is {difference['mcnemar_p']:.4g} by the {MCNEMAR} and {difference['bootstrap_p']:.4g} by {BOOTSTRAP}"
    yield f"{rows}: {by_tests}, before any correction"


def _recipe_note(runs: Sequence[FinishedRun], rows: Records, differing: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a note on the settings that nobody typed and that changed with the number of training rows, which a curve
    over the rows would hide. `differing` has the values of each setting in the order of the `rows`.
    """
    if len({row["training_rows"] for row in rows}) < 2:
        return
    explicit = _explicit_of_any(runs)
    changed = []
    for name, values in differing.items():
        group = name.partition(".")[0]
        is_recipe = (group in ("training", "model") or name == "dataset.validation_fraction") and name not in SCALED
        follows_encoder = group == "model" and "encoder" in differing
        if is_recipe and name not in explicit and not follows_encoder:
            changed.append(f"{name} ({' | '.join(values)})")
    if changed:
        yield f"The recipe changed with the rows: {', '.join(changed)}. Set what should be the same for all"
