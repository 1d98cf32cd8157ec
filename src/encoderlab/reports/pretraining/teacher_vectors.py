"""The report of a student that learned its teacher's vectors: report.json, report.html, the screen and the model's
README.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from rich.text import Text

from encoderlab.reports.cards.metadata import encoder_card
from encoderlab.reports.parts.console import (
    console_on,
    figure,
    line,
    number,
    speed,
    with_interval,
    words_of,
)
from encoderlab.reports.parts.run_facts import run_facts
from encoderlab.reports.parts.run_report import (
    RunSummary,
    headline,
    metric_lines,
    run_report,
    show_model,
    show_rest,
    write_last,
)
from encoderlab.reports.parts.shown_texts import shown
from encoderlab.runs.folder import RunFolder

if TYPE_CHECKING:
    from encoderlab.metrics.teacher_vectors import TeacherVectorsScores

PANEL = 6.5  # inches


def build_teacher_vectors_report(
    run: RunSummary,
    splits: Mapping[str, TeacherVectorsScores],
    *,
    teacher: str,
    texts: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the content of report.json. `texts` are the facts that `runs.score.pair_facts` counts."""
    figures = {name: part.with_intervals().as_dict() for name, part in splits.items()}
    return run_report(run, splits, figures, teacher=teacher, pairs=texts)


def write_teacher_vectors_report(folder: RunFolder, report: Mapping[str, Any]) -> None:
    """Write report.html, plots/curves.png, and last report.json, with which the run is finished."""
    from encoderlab.reports.parts.page import picture, write_page
    from encoderlab.reports.parts.page_plots import thinned
    from encoderlab.reports.parts.plots import curves, plot_curves

    lines = metric_lines(folder)
    folder.plots.mkdir(exist_ok=True)
    title = f"distill {report['task']}, seed {report['seed']}"
    plot_curves(lines, folder.plots / "curves.png", title=title, figure=report["main_figure"])
    drawn = picture(
        curves(thinned(lines), report["main_figure"], PANEL), "Curves over the optimizer's steps: loss and cosine"
    )
    write_page(
        folder.page,
        "teacher_vectors.html",
        **run_facts(folder, report["command"]),
        **headline(report, "sequence_cosine"),
        teacher=shown(report["teacher"]),
        curves=drawn,
        figures=_figures(report),
        pairs=report["pairs"],
        words_of=words_of,
        number=number,
        score=figure,
    )
    write_last(folder, report)


def _figures(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return every figure of every split in words, by the figure's name."""
    splits = report["splits"]
    rows = {
        words_of(name): [with_interval(part, name) for part in splits.values()]
        for name in ("sequence_cosine", "token_cosine", "loss")
    }
    return {"": list(splits), "rows": [number(part["n"]) for part in splits.values()], **rows}


def show_teacher_vectors_report(
    report: Mapping[str, Any], paths: Mapping[str, str], next_commands: Sequence[str], file: TextIO | None = None
) -> None:
    """Print the report on standard error unless `file` is given; `paths` are the run's files by what they are."""
    console = console_on(file)
    scores = report["splits"][report["scored_split"]]
    title = (
        f"distill {report['task']}, seed {report['seed']}: cosine to the teacher's vectors "
        f"{with_interval(scores, 'sequence_cosine')} for texts on {report['scored_split']} ({scores['n']:,} rows)"
    )
    console.print()
    console.print(Text(title, style="bold"), soft_wrap=True)
    line(console, "Tokens", f"cosine {with_interval(scores, 'token_cosine')}")
    line(console, "Teacher", report["teacher"])
    show_model(console, report)
    line(console, "Speed", speed(report["throughput"]))
    show_rest(console, report, paths, next_commands)


def teacher_vectors_card(report: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Return the model's README.md: what it is, how it was made, and how close it is to its teacher."""
    scores = report["splits"][report["scored_split"]]
    lines = [
        f"Teacher: `{shown(report['teacher'])}`",
        f"Cosine to the teacher's vectors on {report['scored_split']} ({scores['n']:,} texts): whole texts "
        f"{with_interval(scores, 'sequence_cosine')}, tokens {with_interval(scores, 'token_cosine')}",
    ]
    made = "distilled by `encoderlab distill` on documents"
    return encoder_card(report, facts, "feature-extraction", made, lines)
