"""The model's README.md: what it is, how it was made, how good it is."""

from typing import Any


def model_card(report: dict[str, Any], labels: list[str]) -> str:
    """A short model card from the figures of report.json."""
    scored = report["scored_split"]
    scores = report["splits"][scored]
    main = report["main_figure"]
    low, high = scores[f"{main}_ci95"]
    shown = labels if len(labels) <= 20 else [*labels[:20], f"and {len(labels) - 20} more"]
    start = f"finetuned from `{report['init_from']}`" if report.get("init_from") else "trained from scratch"
    notes = "".join(f"- {note.rstrip('.')}.\n" for note in report["notes"])
    return (
        f"# encoderlab: {report['task']}\n\n"
        f"A transformer encoder of {report['model']['parameters']:,} parameters, {start} by `encoderlab {report['command']}` "
        f"on the task `{report['task']}` with seed {report['seed']}.\n\n"
        f"- Labels: {', '.join(shown)}\n"
        f"- {main.replace('_', ' ')} on {scored}: {scores[main]:.4f} (95% interval {low:.4f} to {high:.4f}, {scores['n']:,} rows)\n"
        f"- Weights after step {report['checkpoint']['step']:,}, chosen by {report['checkpoint']['chosen_by']}\n"
        f"{notes}\n"
        'Use it with `encoderlab predict run=<this folder> text="..."`.\n'
    )
