"""The mistakes worth reading: those the model was most confident in, and those with the least probable true label."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Protocol

import numpy as np

from encoderlab.metrics import LabelSetScores, NumberScores, PredictionScores, Scores, TaggingScores
from encoderlab.reports.predictions import texts_of
from encoderlab.reports.tables import (
    LONGEST_TEXT,
    Block,
    Heading,
    Passage,
    Text,
    cut_note,
    number,
    one_line,
    percent,
    shown,
)

MOST_MISTAKES = 15
MOST_WORDS = 60  # of a tagged sentence, around its most confident mistake
LABEL = 60  # characters of a label
MARKED = "Marked words count for the wrong prediction (blue) or against it (orange, dotted), each by itself."


class WordScore(Protocol):
    """How much the word at [begin, end) of text number `text` supports what is explained."""

    @property
    def text(self) -> int: ...
    @property
    def begin(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def score(self) -> float: ...


class Importance(Protocol):
    """How much each word of an example's `texts` supports a prediction."""

    @property
    def texts(self) -> Sequence[str]: ...
    def words(self) -> Sequence[WordScore]: ...  # noqa: D102


Explain = Callable[..., Sequence[Importance]]  # explains examples, with labels= and words= as `token_importance`


def mistakes_section(examples: Any, scores: PredictionScores, explain: Explain | None) -> list[Block]:
    """Return the section on mistakes, or the largest errors of numbers; `examples` are the scored split's, by row."""
    title = "Mistakes"
    if isinstance(scores, NumberScores):
        title, first = "Largest errors", "predictions.csv has all predictions."
        passages = _largest_errors(examples, scores, explain)
    elif isinstance(scores, LabelSetScores):
        wrong = (scores.labels != scores.predicted).any(1)
        first = f"{number(int(wrong.sum()))} of {number(len(wrong))} rows have missing or extra labels."
        passages = _mistaken_sets(examples, scores, explain)
    elif isinstance(scores, TaggingScores):
        wrong = [bool((a != b).any()) for a, b in zip(scores.labels, scores.predicted, strict=True)]
        first = f"{number(sum(wrong))} of {number(len(wrong))} sentences have a mistake."
        passages = _mistaken_sentences(examples, scores, explain)
    else:
        assert isinstance(scores, Scores)
        wrong = scores.labels != scores.predicted
        first = f"{number(int(wrong.sum()))} of {number(len(wrong))} predictions are wrong."
        passages = _mistaken_texts(examples, scores, explain)
    return [Heading(title), Text(first), Text(MARKED if explain else "", tone="quiet"), *passages]


def _explained(explain: Explain | None, examples: Sequence[Any], **about: Any) -> Sequence[Importance | None]:
    return explain(examples, **about) if explain and examples else [None] * len(examples)


def _mistaken_texts(examples: Any, scores: Scores, explain: Explain | None) -> list[Passage]:
    """Return the most confident mistakes."""
    assert scores.probabilities is not None
    names, probabilities = scores.label_names, scores.probabilities
    wrong = np.flatnonzero(scores.labels != scores.predicted)
    confidence = probabilities[wrong, np.asarray(scores.predicted)[wrong]]
    selected = wrong[np.argsort(-confidence, kind="stable")][:MOST_MISTAKES].tolist()
    rows = [examples[int(scores.rows[place])] for place in selected]
    explained = _explained(explain, rows, labels=[names[scores.predicted[place]] for place in selected])
    passages = []
    for place, example, importance in zip(selected, rows, explained, strict=True):
        label, predicted = scores.labels[place], scores.predicted[place]
        of_each = [f" ({percent(float(probabilities[place, class_id]))})" for class_id in (predicted, label)]
        labels = shown(names[predicted], LABEL), shown(names[label], LABEL)
        passages.append(_passage(int(scores.rows[place]), labels, of_each, example, importance))
    return passages


def _passage(
    row: int,
    labels: tuple[str, str],
    of_each: Sequence[str],
    example: Any,
    importance: Importance | None,
    about: str = "",
) -> Passage:
    """Return a mistake in a whole text; `labels` are the predicted and the true one."""
    predicted, label = labels
    heading = [("predicted ", ""), (predicted, "bad"), (f"{of_each[0]}, labelled ", ""), (label, "good")]
    about = f" · words for {about}" if about and importance else ""
    heading.append((f"{of_each[1]} · row {number(row)}{about}", "quiet"))
    return Passage(heading, marked_texts(example, importance))


def _largest_errors(examples: Any, scores: NumberScores, explain: Explain | None) -> list[Passage]:
    errors = np.abs(scores.predicted - scores.labels)
    selected = [place for place in np.argsort(-errors, kind="stable")[:MOST_MISTAKES].tolist() if errors[place]]
    rows = [examples[int(scores.rows[place])] for place in selected]
    return [
        _passage(
            int(scores.rows[place]),
            (f"{scores.predicted[place]:.6g}", f"{scores.labels[place]:.6g}"),
            ("", ""),
            example,
            importance,
        )
        for place, example, importance in zip(selected, rows, _explained(explain, rows), strict=True)
    ]


def _mistaken_sets(examples: Any, scores: LabelSetScores, explain: Explain | None) -> list[Passage]:
    """Return the rows with the largest errors in their labels.

    A wrong label counts by its probability, and a missing one by how improbable it was. The words' weights are those
    for the worst of them.
    """
    off = np.abs(scores.probabilities - scores.labels) * (scores.labels != scores.predicted)
    totals = off.sum(1)
    selected = [place for place in np.argsort(-totals, kind="stable")[:MOST_MISTAKES].tolist() if totals[place]]
    rows = [examples[int(scores.rows[place])] for place in selected]
    worst = [scores.label_names[int(off[place].argmax())] for place in selected]
    passages = []
    explained = _explained(explain, rows, labels=worst)
    for place, example, importance, about in zip(selected, rows, explained, worst, strict=True):
        named = [_listed(marks[place], scores.label_names) for marks in (scores.predicted, scores.labels)]
        row = int(scores.rows[place])
        passages.append(_passage(row, (named[0], named[1]), ("", ""), example, importance, shown(about, LABEL)))
    return passages


def _listed(marks: np.ndarray, names: Sequence[str]) -> str:
    return ", ".join(shown(names[place], LABEL) for place in np.flatnonzero(marks).tolist()) or "no label"


def _mistaken_sentences(examples: Any, scores: TaggingScores, explain: Explain | None) -> list[Passage]:
    """Return the sentences with the most confident mistakes.

    The weights are those of the words for the most confident mistake.
    """
    assert scores.confidences is not None
    confidences = scores.confidences
    wrong = [np.flatnonzero(a != b) for a, b in zip(scores.labels, scores.predicted, strict=True)]
    mistaken = [place for place, words in enumerate(wrong) if len(words)]
    center = {place: int(wrong[place][confidences[place][wrong[place]].argmax()]) for place in mistaken}
    selected = sorted(mistaken, key=lambda place: -confidences[place][center[place]])[:MOST_MISTAKES]
    rows = [examples[int(scores.rows[place])] for place in selected]
    labels = [scores.label_names[scores.predicted[place][center[place]]] for place in selected]
    explained = _explained(explain, rows, labels=labels, words=[center[place] for place in selected])
    passages = []
    for place, example, importance in zip(selected, rows, explained, strict=True):
        n_wrong, n = len(wrong[place]), len(scores.labels[place])
        confidence = percent(float(confidences[place][center[place]]))
        heading = [
            (f"{n_wrong} of {n} wrong, the most confident with {confidence}", ""),
            (f" · row {number(int(scores.rows[place]))}", "quiet"),
        ]
        passages.append(Passage(heading, [list(_words(place, center[place], example, importance, scores))]))
    return passages


def _words(
    place: int, center: int, example: Any, importance: Importance | None, scores: TaggingScores
) -> Iterator[dict[str, Any]]:
    """Yield the words around the one at `center` with their predicted labels."""
    labels, predicted, names = scores.labels[place], scores.predicted[place], scores.label_names
    begins = list(accumulate((len(word) + 1 for word in example.words), initial=0))
    weights = {} if importance is None else {word.begin: word.score for word in importance.words()}
    greatest = max(map(abs, weights.values()), default=0.0) or 1.0
    start = max(center - MOST_WORDS // 2, 0)
    for at in range(start, min(start + MOST_WORDS, len(labels))):
        wrong = bool(labels[at] != predicted[at])
        note = shown(names[predicted[at]], LABEL) + (f", labelled {shown(names[labels[at]], LABEL)}" if wrong else "")
        weight = round(weights.get(begins[at], 0.0) / greatest, 3)
        yield {"text": shown(example.words[at], LABEL), "weight": weight, "note": note, "wrong": wrong}


def marked_texts(example: Any, importance: Importance | None) -> list[list[dict[str, Any]]]:
    """Return the example's texts, each in parts with `text` and `weight`: how much a word supports the prediction.

    The strongest word of the example weighs 1 or -1; text between words and truncated text weigh 0, and so does
    everything if nothing is explained. The first 600 characters of a text are shown.
    """
    words = [] if importance is None else importance.words()
    greatest = max((abs(word.score) for word in words), default=0.0) or 1.0
    texts = texts_of(example)
    weights: list[list[tuple[int, int, float]]] = [[] for _ in texts]
    for word in words:
        weights[word.text].append((word.begin, word.end, round(word.score / greatest, 3)))
    return [list(_parts(text, sorted(each))) for text, each in zip(texts, weights, strict=True)]


def _parts(text: str, weights: Sequence[tuple[int, int, float]]) -> Iterator[dict[str, Any]]:
    """Yield the text split before and after each weighted range of characters [begin, end)."""
    done, end_of_all = 0, min(len(text), LONGEST_TEXT)
    for begin, end, weight in weights:
        if begin >= end_of_all:
            break
        if begin > done:
            yield {"text": one_line(text[done:begin]), "weight": 0}
        yield {"text": one_line(text[begin : min(end, end_of_all)]), "weight": weight}
        done = min(end, end_of_all)
    if done < end_of_all:
        yield {"text": one_line(text[done:end_of_all]), "weight": 0}
    if end_of_all < len(text):
        yield {"text": cut_note(text), "weight": 0}
