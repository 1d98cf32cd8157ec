"""The report of a student that learned its teacher's vectors: report.json, report.html, the screen and the model's README.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from rich.text import Text

from encoderlab.reports.cards.metadata import front_matter, how_it_was_made
from encoderlab.reports.parts.console import (
    chosen,
    console_on,
    figure,
    line,
    listing,
    number,
    speed,
    table_of_rows,
    with_interval,
    words_of,
)
from encoderlab.reports.parts.run_facts import run_facts
from encoderlab.reports.parts.shown_texts import shown
from encoderlab.reports.training.distillation import distillation_markdown, distillation_table
from encoderlab.reports.training.report import caveats, json_safe
from encoderlab.runs.folders.folder import RunFolder
from encoderlab.system.atomic_files import atomic_write_text

if TYPE_CHECKING:
    from encoderlab.metrics.teacher_vectors import TeacherVectorsScores

PANEL = 6.5  # inches


def build_teacher_vectors_report(
    *,
    task: str,
    seed: int,
    teacher: str,
    init_from: str | None,
    parameters: Mapping[str, int],
    splits: Mapping[str, TeacherVectorsScores],
    throughput: Mapping[str, float],
    checkpoint: Mapping[str, Any],
    notes: Sequence[str],
    texts: Mapping[str, Any],
    models: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """What report.json holds: JSON-safe. `texts` are the facts that `runs.inspection.pair_facts.pair_facts` counts.

    `models` are those of student and teacher, as `runs.distillation.side_by_side` measures them.
    """
    scored = next(name for name in ("test", "validation", *splits) if name in splits)
    report = {
        "command": "distill",
        "task": task,
        "seed": seed,
        "teacher": teacher,
        "init_from": init_from,
        "model": {
            "parameters": parameters["total"],
            "parameters_by_part": {part: n for part, n in parameters.items() if part != "total"},
        },
        "scored_split": scored,
        "main_figure": splits[scored].main,
        "splits": {name: part.with_intervals().as_dict() for name, part in splits.items()},
        "baselines": {},
        "verdict": None,
        "throughput": throughput,
        "checkpoint": checkpoint,
        "pairs": texts,
        "distillation": models,
        "notes": [*notes, *caveats(splits[scored], scored, checkpoint)],
    }
    return json_safe(report)


def write_teacher_vectors_report(folder: RunFolder, report: Mapping[str, Any]) -> None:
    """Write report.html, plots/curves.png, and last report.json, with which the run is finished."""
    from encoderlab.reports.parts.page import picture, write_page
    from encoderlab.reports.parts.page_plots import thinned
    from encoderlab.reports.parts.plots import curves, plot_curves

    lines = [json.loads(one) for one in folder.metrics.read_text(encoding="utf-8").splitlines()]
    folder.plots.mkdir(exist_ok=True)
    title = f"distill {report['task']}, seed {report['seed']}"
    plot_curves(lines, folder.plots / "curves.png", title=title, figure=report["main_figure"])
    drawn = picture(curves(thinned(lines), report["main_figure"], PANEL), "Curves over the optimizer's steps: loss and cosine")
    write_page(
        folder.page,
        "teacher_vectors.html",
        **run_facts(folder, report["command"]),
        **_headline(report),
        curves=drawn,
        figures=_figures(report),
        pairs=report["pairs"],
        distillation=distillation_table(report),
        words_of=words_of,
        number=number,
        score=figure,
    )
    atomic_write_text(folder.report, json.dumps(report, indent=2, ensure_ascii=False) + "\n")


def _headline(report: Mapping[str, Any]) -> dict[str, Any]:
    scored = report["splits"][report["scored_split"]]
    low, high = scored["sequence_cosine_ci95"]
    return {
        "title": shown(f"encoderlab distill {report['task']}, seed {report['seed']}"),
        "value": scored["sequence_cosine"],
        "low": low,
        "high": high,
        "n": scored["n"],
        "split": report["scored_split"],
        "teacher": shown(report["teacher"]),
        "checkpoint": chosen(report["checkpoint"]),
        "parameters": report["model"],
        "speed": speed(report["throughput"]),
        "notes": [shown(note) for note in report["notes"]],
        "init_from": report["init_from"] and shown(report["init_from"]),
    }


def _figures(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """Every figure of every split in words, by the figure's name."""
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
    line(console, "Started from", report["init_from"] or "")
    line(console, "Checkpoint", chosen(report["checkpoint"]))
    line(console, "Parameters", f"{report['model']['parameters']:,}")
    line(console, "Speed", speed(report["throughput"]))
    console.print("", table_of_rows(distillation_table(report)), "", sep="\n")
    for note in report["notes"]:
        line(console, "Note", note)
    listing(console, "Files", [f"{name}: {path}" for name, path in paths.items()])
    listing(console, "Next", next_commands)


def teacher_vectors_card(report: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """The model's README.md: what it is, how it was made, how near to its teacher."""
    scores, checkpoint = report["splits"][report["scored_split"]], report["checkpoint"]
    lines = [
        f"Teacher: `{shown(report['teacher'])}`",
        f"Cosine to the teacher's vectors on {report['scored_split']} ({scores['n']:,} texts): whole texts "
        f"{with_interval(scores, 'sequence_cosine')}, tokens {with_interval(scores, 'token_cosine')}",
        f"Weights after step {checkpoint['step']:,}, chosen by {checkpoint['chosen_by']}",
        *(shown(note).rstrip(".") for note in report["notes"]),
    ]
    return (
        f"{front_matter(report, facts, 'feature-extraction')}"
        f"# encoderlab: {report['task']}\n\n"
        f"A transformer encoder of {report['model']['parameters']:,} parameters, distilled by `encoderlab distill` on documents, "
        f"with seed {report['seed']}.\n\n"
        + "".join(f"- {one}.\n" for one in lines)
        + "\nTeach it a task with `encoderlab finetune task=... init_from=<this folder>`; "
        "get its vectors with `encoderlab embed run=<this folder> input=... output=vectors.npy`.\n"
        f"{distillation_markdown(report)}\n{how_it_was_made(facts)}"
    )
