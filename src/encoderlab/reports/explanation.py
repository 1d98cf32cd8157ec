"""Which words support a prediction: of texts that a user names, and of the mistakes that a report shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from encoderlab.metrics.scores import PredictionScores
from encoderlab.metrics.tagging import TaggingScores
from encoderlab.metrics.texts import LabelSetScores, NumberScores
from encoderlab.reports.blocks import (
    LONGEST_TEXT,
    Bar,
    Block,
    Folded,
    Heading,
    Passage,
    Table,
    Text,
    counted,
    cut_note,
    number,
    percent,
    shown,
    single_spaced,
)
from encoderlab.reports.predictions import texts_of

MOST_WORDS = 60  # shown on screen; of a longer text, those with the greatest scores
MOST_CLASSES = 10  # in the page's table
BAR = 20  # characters
MOST_MISTAKES, MOST_WORDS_AROUND = 15, 60  # words of a tagged sentence, around its most confident mistake
LABEL = 60  # characters of a label
MARKED = "Marked words count for the wrong prediction (blue) or against it (orange, dotted), each by itself."


@dataclass(frozen=True, slots=True)
class WordImportance:
    """A word of text number `text` (0, or 1 for the second of a pair), its characters [begin, end), and its score."""

    text: int
    begin: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Importance:
    """What each word adds to the log-odds of `label`, in natural logarithms: 0.7 doubles the odds, -0.7 halves them.

    If the model predicts a number, it is what each word adds to that, and `label` is None. `predicted` is the model's
    whole prediction in words, `probabilities` are those of all classes by name. `words` are in the order of the `texts`
    (one, or the two of a pair), without truncated ones.
    """

    label: str | None
    probabilities: dict[str, float]
    predicted: str
    texts: tuple[str, ...]
    words: list[WordImportance]
    truncated: bool

    def as_dict(self, name: str) -> dict[str, Any]:
        """Return what explain.json holds of the example `name`."""
        return {
            "name": name,
            "texts": list(self.texts),
            "truncated": self.truncated,
            "predicted": self.predicted,
            "probabilities": self.probabilities,
            "explained": self.label,
            "words": [asdict(one) | {"word": self.texts[one.text][one.begin : one.end]} for one in self.words],
        }


# Explains examples, with labels= as `word_importance`.
Explain = Callable[..., Sequence[Importance]]


def explanation_blocks(explanations: Mapping[str, Importance]) -> list[Block]:
    """Return each text with its words marked, its classes, and the scores of its words or of the strongest."""
    measured = "A score is what a word adds to the log-odds of the class: +0.7 doubles the odds, −0.7 halves them."
    if all(one.label is None for one in explanations.values()):
        measured = "A score is what a word adds to the number, in its own units."
    hidden = "It is the change when the word is hidden, so what several words do only together is not captured."
    blocks: list[Block] = [Text(f"{measured} {hidden}", tone="quiet")]
    for name, one in explanations.items():
        meaning = "+ makes the number larger, - (dotted on the page) smaller"
        if one.label is not None:
            other = "" if one.label in one.predicted.split(", ") else ", which the model did not predict,"
            meaning = f"+ supports {one.label}{other} and - (dotted on the page) counts against it"
        cut = " The text was truncated to what the model reads." if one.truncated else ""
        classes = sorted(one.probabilities.items(), key=lambda item: -item[1])
        shares = [[label, percent(share), Bar(share)] for label, share in classes[:MOST_CLASSES]]
        more = len(classes) - MOST_CLASSES
        strongest = sorted(one.words, key=lambda word: -abs(word.score))[:MOST_WORDS]
        greatest = abs(strongest[0].score) if strongest else 0.0
        few = len(one.words) > MOST_WORDS
        rows = [
            [one.texts[word.text][word.begin : word.end], _bar(word.score, greatest), f"{word.score:+.3f}"]
            for word in (strongest if few else one.words)
        ]
        blocks += [
            Heading(f"{name}: {one.predicted}"),
            Text(f"{meaning[:1].upper()}{meaning[1:]}.{cut}"),
            Passage([], marked(one.texts, one.words)),
            *([Table(("class", "probability", ""), shares)] if shares else []),
            Text(f"and {more} more classes, all less probable" if more > 0 else "", tone="quiet"),
            Folded(
                f"The scores of {f'the {MOST_WORDS} strongest of ' if few else ''}{counted(len(one.words), 'word')}",
                [Table(("word", "", "score"), rows, n_texts=2)],
            ),
        ]
    return blocks


def _bar(value: float, greatest: float) -> str:
    """Return a bar of signs, proportional to the greatest score."""
    return ("+" if value >= 0 else "-") * (round(BAR * abs(value) / greatest) if greatest else 0)


def marked(
    texts: Sequence[str], words: Sequence[WordImportance], most: int | None = None
) -> list[list[dict[str, Any]]]:
    """Return each text in parts with `text` and `weight`: how much a word supports what is explained.

    The strongest word weighs 1 or -1; text between words and truncated text weigh 0. At most the first `most`
    characters of a text are shown, on one line.
    """
    greatest = max((abs(word.score) for word in words), default=0.0) or 1.0
    parts: list[list[dict[str, Any]]] = []
    for text_id, text in enumerate(texts):
        end_of_all = len(text) if most is None else min(len(text), most)
        own, done = [], 0
        for word in (word for word in words if word.text == text_id and word.begin < end_of_all):
            begin, end = max(word.begin, done), min(word.end, end_of_all)
            own += [(text[done:begin], 0), (text[begin:end], round(word.score / greatest, 3))]
            done = max(end, done)
        own += [(text[done:end_of_all], 0), (cut_note(text) if end_of_all < len(text) else "", 0)]
        printed = ((part if most is None else single_spaced(part), weight) for part, weight in own)
        parts.append([{"text": part, "weight": weight} for part, weight in printed if part])
    return parts


def mistakes_section(examples: Any, scores: PredictionScores, explain: Explain | None) -> list[Block]:
    """Return the section on mistakes, or the largest errors of numbers; `examples` are the scored split's, by row."""
    if isinstance(scores, TaggingScores):
        wrong = [bool((a != b).any()) for a, b in zip(scores.labels, scores.predicted, strict=True)]
        explain, passages = None, _mistaken_sentences(examples, scores)
    else:
        different = scores.labels != scores.predicted
        wrong = different.any(1) if different.ndim > 1 else different
        passages = _mistaken_texts(examples, scores, explain)
    title, words = "Mistakes", f"{number(int(sum(wrong)))} of {number(len(wrong))} rows have a wrong prediction."
    if isinstance(scores, NumberScores):
        title, words = "Largest errors", "predictions.csv has all predictions."
    return [Heading(title), Text(words), Text(MARKED if explain else "", tone="quiet"), *passages]


def _mistaken_texts(examples: Any, scores: Any, explain: Explain | None) -> list[Passage]:
    """Return the rows with the largest errors.

    Of a class it is the confidence in the wrong one, of a number the distance. In a set, a wrong label counts by its
    probability and a missing one by how improbable it was; the words' weights are those for the worst of them.
    """
    labels, predicted = scores.labels, scores.predicted
    names = [shown(name, LABEL) for name in getattr(scores, "label_names", [])]
    explained: Any = None  # the class of each row that the words' weights are for
    if isinstance(scores, NumberScores):
        errors = np.abs(predicted - labels)
    elif isinstance(scores, LabelSetScores):
        off = np.abs(scores.probabilities - labels) * (labels != predicted)
        errors, explained = off.sum(1), off.argmax(1)
    else:
        confidences = np.take_along_axis(scores.probabilities, np.asarray(predicted)[:, None], axis=1)[:, 0]
        errors, explained = confidences * (labels != predicted), predicted

    def in_words(place: int, ids: Any) -> tuple[str, str]:
        """Return a label and, of a class, its probability."""
        if isinstance(scores, NumberScores):
            return f"{ids[place]:.6g}", ""
        if isinstance(scores, LabelSetScores):
            return ", ".join(names[label] for label in np.flatnonzero(ids[place]).tolist()) or "no label", ""
        return names[ids[place]], f" ({percent(float(scores.probabilities[place, ids[place]]))})"

    selected = [place for place in np.argsort(-errors, kind="stable")[:MOST_MISTAKES].tolist() if errors[place]]
    rows = [examples[int(scores.rows[place])] for place in selected]
    all_names: Any = getattr(scores, "label_names", None)
    about = {} if explained is None else {"labels": [all_names[explained[place]] for place in selected]}
    passages = []
    for place, example, importance in zip(selected, rows, _explained(explain, rows, **about), strict=True):
        (is_wrong, sure), (true, of_true) = in_words(place, predicted), in_words(place, labels)
        end = ""
        if isinstance(scores, LabelSetScores) and importance and explained is not None:
            end = f" · words for {names[explained[place]]}"
        heading = [("predicted ", ""), (is_wrong, "bad"), (f"{sure}, labelled ", ""), (true, "good")]
        heading.append((f"{of_true} · {_place_of(examples, int(scores.rows[place]))}{end}", "quiet"))
        weights = importance.words if importance else []
        passages.append(Passage(heading, marked(texts_of(example), weights, LONGEST_TEXT)))
    return passages


def _explained(explain: Explain | None, examples: Sequence[Any], **about: Any) -> Sequence[Importance | None]:
    return explain(examples, **about) if explain and examples else [None] * len(examples)


def _place_of(examples: Any, row: int) -> str:
    """Return the file and line of a row, or its number; folders stay private."""
    return shown(Path(examples.where(row)).name, LABEL) if hasattr(examples, "where") else f"row {number(row)}"


def _mistaken_sentences(examples: Any, scores: TaggingScores) -> list[Passage]:
    """Return the sentences with the most confident mistakes."""
    assert scores.confidences is not None
    confidences = scores.confidences
    wrong = [np.flatnonzero(a != b) for a, b in zip(scores.labels, scores.predicted, strict=True)]
    mistaken = [place for place, words in enumerate(wrong) if len(words)]
    center = {place: int(wrong[place][confidences[place][wrong[place]].argmax()]) for place in mistaken}
    selected = sorted(mistaken, key=lambda place: -confidences[place][center[place]])[:MOST_MISTAKES]
    passages = []
    for place in selected:
        n_wrong, n = len(wrong[place]), len(scores.labels[place])
        confidence = percent(float(confidences[place][center[place]]))
        heading = [
            (f"{n_wrong} of {n} wrong, the most confident with {confidence}", ""),
            (f" · {_place_of(examples, int(scores.rows[place]))}", "quiet"),
        ]
        example = examples[int(scores.rows[place])]
        passages.append(Passage(heading, [list(_words(place, center[place], example, scores))]))
    return passages


def _words(place: int, center: int, example: Any, scores: TaggingScores) -> Iterator[dict[str, Any]]:
    """Yield the words around the one at `center` with their predicted labels."""
    labels, predicted, names = scores.labels[place], scores.predicted[place], scores.label_names
    start = max(center - MOST_WORDS_AROUND // 2, 0)
    for at in range(start, min(start + MOST_WORDS_AROUND, len(labels))):
        wrong = bool(labels[at] != predicted[at])
        note = shown(names[predicted[at]], LABEL) + (f", labelled {shown(names[labels[at]], LABEL)}" if wrong else "")
        yield {"text": shown(example.words[at], LABEL), "weight": 0, "note": note, "wrong": wrong}
