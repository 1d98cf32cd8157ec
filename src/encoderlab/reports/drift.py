"""What `encoderlab data run=... new.csv` shows: new texts beside the rows that a run was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO

from encoderlab.reports import wording
from encoderlab.reports.blocks import Block, Items, Table, Text, show

MOST_LABELS = 12  # shown: those whose shares have changed most
SHOWN_TEXT = 120  # characters


def show_drift(facts: Mapping[str, Any], file: TextIO) -> None:
    """Print the facts of new texts, the verdict first."""
    tone = "bad" if facts["changed"] else "good"
    blocks: list[Block] = [Text(facts["verdict"], tone=tone), _texts_table(facts), _test_line(facts["two_sample_test"])]
    if "labels" in facts:
        blocks.append(_labels_table(facts["labels"]))
    lines = []
    for row in facts["least_alike"]:
        text = wording.single_spaced(row["text"])
        lines.append(f"{row['similarity']:.2f}  {row['where']}: {wording.short(text, SHOWN_TEXT)}")
    blocks.append(Items("Least like training (similarity to the nearest training text)", lines))
    show(blocks, file)


def _texts_table(facts: Mapping[str, Any]) -> Table:
    columns = [facts["train"], facts["new"]]
    rows = [
        ["texts", *(wording.number(side["texts"]) for side in columns)],
        ["of these read", *(wording.number(side["read"]) for side in columns)],
        ["words (median)", *(f"{side['words_median']:,.0f}" for side in columns)],
        ["words (95%)", *(f"{side['words_p95']:,.0f}" for side in columns)],
        ["unknown tokens", *(wording.percent(side["unknown_tokens"]) for side in columns)],
        ["words in no (other) training text", *(wording.percent(side["new_words"]) for side in columns)],
    ]
    expected = facts.get("expected_accuracy")
    if expected is not None:
        held_out = expected.get("held_out")
        shown = "-" if held_out is None else f"{wording.score(held_out)} (held-out rows)"
        rows.append(["expected accuracy", shown, wording.score(expected["new"])])
    unlike = facts.get("unlike_training")
    if unlike is not None:
        rows.append(["unlike training", *(wording.percent(unlike[side]) for side in ("expected", "new"))])
    return Table(("", "training rows", "new texts"), rows)


def _test_line(test: Mapping[str, Any]) -> Text:
    told = f"AUC {wording.score(test['auc'])} (0.5: chance), p = {test['p_value']:.3f} by permutation"
    return Text(f"{told}, by {test['compared_by']}", "Two-sample test, linear model")


def _labels_table(labels: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the labels with their shares; of many, those whose share has changed most."""

    def change(label: str) -> float:
        return -abs(labels[label]["predicted"] - labels[label]["train"])

    names = list(labels)
    if len(names) > MOST_LABELS:
        names = sorted(names, key=change)[:MOST_LABELS]
    rows = []
    for name in names:
        own = labels[name]
        bounds = f"{wording.percent(own['predicted_ci95'][0])} to {wording.percent(own['predicted_ci95'][1])}"
        rows.append([wording.shown(name, 80), wording.percent(own["train"]), wording.percent(own["predicted"]), bounds])
    more = f" ({len(names)} of {len(labels):,}, changed most)" if len(names) < len(labels) else ""
    return Table((f"label{more}", "training rows", "predicted", "95% interval"), rows)
