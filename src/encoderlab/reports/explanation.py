"""Which words support a prediction: of texts that a user names, and of the mistakes that a report shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from encoderlab.metrics.entities import TaggingScores
from encoderlab.metrics.scores import PredictionScores
from encoderlab.metrics.texts import LabelSetScores, NumberScores
from encoderlab.reports import wording
from encoderlab.reports.blocks import Block, Heading, Passage, Table, Text
from encoderlab.reports.predictions import texts_of

MOST_WORDS = 60  # in the table of scores; of a longer text, those with the greatest
MOST_CLASSES = 10  # in the table of classes
BAR = 20  # characters
LEAST_COLUMNS = 3  # of the table of scores: those of a model with two parts follow
STRONG = 0.7  # log-odds; if no word has more, none is marked in full
MOST_MISTAKES = 15
MOST_WORDS_AROUND = 60  # words of a tagged sentence, around its most confident mistake
LONGEST_LABEL = 60  # characters
MARKED = "Marked words count for the wrong prediction (blue) or against it (orange, dotted), each by itself."


@dataclass(frozen=True, slots=True)
class WordImportance:
    """A word of text number `text` (0, or 1 for the second of a pair), its characters [begin, end), and its score.

    Of a model with a linear branch, also what the word adds in the `network` and in the `linear` model. Of several
    classes, both need not add up to the score.
    """

    text: int
    begin: int
    end: int
    score: float
    network: float | None = None
    linear: float | None = None


@dataclass(frozen=True, slots=True)
class Importance:
    """What each word adds to the log-odds of `label`, in natural logarithms: 0.7 doubles the odds, -0.7 halves them.

    If the model predicts a number, it is what each word adds to that, and `label` is None. `predicted` is the whole
    prediction in words, `probabilities` are by class. `words` are in the order of the `texts`, without truncated ones.
    """

    label: str | None
    probabilities: dict[str, float]
    predicted: str
    texts: tuple[str, ...]
    words: list[WordImportance]
    truncated: bool

    @property
    def full(self) -> float:
        """Return the score of a word that is marked in full: the greatest, of log-odds at least STRONG."""
        scores = [abs(word.score) for word in self.words]
        if self.label is not None:
            scores.append(STRONG)
        return max(scores, default=0.0) or 1.0

    def as_dict(self, name: str) -> dict[str, Any]:
        """Return what explain.json holds of the example `name`."""
        words = [asdict(word) | {"word": self.texts[word.text][word.begin : word.end]} for word in self.words]
        own = asdict(self) | {"words": words}
        return {"name": name, "explained": own.pop("label"), **own}


# Explains examples, with labels= as `word_importance`.
Explain = Callable[..., Sequence[Importance]]


def explanation_blocks(explanations: Mapping[str, Importance]) -> list[Block]:
    """Return each text with its words marked, its classes, and the scores of its words or of the strongest."""
    measured = "A score is what a word adds to the log-odds of the class: +0.7 doubles the odds, −0.7 halves them."
    if all(importance.label is None for importance in explanations.values()):
        measured = "A score is what a word adds to the number, in its own units."
    hidden = "It is the change when the word is hidden, so what several words do only together is not captured."
    blocks: list[Block] = [Text(f"{measured} {hidden}", tone="quiet")]
    for name, importance in explanations.items():
        meaning = "+ makes the number larger, - (dotted on the page) smaller"
        label = importance.label
        if label is not None:
            is_predicted = label in importance.predicted.split(", ")
            other = "" if is_predicted else ", which the model did not predict,"
            meaning = f"+ supports {label}{other} and - (dotted on the page) counts against it"
        cut = " The text was truncated to what the model reads." if importance.truncated else ""
        blocks.append(Heading(f"{name}: {importance.predicted}"))
        blocks.append(Text(f"{meaning[:1].upper()}{meaning[1:]}.{cut}"))
        blocks.append(Passage([], marked(importance.texts, importance.words, importance.full)))
        if importance.probabilities:
            blocks.append(_class_probabilities(importance))
        if len(importance.words) > MOST_WORDS:
            blocks.append(Text(f"The {MOST_WORDS} words with the greatest scores:"))
        blocks.append(_word_scores(importance))
    return blocks


def _class_probabilities(importance: Importance) -> Table:
    """Return the most probable classes."""
    classes = sorted(importance.probabilities.items(), key=lambda item: -item[1])[:MOST_CLASSES]
    return Table(("class", "probability"), [[name, wording.percent(probability)] for name, probability in classes])


def _word_scores(importance: Importance) -> Table:
    """Return each word with its score and a bar for it, of many those with the greatest."""
    listed = importance.words
    if len(listed) > MOST_WORDS:
        listed = sorted(listed, key=lambda word: -abs(word.score))[:MOST_WORDS]
    rows = []
    for word in listed:
        sign = "+" if word.score >= 0 else "-"
        bar = sign * round(BAR * abs(word.score) / importance.full)
        parts = [f"{part:+.3f}" for part in (word.network, word.linear) if part is not None]
        rows.append([importance.texts[word.text][word.begin : word.end], bar, f"{word.score:+.3f}", *parts])
    names = ("in the network", "in the linear model") if rows and len(rows[0]) > LEAST_COLUMNS else ()
    return Table(("word", "", "score", *names), rows, n_texts=2)


def marked(texts: Sequence[str], words: Sequence[WordImportance], full: float) -> list[list[dict[str, Any]]]:
    """Return each text in parts with `text` and `weight`: how much a word supports what is explained.

    A word with the score `full` weighs 1; text between words and truncated text weigh 0.
    """
    parts: list[list[dict[str, Any]]] = []
    for text_id, text in enumerate(texts):
        weighted: list[tuple[str, float]] = []
        done = 0
        for word in words:
            if word.text == text_id:
                begin = max(word.begin, done)
                weighted.append((text[done:begin], 0))
                weighted.append((text[begin : word.end], round(word.score / full, 3)))
                done = max(word.end, done)
        weighted.append((text[done:], 0))
        parts.append([{"text": part, "weight": weight} for part, weight in weighted if part])
    return parts


def mistakes_section(examples: Any, scores: PredictionScores, explain: Explain | None) -> list[Block]:
    """Return the section on mistakes, or the largest errors of numbers; `examples` are the scored split's, by row."""
    errors, labels = _errors(scores)
    n_wrong = int((errors > 0).sum())
    if isinstance(scores, NumberScores):
        title = "Largest errors"
        words = "predictions.csv has all predictions."
    else:
        title = "Mistakes"
        words = f"{n_wrong:,} of {wording.counted(len(errors), 'row')} have a wrong prediction."
    selected = np.argsort(-errors, kind="stable")[: min(n_wrong, MOST_MISTAKES)].tolist()
    rows = [examples[int(scores.rows[place])] for place in selected]
    explained: Sequence[Importance | None] = [None] * len(rows)
    is_explained = explain is not None and not isinstance(scores, TaggingScores)
    if explain is not None and is_explained and rows:
        explained_labels = None if labels is None else [labels[place] for place in selected]
        explained = explain(rows, labels=explained_labels)
    blocks: list[Block] = [Heading(title), Text(words), Text(MARKED if is_explained else "", tone="quiet")]
    for place, example, importance in zip(selected, rows, explained, strict=True):
        file_and_line = Path(examples.where(int(scores.rows[place]))).name  # folders stay private
        where = wording.shown(file_and_line, LONGEST_LABEL)
        if isinstance(scores, TaggingScores):
            texts = [list(_words(scores, place, example))]
        else:
            texts = _marked_in_short(example, importance)
        blocks.append(Passage([*_labelled(scores, place, importance), (f" · {where}", "quiet")], texts))
    return blocks


def _marked_in_short(example: Any, importance: Importance | None) -> list[list[dict[str, Any]]]:
    """Return the texts of an example, shortened, in parts as `marked`; without an importance, no word is marked."""
    texts = [wording.cut(text) for text in texts_of(example)]
    if importance is None:
        return marked(texts, [], 1.0)
    words = [word for word in importance.words if word.end <= wording.LONGEST_TEXT]
    return marked(texts, words, importance.full)


def _errors(scores: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Return how wrong each row is, 0 if it is right, and the name of the label to explain, both [rows].

    Of a class it is the confidence in the wrong one, of a number the distance, of words the confidence of the most
    confident mistake. In a set, a wrong label counts by its probability and a missing one by how improbable it was; the
    worst of them is explained.
    """
    labels = scores.labels
    predicted = scores.predicted
    if isinstance(scores, NumberScores):
        return np.abs(predicted - labels), None
    if isinstance(scores, TaggingScores):
        return np.array([_doubts(scores, place).max(initial=0) for place in range(scores.n)]), None
    names = np.array(scores.label_names, object)
    if isinstance(scores, LabelSetScores):
        off = np.abs(scores.probabilities - labels) * (labels != predicted)
        return off.sum(1), names[off.argmax(1)]
    confidences = np.take_along_axis(scores.probabilities, predicted[:, None], axis=1)[:, 0]
    return confidences * (labels != predicted), names[predicted]


def _doubts(scores: TaggingScores, place: int) -> np.ndarray:
    """Return the confidence of each wrong prediction of a sentence, 0 for right ones: [words]."""
    assert scores.confidences is not None
    return scores.confidences[place] * (scores.labels[place] != scores.predicted[place])


def _labelled(scores: Any, place: int, importance: Importance | None) -> list[tuple[str, str]]:
    """Return what was predicted and what is labelled, in words with their tones."""
    if isinstance(scores, TaggingScores):
        doubts = _doubts(scores, place)
        confidence = wording.percent(float(doubts.max()))
        return [(f"{(doubts > 0).sum()} of {len(doubts)} wrong, the most confident with {confidence}", "")]

    def in_words(value: Any) -> str:
        if isinstance(scores, NumberScores):
            return f"{value:.6g}"
        if isinstance(scores, LabelSetScores):
            names = [wording.shown(name, LONGEST_LABEL) for name in compress(scores.label_names, value)]
            return ", ".join(names) or "no label"
        share = wording.percent(float(scores.probabilities[place, value]))
        return f"{wording.shown(scores.label_names[value], LONGEST_LABEL)} ({share})"

    about = [("predicted ", ""), (in_words(scores.predicted[place]), "bad")]
    about += [(", labelled ", ""), (in_words(scores.labels[place]), "good")]
    if isinstance(scores, LabelSetScores) and importance is not None:
        about.append((f" · words for {wording.shown(importance.label or '', LONGEST_LABEL)}", "quiet"))
    return about


def _words(scores: TaggingScores, place: int, example: Any) -> Iterator[dict[str, Any]]:
    """Yield the words around the most confident mistake with their predicted labels."""
    names = [wording.shown(name, LONGEST_LABEL) for name in scores.label_names]
    center = int(_doubts(scores, place).argmax())
    around = slice(max(center - MOST_WORDS_AROUND // 2, 0), center + MOST_WORDS_AROUND // 2)
    labels = scores.labels[place][around]
    predicted = scores.predicted[place][around]
    for word, label_id, predicted_id in zip(example.words[around], labels, predicted, strict=False):
        is_wrong = bool(label_id != predicted_id)
        note = names[predicted_id]
        if is_wrong:
            note = f"{note}, labelled {names[label_id]}"
        yield {"text": wording.shown(word, LONGEST_LABEL), "weight": 0, "note": note, "wrong": is_wrong}
