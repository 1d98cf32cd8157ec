"""95% intervals by the percentile bootstrap (Efron 1979): score many splits that might have been drawn instead of this
one.

A bootstrap split draws n examples from the n of the split, with replacement, and scores them; the interval holds the
middle 95% of the scores. Nothing here draws examples one by one, and nothing is approximated by that:

* All scores but loss and ROC AUC depend on an example only through its kind, the pair (label, answer). Drawing n
examples is
  drawing how many there are of each kind, which is one multinomial draw over the cells of the confusion matrix. The
  work does not grow with n.
* The tokens of a sequence are not independent of one another, so whole sequences are drawn (a cluster bootstrap): each
sequence is
  a kind of its own.

The interval covers the choice of the split's rows, not the training run: that takes several seeds. If every prediction
is right, so is every bootstrap split, and the interval has no width; with n examples, an error rate of up to 3 / n is
then still plausible (the rule of three).

The comparison with a baseline is paired on the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000
_DRAWN_AT_ONCE = 4_000_000  # counts in memory at a time
Score = Callable[[np.ndarray], np.ndarray]  # from totals, [splits, columns], to a figure, [splits]


@dataclass(frozen=True, slots=True)
class Kinds:
    """Examples by kind: how many there are of each (`counts`, [kinds]), and what one of them adds to a split's totals.

    `right` is 1 if all of an example is predicted correctly, [kinds]; `hits`, `labels` and `answers` are [kinds,
    classes]:
    right answers, labels and answers of each class.
    """

    counts: np.ndarray
    right: np.ndarray
    hits: np.ndarray
    labels: np.ndarray
    answers: np.ndarray

    @property
    def columns(self) -> np.ndarray:
        """Return what one example of each kind adds to the totals that `class_score` reads: [kinds, 2 + 3 classes]."""
        return np.concatenate(
            [np.ones_like(self.right)[:, None], self.right[:, None], self.hits, self.labels, self.answers], axis=1
        )


def kinds_of_confusion(confusion: np.ndarray) -> Kinds:
    """Return the kinds of examples with one prediction each, counted by (label, prediction): [classes, classes]."""
    label, answer = confusion.nonzero()
    return kinds_of_answers(label, answer, confusion[label, answer], len(confusion))


def kinds_of_answers(label: np.ndarray, answer: np.ndarray, counts: np.ndarray, n_classes: int) -> Kinds:
    """Return the kinds of examples with one prediction each: class ids of label and prediction, and their counts,
    [kinds] each.
    """
    one_hot = np.eye(n_classes, dtype=np.int64)
    right = (label == answer).astype(np.int64)
    return Kinds(counts, right, one_hot[label] * right[:, None], one_hot[label], one_hot[answer])


def class_score(figure: str, positive: int | None = None) -> Score:
    """Return a figure of classes, [splits], from totals of `Kinds.columns`, [splits, columns].

    `accuracy` (examples wholly right), `token_accuracy`, `f1_macro`, `f1_weighted`, `matthews`, and `f1` of the class
    `positive`.
    """
    scores: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
        "token_accuracy": lambda hits, labels, answers: hits.sum(1) / labels.sum(1),
        "f1_macro": lambda hits, labels, answers: f1_macro(hits, labels + answers),
        "f1_weighted": f1_weighted,
        "f1": lambda hits, labels, answers: _f1(hits, labels + answers)[:, positive],
        "matthews": matthews,
    }
    if figure == "accuracy":
        return lambda totals: totals[:, 1] / totals[:, 0]
    return lambda totals: scores[figure](*np.split(totals[:, 2:], 3, axis=1))


def bootstrap(kinds: Kinds, seed: int, positive: int | None = None) -> dict[str, list[float]]:
    """Return [low, high] of the figures of `class_score`, and of `f1` if there is a `positive` class."""
    totals = totals_of_resamples(kinds.counts, kinds.columns, seed)
    figures = (
        "accuracy",
        "token_accuracy",
        "f1_macro",
        "f1_weighted",
        "matthews",
        *(() if positive is None else ("f1",)),
    )
    found = {figure: middle(class_score(figure, positive)(totals)) for figure in figures}
    macro, whole = class_score("f1_macro"), (kinds.counts @ kinds.columns)[None].astype(np.float64)
    return found | {"f1_macro": middle_around(float(macro(whole)[0]), macro(totals))}


def interval_of_mean(values: np.ndarray) -> list[float]:
    """Return the 95% interval of the mean of real numbers, [n], by the normal approximation: 1.96 standard errors to
    each side.
    """
    reach = 1.96 * float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else float("inf")
    return [float(values.mean()) - reach, float(values.mean()) + reach]


def interval_of_share(hits: np.ndarray, n_targets: np.ndarray, seed: int) -> list[float]:
    """Return the 95% interval of the share of `hits` among `n_targets`, by row: [n] each. Rows without a target do not
    count.
    """
    kinds, counts = np.unique(np.stack([hits, n_targets], axis=1)[n_targets > 0], axis=0, return_counts=True)
    # All tokens count as one class: only the accuracy that `bootstrap` computes is used.
    hits, n_targets = kinds[:, :1], kinds[:, 1:]
    return bootstrap(Kinds(counts, (hits == n_targets)[:, 0].astype(np.int64), hits, n_targets, n_targets), seed)[
        "token_accuracy"
    ]


def wilson(hits: int, n: int) -> list[float]:
    """Return the 95% interval of a share by Wilson's method (1927)."""
    from scipy.stats import binomtest

    found = binomtest(hits, n).proportion_ci(method="wilson")
    return [float(found.low), float(found.high)]


def difference(labels: np.ndarray, predicted: np.ndarray, other: np.ndarray, seed: int) -> tuple[float, list[float]]:
    """Return by how much the share of right answers in `predicted` exceeds that in `other`, and the 95% interval of
    that.

    Both answer the same examples, so the bootstrap is paired: an example is drawn with both its answers. Two methods
    that share their hard examples differ by less luck than their separate intervals suggest.
    """
    lead = np.equal(predicted, labels).astype(np.int64) - np.equal(other, labels)
    kinds, counts = np.unique(lead, return_counts=True)
    return float(lead.mean()), middle(totals_of_resamples(counts, kinds[:, None], seed)[:, 0] / len(lead))


def score_difference(
    labels: np.ndarray,
    predicted: np.ndarray,
    other: np.ndarray,
    n_classes: int,
    score: Score,
    seed: int,
) -> tuple[float, list[float]]:
    """Return by how much the `class_score` of `predicted` exceeds that of `other`, ids [n] each, and its paired 95%
    interval.
    """
    triples, counts = np.unique(np.stack([labels, predicted, other], axis=1), axis=0, return_counts=True)
    label, *answers = triples.T
    sides = [kinds_of_answers(label, answer, counts, n_classes).columns for answer in answers]
    return lead_of_columns(sides, score, seed, counts)


def lead_of_columns(
    sides: Sequence[np.ndarray], score: Score, seed: int, counts: np.ndarray | None = None
) -> tuple[float, list[float]]:
    """Return by how much the `score` of the first side exceeds that of the second, and its paired 95% interval.

    Each side is what an example of each kind adds to the totals that are scored, [kinds, columns].
    """
    width = sides[0].shape[1]
    columns = np.concatenate(sides, axis=1)
    return score_of_columns(columns, lambda totals: score(totals[:, :width]) - score(totals[:, width:]), seed, counts)


def score_of_columns(
    columns: np.ndarray, score: Score, seed: int, counts: np.ndarray | None = None
) -> tuple[float, list[float]]:
    """Return the `score` of the totals of `columns`, [kinds, columns], and its 95% interval.

    `counts` says how many examples there are of each kind, [kinds]; None: one.
    """
    counts = np.ones(len(columns), np.int64) if counts is None else counts
    totals = (counts[:, None] * columns).sum(0, keepdims=True).astype(np.float64)
    return float(score(totals)[0]), middle(score(totals_of_resamples(counts, columns, seed)))


def totals_of_resamples(counts: np.ndarray, additive: np.ndarray, seed: int) -> np.ndarray:
    """Return the totals of each resample, [resamples, columns]; an example of a kind adds its row of `additive`,
    [kinds, columns].

    The counts are multiplied as floats, for which there are fast kernels: whole numbers below 2^53 come out exactly.
    """
    one_of_each = additive.astype(np.float64)
    return np.concatenate([drawn.astype(np.float64) @ one_of_each for drawn in resamples(counts, seed)])


def resamples(counts: np.ndarray, seed: int, number: int = RESAMPLES) -> Iterator[np.ndarray]:
    """Yield how many examples of each kind each bootstrap split holds, in chunks of [chunk, kinds]."""
    random, n = np.random.default_rng(seed), int(counts.sum())
    size = max(_DRAWN_AT_ONCE // len(counts), 1)
    for start in range(0, number, size):
        chunk = min(size, number - start)
        if n == len(
            counts
        ):  # every example is its own kind: counting drawn indices is ten times faster than the multinomial
            yield np.stack([np.bincount(random.integers(0, n, n), minlength=n) for _ in range(chunk)])
        else:
            yield random.multinomial(n, counts / n, size=chunk)


def f1_macro(hits: np.ndarray, occurrences: np.ndarray) -> np.ndarray:
    """Return F1 = 2 hits / (labels + answers), averaged over the classes in a resample: [resamples, classes] ->
    [resamples].
    """
    return _f1(hits, occurrences).sum(1) / np.maximum((occurrences > 0).sum(1), 1)


def f1_weighted(hits: np.ndarray, labels: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Return F1 averaged over the classes by how often each is the label: [resamples, classes] -> [resamples]."""
    return (labels * _f1(hits, labels + answers)).sum(1) / np.maximum(labels.sum(1), 1)


def _f1(hits: np.ndarray, occurrences: np.ndarray) -> np.ndarray:
    return 2 * hits / np.maximum(occurrences, 1)


def matthews(hits: np.ndarray, labels: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Return the Matthews correlation of labels and answers, for two or more classes (Gorodkin 2004, R_K), from counts
    by class.

    [resamples, classes] -> [resamples], from -1 to 1; 0 if all labels or all answers are of one class, when it is
    undefined.
    """
    hits, labels, answers = (counts.astype(np.float64) for counts in (hits, labels, answers))
    n = labels.sum(1)
    covariance = hits.sum(1) * n - (labels * answers).sum(1)
    spread = (n**2 - (labels**2).sum(1)) * (n**2 - (answers**2).sum(1))
    return np.where(spread > 0, covariance / np.sqrt(np.where(spread > 0, spread, 1.0)), 0.0)


def middle(values: np.ndarray) -> list[float]:
    """Return [low, high] of the middle 95% of the values."""
    low, high = np.percentile(values, [2.5, 97.5])
    return [float(low), float(high)]


def middle_around(share: float, values: np.ndarray) -> list[float]:
    """Return [low, high] of the middle 95% of the values, corrected for bias: moved so that their median is `share`,
    within 0 to 1.

    A mean over classes is biased where classes are rare: a resample without a row of the hardest class scores better
    without it.
    """
    bias = float(np.median(values)) - share
    return [min(max(bound - bias, 0.0), 1.0) for bound in middle(values)]
