"""The results of a cross-validation: its report, the predictions for all rows, and the labels to check."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from encoderlab.errors import DataError
from encoderlab.metrics.comparison import SEPARATOR
from encoderlab.metrics.intervals import OverFolds, over_folds
from encoderlab.metrics.scores import is_lower_better
from encoderlab.reports.baselines import baseline_blocks, verdict_on
from encoderlab.reports.blocks import (
    Block,
    Heading,
    Passage,
    Table,
    Text,
    files_list,
    interval,
    json_safe,
    named_score,
    notes,
    number,
    percent,
    score,
    show,
    shown,
    with_interval,
    write_json,
    write_page,
)
from encoderlab.reports.facts import Facts, settings_section
from encoderlab.reports.predictions import carried_names, write_table
from encoderlab.reports.training import title_of

if TYPE_CHECKING:
    import pandas as pd

OUT_OF_FOLD = "out_of_fold"  # the split made of all tested rows
TESTED = "test"  # the split of a fold's run that is its fold
INTERVAL = (
    "Intervals are those of Nadeau and Bengio (2003) for training sets that overlap; with few folds they are wide. "
    "They cover the choice of rows, not other seeds"
)
CORRELATIONS = ("matthews", "pearson", "spearman")  # from -1 to 1
MOST_LABELS, MOST_ON_SCREEN = 20, 5  # labels to check, shown on the page and on the screen
PROBABILITY = "probability_"  # before a label's name, in the name of a column
TRIALS = ((0.9, "nine in ten"), (0.8, "six in ten"), (0.5, "one in five"))  # least accuracy, and the precision measured
_PLACE = re.compile(r"(.*?)(?:, )?(?:lines?|row) (\d+)(?: to \d+)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Fold:
    """A finished fold: the folder of its run, its report.json, and the number of rows it was trained on."""

    folder: Path
    report: Mapping[str, Any]
    trained_on: int


def build_folds_report(folds: Sequence[Fold], unused_test_rows: int = 0) -> dict[str, Any]:
    """Return report.json's content. The split `out_of_fold` has the means over the folds with intervals."""
    reports = [fold.report for fold in folds]
    scores = [report["splits"][TESTED] for report in reports]
    n_rows, first, main = sum(one["n"] for one in scores), reports[0], reports[0]["main_figure"]
    share = n_rows / sum(fold.trained_on for fold in folds)
    names = [name for name in scores[0] if name != "n" and all(_is_number(one.get(name)) for one in scores)]
    over = {name: over_folds([one[name] for one in scores], share) for name in names}
    label = {"positive_label": scores[0]["positive_label"]} if "positive_label" in scores[0] else {}
    baselines = _baselines(reports, main, share)
    seconds = [report["throughput"].get("train_seconds") for report in reports]
    unused = f"The test split ({unused_test_rows:,} rows) was not used, because folds are made of the training rows"
    own = {name: first.get(name) for name in ("command", "task", "data", "seed", "init_from", "model", "main_figure")}
    report = {
        **own,
        "scored_split": OUT_OF_FOLD,
        "splits": {OUT_OF_FOLD: {"n": n_rows, **label, **_means(over), "per_class": _per_class(scores)}},
        "deviations": {name: one.deviation for name, one in over.items()},
        "folds": [
            {
                "fold": place,
                "folder": fold.folder.name,
                "trained_on": fold.trained_on,
                **{name: one[name] for name in ("n", *over)},
            }
            for place, (fold, one) in enumerate(zip(folds, scores, strict=True), start=1)
        ],
        "baselines": baselines,
        "verdict": verdict_on(baselines, f"Over the folds, the model's {named_score(main, scores[0])}"),
        "throughput": {"train_seconds": None if None in seconds else round(sum(seconds), 3)},
        "checkpoint": {"step": None, "chosen_by": "one of each fold", "chosen_on": None},
        "notes": [INTERVAL, *([unused] if unused_test_rows else [])],
    }
    return json_safe(report)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _means(over: Mapping[str, OverFolds]) -> dict[str, Any]:
    """Return means and intervals as in report.json; intervals are clipped to a score's range."""
    means: dict[str, Any] = {}
    for name, one in over.items():
        low, high = one.interval
        least = -1.0 if name in CORRELATIONS else 0.0
        means[name] = one.mean
        means[f"{name}_ci95"] = [max(low, least), high if is_lower_better(name) else min(high, 1.0)]
    return means


def _per_class(scores: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return precision, recall and F1 of each class over the folds, weighted by its rows; `support` counts all."""
    per_class = {}
    for name in scores[0].get("per_class", {}):
        each = [one["per_class"][name] for one in scores]
        support = sum(one["support"] for one in each)
        weighted = {key: sum(one[key] * one["support"] for one in each) for key in ("precision", "recall", "f1")}
        per_class[name] = {key: total / max(support, 1) for key, total in weighted.items()} | {"support": support}
    return per_class


def _baselines(reports: Sequence[Mapping[str, Any]], main: str, share: float) -> dict[str, dict[str, Any]]:
    """Return the mean main score of each baseline that every fold has, and the model's lead over it."""
    baselines = {}
    for name in reports[0]["baselines"]:
        each = [report["baselines"].get(name, {}) for report in reports]
        if all(_is_number(one.get(main)) and _is_number(one.get("model_leads_by")) for one in each):
            lead = over_folds([one["model_leads_by"] for one in each], share)
            mean = float(np.mean([one[main] for one in each]))
            baselines[name] = {main: mean, "model_leads_by": lead.mean, "model_leads_by_ci95": lead.interval}
    return baselines


def out_of_fold_table(
    predictions: Sequence[Path], folds: np.ndarray, where: Sequence[str], labels: Sequence[str]
) -> pd.DataFrame:
    """Return the predictions.csv of every fold in one table, in the rows' order, with `fold` and `line` as first
    columns.

    `folds` has the fold of each row, counted from 1, and `where` its place, such as "reviews.csv, line 7". `file` is a
    column too if there are several; no `labels` means numbers. Raises DataError if a file does not contain its rows.
    """
    import pandas as pd

    parts, rows = [], []
    for fold, path in enumerate(predictions, start=1):
        rows.append(np.flatnonzero(folds == fold))
        parts.append(pd.read_csv(path, dtype=str, keep_default_na=False))
        if len(parts[-1]) != len(rows[-1]):
            wrong = f"{path} does not contain the {len(rows[-1]):,} rows of its fold"
            raise DataError(wrong, remedy="Delete that fold's folder, and resume")
    table = pd.concat(parts, ignore_index=True).iloc[np.argsort(np.concatenate(rows))].reset_index(drop=True)
    numbers = {f"{PROBABILITY}{name}" for name in labels} & set(table) if labels else {"label", "predicted"}
    table = table.astype(dict.fromkeys(numbers, float))
    matches = [(_PLACE.fullmatch(place), place) for place in where]
    files = [match[1] if match else place for match, place in matches]
    ours = {
        "fold": folds,
        **({"file": files} if len(set(files)) > 1 else {}),
        "line": [int(match[2]) if match else "" for match, _ in matches],
    }
    return pd.concat([pd.DataFrame(ours), table.rename(columns=carried_names(table.columns, ours))], axis=1)


def labels_to_check(table: pd.DataFrame, names: Sequence[str], target: str) -> pd.DataFrame:
    """Return the labels of a table from `out_of_fold_table` that should be checked, the least plausible first.

    `names` are the labels', `target` is label or label_set. How many are listed is estimated by confident learning
    (Northcutt, Jiang and Chuang, JAIR 70, 2021), which knows how often the model errs with each label; they are those
    with the least probable labels. In sets, each label is judged by itself, as assigned or not: those are listed that
    the model finds less probable than not, and `change` says which one. A row has its place (`file` if there are
    several, `line`, `fold`), its texts, `label`, what that may have to be instead, `predicted`, and the `probability`
    of either state of what is judged. A model that has learned nothing doubts correct labels, so it lists none.
    """
    probabilities = np.stack([table[f"{PROBABILITY}{name}"].to_numpy(float) for name in names], axis=1)
    if target == "label_set":
        assigned = np.array([[name in label.split(SEPARATOR) for name in names] for label in table["label"]])
        rows, judged = np.nonzero((probabilities >= 0.5) != assigned)
        is_assigned, of_label = assigned[rows, judged], probabilities[rows, judged]
        sets = assigned[rows]
        sets[np.arange(len(rows)), judged] ^= True
        about = {
            "predicted": [SEPARATOR.join(itertools.compress(names, one)) for one in sets],
            "change": [
                f"{'remove' if there else 'add'} {names[int(k)]}" for there, k in zip(is_assigned, judged, strict=True)
            ],
            "probability": np.where(is_assigned, 1 - of_label, of_label),
            "probability_of_label": np.where(is_assigned, of_label, 1 - of_label),
        }
    else:
        from cleanlab.filter import find_label_issues

        labels = table["label"].map(list(names).index).to_numpy()
        assigned = np.eye(len(names), dtype=bool)[labels]
        issues = find_label_issues(labels, probabilities, filter_by="low_self_confidence", n_jobs=1)
        rows = np.flatnonzero(issues)
        likely = probabilities[rows].argmax(1)
        about = {
            "predicted": [names[class_id] for class_id in likely.tolist()],
            "probability": probabilities[rows, likely],
            "probability_of_label": probabilities[rows, labels[rows]],
        }
    columns = [name for name in ("file", "line", "fold", "text", "text_pair", "label") if name in table]
    listed = table.iloc[rows][columns].reset_index(drop=True).assign(**about)
    listed = listed[listed["label"] != listed["predicted"]].sort_values("probability_of_label", kind="stable").round(6)
    return listed if _has_learned(probabilities, assigned, target) else listed.iloc[:0]


def _has_learned(probabilities: np.ndarray, assigned: np.ndarray, target: str) -> bool:
    """Return whether a model is right more often than the most frequent label, by two standard errors: both [rows,
    labels].
    """
    shares = assigned.mean(0)
    if target == "label_set":
        right, most_frequent = (probabilities >= 0.5) == assigned, np.maximum(shares, 1 - shares).mean()
    else:
        right, most_frequent = probabilities.argmax(1) == assigned.argmax(1), shares.max()
    return bool(right.mean() - most_frequent > 2 * right.std() / np.sqrt(right.size))


def write_folds_report(
    folder: Path, report: dict[str, Any], facts: Facts, predictions: pd.DataFrame, to_check: pd.DataFrame | None
) -> None:
    """Write the tables as csv files, report.html, and last report.json, with which the run is finished."""
    for name, table in (("predictions", predictions), ("label_errors", to_check)):
        if table is not None:
            rows = table.astype(object).itertuples(index=False, name=None)
            write_table(folder / f"{name}.csv", list(table.columns), rows)
    if to_check is not None:
        report["label_errors"] = {"n": len(to_check), "of": len(predictions)}
    mean = Text(score(report["splits"][OUT_OF_FOLD][report["main_figure"]]), tone="headline")
    blocks = [mean, *_blocks(report, to_check, MOST_LABELS), *settings_section(facts)]
    write_page(folder / "report.html", f"{title_of(report)}: {len(report['folds'])} folds", blocks)
    write_json(folder / "report.json", report)


def show_folds_report(
    report: Mapping[str, Any], to_check: pd.DataFrame | None, files: Mapping[str, str], file: TextIO | None = None
) -> None:
    """Print the scores over the folds, and the first labels to check, on standard error unless `file` is given."""
    title = Heading(f"{title_of(report)}: {len(report['folds'])} folds")
    show([title, *_blocks(report, to_check, MOST_ON_SCREEN), files_list(files)], file)


def _blocks(report: Mapping[str, Any], to_check: pd.DataFrame | None, most_labels: int) -> list[Block]:
    """Return what page and screen show: the mean, the baselines, each fold, and labels to check."""
    main, scores = report["main_figure"], report["splits"][OUT_OF_FOLD]
    labels: list[Block] = []
    if to_check is not None:
        rest = "lists them all, the least plausible first" if len(to_check) else "has no rows"
        first = f"{_labels_line(report)}. label_errors.csv {rest}."
        rows = to_check.head(most_labels).to_dict("records")
        labels = [Heading("Labels to check"), Text(first), *map(_passage, rows)]
    return [
        Text(
            f"Mean {named_score(main, scores)} {with_interval(scores, main)} over {len(report['folds'])} folds "
            f"({number(scores['n'])} rows, each tested once, by a model that has not seen it)."
        ),
        *baseline_blocks(report),
        *notes(report["notes"]),
        Heading("Folds"),
        Text("Each fold has its own run and page."),
        folds_table(report),
        *labels,
    ]


def folds_table(report: Mapping[str, Any]) -> Table:
    """Return a row for each fold with its scores; and their means, standard deviations and intervals."""
    scores, names = report["splits"][OUT_OF_FOLD], list(report["deviations"])
    rows = [
        [fold["folder"], number(fold["trained_on"]), number(fold["n"]), *(score(fold[name]) for name in names)]
        for fold in report["folds"]
    ]
    rows += [
        ["mean", "", number(scores["n"]), *(score(scores[name]) for name in names)],
        ["std. dev.", "", "", *(score(report["deviations"][name]) for name in names)],
        ["95% interval", "", "", *(interval(scores[f"{name}_ci95"]) for name in names)],
    ]
    return Table(("fold", "trained on", "tested", *(named_score(name, scores) for name in names)), rows)


def _labels_line(report: Mapping[str, Any]) -> str:
    """Return how many labels to check there are, and the share that was wrong in trials with 5% changed labels."""
    counts, accuracy = report["label_errors"], report["splits"][OUT_OF_FOLD].get("accuracy")
    line = f"{number(counts['n'])} labels to check, of {number(counts['of'])} rows"
    share = next((share for least, share in TRIALS if accuracy is not None and accuracy >= least), "")
    if not counts["n"]:
        return f"{line}: none stands out, or the model is no better than always predicting the most frequent label"
    return line if not share else f"{line}; in trials at this accuracy, {share} of the listed labels were wrong"


def _passage(row: Mapping[Any, Any]) -> Passage:
    of_label, of_predicted = (f" ({percent(row[name])})" for name in ("probability_of_label", "probability"))
    heading = [("labelled ", ""), (_shown_label(row["label"]), "bad"), (f"{of_label}, perhaps ", "")]
    heading += [(_shown_label(row["predicted"]), "good"), (f"{of_predicted} · {_place(row)}", "quiet")]
    texts = [row[name] for name in ("text", "text_pair") if name in row]
    return Passage(heading, [[{"text": shown(text), "weight": 0}] for text in texts])


def _place(row: Mapping[Any, Any]) -> str:
    """Return where a label is: its file if there are several, and line."""
    return shown(", ".join(filter(None, (row.get("file", ""), f"line {row['line']}" if row["line"] else ""))), 120)


def _shown_label(label: str) -> str:
    return shown(label, 60) or "no label"  # a set may be empty
