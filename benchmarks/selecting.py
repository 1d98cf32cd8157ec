"""Which texts to label: accuracy over the number of labels, of texts drawn at random and of those that select chooses.

`python -m benchmarks select` labels texts of each set round after round, as `encoderlab select` does with the labels of
earlier rounds, and scores logistic regression on the vectors of mini-en after each. The rules were chosen on validation
(`--split validation`); what is reported is test. `--finetune 5` finetunes on the labels of five rounds instead.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.processes import finished, grid, provenance, python
from encoderlab.apps.labelling.selection import UNLABELLED, UNSURE_PER_CHOSEN, choose_rows, classifier_of

SELECT_SETS = (
    *("subjectivity", "sms_spam", "tweet_offensive", "financial_phrasebank", "bbc_news", "clinc150"),
    *("germeval2018", "gnad_sample"),
)
ROUNDS = 10
ROWS_A_ROUND = 20  # or one for each class, if these are more
MOST_ROWS = 3_000  # of the texts that may be labelled
RANDOM_SHARE = 0.25  # the default of select
SHOWN_ROUNDS = (1, 2, 3, 5, 10)

RANDOM = "at random"
SELECT = "select"
Vectors = np.ndarray


@dataclass(frozen=True, slots=True)
class Way:
    """A way to choose: the share drawn at random in the first round, and in later ones; and from how many times as many
    rows with small margins the others are spread (None: typical rows, whatever the labels).
    """

    first_share: float = 0.0
    share: float = 0.0
    unsure_per_chosen: int | None = None


WAYS: Mapping[str, Way] = {
    RANDOM: Way(first_share=1.0, share=1.0),
    "typical": Way(),
    "smallest margins": Way(unsure_per_chosen=1),
    "margins, spread": Way(unsure_per_chosen=UNSURE_PER_CHOSEN),
    SELECT: Way(share=RANDOM_SHARE, unsure_per_chosen=UNSURE_PER_CHOSEN),
}


@dataclass(frozen=True, slots=True)
class Curve:
    """Scores after each round, [draws, rounds]."""

    accuracy: np.ndarray
    f1_macro: np.ndarray


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of a split, their vectors, and their labels."""

    texts: np.ndarray
    vectors: Vectors
    labels: np.ndarray

    def drawn(self, draw: int) -> Texts:
        """Return at most MOST_ROWS of the texts, other ones in each draw."""
        rows = np.sort(np.random.default_rng(draw).permutation(len(self.labels))[:MOST_ROWS])
        return Texts(self.texts[rows], self.vectors[rows], self.labels[rows])


def selecting(suite: Path, output: Path, sets: Sequence[str], draws: int, split: str) -> None:
    """Measure each way to choose on each set, and print the tables."""
    curves: dict[str, dict[str, Curve]] = {}
    for name in sets:
        train = read_texts(suite, output, name, "train")
        scored = read_texts(suite, output, name, split)
        curves[name] = {}
        for way in WAYS:
            curves[name][way] = _curve(WAYS[way], train, scored, draws)
            gain = _area(curves[name][way].accuracy) - _area(curves[name][RANDOM].accuracy)
            print(f"  {name}, {way}: area {gain:+.3f}", file=sys.stderr)
    print("\n".join(_areas(curves)))
    print()
    print("\n".join(_rounds(curves)))
    print(f"\n{draws} draws, scored on {split}. {provenance()}.")


def selecting_and_finetuning(
    suite: Path, output: Path, sets: Sequence[str], draws: int, split: str, after: int
) -> None:
    """Finetune mini-en, by the default command, on the labels `after` so many rounds, and print a table.

    Runs that are finished are kept. Raises TrainingError for a run that fails.
    """
    lines = []
    for name in sets:
        train = read_texts(suite, output, name, "train")
        scores: dict[str, np.ndarray] = {}
        for way in (RANDOM, SELECT):
            of_draws = []
            for draw in range(draws):
                folder = output / "runs" / name / f"{way.replace(' ', '_')}-{after}-{draw}"
                labels = next(islice(_labelled(WAYS[way], train.drawn(draw), seed=draw * ROUNDS), after - 1, None))
                of_draws.append(_finetuned(train.drawn(draw), labels, suite / name / f"{split}.csv", folder))
            scores[way] = np.array(of_draws)
            print(f"  {name}, {way}: {scores[way].mean():.3f}", file=sys.stderr)
        ahead = 100 * (scores[SELECT] - scores[RANDOM])
        error = ahead.std(ddof=1) / draws**0.5 if draws > 1 else 0.0
        means = [f"{scores[way].mean():.3f}" for way in (RANDOM, SELECT)]
        lines.append([name, *means, f"{ahead.mean():+.1f}", f"{error:.1f}"])
    print("\n".join(grid(["set", RANDOM, SELECT, "ahead", "±"], lines)))
    print(f"\nFinetuned after {after} rounds; {draws} draws, scored on {split}. {provenance()}.")


def _finetuned(pool: Texts, labels: np.ndarray, scored: Path, folder: Path) -> float:
    """Return the accuracy on the file `scored` of the run in `folder`, which is done if it is not there, on the texts
    with a label so far.
    """
    import pandas as pd

    report = folder / "report.json"
    if not report.exists():
        known = labels != UNLABELLED
        table = pd.DataFrame({"text": pool.texts[known], "label": pool.labels[known]})
        folder.parent.mkdir(parents=True, exist_ok=True)
        train = folder.with_suffix(".csv").absolute()
        table.to_csv(train, index=False)
        files = (f"dataset.train={train}", f"dataset.test={scored.absolute()}", f"run_dir={folder.absolute()}")
        words = ("task=classification", "dataset=files", *files, "baselines=false", "resume=auto")
        finished(python("-m", "encoderlab", "finetune", *words))
    return float(json.loads(report.read_text(encoding="utf-8"))["splits"]["test"]["accuracy"])


def read_texts(suite: Path, output: Path, name: str, split: str) -> Texts:
    """Return a split's texts, with vectors that are kept in `output`."""
    import pandas as pd

    import encoderlab

    rows = pd.read_csv(suite / name / f"{split}.csv", dtype=str, keep_default_na=False)
    path = output / f"{name}-{split}.npy"
    if not path.exists():
        output.mkdir(parents=True, exist_ok=True)
        np.save(path, encoderlab.load("mini-en").embed(rows["text"].tolist(), normalize=True))
    return Texts(rows["text"].to_numpy(object), np.load(path), rows["label"].to_numpy(str))


def _curve(way: Way, train: Texts, scored: Texts, draws: int) -> Curve:
    """Return the scores of one way to choose, after each round."""
    from sklearn.metrics import accuracy_score, f1_score

    accuracy = np.zeros((draws, ROUNDS))
    f1_macro = np.zeros((draws, ROUNDS))
    for draw in range(draws):
        pool = train.drawn(draw)
        names = np.unique(pool.labels)
        for number, labels in enumerate(_labelled(way, pool, seed=draw * ROUNDS)):
            predicted = names[_predicted(pool.vectors, labels, scored.vectors)]
            accuracy[draw, number] = accuracy_score(scored.labels, predicted)
            f1_macro[draw, number] = f1_score(scored.labels, predicted, average="macro")
    return Curve(accuracy, f1_macro)


def _labelled(way: Way, pool: Texts, seed: int) -> Iterator[np.ndarray]:
    """Yield the class of each row after each round, UNLABELLED for rows without a label so far."""
    names, truth = np.unique(pool.labels, return_inverse=True)
    labels = np.full(len(truth), UNLABELLED)
    for number in range(ROUNDS):
        chosen = _next(way, pool.vectors, labels, max(ROWS_A_ROUND, len(names)), seed + number)
        labels[chosen] = truth[chosen]
        yield labels


def _next(way: Way, vectors: Vectors, labels: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Return the rows to label next, given the labels so far."""
    candidates = np.flatnonzero(labels == UNLABELLED)
    n_classes = len(np.unique(labels[labels != UNLABELLED]))
    share = way.share if n_classes else way.first_share
    if way.unsure_per_chosen is None or n_classes < 2:
        return choose_rows(vectors, candidates, n, random_share=share, seed=seed).rows
    return choose_rows(
        vectors,
        candidates,
        n,
        random_share=share,
        seed=seed,
        probabilities=classifier_of(vectors, labels),
        unsure_per_chosen=way.unsure_per_chosen,
    ).rows


def _predicted(vectors: Vectors, labels: np.ndarray, scored: Vectors) -> np.ndarray:
    """Return the classes that logistic regression, fitted to the labels so far, predicts."""
    known = np.unique(labels[labels != UNLABELLED])
    if len(known) == 1:
        return np.full(len(scored), known[0])
    probabilities = classifier_of(np.concatenate([vectors, scored]), np.concatenate([labels, np.full(len(scored), -1)]))
    rows = np.arange(len(vectors), len(vectors) + len(scored))
    return known[probabilities(rows).argmax(1)]


def _area(scores: np.ndarray) -> float:
    """Return the area under the curve of scores over labels: the mean over the rounds, and over the draws."""
    return float(scores.mean())


def _areas(curves: Mapping[str, Mapping[str, Curve]]) -> list[str]:
    """Return a table of the areas: of texts drawn at random, and how far each other way is ahead of that."""
    others = [way for way in WAYS if way != RANDOM]
    lines = []
    for score in ("accuracy", "f1_macro"):
        gains = []
        for name, of_set in curves.items():
            base = getattr(of_set[RANDOM], score)
            ahead = [100 * (getattr(of_set[way], score).mean(1) - base.mean(1)) for way in others]
            gains.append([one.mean() for one in ahead])
            error = ahead[-1].std(ddof=1) / len(base) ** 0.5 if len(base) > 1 else 0.0
            cells = [f"{one:+.1f}" for one in gains[-1]]
            lines.append([name, score, f"{100 * _area(base):.1f}", *cells, f"{error:.1f}"])
        means = [f"{one:+.1f}" for one in np.mean(gains, axis=0)]
        lines.append(["mean", score, "", *means, ""])
    return grid(["set", "score", f"{RANDOM}: area", *(f"{way}: ahead" for way in others), "± (select)"], lines)


def _rounds(curves: Mapping[str, Mapping[str, Curve]]) -> list[str]:
    """Return a table of accuracy after some rounds, at random and by select, and of the rounds that are as good as all
    rounds at random.
    """
    lines = []
    for name, of_set in curves.items():
        goal = of_set[RANDOM].accuracy.mean(0)[-1]
        for way in (RANDOM, SELECT):
            after = of_set[way].accuracy.mean(0)
            enough = np.flatnonzero(after >= goal)
            needed = str(enough[0] + 1) if len(enough) else f"more than {ROUNDS}"
            lines.append([name, way, *(f"{after[number - 1]:.3f}" for number in SHOWN_ROUNDS), needed])
    as_good = f"rounds to the last accuracy {RANDOM}"
    return grid(["set", "chosen", *(f"round {number}" for number in SHOWN_ROUNDS), as_good], lines)
