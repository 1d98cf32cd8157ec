"""What a run says on the screen: what is in the data before training, and how good the model is after it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from encoderlab.reports.report import BASELINE_NAMES

MOST_CLASSES = 12  # more would push the headline off the screen
WIDTH = 100  # where the output is no terminal


def show_report(
    report: Mapping[str, Any], paths: Mapping[str, str], next_commands: Sequence[str], file: TextIO | None = None
) -> None:
    """Print a report as `build_report` makes it, on standard error unless `file` is given.

    `paths` are the run's files by what they are, printed whole so that they can be copied.
    """
    console = _console(file)
    scores = report["splits"][report["scored_split"]]
    _headline(console, report, scores)
    if report["baselines"]:
        console.print("", _comparison(report, scores), sep="\n")
    if report["verdict"]:
        console.print(Text(report["verdict"]["sentence"], style="bold"), soft_wrap=True)
    if len(scores["per_class"]) <= MOST_CLASSES:
        console.print("", _per_class(scores["per_class"]), sep="\n")
    console.print()
    _line(console, "Speed", _speed(report["throughput"]))
    for note in report["notes"]:
        _line(console, "Note", note)
    _listing(console, "Files", [f"{name}: {path}" for name, path in paths.items()])
    _listing(console, "Next", next_commands)


def show_survey(survey: Mapping[str, Mapping[str, Any]], file: TextIO | None = None) -> None:
    """Print what was counted in each split, as `Survey.as_dict()` holds it, on standard error unless `file` is given."""
    console = _console(file)
    columns = {
        "rows": "rows",
        "no label": "unlabelled",
        "empty": "empty",
        "duplicates": "duplicates",
        "also in train": "shared_with_train",
        "other label there": "shared_with_other_label",
    }
    table = _table("split", *columns, "words: min, median, p95, max")
    for name, counts in survey.items():
        words = " ".join(f"{counts[f'words_{key}']:,.0f}" for key in ("min", "median", "p95", "max"))
        shown = {key: "-" if name == "train" and key.startswith("shared") else _number(counts[key]) for key in columns.values()}
        table.add_row(name, *shown.values(), words)
    console.print(table)
    console.print()
    labels = list(dict.fromkeys(label for counts in survey.values() for label in counts["labels"]))
    if len(labels) <= MOST_CLASSES:
        console.print(_label_counts(survey, labels))
    else:
        _line(console, "Labels", f"{len(labels):,}; {_extremes(survey)}")


def _console(file: TextIO | None) -> Console:
    """A console that takes text as it is (labels and paths may hold brackets), plain and of one width where it is no terminal."""
    target = file or sys.stderr
    width = None if target.isatty() else WIDTH
    return Console(file=target, width=width, markup=False, emoji=False, highlight=False)


def _headline(console: Console, report: Mapping[str, Any], scores: Mapping[str, Any]) -> None:
    main = report["main_figure"]
    where = f"{report['scored_split']} ({scores['n']:,} rows)"
    title = f"{report['command']} {report['task']}, seed {report['seed']}: {_words(main)} {_scored(scores, main)} on {where}"
    console.print()
    console.print(Text(title, style="bold"))
    others = [name for name in ("accuracy", "f1_macro", "f1", "roc_auc", "loss") if name in scores and name != main]
    _line(console, "Also", ", ".join(f"{_words(name)} {_scored(scores, name)}" for name in others))
    _line(console, "Checkpoint", _chosen(report["checkpoint"]))
    _line(console, "Parameters", f"{report['model']['parameters']:,}")


def _chosen(checkpoint: Mapping[str, Any]) -> str:
    """Which checkpoint was scored, and why that one."""
    step = f"step {_number(checkpoint['step'])}"
    if checkpoint["chosen_on"] is None:
        return f"{step}, the {checkpoint['chosen_by']}"
    return f"{step}, chosen by {_words(checkpoint['chosen_by'])} on {checkpoint['chosen_on']}"


def _scored(scores: Mapping[str, Any], name: str) -> str:
    value = _figure(scores[name])
    if f"{name}_ci95" not in scores:
        return value
    low, high = scores[f"{name}_ci95"]
    return f"{value} (95% interval {_figure(low)} to {_figure(high)})"


def _comparison(report: Mapping[str, Any], scores: Mapping[str, Any]) -> Table:
    """The model beside its baselines, and how far ahead of each it is."""
    main = report["main_figure"]
    table = _table("on the same rows", _words(main), "f1 macro", "model ahead by (95% interval)", "seconds")
    seconds = report["throughput"].get("train_seconds")
    table.add_row("this model", _figure(scores[main]), _figure(scores["f1_macro"]), "", _number(seconds))
    for name, baseline in report["baselines"].items():
        title = BASELINE_NAMES.get(name, name)
        if "skipped" in baseline:
            table.add_row(title, "skipped", "", "", "")
            continue
        low, high = baseline["model_leads_by_ci95"]
        lead = f"{baseline['model_leads_by']:+.3f} ({low:+.3f} to {high:+.3f})"
        table.add_row(title, _figure(baseline[main]), _figure(baseline["f1_macro"]), lead, _number(baseline["seconds"]))
    return table


def _per_class(per_class: Mapping[str, Mapping[str, float]]) -> Table:
    table = _table("class", "precision", "recall", "f1", "rows")
    for name, figures in per_class.items():
        table.add_row(name, *(_figure(figures[key]) for key in ("precision", "recall", "f1")), _number(figures["support"]))
    return table


def _speed(throughput: Mapping[str, float | None]) -> str:
    """The measured figures in words; those that were not measured are left out."""
    forms = {
        "tokens_per_second": "{:,.0f} tokens/s",
        "examples_per_second": "{:,.0f} examples/s",
        "padding_fraction": "{:.1%} padding",
        "train_seconds": "{:,.1f} s of training",
        "evaluation_seconds": "{:,.1f} s of evaluation",
    }
    return ", ".join(form.format(throughput[name]) for name, form in forms.items() if throughput.get(name) is not None)


def _label_counts(survey: Mapping[str, Mapping[str, Any]], labels: Iterable[str]) -> Table:
    table = _table("label", *survey)
    for label in labels:
        table.add_row(label, *(_share(counts["labels"], label) for counts in survey.values()))
    return table


def _share(counts: Mapping[str, int], label: str) -> str:
    total = sum(counts.values())
    return f"{counts.get(label, 0):,} ({counts.get(label, 0) / total:.1%})" if total else "-"


def _extremes(survey: Mapping[str, Mapping[str, Any]]) -> str:
    """The rarest and the most frequent label of the first split."""
    name, counts = next((name, counts["labels"]) for name, counts in survey.items())
    rarest, commonest = min(counts, key=counts.get), max(counts, key=counts.get)
    return f"in {name} from {counts[rarest]:,} ({rarest}) to {counts[commonest]:,} ({commonest})"


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(name, justify="right", overflow="fold")
    return table


def _listing(console: Console, title: str, lines: Iterable[str]) -> None:
    console.print(Text(title, style="bold"))
    for line in lines:
        console.print(Text(f"  {line}"), soft_wrap=True)


def _line(console: Console, title: str, words: str) -> None:
    if words:
        console.print(Text.assemble((title, "bold"), f": {words}"), soft_wrap=True)


def _words(name: str) -> str:
    return name.replace("_", " ").replace("roc auc", "ROC AUC")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _number(value: float | None) -> str:
    """A count, or a measured number with the digits that matter."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
