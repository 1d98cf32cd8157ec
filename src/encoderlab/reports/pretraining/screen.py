"""What a pretraining run prints: its rows before training, and its scores after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from encoderlab.reports.parts.console import console_on, figure, line, listing, number, speed, table_of, with_interval
from encoderlab.reports.parts.run_report import show_model, show_rest
from encoderlab.reports.pretraining.page import BASELINE_NAMES, PAIR_QUESTIONS


def show_pretraining_report(
    report: Mapping[str, Any], paths: Mapping[str, str], next_commands: Sequence[str], file: TextIO | None = None
) -> None:
    """Print a report from `build_pretraining_report`; `paths` and `file` are as for `training.screen.show_report`."""
    console, scores = console_on(file), report["splits"][report["scored_split"]]
    _headline(console, report, scores)
    console.print("", _comparison(report, scores), sep="\n")
    if report["verdict"]:
        console.print(Text(report["verdict"]["sentence"], style="bold"), soft_wrap=True)
    console.print()
    _facts(console, report["pairs"])
    line(console, "Speed", speed(report["throughput"]))
    if report["filled_masks"]:
        listing(console, "Masks filled in", _filled(report["filled_masks"]))
    show_rest(console, report, paths, next_commands)


def show_pairs(
    facts: Mapping[str, Any], baselines: Mapping[str, Mapping[str, float]], file: TextIO | None = None
) -> None:
    """Print what training reads and the baselines' scores, on standard error unless `file` is given.

    `facts` are what `runs.score.training_facts` counts: `documents`, `paragraphs`, `sentences`,
    `tokens`; of an epoch `pairs` (or single texts), their `mean_length` in tokens, the share `truncated`, and `labels`
    (pairs by label, if there are any); of a stream, those of its first window, and its `shards`. `sentence_splitter`
    says how sentences were found. `baselines` comes from `baselines.pretraining.pair_baselines`; it is empty without
    pairs.
    """
    console = console_on(file)
    _facts(console, facts)
    found = [
        f"{BASELINE_NAMES.get(name, name)} {figure(figures.get('nsp_accuracy'))}" for name, figures in baselines.items()
    ]
    if found:
        line(console, "Baselines on pairs (no encoder)", ", ".join(found))


def _facts(console: Console, facts: Mapping[str, Any]) -> None:
    counted = ", ".join(f"{facts[name]:,} {name}" for name in ("documents", "paragraphs", "sentences", "tokens"))
    if "shards" in facts:
        shards = f"{facts['shards']:,} shard{'s' * (facts['shards'] != 1)}"
        counted = f"{shards}, read during training; in the first window {counted}"
    line(console, "Training text", f"{counted}; sentences found by {facts['sentence_splitter']}")
    rows = "pairs" if "labels" in facts else "texts"
    epoch = f"{facts['pairs']:,} {rows}, {facts['mean_length']:,.1f} tokens long on average, {_percent(facts['truncated'])} truncated"
    total = max(sum(facts.get("labels", {}).values()), 1)
    labels = [f"{count:,} {label} ({_percent(count / total)})" for label, count in facts.get("labels", {}).items()]
    line(console, "The first window" if "shards" in facts else "An epoch", ", ".join([epoch, *labels]))


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _headline(console: Console, report: Mapping[str, Any], scores: Mapping[str, Any]) -> None:
    found = f"MLM accuracy {with_interval(scores, 'mlm_accuracy')} on {report['scored_split']} ({scores['n']:,} rows)"
    title = f"{report['command']} {report['task']}, seed {report['seed']}: {found}"
    console.print()
    console.print(Text(title, style="bold"), soft_wrap=True)
    also = [f"MLM perplexity {number(scores['mlm_perplexity'])}", f"MLM loss {figure(scores['mlm_loss'])}"]
    question = PAIR_QUESTIONS.get(report["second_sentence"], "")
    if "nsp_accuracy" in scores:
        also += [
            f"{question} accuracy {with_interval(scores, 'nsp_accuracy')}",
            f"{question} loss {figure(scores['nsp_loss'])}",
        ]
    line(console, "Also", ", ".join([*also, f"{scores['target_tokens']:,} masked tokens"]))
    show_model(console, report)


def _comparison(report: Mapping[str, Any], scores: Mapping[str, Any]) -> Table:
    """Return the model's scores next to the baselines'."""
    columns = {"mlm_accuracy": "MLM accuracy", "mlm_perplexity": "MLM perplexity"}
    if "nsp_accuracy" in scores:
        columns["nsp_accuracy"] = f"{PAIR_QUESTIONS.get(report['second_sentence'], '')} accuracy"
    table = table_of("on the same rows", *columns.values())

    def add(title: str, figures: Mapping[str, Any]) -> None:
        forms = {"mlm_perplexity": number}
        table.add_row(title, *(forms.get(name, figure)(figures[name]) if name in figures else "" for name in columns))

    add("this model", scores)
    for name, figures in report["baselines"].items():
        token = f" ({figures['token']})" if "token" in figures else ""
        add(BASELINE_NAMES.get(str(name), str(name)) + token, figures)
    return table


def _filled(filled_masks: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Yield two lines for each mask: the text, and the true token with the predictions."""
    for filled in filled_masks:
        guesses = ", ".join(f"{guess['token']} {_percent(guess['probability'])}" for guess in filled["guesses"])
        yield filled["text"]
        yield f"    true: {filled['answer']}; predicted: {guesses}"
