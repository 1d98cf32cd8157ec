"""The results of a cross-validation: its report, the predictions for all rows, and the labels that are
probably wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from encoderlab.errors import DataError
from encoderlab.metrics.comparison import SEPARATOR
from encoderlab.metrics.intervals import OverFolds, over_folds
from encoderlab.metrics.label_errors import LabelErrors, find_label_errors, find_label_set_errors, find_number_errors
from encoderlab.metrics.scores import is_lower_better
from encoderlab.reports.facts import Facts, settings_section
from encoderlab.reports.page import write_page
from encoderlab.reports.predictions import carried_names, write_table
from encoderlab.reports.screen import show
from encoderlab.reports.tables import (
    Block,
    Heading,
    Items,
    Passage,
    Table,
    Text,
    interval,
    json_safe,
    named_score,
    notes,
    number,
    percent,
    score,
    shown,
    with_interval,
)
from encoderlab.reports.training import baseline_blocks, title_of, verdict_on, write_json

if TYPE_CHECKING:
    import pandas as pd

OUT_OF_FOLD = "out_of_fold"  # the split made of all tested rows
TESTED = "test"  # the split of a fold's run that is its fold
INTERVAL = (
    "Intervals are those of Nadeau and Bengio (2003) for training sets that overlap; with few folds they are wide. "
    "They cover the choice of rows, not other seeds"
)
CORRELATIONS = ("matthews", "pearson", "spearman")  # from -1 to 1
MOST_ERRORS, MOST_ON_SCREEN = 20, 5  # labels to check, shown on the page and on the screen
PROBABILITY = "probability_"  # before a label's name, in the name of a column
CONFIDENT = "a model that has not seen the {unit} is as confident in {other} as it usually is when that is right"
FAR = (
    "they are further from the prediction of a model that has not seen the row than 3.5 standard deviations, as "
    "estimated from the median absolute residual"
)
_PLACE = re.compile(r"(.*?)(?:, )?(?:lines?|row) (\d+)(?: to \d+)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Fold:
    """A finished fold: the folder of its run, its report.json, and the number of rows it was trained on."""

    folder: Path
    report: Mapping[str, Any]
    trained_on: int


def build_folds_report(folds: Sequence[Fold], unused_test_rows: int = 0) -> dict[str, Any]:
    """Return the content of report.json: JSON-safe. The split `out_of_fold` has each mean over the folds, with its
    interval.
    """
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
    own = {name: first[name] for name in ("command", "task", "seed", "init_from", "model", "main_figure")}
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
    """Return precision, recall and F1 of each class over the folds, weighted by each fold's rows of it; `support`
    counts all.
    """
    per_class = {}
    for name in scores[0].get("per_class", {}):
        each = [one["per_class"][name] for one in scores]
        support = sum(one["support"] for one in each)
        weighted = {key: sum(one[key] * one["support"] for one in each) for key in ("precision", "recall", "f1")}
        per_class[name] = {key: total / max(support, 1) for key, total in weighted.items()} | {"support": support}
    return per_class


def _baselines(reports: Sequence[Mapping[str, Any]], main: str, share: float) -> dict[str, dict[str, Any]]:
    """Return for each baseline that every fold has its mean main score, and the model's lead over it across
    the folds.
    """
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


@dataclass(frozen=True, slots=True)
class LabelsToCheck:
    """Labels that are probably wrong, the least plausible first, among `of` judged ones.

    A row of `table` has its place (`file` if there are several, `line`, `fold`; a word also `sentence`, `word_number`
    and `word`), its texts, `label`, and what that probably is instead, `predicted`. Classes have the `probability` of
    that, the `probability_of_label`, and the `margin` between them. Numbers have the residual in robust standard
    deviations, `deviations`. In sets of labels one label is judged at a time, and `change` says which. `judged` names
    in the plural what was judged, and `because` says what makes it probably wrong.
    """

    table: pd.DataFrame
    of: int
    judged: str
    because: str


def check_labels(
    table: pd.DataFrame, names: Sequence[str], target: str, of_words: Iterator[np.ndarray] | None = None
) -> LabelsToCheck:
    """Return the labels to check in a table from `out_of_fold_table`; `names` are the labels'.

    `target` is label, label_set or number. `of_words` yields the probabilities of the words of each row of a tagging
    task, [words, labels]; truncated words have none.
    """
    if of_words is not None:
        return _words(table, names, list(of_words))
    if target == "number":
        errors = find_number_errors(table["label"].to_numpy(float), table["predicted"].to_numpy(float))
        predicted = table["predicted"].iloc[errors.rows].to_numpy(float)
        wrong = _listed(table, errors.rows).assign(predicted=predicted, deviations=errors.distances.round(2))
        return LabelsToCheck(wrong, len(table), "numbers", FAR)
    probabilities = np.stack([table[f"{PROBABILITY}{name}"].to_numpy(float) for name in names], axis=1)
    if target == "label_set":
        return _label_sets(table, names, probabilities)
    ids = {name: place for place, name in enumerate(names)}
    labels = np.array([ids[label] for label in table["label"]])
    errors = find_label_errors(labels, probabilities)
    wrong = _listed(table, errors.rows).assign(**_probable(errors, labels, probabilities, names))
    return LabelsToCheck(wrong, len(table), "labels", CONFIDENT.format(unit="row", other="another label"))


def _label_sets(table: pd.DataFrame, names: Sequence[str], probabilities: np.ndarray) -> LabelsToCheck:
    """Judge each label of each row by itself, as assigned or not."""
    assigned = np.zeros(probabilities.shape, dtype=bool)
    for row, labels in enumerate(table["label"]):
        assigned[row, [names.index(label) for label in labels.split(SEPARATOR) if label]] = True
    errors = find_label_set_errors(assigned, probabilities)
    is_assigned = assigned[errors.rows, errors.labels]
    of_label = probabilities[errors.rows, errors.labels]
    changed = assigned[errors.rows]
    changed[np.arange(len(changed)), errors.labels] ^= True
    wrong = _listed(table, errors.rows).assign(
        predicted=[SEPARATOR.join(names[label] for label in np.flatnonzero(one).tolist()) for one in changed],
        change=[
            f"{'remove' if there else 'add'} {names[label]}"
            for there, label in zip(is_assigned, errors.labels, strict=True)
        ],
        probability=_rounded(np.where(is_assigned, 1 - of_label, of_label)),
        probability_of_label=_rounded(np.where(is_assigned, of_label, 1 - of_label)),
        margin=_rounded(errors.margins),
    )
    because = CONFIDENT.format(unit="row", other="the opposite")
    return LabelsToCheck(wrong, assigned.size, "labels (assigned to a row or not)", because)


def _words(table: pd.DataFrame, names: Sequence[str], of_words: Sequence[np.ndarray]) -> LabelsToCheck:
    """Judge each word by itself."""
    ids = {name: place for place, name in enumerate(names)}
    lengths = np.array([len(of_row) for of_row in of_words])
    labelled = zip(table["label"], lengths, strict=True)
    labels = np.array([ids[name] for row, length in labelled for name in row.split(" ")[:length] if length])
    probabilities = np.concatenate(of_words)
    errors = find_label_errors(labels, probabilities)
    sentences = np.repeat(np.arange(len(table)), lengths)[errors.rows]
    words = errors.rows - (np.cumsum(lengths) - lengths)[sentences]
    numbers = table.groupby("file").cumcount() + 1 if "file" in table else np.arange(1, len(table) + 1)
    wrong = _listed(table.assign(sentence=numbers), sentences)
    after = list(wrong.columns).index("sentence") + 1
    wrong.insert(after, "word_number", words + 1)
    texts = [table["text"].iloc[row].split(" ")[word] for row, word in zip(sentences, words, strict=True)]
    wrong.insert(after + 1, "word", texts)
    wrong = wrong.assign(
        label=[names[place] for place in labels[errors.rows]], **_probable(errors, labels, probabilities, names)
    )
    return LabelsToCheck(wrong, len(labels), "words' labels", CONFIDENT.format(unit="sentence", other="another label"))


def _probable(
    errors: LabelErrors, labels: np.ndarray, probabilities: np.ndarray, names: Sequence[str]
) -> dict[str, Any]:
    """Return the columns about the probable labels of `errors`."""
    return {
        "predicted": [names[place] for place in errors.likely],
        "probability": _rounded(probabilities[errors.rows, errors.likely]),
        "probability_of_label": _rounded(probabilities[errors.rows, labels[errors.rows]]),
        "margin": _rounded(errors.margins),
    }


def _rounded(probabilities: np.ndarray) -> np.ndarray:
    return probabilities.astype(np.float64).round(6)


def _listed(table: pd.DataFrame, rows: np.ndarray) -> pd.DataFrame:
    """Return the place, the texts and the label of some rows."""
    columns = [name for name in ("file", "line", "fold", "sentence", "text", "text_pair", "label") if name in table]
    return table.iloc[rows][columns].reset_index(drop=True)


def write_folds_report(
    folder: Path, report: dict[str, Any], facts: Facts, predictions: pd.DataFrame, checked: LabelsToCheck
) -> None:
    """Write predictions.csv, label_errors.csv, report.html, and last report.json, with which the run is finished."""
    report["label_errors"] = {"n": len(checked.table), "of": checked.of}
    for name, table in (("predictions", predictions), ("label_errors", checked.table)):
        rows = table.astype(object).itertuples(index=False, name=None)
        write_table(folder / f"{name}.csv", list(table.columns), rows)
    scores, main, n_folds = report["splits"][OUT_OF_FOLD], report["main_figure"], len(report["folds"])
    bounds, deviation = interval(scores[f"{main}_ci95"]), score(report["deviations"][main])
    n_errors = len(checked.table)
    listed = "; label_errors.csv lists all" if n_errors > MOST_ERRORS else ""
    ranked = f" The least plausible come first{listed}." if n_errors else ""
    blocks: list[Block] = [
        Text(score(scores[main]), tone="headline"),
        Text(
            f"Mean {named_score(main, scores)} over {n_folds} folds ({number(scores['n'])} rows, each tested once, "
            "by a "
            f"model that has not seen it), 95% interval {bounds}, standard deviation {deviation}."
        ),
        *baseline_blocks(report),
        *notes(report["notes"]),
        Heading("Scores"),
        Table(
            ("", "mean", "standard deviation", "95% interval"),
            [
                [named_score(name, scores), score(scores[name]), score(one), interval(scores[f"{name}_ci95"])]
                for name, one in report["deviations"].items()
            ],
        ),
        Heading("Folds"),
        Text("Each fold has its own run and page."),
        folds_table(report, list(report["deviations"])),
        Heading("Labels to check"),
        Text(
            f"Of {number(checked.of)} {checked.judged} {number(n_errors)} are probably wrong: "
            f"{checked.because}.{ranked}"
        ),
        *map(_passage, _first_errors(checked, MOST_ERRORS)),
        *settings_section(facts),
    ]
    write_page(folder / "report.html", f"encoderlab {title_of(report)}: {n_folds} folds", blocks)
    write_json(folder / "report.json", report)


def folds_table(report: Mapping[str, Any], names: Sequence[str]) -> Table:
    """Return a row for each fold with these scores, their mean, and their standard deviation."""
    scores = report["splits"][OUT_OF_FOLD]
    rows = []
    for fold in report["folds"]:
        rows.append(
            [fold["folder"], number(fold["trained_on"]), number(fold["n"]), *(score(fold[name]) for name in names)]
        )
    rows.append(["mean", "", number(scores["n"]), *(score(scores[name]) for name in names)])
    rows.append(["std. dev.", "", "", *(score(report["deviations"][name]) for name in names)])
    return Table(("fold", "trained on", "tested", *(named_score(name, scores) for name in names)), rows)


def _first_errors(checked: LabelsToCheck, most: int) -> list[dict[Any, Any]]:
    return checked.table.head(most).to_dict("records")


def _passage(row: Mapping[Any, Any]) -> Passage:
    """Return a label to check as the page shows it."""
    of_label, of_predicted = "", ""
    if "probability" in row:
        of_label, of_predicted = f" ({percent(row['probability_of_label'])})", f" ({percent(row['probability'])})"
    elif "deviations" in row:
        side = "high" if row["deviations"] > 0 else "low"
        of_label = f" ({abs(row['deviations']):.1f} standard deviations too {side})"
    heading = [("labelled ", ""), (_shown_label(row["label"]), "bad"), (f"{of_label}, probably ", "")]
    heading += [(_shown_label(row["predicted"]), "good"), (f"{of_predicted} · {_place(row)}", "quiet")]
    texts = [row[name] for name in ("text", "text_pair") if name in row]
    return Passage(heading, [[{"text": shown(text), "weight": 0}] for text in texts])


def _place(row: Mapping[Any, Any]) -> str:
    """Return where a label is: its file if there are several, line, and word."""
    parts = [row.get("file", ""), f"line {row['line']}" if row["line"] else ""]
    if "word" in row:
        parts.append(f"sentence {row['sentence']}, word {row['word_number']}: {row['word']}")
    return shown(", ".join(filter(None, parts)), 120)


def _shown_label(label: str | float) -> str:
    """Return a label as the page and the screen show it; a set may be empty."""
    return shown(label, 60) or "no label" if isinstance(label, str) else number(label)


def show_folds_report(
    report: Mapping[str, Any], checked: LabelsToCheck, files: Mapping[str, str], file: TextIO | None = None
) -> None:
    """Print the scores over the folds, and the labels to check first, on standard error unless `file` is given."""
    main, scores = report["main_figure"], report["splits"][OUT_OF_FOLD]
    title = f"{title_of(report)}, {len(report['folds'])} folds of {scores['n']:,} rows"
    wrong = f"{len(checked.table):,} of {checked.of:,} {checked.judged} are probably wrong, the least plausible first"
    errors = [
        f"{_place(row)}: {_shown_label(row['label'])}, probably {_shown_label(row['predicted'])}: "
        f"{shown(row['text'])[:80]}"
        for row in _first_errors(checked, MOST_ON_SCREEN)
    ]
    blocks: list[Block] = [
        Heading(f"{title}: {named_score(main, scores)} {with_interval(scores, main)}"),
        folds_table(report, [name for name in report["deviations"] if name != "loss"]),
        *baseline_blocks(report),
        Items(wrong, errors),
        *notes(report["notes"]),
        Items("Files", [f"{name}: {path}" for name, path in files.items()]),
    ]
    show(blocks, file)
