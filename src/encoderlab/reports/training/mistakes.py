"""The mistakes worth reading: those the model was most confident in, and those with the least probable true label."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.reports.parts.shown_texts import marked_texts, shown

if TYPE_CHECKING:
    from encoderlab.metrics import AnswerScores, LabelSetScores, NumberScores, Scores, TaggingScores
    from encoderlab.runs.inference.importance import TokenImportance

    Importance = Callable[..., Sequence[TokenImportance]]  # `runs.inference.importance.token_importance` of a model

MOST_MISTAKES = 10  # of each kind
MOST_WORDS = 60  # of a tagged sentence, around its most confident mistake
_LABEL = 60  # characters


def mistaken_texts(examples: Any, scores: Scores, importance: Importance | None) -> dict[str, list[dict[str, Any]]]:
    """Return `confident`, the mistakes of the highest probability, and `unlikely`, those with the least probable label,
    if others.

    With two classes both are the same, and `unlikely` is empty. Each mistake has `row` (its place in the split),
    `texts` (see `marked_texts`), `label`, `predicted`, `confidence` (the prediction's probability), `of_label` (the
    label's), and `method` (how the words' weights were found, "" if they were not). `examples` are the split's, by row.
    """
    assert scores.probabilities is not None
    wrong = np.flatnonzero(scores.labels != scores.predicted)
    of_label = scores.probabilities[wrong, scores.labels[wrong]]
    sure = scores.probabilities[wrong, np.asarray(scores.predicted)[wrong]]
    confident = wrong[np.argsort(-sure, kind="stable")][:MOST_MISTAKES]
    unlikely = wrong[np.argsort(of_label, kind="stable")][:MOST_MISTAKES]
    chosen = [*confident, *(place for place in unlikely if place not in confident and len(scores.label_names) > 2)]
    found = [examples[int(scores.rows[place])] for place in chosen]
    predicted_names = [scores.label_names[scores.predicted[place]] for place in chosen]
    explained = importance(found, labels=predicted_names) if importance and found else [None] * len(found)
    described = []
    for place, example, one in zip(chosen, found, explained, strict=True):
        label, predicted = scores.labels[place], scores.predicted[place]
        names = (shown(scores.label_names[label], _LABEL), shown(scores.label_names[predicted], _LABEL))
        confidence, of_label = (float(scores.probabilities[place, class_id]) for class_id in (predicted, label))
        described.append(_described(place, example, one, scores, *names, confidence=confidence, of_label=of_label))
    return {"confident": described[: len(confident)], "unlikely": described[len(confident) :]}


def _described(
    place: int,
    example: Any,
    explained: TokenImportance | None,
    scores: AnswerScores,
    label: str,
    predicted: str,
    **own: Any,
) -> dict[str, Any]:
    """Return what the page says of a mistake in a whole text."""
    texts, method = marked_texts(example, explained), "" if explained is None else explained.method
    return {
        "row": int(scores.rows[place]),
        "texts": texts,
        "label": label,
        "predicted": predicted,
        **own,
        "method": method,
    }


def mistaken_sentences(
    examples: Any, scores: TaggingScores, importance: Importance | None
) -> dict[str, list[dict[str, Any]]]:
    """Return `confident`, the sentences with the most confident mistakes, and `most`, those with the most mistakes, if
    others.

    Each has `row`, `wrong` (how many words), `of` (how many were predicted), `confidence` (of the most confident
    mistake), `words` around that one, and `method` as for texts: the weights are those of the words for the most
    confident mistake.
    """
    assert scores.confidences is not None
    wrong = [np.flatnonzero(a != b) for a, b in zip(scores.labels, scores.predicted, strict=True)]
    mistaken = [place for place, words in enumerate(wrong) if len(words)]
    confidences = scores.confidences
    surest = {place: int(wrong[place][confidences[place][wrong[place]].argmax()]) for place in mistaken}
    confident = sorted(mistaken, key=lambda place: -confidences[place][surest[place]])[:MOST_MISTAKES]
    most = [
        place
        for place in sorted(mistaken, key=lambda place: -len(wrong[place]))[:MOST_MISTAKES]
        if place not in confident
    ]
    chosen = [*confident, *most]
    found = [examples[int(scores.rows[place])] for place in chosen]
    predicted_names = [scores.label_names[scores.predicted[place][surest[place]]] for place in chosen]
    centers = [surest[place] for place in chosen]
    explained = (
        importance(found, labels=predicted_names, words=centers) if importance and found else [None] * len(found)
    )
    described = [_mistaken_sentence(*each, scores) for each in zip(chosen, centers, found, explained, strict=True)]
    return {"confident": described[: len(confident)], "most": described[len(confident) :]}


def _mistaken_sentence(
    place: int, center: int, example: Any, explained: TokenImportance | None, scores: TaggingScores
) -> dict[str, Any]:
    assert scores.confidences is not None
    labels, predicted = scores.labels[place], scores.predicted[place]
    return {
        "row": int(scores.rows[place]),
        "wrong": int((labels != predicted).sum()),
        "of": len(labels),
        "confidence": float(scores.confidences[place][center]),
        "words": list(_words(place, center, example, explained, scores)),
        "method": "" if explained is None else explained.method,
    }


def _words(
    place: int, center: int, example: Any, explained: TokenImportance | None, scores: TaggingScores
) -> Iterator[dict[str, Any]]:
    """Yield the words around the one at `center`: `text`, `label`, `predicted`, `weight`, and if each is `wrong` or
    `explained`.
    """
    labels, predicted, names = scores.labels[place], scores.predicted[place], scores.label_names
    begins = list(accumulate((len(word) + 1 for word in example.words), initial=0))
    weights = {} if explained is None else {word.begin: word.score for word in explained.words()}
    greatest = max(map(abs, weights.values()), default=0.0) or 1.0
    start = max(center - MOST_WORDS // 2, 0)
    for at in range(start, min(start + MOST_WORDS, len(labels))):
        yield {
            "text": shown(example.words[at], _LABEL),
            "label": shown(names[labels[at]], _LABEL),
            "predicted": shown(names[predicted[at]], _LABEL),
            "weight": round(weights.get(begins[at], 0.0) / greatest, 3),
            "wrong": bool(labels[at] != predicted[at]),
            "explained": at == center,
        }


def largest_errors(
    examples: Any, scores: NumberScores, importance: Importance | None
) -> dict[str, list[dict[str, Any]]]:
    """Return `furthest`: the rows with the largest errors, each with `row`, `texts`, `label`, `predicted`, `method`."""
    errors = np.abs(scores.predicted - scores.labels)
    chosen = [place for place in np.argsort(-errors, kind="stable")[:MOST_MISTAKES].tolist() if errors[place]]
    found = [examples[int(scores.rows[place])] for place in chosen]
    explained = importance(found) if importance and found else [None] * len(found)
    described = [
        _described(
            place, example, one, scores, f"{scores.labels[place]:.6g}", f"{scores.predicted[place]:.6g}", about=""
        )
        for place, example, one in zip(chosen, found, explained, strict=True)
    ]
    return {"furthest": described}


def mistaken_sets(
    examples: Any, scores: LabelSetScores, importance: Importance | None
) -> dict[str, list[dict[str, Any]]]:
    """Return `furthest`: the rows with the largest errors in their labels, in the form of `largest_errors`.

    A wrong label counts by its probability, and a missing one by how improbable it was. The words'
    weights are those for the worst of them, `about`.
    """
    off = np.abs(scores.probabilities - scores.labels) * (scores.labels != scores.predicted)
    totals = off.sum(1)
    chosen = [place for place in np.argsort(-totals, kind="stable")[:MOST_MISTAKES].tolist() if totals[place]]
    found = [examples[int(scores.rows[place])] for place in chosen]
    surest = [scores.label_names[int(off[place].argmax())] for place in chosen]
    explained = importance(found, labels=surest) if importance and found else [None] * len(found)
    described = []
    for place, example, one, label in zip(chosen, found, explained, surest, strict=True):
        names = [_listed(sets[place], scores.label_names) for sets in (scores.labels, scores.predicted)]
        described.append(_described(place, example, one, scores, *names, about=shown(label, _LABEL)))
    return {"furthest": described}


def _listed(marks: np.ndarray, names: Sequence[str]) -> str:
    return ", ".join(shown(names[place], _LABEL) for place in np.flatnonzero(marks).tolist()) or "no label"


def frequent_confusions(confusion: Sequence[Sequence[int]], names: Sequence[str], most: int) -> list[dict[str, Any]]:
    """Return the most frequent confusions of `label` and `predicted`, with their `count` and its `share` of the label's
    rows.
    """
    counts = np.array(confusion)
    rows = counts.sum(1)
    wrong = counts * ~np.eye(len(counts), dtype=bool)
    order = np.argsort(-wrong, axis=None, kind="stable")[:most]
    pairs = zip(*np.unravel_index(order, wrong.shape), strict=True)
    return [
        {"label": names[a], "predicted": names[b], "count": int(wrong[a, b]), "share": float(wrong[a, b] / rows[a])}
        for a, b in pairs
        if wrong[a, b]
    ]
