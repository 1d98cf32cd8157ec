"""Scores without an encoder next to the model's, and the verdict on both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO

from encoderlab.reports import wording
from encoderlab.reports.blocks import Block, Table, Text, show

BASELINE_NAMES = {
    "majority": "always the most frequent label",
    "tfidf_logreg": "TF-IDF + logistic regression",
    "word_majority": "each word's most frequent label",
    "mean": "always the mean",
    "tfidf_ridge": "TF-IDF + ridge regression",
    "frozen_encoder_logreg": "frozen mini-en + logistic regression",
    "frozen_encoder_ridge": "frozen mini-en + ridge regression",
    "most_frequent_token": "always the most frequent token",
    "unigram": "each token as often as in training",
}
# The first of these is shown next to the main score.
SECOND = ("token_accuracy", "f1_macro", "f1_micro", "spearman", "pearson", "accuracy")
PRETRAINING_SCORES = ("mlm_accuracy", "mlm_perplexity", "nsp_accuracy")  # shown next to the baselines
TONES = {"above": "good", "below": "bad"}  # of a verdict's outcome


def verdict_on(baselines: Mapping[str, Mapping[str, Any]], subject: str, *, where: str = "") -> dict[str, str] | None:
    """Return whether the model is above, below or not distinguishable from its best baseline; None if there is none.

    It is above or below only if the 95% interval of its lead is known and excludes zero. The sentence begins with the
    `subject`, such as "The model's accuracy", and ends with `where` this holds.
    """
    scored = {name: baseline for name, baseline in baselines.items() if "skipped" not in baseline}
    if not scored:
        return None
    name = min(scored, key=lambda name: scored[name]["model_leads_by"])
    lead = scored[name]["model_leads_by"]
    bounds = scored[name]["model_leads_by_ci95"]
    outcome = "not distinguishable"
    if bounds is not None and bounds[0] > 0:
        outcome = "above"
    elif bounds is not None and bounds[1] < 0:
        outcome = "below"
    stands = "is not distinguishable from" if outcome == "not distinguishable" else f"is {outcome}"
    interval = "" if bounds is None else f", 95% interval {bounds[0]:+.3f} to {bounds[1]:+.3f}"
    best = BASELINE_NAMES.get(name, name)
    sentence = f"{subject} {stands} that of its best baseline, {best}: {lead:+.3f}{interval}{where}."
    return {"against": name, "outcome": outcome, "sentence": sentence}


def baseline_blocks(report: Mapping[str, Any]) -> list[Block]:
    """Return the model next to its baselines, and the verdict; nothing if there are none."""
    baselines, scored = report["baselines"], report["splits"][report["scored_split"]]
    if not baselines:
        return []
    model = {**scored, "seconds": report["throughput"].get("train_seconds")}
    table = _table({"this model": model, **baselines}, report["main_figure"])
    verdict = report["verdict"]
    return [table, *([Text(verdict["sentence"], tone=TONES.get(verdict.get("outcome"), "bold"))] if verdict else [])]


def _table(rows: Mapping[str, Mapping[str, Any]], main_score: str) -> Table:
    """Return a row for each model with its scores, the model's lead over it and its seconds, the first marked."""
    first, *fitted = (one for one in rows.values() if "skipped" not in one)
    preferred = ("average_precision", *SECOND) if main_score == "f1" else SECOND
    others = [name for name in preferred if name != main_score and all(name in one for one in (first, *fitted))]
    columns = [main_score, *others[:1]]
    if "mlm_accuracy" in first:
        columns = [name for name in PRETRAINING_SCORES if name in first]
    is_paired = any("model_leads_by" in one for one in fitted)
    cells = []
    for name, one in rows.items():
        token = f" ({wording.shown(one['token'], 40)})" if "token" in one else ""
        scores = [wording.with_interval(one, key, "") if one.get(key) is not None else "" for key in columns]
        cells.append([f"{BASELINE_NAMES.get(name, name)}{token}", *scores])
        if "skipped" in one:
            cells[-1][1] = "skipped"
        if is_paired:
            lead = wording.signed(one["model_leads_by"], one["model_leads_by_ci95"]) if "model_leads_by" in one else ""
            cells[-1] += [lead, wording.number(one.get("seconds"))]
    names = [wording.named_score(name, first) for name in columns]
    return Table(
        ["on the same rows", *names, *(["model ahead by (95% interval)", "seconds"] * is_paired)], cells, marked=0
    )


def show_baselines(report: Mapping[str, Any], file: TextIO) -> None:
    """Print the report of `encoderlab baseline`."""
    baselines = report["baselines"]
    where = f"scored on {report['scored_split']} ({wording.number(report['n'])} rows)"
    skipped = [Text(one.get("skipped", ""), f"{BASELINE_NAMES[name]} was skipped") for name, one in baselines.items()]
    show([Text(where, f"baseline {report['task']}"), _table(baselines, report["main_figure"]), *skipped], file)
