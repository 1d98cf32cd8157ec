"""A model beside an older one on the same rows, in a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from encoderlab.reports import wording
from encoderlab.reports.blocks import Block, Text

TONES = {None: "bold", True: "good", False: "bad"}  # of whether the newer one passed


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
    words = f"{both}: {_compared(facts)}"
    if facts["passed"] is not None:
        outcome = "passed" if facts["passed"] else "failed"
        words += f". Allowed is a drop of {facts['allowed_drop']:g}: {outcome}"
    bounds = facts["leads_by_ci95"]
    if facts["passed"] and bounds is not None and bounds[0] < -facts["allowed_drop"]:
        words += f", but {wording.counted(scored['n'], 'row')} cannot rule out a larger one"
    return [Text(f"{words}.", "Against the older model", tone=TONES[facts["passed"]])]


def _compared(facts: Mapping[str, Any]) -> str:
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
