"""report.html: a run on one page: its scores, their uncertainty, its mistakes, its data, and how to repeat it.

The page does not grow with the run: its plots have at most 500 points per line, its tables at most 60 rows, it shows at
most 20 texts of 600 characters each, and a confusion matrix up to 20 classes, beyond which the most frequent confusions
replace it.

It is a function of the report, the records and the scored rows; only the marks on the words of mistakes need the model.
It loads nothing (a Content-Security-Policy says so), everything that comes from data is escaped, made printable and
shortened, and it needs no script: only the attention page and `serve` have one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from encoderlab.metrics import LabelSetScores, NumberScores, Scores, TaggingScores
from encoderlab.reports.parts.console import figure, lead, named_figure, number, with_interval, words_of
from encoderlab.reports.parts.run_facts import run_facts
from encoderlab.reports.parts.run_report import headline, metric_lines
from encoderlab.reports.parts.shown_texts import lengths_of, shown
from encoderlab.reports.training.by_length import scores_by_length
from encoderlab.reports.training.distillation import distillation_table
from encoderlab.reports.training.mistakes import (
    frequent_confusions,
    largest_errors,
    mistaken_sentences,
    mistaken_sets,
    mistaken_texts,
)
from encoderlab.reports.training.report import BASELINE_NAMES
from encoderlab.runs.folder import RunFolder

if TYPE_CHECKING:
    from markupsafe import Markup

    from encoderlab.metrics import AnswerScores
    from encoderlab.reports.training.mistakes import Importance

METHODS = {"gradient": "gradient times input"}
MOST_CLASSES = 60  # rows of a table
MOST_OF_A_MATRIX = 20
MOST_CONFUSIONS = 30
NO_FIGURES = ("n", "per_class", "per_entity", "confusion", "calibration", "positive_label")  # of a split in report.json
NOT_SHOWN = {  # parts for only one kind of predictions
    **{
        "tagging": False,
        "per_class": [],
        "n_classes": 0,
        "matrix": [],
        "confusions": [],
        "per_entity": [],
        "n_wrong": 0,
    },
    **dict.fromkeys(("calibration", "tempered", "reliability", "numbers", "precision_recall")),
}


def write_run_page(
    folder: RunFolder,
    report: Mapping[str, Any],
    examples: Any,
    scores: AnswerScores,
    importance: Importance | None = None,
) -> None:
    """Write the page of `report`; `examples` are the scored split's, by row, and `scores` its predictions.

    `importance` explains the predictions of some examples; without it, mistakes are shown as plain texts.
    """
    from encoderlab.reports.parts.page import write_page

    scored = report["splits"][report["scored_split"]]
    chosen_examples = [examples[int(row)] for row in scores.rows]
    lengths = lengths_of(chosen_examples)
    by_length = scores_by_length(lengths[0], scores, report["seed"])
    answered = _answered(scored, scores, examples, importance)
    write_page(
        folder.page,
        "run.html",
        **_headline(report),
        **run_facts(folder, report["command"]),
        **_plots(folder, report, lengths, by_length),
        length_unit=lengths[1],
        positive=shown(scored.get("positive_label") or ""),
        threshold=scored.get("threshold"),
        figures=_figures(report),
        comparison=_comparison(report, scored),
        distillation=distillation_table(report),
        **answered,
        by_length=by_length,
        n_scored=len(chosen_examples),
        methods={METHODS[one["method"]] for kind in answered["mistakes"].values() for one in kind if one["method"]},
        words_of=words_of,
        number=number,
        score=figure,
        shown=shown,
    )


def _answered(
    scored: Mapping[str, Any], scores: AnswerScores, examples: Any, importance: Importance | None
) -> dict[str, Any]:
    """Return the page's values about the predictions, by their kind."""
    if isinstance(scores, NumberScores):
        return NOT_SHOWN | _of_numbers(scores, examples, importance)
    if isinstance(scores, LabelSetScores):
        labels = {"per_class": _per_class(scored["per_class"]), "n_classes": len(scored["per_class"])}
        wrong = {"n_wrong": int((scores.labels != scores.predicted).any(1).sum())}
        mistakes = {
            "mistakes": mistaken_sets(examples, scores, importance),
            "precision_recall": _precision_recall(scores),
        }
        return NOT_SHOWN | {"kind": "sets", **labels, **wrong, **mistakes}
    return NOT_SHOWN | _of_classes(scored, scores, examples, importance)


def _of_classes(
    scored: Mapping[str, Any], scores: AnswerScores, examples: Any, importance: Importance | None
) -> dict[str, Any]:
    """Return the page's values about predicted classes, of texts or of words."""
    assert isinstance(scores, Scores | TaggingScores)
    if isinstance(scores, TaggingScores):
        own = {"kind": "words", "tagging": True, "mistakes": mistaken_sentences(examples, scores, importance)}
        own["per_entity"] = _per_class(scored.get("per_entity", {}))
    else:
        own = {"kind": "classes", "mistakes": mistaken_texts(examples, scores, importance)}
    return {
        "per_class": _per_class(scored["per_class"]),
        "n_classes": len(scored["per_class"]),
        "matrix": _matrix(scored, scores.label_names),
        "confusions": _confusions(scored["confusion"], scores.label_names),
        "calibration": scored["calibration"],
        "tempered": scored["calibration"].get("after_temperature"),
        "reliability": _reliability(scored["calibration"]),
        "precision_recall": _precision_recall(scores),
        "n_wrong": _n_wrong(scores),
        **own,
    }


def _of_numbers(scores: NumberScores, examples: Any, importance: Importance | None) -> dict[str, Any]:
    """Return the page's values about predicted numbers."""
    from encoderlab.reports.parts.answer_plots import numbers_figure
    from encoderlab.reports.parts.page import picture
    from encoderlab.reports.parts.page_plots import WIDTH

    cloud = picture(numbers_figure(scores.labels, scores.predicted, WIDTH), "Predicted numbers against the true ones")
    return {"kind": "numbers", "numbers": cloud, "mistakes": largest_errors(examples, scores, importance)}


def _precision_recall(scores: AnswerScores) -> Markup | None:
    from encoderlab.reports.parts.answer_plots import precision_recall_curves, precision_recall_figure
    from encoderlab.reports.parts.page import picture
    from encoderlab.reports.parts.page_plots import WIDTH

    curves = precision_recall_curves(scores)
    description = "Precision against recall for every threshold, with a dot at the threshold that was used"
    return picture(precision_recall_figure(curves, WIDTH), description) if curves else None


def _reliability(calibration: Mapping[str, Any]) -> Markup:
    from encoderlab.reports.parts.page import picture
    from encoderlab.reports.parts.page_plots import reliability_figure

    description = (
        "Reliability diagram: accuracy in each of 15 bins of confidence, and how many predictions each bin holds"
    )
    return picture(reliability_figure(calibration), description)


def _headline(report: Mapping[str, Any]) -> dict[str, Any]:
    outcome = (report["verdict"] or {}).get("outcome")
    return {
        **headline(report, report["main_figure"]),
        "command": report["command"],
        "main": named_figure(report["main_figure"], report["splits"][report["scored_split"]]),
        "tone": {"above": "good", "below": "bad"}.get(str(outcome), ""),
    }


def _figures(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return every figure of every split in words, by the figure's name; "" if a split does not have it."""
    splits = report["splits"]
    names = [name for name in next(iter(splits.values())) if name not in NO_FIGURES]
    wanted = [name for name in names if not name.endswith("_ci95")]
    cells = {name: [with_interval(part, name) if name in part else "" for part in splits.values()] for name in wanted}
    rows = {named_figure(name, next(iter(splits.values()))): cells[name] for name in wanted}
    return {"": list(splits), "rows": [number(part["n"]) for part in splits.values()], **rows}


def _comparison(report: Mapping[str, Any], scored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the model and its baselines, each with `name`, `score` (None if skipped), `lead` of the model, `seconds`."""
    main = report["main_figure"]
    rows = [
        {"name": "this model", "score": scored[main], "lead": "", "seconds": report["throughput"].get("train_seconds")}
    ]
    for name, baseline in report["baselines"].items():
        row = {"name": BASELINE_NAMES.get(name, name), "score": None, "lead": "skipped", "seconds": None}
        if "skipped" not in baseline:
            row |= {"score": baseline[main], "lead": lead(baseline, "model_leads_by"), "seconds": baseline["seconds"]}
        rows.append(row)
    return rows


def _per_class(per_class: Mapping[str, Mapping[str, float]]) -> list[dict[str, Any]]:
    """Return the classes in order; of more than 60, those with the lowest F1 among those that have rows."""
    rows = [{"name": shown(name, 80), **figures} for name, figures in per_class.items()]
    if len(rows) <= MOST_CLASSES:
        return rows
    return sorted(rows, key=lambda row: (row["support"] == 0, row["f1"]))[:MOST_CLASSES]


def _matrix(scored: Mapping[str, Any], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row for each true class, with cells as count and share of the row; empty if there are too many classes."""
    if len(names) > MOST_OF_A_MATRIX:
        return []
    return [
        {"name": shown(name, 40), "cells": [(count, count / max(sum(counts), 1)) for count in counts], "place": place}
        for place, (name, counts) in enumerate(zip(names, scored["confusion"], strict=True))
    ]


def _confusions(confusion: Sequence[Sequence[int]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the most frequent confusions, if the matrix is too large to show or to read."""
    if len(names) <= 4:
        return []
    most = MOST_CONFUSIONS if len(names) > MOST_OF_A_MATRIX else MOST_CONFUSIONS // 3
    return frequent_confusions(confusion, [shown(name, 60) for name in names], most)


def _n_wrong(scores: Scores | TaggingScores) -> int:
    return sum(int((a != b).any()) for a, b in zip(scores.labels, scores.predicted, strict=True))


def _plots(
    folder: RunFolder,
    report: Mapping[str, Any],
    lengths: tuple[Any, str],
    by_length: Sequence[Mapping[str, Any]],
) -> dict[str, Markup | None]:
    from encoderlab.reports.parts.page import picture
    from encoderlab.reports.parts.page_plots import WIDTH, lengths_figure, thinned
    from encoderlab.reports.parts.plots import curves

    main = named_figure(report["main_figure"], report["splits"][report["scored_split"]])
    drawn = None
    if lines := metric_lines(folder):
        description = f"Curves over the optimizer's steps: loss, {main} on validation, learning rate"
        drawn = picture(curves(thinned(lines), report["main_figure"], WIDTH), description)
    return {
        "curves": drawn,
        "lengths": picture(
            lengths_figure(*lengths, by_length, main),
            f"{main} by the length of the text, and the distribution of lengths",
        ),
    }
