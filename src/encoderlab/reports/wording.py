"""The words for scores, numbers and texts, which are the same wherever they appear."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from encoderlab.errors import printable

LONGEST_TEXT = 600  # characters of a text on a page
NOT_SHARES = ("mlm_perplexity", "target_tokens")  # the scores shown as plain numbers
OF_POSITIVE = ("f1", "f_beta", "roc_auc", "average_precision", "threshold")  # the scores about one of two classes
IN_WORDS = {
    "f1 macro": "macro F1",
    "f1 weighted": "weighted F1",
    "f1 micro": "micro F1",
    "f beta": "F-beta",
    "cohen kappa": "Cohen's kappa",
}
SPEEDS = {
    "tokens_per_second": "{:,.0f} tokens/s",
    "examples_per_second": "{:,.0f} examples/s",
    "padding_fraction": "{:.1%} padding",
    "train_seconds": "{:,.1f} s of training",
    "evaluation_seconds": "{:,.1f} s of evaluation",
}


def words_of(name: str) -> str:
    """Return the name of a score in words."""
    words = name.replace("_", " ").replace("roc auc", "ROC AUC").replace("matthews", "Matthews correlation")
    words = IN_WORDS.get(words, words)
    return re.sub(r"^(mlm|nsp|f1)\b|\bf1$", lambda start: start[0].upper(), words)


def named_score(name: str, scores: Mapping[str, Any]) -> str:
    """Return the name of a score in words, with the positive label of `scores` if it is about that one."""
    label = scores.get("positive_label")
    return f"{words_of(name)} of {printable(label)}" if label is not None and name in OF_POSITIVE else words_of(name)


def title_of(report: Mapping[str, Any]) -> str:
    """Return what a report is about: the task, of your own files also their name."""
    return shown(f"{report['data']}, {report['task']}" if report.get("data") else report["task"])


def score(value: float | None) -> str:
    """Return a score to three decimals."""
    return "-" if value is None else f"{value:.3f}"


def number(value: float | None) -> str:
    """Return a count, or a measured number to one decimal."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def percent(share: float | None) -> str:
    """Return a share of 1 as a percentage."""
    return "-" if share is None else f"{share:.1%}"


def counted(n: int, noun: str) -> str:
    """Return a count with its noun, which is in the plural unless there is one."""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def interval(bounds: Sequence[float] | None) -> str:
    """Return an interval's bounds as words; "" if it is not known."""
    return f"{score(bounds[0])} to {score(bounds[1])}" if bounds else ""


def with_interval(scores: Mapping[str, Any], name: str, title: str = "95% interval ") -> str:
    """Return a score with its 95% interval, if it has one, after a `title`."""
    if name in NOT_SHARES:
        return number(scores[name])
    bounds = scores.get(f"{name}_ci95")
    return f"{score(scores[name])} ({title}{interval(bounds)})" if bounds else score(scores[name])


def signed(difference: float, bounds: Sequence[float] | None) -> str:
    """Return a difference with its 95% interval, if that is known, all with their signs."""
    return f"{difference:+.3f}" + (f" ({bounds[0]:+.3f} to {bounds[1]:+.3f})" if bounds else "")


def speed(throughput: Mapping[str, float | None]) -> str:
    """Return the measured speeds in words, without those that were not measured."""
    return ", ".join(form.format(throughput[name]) for name, form in SPEEDS.items() if throughput.get(name) is not None)


def checkpoint_words(checkpoint: Mapping[str, Any]) -> str:
    """Return which checkpoint was scored, and why."""
    step = f"step {number(checkpoint['step'])}"
    if checkpoint.get("head_alone", {}).get("kept"):
        step = "the head alone, on the encoder as pretrained"
        if checkpoint["chosen_on"] is None:
            return f"{step} ({checkpoint['chosen_by']})"
    if checkpoint["chosen_on"] is None:
        return f"{step}, the {checkpoint['chosen_by']}"
    return f"{step}, chosen by {words_of(checkpoint['chosen_by'])} on {checkpoint['chosen_on']}"


def shown(text: str, most: int = LONGEST_TEXT) -> str:
    """Return a text from the data in one line, shortened to `most` characters with a note."""
    return single_spaced(cut(text, most))


def cut(text: str, most: int = LONGEST_TEXT) -> str:
    """Return the text, shortened to `most` characters with a note."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def short(name: str, most: int = 24) -> str:
    """Return a name in at most `most` characters, cut between words where that leaves at least half of it."""
    if len(name) <= most:
        return name
    start = name[: most - 1]
    whole_words = start[: start.rfind(" ")] if " " in start else ""
    if name[most - 1] == " ":
        whole_words = start
    return f"{whole_words if len(whole_words) >= most / 2 else start}…"


def single_spaced(text: str) -> str:
    """Return the text with its white space as single blanks, and control characters escaped."""
    return printable(re.sub(r"\s+", " ", text))
