"""What few labels gain from unlabelled texts and from the names of the labels, on the vectors of mini-en.

`python -m benchmarks unlabelled` draws 1, 4, 8 and 32 rows for each label of a set's training split and takes others
for unlabelled. It scores logistic regression, in seconds: on the rows alone, with the names, with self-labelled texts
and with both, wherever `encoderlab finetune` would train on them (`unlabelled=`, `train_on_names=`). The rules were
chosen on validation (`--split validation`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.processes import grid, provenance
from benchmarks.selecting import MOST_ROWS, Texts, read_texts
from encoderlab.linear.model import quietly
from encoderlab.recipes.further_texts import (
    LEAST_KAPPA_OF_NAMES,
    Labelled,
    fitted,
    judged_by_folds,
    kappa_of_names,
    name_in_words,
    self_label,
)

UNLABELLED_SETS = ("subjectivity", "sms_spam", "tweet_offensive", "financial_phrasebank", "bbc_news", "clinc150")
FEWEST_ROWS = (1, 4, 8, 32)  # for each label
ALONE = "the rows alone"
WAYS = {ALONE: (False, False), "names": (True, False), "unlabelled texts": (False, True), "both": (True, True)}


def unlabelled_texts(
    suite: Path, output: Path, sets: Sequence[str], rows: Sequence[int], draws: int, split: str
) -> None:
    """Measure each way on each set, and print a table for each number of rows."""
    for n_rows in rows:
        scores: dict[str, dict[str, np.ndarray]] = {}
        for name in sets:
            train = read_texts(suite, output, name, "train")
            scored = read_texts(suite, output, name, split)
            scores[name] = _scores(train, scored, n_rows, draws)
            print(f"  {name}, {n_rows} rows: finished", file=sys.stderr)
        print(f"\n{n_rows} rows per label\n\n" + "\n".join(table(scores)))
    print(f"\n{draws} draws, scored on {split}. {provenance()}.")


def _scores(train: Texts, scored: Texts, n_rows: int, draws: int) -> dict[str, np.ndarray]:
    """Return the macro F1 of each way in points: [draws]."""
    from sklearn.metrics import f1_score

    import encoderlab

    labels, classes = np.unique(train.labels, return_inverse=True)
    names = encoderlab.load("mini-en").embed([name_in_words(label) for label in labels], normalize=True)
    scores = {way: np.zeros(draws) for way in WAYS}
    for draw in range(draws):
        order = np.random.default_rng(draw).permutation(len(classes))
        rows = np.concatenate([order[classes[order] == class_][:n_rows] for class_ in range(len(labels))])
        others = train.vectors[np.setdiff1d(order, rows)[:MOST_ROWS]]
        labelled = Labelled(train.vectors[rows], classes[rows])
        for way, (by_names, by_texts) in WAYS.items():
            with quietly():
                predicted = _predicted(labelled, names if by_names else None, others if by_texts else None, scored)
            scores[way][draw] = 100 * f1_score(scored.labels, labels[predicted], average="macro")
    return scores


def _predicted(labelled: Labelled, names: np.ndarray | None, others: np.ndarray | None, scored: Texts) -> np.ndarray:
    """Return the classes that logistic regression predicts, fitted to what `finetune` would train on."""
    of_names = Labelled(labelled.vectors[:0], labelled.classes[:0])
    if names is not None and kappa_of_names(labelled, names) >= LEAST_KAPPA_OF_NAMES:
        of_names = Labelled(names, np.arange(len(names)))
    known = labelled.followed_by(of_names)
    own = None
    two_each = np.bincount(labelled.classes).min() >= 2
    if others is not None and two_each and judged_by_folds(labelled, others, of_names, seed=0).favours_own_labels:
        rows, given = self_label(known, others)
        own = Labelled(others[rows], given)
    return fitted(known, own).predict(scored.vectors)


def table(scores: Mapping[str, Mapping[str, np.ndarray]]) -> list[str]:
    """Return a Markdown table: macro F1 of the rows alone, how far the other ways are ahead, and the share of draws in
    which one of them is more than half a point below.
    """
    others = [way for way in WAYS if way != ALONE]
    lines = []
    for name, of_set in scores.items():
        ahead = [of_set[way] - of_set[ALONE] for way in others]
        error = ahead[-1].std(ddof=1) / len(ahead[-1]) ** 0.5 if len(ahead[-1]) > 1 else 0.0
        cells = [f"{gain.mean():+.1f}" for gain in ahead]
        lines.append([name, f"{of_set[ALONE].mean():.1f}", *cells, f"{error:.1f}"])
    means = [np.mean([(of_set[way] - of_set[ALONE]).mean() for of_set in scores.values()]) for way in others]
    lines.append(["mean", f"{np.mean([of_set[ALONE].mean() for of_set in scores.values()]):.1f}"])
    lines[-1] += [*(f"{gain:+.1f}" for gain in means), ""]
    below = [np.mean([of_set[way] - of_set[ALONE] < -0.5 for of_set in scores.values()]) for way in others]
    lines.append(["draws below by more than 0.5", "", *(f"{share:.0%}" for share in below), ""])
    return grid(["macro F1", ALONE, *(f"{way}: ahead" for way in others), "± (both)"], lines)
