"""What a report says of each class, label and type of entity: tables, the confusion matrix, and a warning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from encoderlab.reports import wording
from encoderlab.reports.blocks import Block, Heading, Matrix, Table, Text

MOST_ON_PAGE = 60  # classes in a table
MOST_OF_A_MATRIX = 20  # classes
LONGEST_IN_A_MATRIX = 36  # characters of a class's name
MOST_CONFUSED = 25  # pairs of classes
EXTRA_COLUMNS = {  # of entity types and labels
    "f1_ci95": "F1, 95% interval",
    "average_precision": "average precision",
    "threshold": "threshold",
}


def single_class_warning(report: Mapping[str, Any]) -> list[Text]:
    """Return a warning if the model predicts one class for every row, although there are several."""
    scored = report["splits"][report["scored_split"]]
    if "confusion" not in scored:
        return []
    counts = np.array(scored["confusion"])
    predicted = np.flatnonzero(counts.any(0)).tolist()
    if len(predicted) != 1 or counts.any(1).sum() < 2:
        return []
    name = wording.shown(list(scored["per_class"])[predicted[0]], 60)
    words = f"The model predicts {name} for every row, so its accuracy is only the share of that class."
    remedy = "More steps may help."
    if "f1" not in report["main_score"]:
        remedy = "More steps may help, and so may task.class_weights=balanced task.score=f1_macro."
    return [Text(f"{words} {remedy}", "Warning", tone="bad")]


def class_table(scored: Mapping[str, Any], key: str, most: int) -> list[Block]:
    """Return a row for each class, entity type or label of a split; of too many, for those with the lowest F1."""
    listed = list(scored.get(key, {}).items())
    if not listed:
        return []
    n = len(listed)
    few = ""
    if n > most:
        listed = sorted(listed, key=lambda item: (item[1]["support"] == 0, item[1]["f1"]))[:most]
        few = f"The {most} with the lowest F1 of {n:,}; report.json has all."
    extra = [name for name in EXTRA_COLUMNS if name in listed[0][1]]
    rows = []
    for name, scores in listed:
        cells = [wording.score(scores[score]) for score in ("precision", "recall", "f1")]
        cells.append(wording.number(scores["support"]))
        for score in extra:
            cells.append(wording.interval(scores[score]) if score == "f1_ci95" else wording.score(scores[score]))
        rows.append([wording.shown(name, 80), *cells])
    kind = "class" if "confusion" in scored else "label"
    support = "rows"
    if key == "per_entity":
        kind = "type"
        support = "entities"
    columns = [kind, "precision", "recall", "F1", support, *(EXTRA_COLUMNS[name] for name in extra)]
    return [Table(columns, rows), Text(few, tone="quiet")]


def class_sections(scored: Mapping[str, Any]) -> list[Block]:
    """Return the sections on types of entities and on classes."""
    blocks: list[Block] = []
    entities = class_table(scored, "per_entity", MOST_ON_PAGE)
    if entities:
        words = "An entity is right if its first word, its last word and its type are: as conlleval counts."
        blocks += [Heading("Entities"), Text(words), *entities]
    classes = class_table(scored, "per_class", MOST_ON_PAGE)
    if classes:
        blocks += [Heading("Classes"), *classes]
    if "confusion" not in scored:
        return blocks
    names = list(scored["per_class"])
    if len(names) > MOST_OF_A_MATRIX:
        return [*blocks, *_most_confused(names, scored["confusion"])]
    words = "True classes are rows, predicted classes columns; the shade is the share of the true class."
    in_short = [wording.short(wording.shown(name), LONGEST_IN_A_MATRIX) for name in names]
    return [*blocks, Heading("Confusion matrix", level=3), Text(words), Matrix(in_short, scored["confusion"])]


def _most_confused(names: Sequence[str], confusion: Sequence[Sequence[int]]) -> list[Block]:
    """Return a table of the pairs of classes that are confused most often, of more classes than a matrix shows."""
    counts = np.array(confusion)
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    rows = []
    for cell in np.argsort(-wrong, axis=None, kind="stable")[:MOST_CONFUSED].tolist():
        true, predicted = divmod(int(cell), len(names))
        count = int(wrong[true, predicted])
        if count:
            share = wording.percent(count / counts[true].sum())
            pair = [wording.shown(names[true], 80), wording.shown(names[predicted], 80)]
            rows.append([*pair, wording.number(count), share])
    about = "plots/confusion.png shows the whole matrix."
    if not rows:
        return [Heading("Confusion matrix", level=3), Text(f"No class is taken for another. {about}")]
    words = f"The pairs of classes that are confused most often, with the share of the true class. {about}"
    table = Table(("true class", "predicted", "rows", "share"), rows, n_texts=2)
    return [Heading("Confusion matrix", level=3), Text(words), table]
