"""What the page to try a model shows of its run: the name of its data, and some of its held-out rows."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from encoderlab.reports.training import title_of

N_EXAMPLES = 3
MOST_ROWS_READ = 1000
LONGEST_EXAMPLE = 300  # characters of both texts together


@dataclass(frozen=True, slots=True)
class Trial:
    """A model's name, and rows that it was scored on but not trained on: `examples` have a text, text_pair (None of a
    single text) and label each; `split` is theirs.
    """

    title: str
    split: str = ""
    examples: tuple[Mapping[str, str | None], ...] = ()


def trial_of(run: Path, task: str) -> Trial:
    """Return what is known of the run in this folder; of anything else, such as a copied model, the `task`'s name."""
    try:
        report = json.loads((run / "report.json").read_text(encoding="utf-8"))
        title = title_of(report)
        split = str(report["scored_split"])
        examples = () if split == "train" else _short_examples(run / "predictions.csv")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, csv.Error):
        return Trial(task)
    return Trial(title, split, examples)


def _short_examples(predictions: Path) -> tuple[Mapping[str, str | None], ...]:
    """Return a few short rows of a predictions.csv, the first one of each label before others."""
    first_of_label: dict[str, Mapping[str, str | None]] = {}
    others = []
    with predictions.open(encoding="utf-8", newline="") as file:
        for row in islice(csv.DictReader(file), MOST_ROWS_READ):
            example = _example(row)
            if example is None:
                continue
            if row["label"] in first_of_label:
                others.append(example)
            else:
                first_of_label[row["label"]] = example
    return tuple([*first_of_label.values(), *others][:N_EXAMPLES])


def _example(row: Mapping[str, Any]) -> Mapping[str, str | None] | None:
    """Return a row as an example; None if it is blank or too long to be shown."""
    text = row["text"]
    text_pair = row.get("text_pair")
    if not text.strip() or len(text) + len(text_pair or "") > LONGEST_EXAMPLE:
        return None
    return {"text": text, "text_pair": text_pair, "label": row["label"]}
