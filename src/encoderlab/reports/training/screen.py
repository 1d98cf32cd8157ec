"""What a run prints: statistics of the data before training, and the model's scores after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from encoderlab.reports.parts.console import (
    console_on,
    figure,
    lead,
    line,
    named_figure,
    number,
    speed,
    table_of,
    table_of_rows,
    with_interval,
    words_of,
)
from encoderlab.reports.parts.run_report import show_model, show_rest
from encoderlab.reports.training.distillation import distillation_table
from encoderlab.reports.training.report import BASELINE_NAMES, SECOND, labels_alike, scarce_classes, shared_rows

MOST_NAMED = 5  # labels with a single training row
MOST_LONE = 50  # labels with a single training row: if more, and most labels, these are probably not labels
MOST_CLASSES = 12  # more would push the headline off the screen
USUAL_SPLITS = ("train", "validation", "test")  # of these, only the scored one is printed
OTHERS = (  # figures next to the main one
    *("entity_precision", "entity_recall", "token_accuracy"),
    *("accuracy", "f1_micro", "f1_macro", "f1", "subset_accuracy", "average_precision_macro", "matthews", "roc_auc"),
    *("average_precision", "threshold"),
    *("pearson", "spearman", "mae", "rmse", "loss"),
)


def show_report(
    report: Mapping[str, Any], paths: Mapping[str, str], next_commands: Sequence[str], file: TextIO | None = None
) -> None:
    """Print a report from `build_report`, on standard error unless `file` is given.

    `paths` are the run's files by name, printed unwrapped so that they can be copied.
    """
    console = console_on(file)
    scores = report["splits"][report["scored_split"]]
    _headline(console, report, scores)
    if report["baselines"]:
        console.print("", _comparison(report, scores), sep="\n")
    if report["verdict"]:
        console.print(Text(report["verdict"]["sentence"], style="bold"), soft_wrap=True)
    if rows := distillation_table(report):
        console.print("", table_of_rows(rows), sep="\n")
    _classes(console, scores)
    console.print()
    line(console, "Speed", speed(report["throughput"]))
    show_rest(console, report, paths, next_commands)


def show_survey(survey: Mapping[str, Mapping[str, Any]], file: TextIO | None = None) -> None:
    """Print the statistics of each split from `Survey.as_dict()`, on standard error unless `file` is given."""
    console = console_on(file)
    columns = {
        "rows": "rows",
        "no label": "unlabelled",
        "empty": "empty",
        "duplicates": "duplicates",
        "also in train": "shared_with_train",
        "conflicting label": "shared_with_other_label",
    }
    table = table_of("split", *columns, "words: min, median, p95, max")
    table.columns[0].no_wrap = True
    for name, counts in survey.items():
        words = " ".join(f"{counts[f'words_{key}']:,.0f}" for key in ("min", "median", "p95", "max"))
        shown = {
            key: "-" if name == "train" and key.startswith("shared") else number(counts[key])
            for key in columns.values()
        }
        table.add_row(name, *shown.values(), words)
    console.print(table)
    console.print()
    for name, counts in survey.items():
        line(console, "Warning", shared_rows(name, counts))
    if any(counts.get("numbers") for counts in survey.values()):
        console.print(_numbers(survey))
        return
    labels = list(dict.fromkeys(label for counts in survey.values() for label in counts["labels"]))
    if len(labels) <= MOST_CLASSES:
        console.print(_label_counts(survey, labels))
    else:
        line(console, "Labels", f"{len(labels):,}; {_extremes(survey)}")
    line(console, "Warning", labels_alike(next(iter(survey.values()))["labels"]))
    for split in ("validation", "test"):
        if len(labels) == 2 and any(survey.get(split, {}).get("labels", {}).values()):
            line(console, "Warning", scarce_classes(split, survey[split]["labels"]))
    if lone := [label for label, count in survey.get("train", {"labels": {}})["labels"].items() if count == 1]:
        mostly = len(lone) > max(MOST_LONE, len(labels) / 2)
        line(console, "Warning", _mostly_lone(lone, labels) if mostly else _lone_labels(lone))


def _lone_labels(labels: Sequence[str]) -> str:
    """Return what to do about labels that occur once in training."""
    named = ", ".join(map(repr, labels[:MOST_NAMED])) + (
        f" and {len(labels) - MOST_NAMED:,} more" if labels[MOST_NAMED:] else ""
    )
    have, them = ("the label {} occurs", "it") if len(labels) == 1 else ("the labels {} occur", "them")
    return f"{have.format(named)} once in training, too little to learn from; add more rows, or merge {them} with another label"


def _mostly_lone(lone: Sequence[str], labels: Sequence[str]) -> str:
    return f"{len(lone):,} of the {len(labels):,} labels occur once in training; check that dataset.label names the right column"


def _headline(console: Console, report: Mapping[str, Any], scores: Mapping[str, Any]) -> None:
    main = report["main_figure"]
    where = f"{report['scored_split']} ({scores['n']:,} rows)"
    run = f"{report['command']} {report['task']}, seed {report['seed']}"
    title = f"{run}: {named_figure(main, scores)} {with_interval(scores, main)} on {where}"
    console.print()
    console.print(Text(title, style="bold"))
    others = [name for name in OTHERS if name in scores and name != main]
    line(console, "Also", ", ".join(f"{named_figure(name, scores)} {with_interval(scores, name)}" for name in others))
    for name, part in report["splits"].items():
        if name not in (report["scored_split"], *USUAL_SPLITS):
            line(console, f"On {name}", f"{named_figure(main, part)} {with_interval(part, main)}, {part['n']:,} rows")
    show_model(console, report)


def _comparison(report: Mapping[str, Any], scores: Mapping[str, Any]) -> Table:
    """Return the model next to its baselines, and how far ahead of each it is."""
    main = report["main_figure"]
    second = next(name for name in SECOND if name in scores and name != main)
    table = table_of(
        "on the same rows", named_figure(main, scores), words_of(second), "model ahead by (95% interval)", "seconds"
    )
    seconds = report["throughput"].get("train_seconds")
    table.add_row("this model", figure(scores[main]), figure(scores[second]), "", number(seconds))
    for name, baseline in report["baselines"].items():
        title = BASELINE_NAMES.get(name, name)
        if "skipped" in baseline:
            table.add_row(title, "skipped", "", "", "")
            continue
        ahead = lead(baseline, "model_leads_by")
        table.add_row(title, figure(baseline[main]), figure(baseline[second]), ahead, number(baseline["seconds"]))
    return table


def _classes(console: Console, scores: Mapping[str, Any]) -> None:
    """Print the scores of each class, or of each type of entity if there are any."""
    of_entities = "per_entity" in scores
    found = scores["per_entity"] if of_entities else scores.get("per_class")
    if not found:
        return
    console.print("", _per_class(found, *(("entity", "entities") if of_entities else ("class", "rows"))), sep="\n")
    if len(found) > MOST_CLASSES:
        line(console, "Classes", f"the {MOST_CLASSES} with the lowest F1 of {len(found):,}; the report has more")


def _per_class(per_class: Mapping[str, Mapping[str, float]], kind: str, counted: str) -> Table:
    """Return a row for each class; of many, for those with the lowest F1 that occur."""
    table = table_of(kind, "precision", "recall", "f1", counted)
    shown = list(per_class.items())
    if len(shown) > MOST_CLASSES:
        shown = sorted((one for one in shown if one[1]["support"]), key=lambda one: one[1]["f1"])[:MOST_CLASSES]
    for name, figures in shown:
        table.add_row(
            name, *(figure(figures[key]) for key in ("precision", "recall", "f1")), number(figures["support"])
        )
    return table


def _label_counts(survey: Mapping[str, Mapping[str, Any]], labels: Iterable[str]) -> Table:
    table = table_of("label", *survey)
    for label in labels:
        table.add_row(label, *(_share(counts["labels"], label) for counts in survey.values()))
    return table


def _numbers(survey: Mapping[str, Mapping[str, Any]]) -> Table:
    table = table_of("numbers", "min", "mean", "std. dev.", "max")
    for name, counts in survey.items():
        found = counts.get("numbers") or {}
        table.add_row(
            name, *(f"{found[key]:,.6g}" if key in found else "-" for key in ("min", "mean", "deviation", "max"))
        )
    return table


def _share(counts: Mapping[str, int], label: str) -> str:
    total = sum(counts.values())
    return f"{counts.get(label, 0):,} ({counts.get(label, 0) / total:.1%})" if total else "-"


def _extremes(survey: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the rarest and the most frequent label of the first split."""
    name, counts = next((name, counts["labels"]) for name, counts in survey.items())
    rarest, commonest = min(counts, key=counts.get), max(counts, key=counts.get)
    return f"in {name} from {counts[rarest]:,} ({rarest}) to {counts[commonest]:,} ({commonest})"
