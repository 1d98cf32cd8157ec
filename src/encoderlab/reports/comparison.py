"""Compares finished runs: the settings that differ, their scores over seeds, and how far each setting is from a
reference.

Runs are read from their folders; only those that were scored on the same rows are compared.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import yaml

from encoderlab.errors import DataError, SettingError
from encoderlab.metrics import scores_of_predictions
from encoderlab.metrics.comparison import SEPARATOR, Difference, difference_over_seeds, holm, paired_difference
from encoderlab.metrics.intervals import mean_of
from encoderlab.metrics.scores import PredictionScores, is_lower_better
from encoderlab.reports import plots, wording
from encoderlab.reports.baselines import BASELINE_NAMES
from encoderlab.reports.blocks import Block, Heading, Items, Plot, Table, Text, json_safe, show, write_files
from encoderlab.settings import flat_settings
from encoderlab.system.files import atomic_write

LEVEL = 0.05
BOOTSTRAP_SEED = 0  # fixed, so that the same command prints the same numbers
SHARE, TRAINING_ROWS = "dataset.train_share", "training rows"
MEASURED = ("seeds", "mean", "std. dev.", "95% interval", "difference (95% interval)", "p", "seconds")
# Where a run writes, how often it logs, what it computes on and what else it scores do not distinguish experiments.
NOT_COMPARED = {
    *("schema", "run", "run_dir", "resume", "cache_dir", "baselines", "seed", "device", "threads", "precision"),
    *("task.mean", "task.deviation"),
    *(f"training.{name}" for name in ("log_every", "checkpoint_every", "device", "threads")),
}


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run with a report. `settings`, flat (`model.n_layers`), are those that distinguish experiments; `dataset` is
    what environment.json records of its rows.
    """

    folder: Path
    report: dict[str, Any]
    settings: dict[str, Any]
    dataset: dict[str, Any]

    @property
    def seed(self) -> int:
        return self.report["seed"]

    @property
    def split(self) -> str:
        return self.report["scored_split"]

    @property
    def scores(self) -> dict[str, Any]:
        return self.report["splits"][self.split]

    @property
    def predictions(self) -> Path:
        """Return the path of its predictions, which a pretraining run does not have."""
        return self.folder / "predictions.csv"

    @property
    def scored(self) -> tuple[Any, ...]:
        """Return what identifies the scored rows: a fingerprint of texts and labels, and the targets."""
        fingerprint = self.dataset["splits"][self.split]["fingerprint"]
        return fingerprint, self.scores["n"], self.scores.get("target_tokens"), self.report.get("second_sentence")


def finished_runs(folders: Iterable[Path]) -> tuple[list[FinishedRun], list[str]]:
    """Return the finished runs among these run folders, and a line for each unfinished one.

    Raises DataError for a folder that does not hold a run, or a damaged one.
    """
    runs: dict[Path, FinishedRun] = {}
    skipped: list[str] = []
    for folder in folders:
        if (folder / "report.json").is_file():
            runs.setdefault(folder.resolve(), read_run(folder))
        elif (folder / "config.yaml").is_file():
            skipped.append(f"{folder} is not finished and was skipped. Resume it with resume={folder}")
        else:
            wrong = f"{folder} is not a run folder" if folder.exists() else f"{folder} does not exist"
            raise DataError(wrong, remedy="Give run folders, such as outputs/train/sst2/*, or the folder of a sweep")
    return list(runs.values()), skipped


def read_run(folder: Path) -> FinishedRun:
    """Return the run in `folder`. Raises DataError if one of its records cannot be read."""
    report, environment = (_read(folder / name, json.loads) for name in ("report.json", "environment.json"))
    settings = dict(flat_settings(_read(folder / "config.yaml", yaml.safe_load)))
    try:
        if environment["command"] == "eval":
            settings = _of_evaluated_run(settings)
        if "model.name" in settings:  # `encoder` is the model the user chose: `init_from`, or the preset's name
            name, start = settings.pop("model.name"), settings.pop("init_from", None)
            settings = {"encoder": start or name, **settings}
        kept = {name: value for name, value in settings.items() if name not in NOT_COMPARED}
        kept = {name: value for name, value in kept.items() if not name.endswith(".schema")}
        run = FinishedRun(folder, report, kept | {"command": environment["command"]}, environment["dataset"] or {})
        _ = run.scored, run.seed, run.scores[report["main_figure"]], report["throughput"], report["task"]
    except (KeyError, TypeError, AttributeError) as error:
        wrong = f"{folder} cannot be compared, because its records lack {error}"
        raise DataError(wrong, remedy="Leave it out, or score it again with encoderlab eval") from None
    return run


def _of_evaluated_run(settings: dict[str, Any]) -> dict[str, Any]:
    """Return an evaluation's settings with those of the run it scored, by which evaluations are grouped."""
    evaluated = Path(str(settings.get("run")))
    config = (evaluated.parent if evaluated.name == "model" else evaluated) / "config.yaml"
    if not config.is_file():
        return settings | {"model": settings.get("run")}
    of_data = {name: value for name, value in settings.items() if name.startswith("dataset") and value is not None}
    return dict(flat_settings(_read(config, yaml.safe_load))) | of_data


def _read(path: Path, parse: Callable[[str], Any]) -> dict[str, Any]:
    try:
        record = parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise DataError(f"{path} cannot be read: {error}", remedy="Leave this run out") from None
    if not isinstance(record, dict):
        raise DataError(f"{path} is not the record of a run", remedy="Leave this run out")
    return record


def check_comparable(runs: Iterable[FinishedRun]) -> None:
    """Raise DataError if the runs have different tasks, or were scored on different splits or rows."""
    first, *others = runs
    data = "Score both on the same rows with encoderlab eval run=... dataset=..., and compare those runs"
    if "mlm_accuracy" in first.scores:
        data = "Pretrain both on the same documents, with the same tokenizer, length and kind of pairs"
    split = "Score both on one split with encoderlab eval run=... split=validation, and compare those runs"
    for other in others:
        tasks, splits = ((other.report[key], first.report[key]) for key in ("task", "scored_split"))
        for differ, what, remedy in (
            (tasks[0] != tasks[1], f"have different tasks: {' and '.join(tasks)}", "Compare the runs of one task"),
            (splits[0] != splits[1], f"were scored on different splits: {' and '.join(splits)}", split),
            (other.scored != first.scored, f"were scored on different rows of {first.split}", data),
        ):
            if differ:
                raise DataError(f"{other.folder} and {first.folder} {what}", remedy=remedy)


def read_predictions(runs: Sequence[FinishedRun]) -> list[PredictionScores]:
    """Return the predictions in each predictions.csv and their scores; of words, those that every run read.

    Raises DataError if the files do not contain the same rows.
    """
    sides = [_columns_of(run) for run in runs]
    if isinstance(sides[0][0], list):
        n_read = np.min([[len(words) for words in labels] for labels, _ in sides], axis=0)
        sides = [tuple([ids[:n] for ids, n in zip(side, n_read, strict=True)] for side in both) for both in sides]
    scores = []
    for run, (labels, predicted) in zip(runs, sides, strict=True):
        if any(not np.array_equal(*pair) for pair in zip(labels, sides[0][0], strict=True)):
            wrong = f"{run.predictions} has other labels than {runs[0].predictions}"
            raise DataError(wrong, remedy="Leave one of them out")
        names, positive = list(run.scores.get("per_class", {})), run.scores.get("positive_label")
        place = 1 if positive is None else names.index(positive)
        scores.append(scores_of_predictions(labels, predicted, names, run.report["main_figure"], place))
    return scores


def _columns_of(run: FinishedRun) -> tuple[Any, Any]:
    """Return the labels and predictions in predictions.csv. Raises DataError if rows are missing or unreadable."""
    from pandas import read_csv

    try:
        table = read_csv(run.predictions, usecols=["label", "predicted"], dtype=str, keep_default_na=False)
        labels, predicted = (_parsed(table[name].tolist(), run.scores) for name in ("label", "predicted"))
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{run.predictions} cannot be read: {error}", remedy="Leave this run out") from None
    of_words = isinstance(labels, list)
    if len(table) != run.scores["n"] or (of_words and list(map(len, labels)) != list(map(len, predicted))):
        wrong = f"{run.predictions} does not contain the {run.scores['n']:,} rows that were scored"
        raise DataError(wrong, remedy="Leave this run out")
    return labels, predicted


def _parsed(cells: Sequence[str], scores: Mapping[str, Any]) -> Any:
    """Return the labels of a column of predictions.csv, as `scores_of_predictions` wants them."""
    if "pearson" in scores:
        return np.array(cells, float)
    ids = {name: place for place, name in enumerate(scores["per_class"])}
    if "subset_accuracy" in scores:
        marks = np.zeros((len(cells), len(ids)), bool)
        for row, cell in enumerate(cells):
            marks[row, [ids[label] for label in cell.split(SEPARATOR) if label]] = True
        return marks
    if "token_accuracy" in scores:
        return [np.array([ids[name] for name in cell.split(" ") if cell], np.int64) for cell in cells]
    return np.array([ids[cell] for cell in cells], np.int64)


@dataclass(frozen=True, slots=True)
class Setting:
    """Runs that differ only in their seeds. `values` are the settings in which it differs from the others."""

    label: str
    values: dict[str, Any]
    runs: list[FinishedRun]


def settings_of(runs: Sequence[FinishedRun]) -> tuple[list[Setting], list[str]]:
    """Return the runs by their settings, of equal settings and seed the newest, and notes on skipped ones."""
    names = dict.fromkeys(name for run in runs for name in run.settings)
    differing = [name for name in names if len({repr(run.settings.get(name)) for run in runs}) > 1]
    groups: dict[str, list[FinishedRun]] = {}
    for run in runs:
        groups.setdefault(repr([run.settings.get(name) for name in differing]), []).append(run)
    # Of equal settings and seed, the last of a dict stays: the newest.
    newest = [
        {run.seed: run for run in sorted(group, key=lambda run: (run.folder / "report.json").stat().st_mtime_ns)}
        for group in groups.values()
    ]
    values = [{name: group[0].settings.get(name) for name in differing} for group in groups.values()]
    varied = distinguishing(values)
    settings = []
    for value, group in zip(values, newest, strict=True):
        words = [f"{word}={setting_value(value[name])}" for word, name in zip(short_names(varied), varied, strict=True)]
        settings.append(Setting(", ".join(words) or "all runs", value, [group[seed] for seed in sorted(group)]))
    repeated = len(runs) - sum(map(len, newest))
    note = f"Skipped {repeated} of the runs, because a newer one has the same settings and seed"
    return settings, [note] if repeated else []


def distinguishing(values: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a few of the differing settings that distinguish all runs, first those that imply others.

    `encoder` implies the model's other settings; a setting that all have is preferred to one that some lack.
    """

    def says_less(name: str) -> tuple[bool, ...]:
        return name != "encoder", name.rpartition(".")[2] != "name", any(value[name] is None for value in values)

    def kinds(names: Sequence[str]) -> int:
        return len({repr([value[name] for name in names]) for value in values})

    selected: list[str] = []
    for name in sorted(values[0], key=says_less) if values else []:
        if kinds([*selected, name]) > kinds(selected):
            selected.append(name)
    return selected


def short_names(names: Sequence[str]) -> list[str]:
    """Return the names without their groups if that is unambiguous."""
    last = [name.rpartition(".")[2] for name in names]
    is_vague = [last.count(end) > 1 or end in ("name", "path") for end in last]
    return [name if vague else end for name, end, vague in zip(names, last, is_vague, strict=True)]


def setting_value(value: Any) -> str:
    """Return a setting's value as a user writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def _baselines(run: FinishedRun, metric: str) -> list[str]:
    """Return a sentence on the scores of the baselines of a run; none if it has none."""
    scored = {name: one[metric] for name, one in run.report.get("baselines", {}).items() if one.get(metric) is not None}
    words = ", ".join(f"{BASELINE_NAMES.get(name, name)} {wording.score(score)}" for name, score in scored.items())
    return [f"Baselines of {run.folder.name}, on the same rows: {words}"] if words else []


def build_comparison(
    runs: Sequence[FinishedRun], metric: str | None = None, reference: str | None = None
) -> dict[str, Any]:
    """Return the content of compare.json: JSON-safe.

    `metric` names the score (None: the reports' first), `reference` the folder of a run that the others are compared
    with (None: the best). Raises DataError if the runs cannot be compared, SettingError for a score they do not have.
    """
    check_comparable(runs)
    metric = _checked_score(runs, metric)
    settings, skipped = settings_of(runs)
    means = [asdict(mean_of([run.scores[metric] for run in setting.runs])) for setting in settings]
    place = _reference(settings, [mean["value"] for mean in means], metric, reference)
    differences = _differences(settings, place, metric)
    first = runs[0]
    differing = {name: [setting_value(setting.values[name]) for setting in settings] for name in settings[0].values}
    return json_safe(
        {
            "task": first.report["task"],
            "split": first.split,
            "rows": first.scores["n"],
            "figure": metric,
            "positive_label": first.scores.get("positive_label"),
            "differing": differing,
            "varied": distinguishing([setting.values for setting in settings]),
            "reference": settings[place].label,
            "settings": [_row(*each, metric) for each in zip(settings, means, differences, strict=True)],
            "notes": [
                *_baselines(first, metric),
                *skipped,
                *_notes(settings, differences, first, is_best=reference is None),
            ],
        }
    )


def _checked_score(runs: Sequence[FinishedRun], metric: str | None) -> str:
    first, *others = dict.fromkeys(run.report["main_figure"] for run in runs)
    if metric is None and others:
        remedy = f"Set score={' or score='.join((first, *others))}"
        raise SettingError(f"The runs have different main scores: {' and '.join((first, *others))}", remedy=remedy)
    metric = str(metric or first)
    labels = dict.fromkeys(str(run.scores.get("positive_label")) for run in runs)
    if metric in wording.OF_POSITIVE and len(labels) > 1:
        remedy = "Set score=f1_macro, or train with one task.positive_label"
        raise SettingError(f"{metric} refers to different labels: {' and '.join(labels)}", remedy=remedy)
    for run in runs:
        known = [name for name, value in run.scores.items() if isinstance(value, float) and math.isfinite(value)]
        if metric not in known:
            raise SettingError(f"{run.folder} has no score {metric}", allowed=", ".join(known))
    return metric


def _reference(settings: Sequence[Setting], means: Sequence[float], metric: str, reference: str | None) -> int:
    if reference is None:
        return means.index(min(means) if is_lower_better(metric) else max(means))
    folder = Path(reference).resolve()
    for place, setting in enumerate(settings):
        if any(folder == run.folder.resolve() for run in setting.runs):
            return place
    allowed = f"one of them, such as {settings[0].runs[0].folder}"
    raise SettingError(f"reference={reference} is not one of the compared runs", allowed=allowed)


def _differences(settings: Sequence[Setting], place: int, metric: str) -> list[dict[str, Any] | None]:
    """Return each setting's difference from the reference, with corrected p-values; None for the reference."""
    if len(settings) < 2:
        return [None]
    runs = [run for setting in settings for run in setting.runs]
    is_paired = all(run.predictions.is_file() for run in runs)
    read = dict(zip((run.folder for run in runs), read_predictions(runs), strict=True)) if is_paired else {}

    def difference(setting: Setting) -> Difference:
        sides = (setting, settings[place])
        if is_paired and all(metric in scores.values for scores in read.values()):
            mine, other = ([read[run.folder] for run in side.runs] for side in sides)
            return paired_difference(mine, other, metric, BOOTSTRAP_SEED)
        return difference_over_seeds(*([run.scores[metric] for run in side.runs] for side in sides))

    measured = [None if other == place else asdict(difference(setting)) for other, setting in enumerate(settings)]
    others = [one for one in measured if one is not None]
    for one in others:
        one |= {"p_corrected": None, "outcome": "not tested"}
    tested = [one for one in others if one["p_value"] is not None]
    for one, p in zip(tested, holm([one["p_value"] for one in tested]), strict=True):
        higher_or_lower = "higher" if one["value"] > 0 else "lower"
        one |= {"p_corrected": p, "outcome": higher_or_lower if p < LEVEL else "not distinguishable"}
    return measured


def _row(setting: Setting, mean: dict[str, Any], difference: dict[str, Any] | None, metric: str) -> dict[str, Any]:
    """Return one setting: its mean over the runs. With one run, the interval is the run's own, over the rows."""
    first = setting.runs[0]
    own = first.scores.get(f"{metric}_ci95")
    seconds = [run.report["throughput"].get("train_seconds") for run in setting.runs]
    return {
        "label": setting.label,
        "values": setting.values,
        **mean,
        "interval": mean["interval"] or own,
        "interval_over": "seeds" if mean["interval"] else "rows" if own else None,
        "training_rows": first.dataset["splits"].get("train", {}).get("rows"),
        "train_seconds": None if None in seconds else sum(seconds) / len(seconds),
        "runs": [{"folder": str(run.folder), "seed": run.seed, "score": run.scores[metric]} for run in setting.runs],
        "difference": difference,
    }


def _notes(
    settings: Sequence[Setting], differences: Sequence[dict[str, Any] | None], first: FinishedRun, *, is_best: bool
) -> Iterator[str]:
    """Yield notes that a reader of the table should know."""
    tests = [difference["test"] for difference in differences if difference and difference["p_value"] is not None]
    lacking = [str(run.folder) for setting in settings for run in setting.runs if not run.predictions.is_file()]
    if lacking and len(settings) > 1:
        yield f"Nothing is compared row by row, because {lacking[0]} has no predictions.csv"
    if any(len(setting.runs) == 1 for setting in settings):
        yield "With one seed, the interval covers the rows but not the variation between seeds. Add seeds"
    if tests:
        corrected = f", with Holm's correction of the p-values for {len(tests)} comparisons" if len(tests) > 1 else ""
        yield f"Differences are tested by {' and '.join(sorted(set(tests)))}{corrected}"
    if len(tests) > 1 and is_best:
        yield "The reference was chosen as the best on these same rows, so its score is slightly too good"
    if (split := first.report["checkpoint"].get("chosen_on")) == first.split:
        yield f"Checkpoints were chosen on {split}, the split that is compared, so all scores are slightly too good"


def headline(comparison: Mapping[str, Any]) -> str:
    """Return what is compared, in one line."""
    rows = comparison["settings"]
    where = f"{comparison['split']} ({comparison['rows']:,} rows)"
    name = wording.named_score(comparison["figure"], comparison)
    runs = wording.counted(sum(row["n"] for row in rows), "run")
    settings = wording.counted(len(rows), "setting")
    return f"{name[:1].upper()}{name[1:]} of {runs} of {comparison['task']} on {where}: {settings}"


def settings_table(comparison: Mapping[str, Any]) -> Table:
    """Return a row for each setting: what distinguishes it, its scores, and its difference from the reference."""
    varied, rows = comparison["varied"], comparison["settings"]
    counts = [TRAINING_ROWS] if SHARE in varied else []
    reference = [row["label"] == comparison["reference"] for row in rows].index(True)
    cells = []
    for row in rows:
        names = [setting_value(row["values"][name]) for name in varied] or [row["label"]]
        against, p = "the reference" if len(rows) > 1 else "", ""
        if (difference := row["difference"]) is not None:
            low, high = difference["interval"] or (None, None)
            against = f"{difference['value']:+.3f}" + ("" if low is None else f" ({low:+.3f} to {high:+.3f})")
            corrected, outcome = difference["p_corrected"], difference["outcome"]
            p = "-" if corrected is None else "<0.001" if corrected < 0.001 else f"{corrected:.3f}"
            p += f" {outcome}" * (outcome in ("higher", "lower"))
        own = [wording.score(row["value"]), wording.score(row["deviation"])]
        own.append(f"{wording.interval(row['interval'])}{' over rows' * (row['interval_over'] == 'rows')}")
        n_rows = [wording.number(row["training_rows"])] * len(counts)
        cells.append([*names, *n_rows, str(row["n"]), *own, against, p, wording.number(row["train_seconds"])])
    columns = [*(short_names(varied) or [""]), *counts, *MEASURED]
    return Table(columns, cells, max(len(varied), 1), reference if len(rows) > 1 else None)


def _blocks(comparison: Mapping[str, Any], drawn: Sequence[Plot] = ()) -> list[Block]:
    """Return what page and screen show below the headline."""
    better = "; lower is better" if is_lower_better(comparison["figure"]) else ""
    # First the settings that distinguish all runs, with each distinct value once.
    ordered = sorted(comparison["differing"].items(), key=lambda one: one[0] not in comparison["varied"])
    runs = [
        f"{run['folder']} (seed {run['seed']}, {run['score']:.4f})"
        for row in comparison["settings"]
        for run in row["runs"]
    ]
    relative = f"Differences are relative to {comparison['reference']}, on the same rows{better}."
    return [
        Text(relative if len(comparison["settings"]) > 1 else "", tone="quiet"),
        settings_table(comparison),
        *Text.notes(comparison["notes"]),
        *drawn,
        Items("They differ in", [f"{name}: {' | '.join(dict.fromkeys(values))}" for name, values in ordered]),
        Items("Runs", runs),
    ]


def show_comparison(comparison: Mapping[str, Any], paths: Mapping[str, str], file: TextIO | None = None) -> None:
    """Print a comparison from `build_comparison`, on standard error unless `file` is given."""
    show([Heading(headline(comparison)), *_blocks(comparison), Items.files(paths)], file)


def write_comparison(folder: Path, comparison: Mapping[str, Any]) -> dict[str, str]:
    """Write compare.json, compare.html and, of several settings, plots/scores.png into `folder`.

    Return their paths by name. Raises DataError if the folder cannot be written to.
    """
    metric, rows = wording.words_of(comparison["figure"]), comparison["settings"]
    paths = {"html": folder / "compare.html", "json": folder / "compare.json"}
    drawn: list[Plot] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if len(rows) > 1:
            what = f"{metric.capitalize()} of each setting: a mark for each seed, the mean and its 95% interval."
            drawn = [Plot(plots.settings_plot(rows, comparison["reference"], metric), what)]
            paths["plot"] = folder / "plots" / "scores.png"
            paths["plot"].parent.mkdir(exist_ok=True)
            with atomic_write(paths["plot"]) as temporary:
                plots.write_png(drawn[0].figure, temporary)
        write_files(paths["html"], headline(comparison), _blocks(comparison, drawn), comparison)
    except OSError as error:
        remedy = "Set output=... to a folder you can write to"
        raise DataError(f"{folder} cannot be written to: {error.strerror or error}", remedy=remedy) from None
    return {kind: str(path) for kind, path in paths.items()}
