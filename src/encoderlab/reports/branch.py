"""A linear model beside the network in a report: what each part predicts, and what both gain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from encoderlab.reports import wording
from encoderlab.reports.blocks import Block, Table, Text


def branch_blocks(report: Mapping[str, Any]) -> list[Block]:
    """Return the scores of the network, of the linear model and of both on each split, or that there is no branch."""
    facts = report.get("linear_branch")
    if facts is None:
        return []
    if not facts["weight"]:
        return [Text("none beside the network, as both together are not better by evidence", "Linear model")]
    return [_table(facts), Text(branch_words(facts), "Linear model")]


def branch_words(facts: Mapping[str, Any]) -> str:
    """Return in words which linear model stands beside the network, with which weight."""
    left_out = facts["ngrams_left_out"]
    cut = f", without {left_out:,} that matter least" if left_out else ""
    chosen = "as set" if facts["chosen_on"] is None else f"chosen on {facts['chosen_on']}"
    ngrams = f"{facts['ngrams']:,} n-grams{cut} ({facts['setting']})"
    return f"its logits have the weight {facts['weight']:g}, {chosen}; {ngrams}"


def _table(facts: Mapping[str, Any]) -> Table:
    rows = []
    for split, parts in facts["splits"].items():
        values = [wording.score(parts[name]) for name in ("network", "linear", "both")]
        rows.append([split, *values, wording.signed(parts["gain"], parts["gain_ci95"])])
    first = f"{wording.words_of(facts['score'])} of the parts"
    return Table([first, "network", "linear model", "both", "both ahead of the network by (95% interval)"], rows)
