"""What `dry_run=true` prints: the size, the length and the cost of a run, and what its report will contain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console

from encoderlab.reports.parts.console import console_on, line, listing, number, table_of, words_of

_FIGURES_LEFT_OUT = ("n", "per_class", "per_entity", "confusion")


def show_dry_run(
    facts: Mapping[str, Any], command: str, baselines: Mapping[str, str], files: Sequence[str], file: TextIO
) -> None:
    """Print the estimates of `runs.dry_run.dry_run`.

    `baselines` are those to be scored, by name, each with why it will be skipped ("" if it will not). `files`
    are the names of what the run will write into its folder.
    """
    console = console_on(file)
    line(console, f"{command} {facts['task']}, seed {facts['seed']}", "dry run: only the cache is written")
    _model(console, facts)
    _steps(console, facts)
    line(console, "Memory", _memory(facts["memory"]))
    line(console, "Time", _time(facts))
    line(console, "Not included", "reading and tokenising, baselines, writing checkpoints and the report")
    console.print()
    listing(console, "The report will contain", _report(facts, baselines, files))


def _model(console: Console, facts: Mapping[str, Any]) -> None:
    model = facts["model"]
    table = table_of("part", "parameters", "share")
    for part, count in model["parameters_by_part"].items():
        table.add_row(part, number(count), f"{count / model['parameters']:.1%}")
    table.add_row("all", number(model["parameters"]), "")
    console.print("", table, "", sep="\n")
    frozen = model["parameters"] - model["learning"]
    line(console, "Frozen", f"{frozen:,} parameters" if frozen else "")
    line(console, "Choices", "; ".join(facts["choices"]))


def _steps(console: Console, facts: Mapping[str, Any]) -> None:
    steps, rows = facts["steps"], facts["rows"]
    line(console, "Rows", ", ".join(f"{number(count)} {name}" for name, count in rows.items()))
    about, ends = ("about ", f" within training.budget={steps['budget']}") if steps["budget"] else ("", "")
    epochs = f"{steps['epochs']:,.2f} epochs of {number(steps['per_epoch'])}"
    parts = [
        f"{about}{number(steps['total'])}{ends} of {steps['batch_size']} rows ({epochs})",
        f"{number(steps['warmup'])} of warmup",
        f"{number(steps['evaluations'])} evaluation{'s' * (steps['evaluations'] != 1)} during training",
    ]
    line(console, "Steps", ", ".join(parts))
    line(
        console,
        "Tokens",
        f"{steps['tokens']:,.0f} to train on; {facts['padding_fraction']:.1%} padding in an epoch's batches",
    )


def _memory(memory: Mapping[str, Any]) -> str:
    on_gpu = memory["device"] == "cuda"
    peak = "unknown here" if memory["peak"] is None else _bytes(memory["peak"])
    parts = [
        f"{_bytes(memory['estimate'])} estimated for the weights and a step",
        f"{peak} peak measured ({'on the GPU' if on_gpu else 'the whole process, with Python and libraries'})",
    ]
    if memory["free"] is not None:
        parts.append(f"{_bytes(memory['free'])} were free")
    return ", ".join([*parts, f"a checkpoint takes {_bytes(memory['checkpoint'])} on disk"])


def _time(facts: Mapping[str, Any]) -> str:
    time, steps = facts["time"], facts["steps"]
    warm = f", after {time['warm_up_steps']} to warm up" if time["warm_up_steps"] else ""
    measured = f"{time['measured_steps']} step{'s' * (time['measured_steps'] != 1)}{warm}, and some batches of each scored split"
    whole = f"about {_seconds(time['total'])}"
    parts = f"training {_seconds(time['training'])} at {_seconds(time['step'])} a step, evaluation {_seconds(time['evaluation'])}"
    speed = f"{steps['tokens'] / time['training']:,.0f} tokens/s"
    return f"{whole}: {parts}, {speed}; from {measured}, on this machine at its present load"


def _report(facts: Mapping[str, Any], baselines: Mapping[str, str], files: Sequence[str]) -> list[str]:
    lines = []
    for name, figures in facts["figures"].items():
        scores = [words_of(one) for one in figures if one not in _FIGURES_LEFT_OUT]
        by_class = ", calibration, scores by class and their confusion" if "confusion" in figures else ""
        by_class = by_class or (", scores by label" if "per_class" in figures else "")
        lines.append(f"{name} ({number(facts['rows'][name])} rows): {', '.join(scores)}{by_class}")
    lines += [f"baseline: {title}{f' (skipped: {skipped})' if skipped else ''}" for title, skipped in baselines.items()]
    return [*lines, f"files: {', '.join(files)}"]


def _bytes(count: int) -> str:
    """Return bytes in MiB, or in GiB if there are many."""
    return f"{count / 2**20:,.0f} MiB" if count < 2**30 else f"{count / 2**30:,.1f} GiB"


def _seconds(seconds: float) -> str:
    """Return a time to about two figures: 4.2 ms, 40 s, 12 min, 1.5 h, 3.1 days."""
    for least, unit, name in ((172_800, 86_400, "days"), (5400, 3600, "h"), (90, 60, "min"), (1, 1, "s")):
        if seconds >= least:
            amount = seconds / unit
            return f"{amount:.0f} {name}" if amount >= 10 else f"{amount:.1f} {name}"
    return f"{1000 * seconds:.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:.1f} ms"
