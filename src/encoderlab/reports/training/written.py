"""Writes the files of a scored run: report.html, report.json, predictions.csv and the plots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from encoderlab.metrics import AnswerScores, LabelSetScores, NumberScores, Scores, TaggingScores
from encoderlab.reports.outputs.predictions import write_predictions
from encoderlab.reports.parts.answer_plots import (
    labels_figure,
    numbers_figure,
    precision_recall_curves,
    precision_recall_figure,
)
from encoderlab.reports.parts.plots import plot_confusion, plot_curves, write_png
from encoderlab.reports.parts.run_report import metric_lines, write_last
from encoderlab.reports.training.run_page import write_run_page
from encoderlab.runs.folder import RunFolder

if TYPE_CHECKING:
    from encoderlab.reports.training.mistakes import Importance


def write_report(
    folder: RunFolder, report: dict[str, Any], examples: Any, scores: AnswerScores, importance: Importance | None = None
) -> None:
    """Write the files of `report`; `examples` are the scored split's, by row, whose predictions are in `scores`.

    `importance` as for `run_page.write_run_page`.
    """
    folder.plots.mkdir(exist_ok=True)
    title = f"{report['command']} {report['task']}, seed {report['seed']}"
    if lines := metric_lines(folder):
        plot_curves(lines, folder.plots / "curves.png", title=title, figure=report["main_figure"])
    scored = f"{title}: {report['scored_split']}"
    _plot_answers(folder, scores, scored)
    texts = list(_texts(examples))
    chosen = [texts[row] for row in scores.rows]
    probabilities, names = getattr(scores, "probabilities", None), getattr(scores, "label_names", [])
    others = getattr(examples, "carried", None)
    others = None if others is None else others.select(scores.rows)
    write_predictions(folder.predictions, chosen, scores.labels, scores.predicted, probabilities, names, others)
    write_run_page(folder, report, examples, scores, importance)
    write_last(folder, report)


def _plot_answers(folder: RunFolder, scores: AnswerScores, title: str) -> None:
    """Plot predictions against labels: a confusion matrix, F1 by label, a scatter plot of numbers, precision and
    recall.
    """
    drawn = {}
    if isinstance(scores, Scores | TaggingScores):
        plot_confusion(scores.confusion, scores.label_names, folder.plots / "confusion.png", title=title)
    if curves := precision_recall_curves(scores):
        drawn["precision_recall"] = precision_recall_figure(curves, 6.5)
    if isinstance(scores, NumberScores):
        drawn["numbers"] = numbers_figure(scores.labels, scores.predicted, 6.5)
    if isinstance(scores, LabelSetScores):
        drawn["labels"] = labels_figure({name: figures["f1"] for name, figures in scores.per_class.items()}, 6.5)
    for name, canvas in drawn.items():
        canvas.suptitle(title, fontsize=11, wrap=True, parse_math=False)
        write_png(canvas, folder.plots / f"{name}.png")


def _texts(examples: Iterable[Any]) -> Iterator[tuple[str, str | None]]:
    for example in examples:
        yield (" ".join(example.words), None) if hasattr(example, "words") else (example.text, example.text_pair)
