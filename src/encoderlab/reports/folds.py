"""The results of a cross-validation: its report, the predictions for all rows, and the labels to check."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from encoderlab.errors import DataError
from encoderlab.metrics.comparison import SEPARATOR
from encoderlab.metrics.intervals import mean_of, wilson
from encoderlab.metrics.scores import within_range
from encoderlab.reports import wording
from encoderlab.reports.blocks import Block, Heading, Items, Passage, Table, Text, json_safe, show, write_html_json
from encoderlab.reports.comparisons import baseline_blocks, headline_block, verdict_on
from encoderlab.reports.facts import RunFacts, settings_section
from encoderlab.reports.predictions import carried_names, place_columns, write_table

if TYPE_CHECKING:
    import pandas as pd

OUT_OF_FOLD = "out_of_fold"  # the split made of all tested rows
TESTED = "test"  # the split of a fold's run that is its fold
INTERVAL = (
    "Intervals are those of Nadeau and Bengio (2003) for training sets that overlap; with few folds they are wide. "
    "They cover the choice of rows, not other seeds"
)
MOST_LABELS = 20  # labels to check, shown on the page
MOST_ON_SCREEN = 5  # labels to check, shown on the screen
PROBABILITY = "probability_"  # before a label's name, in the name of a column
# Above each accuracy, the precision that was measured
TRIALS = ((0.9, "nine in ten"), (0.8, "six in ten"), (0.5, "one in five"))


@dataclass(frozen=True, slots=True)
class Fold:
    """A finished fold: the folder of its run, its report.json, and the number of rows it was trained on."""

    folder: Path
    report: Mapping[str, Any]
    trained_on: int


def build_folds_report(folds: Sequence[Fold], unused_test_rows: int = 0) -> dict[str, Any]:
    """Return report.json's content. The split `out_of_fold` has the means over the folds, with intervals that are
    clipped to a score's range.
    """
    reports = [fold.report for fold in folds]
    scores = [report["splits"][TESTED] for report in reports]
    first = reports[0]
    main_score = first["main_score"]
    n_rows = sum(fold_scores["n"] for fold_scores in scores)
    test_to_train = n_rows / sum(fold.trained_on for fold in folds)

    # The mean of each score that all folds have, with its interval.
    names = []
    for name in scores[0]:
        if name != "n" and all(_is_number(fold_scores.get(name)) for fold_scores in scores):
            names.append(name)
    over = {name: mean_of([fold_scores[name] for fold_scores in scores], test_to_train) for name in names}
    means: dict[str, Any] = {"n": n_rows}
    if "positive_label" in scores[0]:
        means["positive_label"] = scores[0]["positive_label"]
    for name, mean in over.items():
        means[name] = mean.value
        has_width = bool(mean.deviation)  # folds that are all the same say nothing about other rows
        means[f"{name}_ci95"] = within_range(name, mean.interval) if has_width else None

    # The same for the baselines, and each fold by itself.
    baselines = _baselines(reports, main_score, test_to_train)
    seconds = [report["throughput"].get("train_seconds") for report in reports]
    notes = [INTERVAL]
    if unused_test_rows:
        why = "because folds are made of the training rows"
        notes.append(f"The test split ({unused_test_rows:,} rows) was not used, {why}")
    each_fold = []
    for number, (fold, fold_scores) in enumerate(zip(folds, scores, strict=True), start=1):
        about = {"fold": number, "folder": fold.folder.name, "trained_on": fold.trained_on, "n": fold_scores["n"]}
        each_fold.append(about | {name: fold_scores[name] for name in names})

    report = {
        **{name: first.get(name) for name in ("command", "task", "data", "seed", "init_from", "model", "main_score")},
        "scored_split": OUT_OF_FOLD,
        "splits": {OUT_OF_FOLD: means | {"per_class": _per_class(scores)}},
        "deviations": {name: mean.deviation for name, mean in over.items()},
        "folds": each_fold,
        "baselines": baselines,
        "verdict": verdict_on(baselines, f"Over the folds, the model's {wording.named_score(main_score, scores[0])}"),
        "throughput": {"train_seconds": None if None in seconds else round(sum(seconds), 3)},
        "checkpoint": {"step": None, "chosen_by": "one of each fold", "chosen_on": None},
        "notes": notes,
    }
    return json_safe(report)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _per_class(scores: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return precision, recall and F1 of each class over the folds, weighted by its rows; `support` counts all."""
    per_class = {}
    for name in scores[0].get("per_class", {}):
        each_fold = [fold_scores["per_class"][name] for fold_scores in scores]
        support = sum(own["support"] for own in each_fold)
        means = {}
        for key in ("precision", "recall", "f1"):
            weighted = sum(own[key] * own["support"] for own in each_fold)
            means[key] = weighted / max(support, 1)
        per_class[name] = means | {"support": support}
    return per_class


def _baselines(
    reports: Sequence[Mapping[str, Any]], main_score: str, test_to_train: float
) -> dict[str, dict[str, Any]]:
    """Return the mean main score of each baseline that every fold has, and the model's lead over it."""
    baselines = {}
    for name in reports[0]["baselines"]:
        each_fold = [report["baselines"].get(name, {}) for report in reports]
        needed = [own.get(key) for own in each_fold for key in (main_score, "model_leads_by")]
        if all(_is_number(value) for value in needed):
            lead = mean_of([own["model_leads_by"] for own in each_fold], test_to_train)
            baselines[name] = {
                main_score: float(np.mean([own[main_score] for own in each_fold])),
                "seconds": sum(own.get("seconds") or 0 for own in each_fold),
                "model_leads_by": lead.value,
                "model_leads_by_ci95": lead.interval,
            }
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

    tables = []
    rows_of_folds = []
    for fold, path in enumerate(predictions, start=1):
        rows = np.flatnonzero(folds == fold)
        fold_table = pd.read_csv(path, dtype=str, keep_default_na=False).loc[:, "text":]  # after the places
        if len(fold_table) != len(rows):
            problem = f"{path} does not contain the {len(rows):,} rows of its fold"
            raise DataError(problem, remedy="Delete that fold's folder, and resume")
        tables.append(fold_table)
        rows_of_folds.append(rows)
    order = np.argsort(np.concatenate(rows_of_folds))
    table = pd.concat(tables, ignore_index=True).iloc[order].reset_index(drop=True)
    numbers = {"label", "predicted"}
    if labels:
        numbers = {f"{PROBABILITY}{name}" for name in labels} & set(table)
    table = table.astype(dict.fromkeys(numbers, float))
    ours = {"fold": folds, **place_columns(where)}
    return pd.concat([pd.DataFrame(ours), table.rename(columns=carried_names(table.columns, ours))], axis=1)


def add_random_rows(report: dict[str, Any], table: pd.DataFrame, drawn: np.ndarray) -> None:
    """Add to the report the accuracy on the rows that were `drawn` at random to be labelled: the others were chosen,
    and stand for no other texts.
    """
    right = np.asarray(table["label"] == table["predicted"])[drawn]
    accuracy = float(right.mean())
    bounds = wilson(accuracy, len(right))
    report["drawn_at_random"] = {"n": len(right), "accuracy": accuracy, "accuracy_ci95": bounds}
    figure = f"accuracy is {wording.score(accuracy)} (95% interval {wording.interval(bounds)})"
    rows = f"the {wording.counted(len(right), 'row')} that were drawn at random to be labelled"
    report["notes"].append(f"On {rows}, {figure}: the others were chosen, and say less about new texts")


def labels_to_check(table: pd.DataFrame, names: Sequence[str], target: str) -> pd.DataFrame:
    """Return the labels of a table from `out_of_fold_table` that should be checked, the least plausible first.

    `names` are the labels', `target` is label or label_set. How many are listed is estimated by confident learning
    (Northcutt, Jiang and Chuang, JAIR 70, 2021). In sets, each label is judged by itself, as assigned or not: those are
    listed that the model finds less probable than not, and `change` says which one. A model that has learned nothing
    doubts correct labels: unless it is right more often than the most frequent label, by two standard errors, it lists
    none.
    """
    probabilities = table[[f"{PROBABILITY}{name}" for name in names]].to_numpy(float)
    if target == "label_set":
        assigned = np.array([[name in label.split(SEPARATOR) for name in names] for label in table["label"]])
        right = (probabilities >= 0.5) == assigned
        shares = assigned.mean(0)
        most_frequent = np.maximum(shares, 1 - shares).mean()
        rows, judged = np.nonzero(~right)
        label_probability = np.where(assigned, probabilities, 1 - probabilities)[rows, judged]
        sets = assigned[rows]
        sets[np.arange(len(rows)), judged] ^= True
        changes = []
        for row, label in zip(rows, judged.tolist(), strict=True):
            changes.append(f"{'remove' if assigned[row, label] else 'add'} {names[label]}")
        about = {
            "predicted": [SEPARATOR.join(compress(names, labels)) for labels in sets],
            "change": changes,
            "probability": 1 - label_probability,
            "probability_of_label": label_probability,
        }
    else:
        from cleanlab.filter import find_label_issues

        labels = table["label"].map(list(names).index).to_numpy()
        right = probabilities.argmax(1) == labels
        most_frequent = np.bincount(labels).max() / len(labels)
        issues = find_label_issues(labels, probabilities, filter_by="low_self_confidence", n_jobs=1)
        rows = np.flatnonzero(issues & ~right)
        about = {
            "predicted": np.array(names, object)[probabilities[rows].argmax(1)],
            "probability": probabilities[rows].max(1),
            "probability_of_label": probabilities[rows, labels[rows]],
        }

    # The least plausible first; none if the model has learned nothing.
    columns = [name for name in ("file", "line", "fold", "text", "text_pair", "label") if name in table]
    listed = table.iloc[rows][columns].reset_index(drop=True).assign(**about)
    listed = listed.sort_values("probability_of_label", kind="stable").round(6)
    standard_error = right.std() / np.sqrt(right.size)
    has_learned = right.mean() - most_frequent > 2 * standard_error
    return listed if has_learned else listed.iloc[:0]


def write_folds_report(
    folder: Path, report: dict[str, Any], facts: RunFacts, predictions: pd.DataFrame, to_check: pd.DataFrame | None
) -> None:
    """Write the tables as csv files, report.html, and last report.json, with which the run is finished."""
    for name, table in (("predictions", predictions), ("label_errors", to_check)):
        if table is not None:
            rows = table.astype(object).itertuples(index=False, name=None)
            write_table(folder / f"{name}.csv", list(table.columns), rows)
    if to_check is not None:
        report["label_errors"] = {"n": len(to_check), "of": len(predictions)}
    n_rows = wording.counted(report["splits"][OUT_OF_FOLD]["n"], "row")
    mean = headline_block(report, OUT_OF_FOLD, f"{n_rows}, each tested once in {len(report['folds'])} folds")
    blocks = [mean, *_blocks(report, to_check, MOST_LABELS), *settings_section(facts)]
    write_html_json(folder / "report.html", f"{wording.title_of(report)}: {len(report['folds'])} folds", blocks, report)


def show_folds_report(
    report: Mapping[str, Any], to_check: pd.DataFrame | None, files: Mapping[str, str], file: TextIO | None = None
) -> None:
    """Print the scores over the folds, and the first labels to check, on standard error unless `file` is given."""
    title = Heading(f"{wording.title_of(report)}: {len(report['folds'])} folds")
    show([title, *_blocks(report, to_check, MOST_ON_SCREEN), Items.files(files)], file)


def _blocks(report: Mapping[str, Any], to_check: pd.DataFrame | None, most_labels: int) -> list[Block]:
    """Return what page and screen show: the mean, the baselines, each fold, and labels to check."""
    main_score = report["main_score"]
    scores = report["splits"][OUT_OF_FOLD]
    mean = f"Mean {wording.named_score(main_score, scores)} {wording.with_interval(scores, main_score)}"
    labels: list[Block] = []
    if to_check is not None:
        words = "label_errors.csv is empty: none stands out, or the model is no better than the most frequent label."
        if len(to_check):
            words = f"label_errors.csv lists them all, the least plausible first.{_precision_in_trials(scores)}"
        counts = f"{len(to_check):,} labels to check, of {report['label_errors']['of']:,} rows"
        rows = to_check.head(most_labels).to_dict("records")
        labels = [Heading("Labels to check"), Text(f"{counts}: {words}"), *map(_passage, rows)]
    return [
        Text(
            f"{mean} over {len(report['folds'])} folds ({wording.number(scores['n'])} rows, each tested once, by a "
            "model that has not seen it)."
        ),
        *baseline_blocks(report),
        *(Text(note, "Note") for note in report["notes"]),
        Heading("Folds"),
        Text("Each fold has its own run and page."),
        _folds_table(report),
        *labels,
    ]


def _precision_in_trials(scores: Mapping[str, Any]) -> str:
    """Return how many of the listed labels were wrong in trials at this accuracy, in words; "" if it was too low."""
    accuracy = scores.get("accuracy") or 0
    for min_accuracy, share in TRIALS:
        if accuracy >= min_accuracy:
            return f" In trials at this accuracy, {share} of the listed labels were wrong."
    return ""


def _folds_table(report: Mapping[str, Any]) -> Table:
    """Return a row for each fold with its scores; and their means, standard deviations and intervals."""
    scores = report["splits"][OUT_OF_FOLD]
    deviations = report["deviations"]
    rows = [(fold["folder"], f"{fold['trained_on']:,}", f"{fold['n']:,}", fold) for fold in report["folds"]]
    rows += [("mean", "", wording.number(scores["n"]), scores), ("std. dev.", "", "", deviations)]
    cells = [[*about, *(wording.score(own[name]) for name in deviations)] for *about, own in rows]
    cells.append(["95% interval", "", "", *(wording.interval(scores[f"{name}_ci95"]) for name in deviations)])
    names = [wording.named_score(name, scores) for name in deviations]
    return Table(("fold", "trained on", "tested", *names), cells)


def _passage(row: Mapping[Any, Any]) -> Passage:
    """Return a label to check, with its place: the file if there are several, and the line."""
    label_chance, predicted_chance = (
        f" ({wording.percent(row[name])})" for name in ("probability_of_label", "probability")
    )
    label, predicted = (wording.shown(row[name], 60) or "no label" for name in ("label", "predicted"))
    place = ", ".join(filter(None, (row.get("file", ""), f"line {row['line']}" if row["line"] else "")))
    heading = [("labelled ", ""), (label, "bad"), (f"{label_chance}, perhaps ", ""), (predicted, "good")]
    heading.append((f"{predicted_chance} · {wording.shown(place, 120)}", "quiet"))
    texts = [row[name] for name in ("text", "text_pair") if name in row]
    return Passage(heading, [[{"text": wording.shown(text), "weight": 0}] for text in texts])
