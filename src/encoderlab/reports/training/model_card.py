"""The model's README.md: what it is, how it was made, and its scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from encoderlab.reports.cards.metadata import USE, front_matter, how_it_was_made, plain
from encoderlab.reports.parts.console import figure, named_figure
from encoderlab.reports.parts.shown_texts import shown
from encoderlab.reports.training.distillation import distillation_markdown
from encoderlab.reports.training.report import BASELINE_NAMES

MOST_LABELS = 20


def model_card(report: Mapping[str, Any], labels: Sequence[str], facts: Mapping[str, Any]) -> str:
    """Return a model card from the figures of report.json and `run_facts`."""
    scored = report["scored_split"]
    scores = report["splits"][scored]
    main = report["main_figure"]
    low, high = scores[f"{main}_ci95"]
    shown_labels = [f'"{plain(shown(label, 60))}"' for label in labels[:MOST_LABELS]]
    more = [f"and {len(labels) - MOST_LABELS} more"] if len(labels) > MOST_LABELS else []
    named = ", ".join([*shown_labels, *more])
    interval = f"(95% interval {low:.4f} to {high:.4f}, {scores['n']:,} rows)"
    start = f"finetuned from `{report['init_from']}`" if report.get("init_from") else "trained from scratch"
    notes = "".join(f"- {plain(note).rstrip('.')}.\n" for note in report["notes"])
    pipeline = "token-classification" if "token_accuracy" in scores else "text-classification"
    return (
        f"{front_matter(report, facts, pipeline)}"
        f"# encoderlab: {report['task']}\n\n"
        f"A transformer encoder of {report['model']['parameters']:,} parameters, {start} by `encoderlab {report['command']}` "
        f"on the task `{report['task']}` with seed {report['seed']}.\n\n"
        f"- {f'Labels: {named}' if labels else 'Predicts a number'}\n"
        f"- {plain(named_figure(main, scores))} on {scored}: {scores[main]:.4f} {interval}\n"
        f"- Weights after step {report['checkpoint']['step']:,}, chosen by {report['checkpoint']['chosen_by']}\n"
        f"{notes}\n"
        f"{USE}\n\n"
        f"## Results\n\n{_results(report)}{_compared(report)}{distillation_markdown(report)}\n{how_it_was_made(facts)}"
    )


def _results(report: Mapping[str, Any]) -> str:
    """Return a line for each figure, with a column for each split."""
    splits = report["splits"]
    names = [name for name, value in next(iter(splits.values())).items() if isinstance(value, float)]
    head = f"| | {' | '.join(splits)} |\n|---|{'---:|' * len(splits)}\n"
    named = {name: plain(named_figure(name, next(iter(splits.values())))) for name in names}
    lines = [
        f"| {named[name]} | {' | '.join(figure(scores.get(name)) for scores in splits.values())} |\n" for name in names
    ]
    errors = [figure(scores["calibration"]["ece"]) for scores in splits.values() if "calibration" in scores]
    calibrated = f"| expected calibration error | {' | '.join(errors)} |\n" if errors else ""
    return f"{head}{''.join(lines)}{calibrated}"


def _compared(report: Mapping[str, Any]) -> str:
    """Return the baselines' scores, and the verdict; nothing if none was fitted."""
    main = report["main_figure"]
    named = plain(named_figure(main, report["splits"][report["scored_split"]]))
    found = [
        f"- {BASELINE_NAMES.get(name, name)}: {named} {figure(baseline[main])}\n"
        for name, baseline in report["baselines"].items()
        if "skipped" not in baseline
    ]
    verdict = f"\n{report['verdict']['sentence']}\n" if report["verdict"] else ""
    return f"\nOn the same rows of {report['scored_split']}:\n\n{''.join(found)}{verdict}" if found else ""
