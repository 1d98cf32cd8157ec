"""The scores of others next to the model's, in a report: of baselines, of its two parts, and of an older model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from encoderlab.reports import wording
from encoderlab.reports.blocks import Block, Headline, Table, Text, show

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
VERDICT_TONES = {"above": "good", "below": "bad"}  # of a verdict's outcome
GATE_TONES = {None: "bold", True: "good", False: "bad"}  # of whether the newer of two models passed


def verdict_on(baselines: Mapping[str, Mapping[str, Any]], subject: str, *, where: str = "") -> dict[str, str] | None:
    """Return whether the model is above, below or not distinguishable from its best baseline; None if there is none, or
    if the score is undefined.

    It is above or below only if the 95% interval of its lead is known and excludes zero. The sentence begins with the
    `subject`, such as "The model's accuracy", and ends with `where` this holds.
    """
    scored = {name: baseline for name, baseline in baselines.items() if baseline.get("model_leads_by") is not None}
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


def headline_block(report: Mapping[str, Any], split: str, rows: str, more: Sequence[str] = ()) -> Headline:
    """Return the main score on a split, beside it its interval, its `rows` in words, its best baseline, and `more`."""
    scores = report["splits"][split]
    main_score = report["main_score"]
    facts = []
    interval = wording.interval(scores.get(f"{main_score}_ci95"))
    if interval:
        facts.append(f"95% interval {interval}")
    facts.append(rows)
    against = (report["verdict"] or {}).get("against")
    if against is not None:
        best = wording.score(report["baselines"][against].get(main_score))
        facts.append(f"best baseline {best}, {BASELINE_NAMES.get(against, against)}")
    return Headline(wording.score(scores[main_score]), wording.named_score(main_score, scores), [*facts, *more])


def baseline_blocks(report: Mapping[str, Any]) -> list[Block]:
    """Return the model next to its baselines, and the verdict; nothing if there are none."""
    baselines = report["baselines"]
    if not baselines:
        return []
    scored = report["splits"][report["scored_split"]]
    head_alone = report.get("checkpoint", {}).get("head_alone", {})
    seconds = report["throughput"].get("train_seconds")
    if head_alone.get("kept"):
        seconds = report["throughput"].get("head_alone_seconds", seconds)
    model = {**scored, "seconds": seconds}
    blocks: list[Block] = [_table({"this model": model, **baselines}, report["main_score"])]
    verdict = report["verdict"]
    if verdict:
        blocks.append(Text(verdict["sentence"], tone=VERDICT_TONES.get(verdict.get("outcome"), "bold")))
    return blocks


def _table(rows: Mapping[str, Mapping[str, Any]], main_score: str) -> Table:
    """Return a row for each model with its scores, the model's lead over it and its seconds, the first marked."""
    first, *fitted = (scores for scores in rows.values() if "skipped" not in scores)
    metrics = _metrics_shown(first, fitted, main_score)
    has_leads = any("model_leads_by" in scores for scores in fitted)
    cells = []
    for name, scores in rows.items():
        label = scores.get("label") or BASELINE_NAMES.get(name, name)
        if "token" in scores:
            label += f" ({wording.shown(scores['token'], 40)})"
        if "setting" in scores:
            label += f" ({scores['setting']})"
        row = [label]
        for metric in metrics:
            row.append("" if scores.get(metric) is None else wording.with_interval(scores, metric, ""))
        if "skipped" in scores:
            row[1] = "skipped"
        if has_leads:
            is_compared = scores.get("model_leads_by") is not None
            lead = wording.signed(scores["model_leads_by"], scores["model_leads_by_ci95"]) if is_compared else ""
            row += [lead, wording.number(scores.get("seconds"))]
        cells.append(row)
    columns = ["on the same rows", *(wording.named_score(metric, first) for metric in metrics)]
    if has_leads:
        columns += ["model ahead by (95% interval)", "seconds"]
    return Table(columns, cells, marked=0)


def _metrics_shown(first: Mapping[str, Any], fitted: Sequence[Mapping[str, Any]], main_score: str) -> list[str]:
    """Return the scores that have a column: the main one and another that all have, or those of pretraining."""
    if "mlm_accuracy" in first:
        return [name for name in PRETRAINING_SCORES if name in first]
    preferred = ("average_precision", *SECOND) if main_score == "f1" else SECOND
    for name in preferred:
        if name != main_score and all(name in scores for scores in (first, *fitted)):
            return [main_score, name]
    return [main_score]


def show_baselines(report: Mapping[str, Any], file: TextIO) -> None:
    """Print the report of `encoderlab baseline`."""
    baselines = report["baselines"]
    where = f"scored on {report['scored_split']} ({wording.number(report['n'])} rows)"
    skipped = []
    for name, scores in baselines.items():
        skipped.append(Text(scores.get("skipped", ""), f"{scores.get('label') or BASELINE_NAMES[name]} was skipped"))
    candidates = [block for scores in baselines.values() for block in candidate_blocks(scores)]
    title = Text(where, f"baseline {report['task']}")
    show([title, _table(baselines, report["main_score"]), *skipped, *candidates], file)


def candidate_blocks(baseline: Mapping[str, Any]) -> list[Block]:
    """Return the settings that a linear model was chosen from, with their scores; nothing if it was not chosen."""
    candidates = baseline.get("candidates", [])
    if not candidates:
        return []
    metric = next(name for name in candidates[0] if name not in {"setting", "loss"})
    rows = []
    for one in candidates:
        rows.append([one["setting"], wording.score(one[metric]), wording.score(one["loss"])])
    where = f"cross-validated on {wording.number(baseline['compared_on'])} training rows"
    return [Table([f"linear model, {where}", wording.named_score(metric, {}), "loss"], rows, marked=0)]


# A linear model beside the network


def branch_blocks(report: Mapping[str, Any]) -> list[Block]:
    """Return the scores of the network, of the linear model and of both on each split, or that there is no branch."""
    facts = report.get("linear_branch")
    if facts is None:
        return []
    if not facts["weight"]:
        return [Text("none beside the network, as both together are not better by evidence", "Linear model")]
    return [_parts_table(facts), Text(_branch_in_words(facts), "Linear model")]


def _branch_in_words(facts: Mapping[str, Any]) -> str:
    """Return in words which linear model stands beside the network, with which weight."""
    left_out = facts["ngrams_left_out"]
    cut = f", without {left_out:,} that matter least" if left_out else ""
    chosen = "as set" if facts["chosen_on"] is None else f"chosen on {facts['chosen_on']}"
    ngrams = f"{facts['ngrams']:,} n-grams{cut} ({facts['setting']})"
    return f"its logits have the weight {facts['weight']:g}, {chosen}; {ngrams}"


def _parts_table(facts: Mapping[str, Any]) -> Table:
    rows = []
    for split, parts in facts["splits"].items():
        values = [wording.score(parts[name]) for name in ("network", "linear", "both")]
        rows.append([split, *values, wording.signed(parts["gain"], parts["gain_ci95"])])
    first = f"{wording.words_of(facts['score'])} of the parts"
    return Table([first, "network", "linear model", "both", "both ahead of the network by (95% interval)"], rows)


# A model beside an older one


def against_blocks(report: Mapping[str, Any]) -> list[Block]:
    """Return by how much the model is better or worse than the older one, and whether that is allowed; nothing without
    an older one.
    """
    facts = report.get("against")
    if facts is None:
        return []
    scored = report["splits"][report["scored_split"]]
    name = facts["score"]
    score = wording.named_score(name, scored)
    both = f"{score} {wording.score(scored[name])}, of {wording.shown(facts['run'])} {wording.score(facts[name])}"
    words = f"{both}: {_lead_in_words(facts)}"
    if facts["passed"] is not None:
        outcome = "passed" if facts["passed"] else "failed"
        words += f". Allowed is a drop of {facts['allowed_drop']:g}: {outcome}"
    bounds = facts["leads_by_ci95"]
    if facts["passed"] and bounds is not None and bounds[0] < -facts["allowed_drop"]:
        words += f", but {wording.counted(scored['n'], 'row')} cannot rule out a larger one"
    return [Text(f"{words}.", "Against the older model", tone=GATE_TONES[facts["passed"]])]


def _lead_in_words(facts: Mapping[str, Any]) -> str:
    """Return by how much the model is better, or worse, with the interval of that."""
    lead = facts["leads_by"]
    if lead == 0:
        return "level" + _interval(facts["leads_by_ci95"])
    if lead > 0:
        return f"better by {lead:.3f}" + _interval(facts["leads_by_ci95"])
    bounds = facts["leads_by_ci95"]
    return f"worse by {-lead:.3f}" + _interval(bounds and [-bounds[1], -bounds[0]])


def _interval(bounds: Sequence[float] | None) -> str:
    return f" (95% interval {bounds[0]:+.3f} to {bounds[1]:+.3f})" if bounds else ""
