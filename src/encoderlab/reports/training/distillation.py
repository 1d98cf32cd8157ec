"""The table of teacher and student, for screen, page and model card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from encoderlab.reports.parts.console import figure, lead, number, words_of

NAMES = {"student": "student (this model)", "teacher": "teacher"}


def distillation_table(report: Mapping[str, Any]) -> list[list[str]]:
    """Return a line of headings, then a line for each model; empty if the run had no teacher.

    A teacher of vectors has no score: the student's score is how close it comes to them.
    """
    found = report.get("distillation")
    if not found:
        return []
    main = report["main_figure"]
    scored = [words_of(main), "student ahead by (95% interval)"] if main in found["teacher"] else []
    heading = ["on the same rows", *scored, "parameters", "MB in fp32", "texts/s"]
    return [heading, *(_line(NAMES[name], found[name], main) for name in NAMES if name in found)]


def _line(name: str, model: Mapping[str, Any], main: str) -> list[str]:
    ahead = lead(model, "student_leads_by") if "student_leads_by" in model else ""
    scored = [figure(model[main]), ahead] if main in model else []
    speed = "" if model["texts_per_second"] is None else f"{model['texts_per_second']:,.0f}"
    return [name, *scored, number(model["parameters"]), number(model["megabytes"]), speed]


def distillation_markdown(report: Mapping[str, Any]) -> str:
    """Return the same table in Markdown, under a heading; "" if the run had no teacher."""
    rows = distillation_table(report)
    if not rows:
        return ""
    heading, *others = (f"| {' | '.join(row)} |\n" for row in rows)
    return f"\n## Teacher and student\n\n{heading}|---|{'---:|' * (len(rows[0]) - 1)}\n{''.join(others)}"
