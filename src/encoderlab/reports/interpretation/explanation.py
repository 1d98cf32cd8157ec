"""Token importance: a table on screen, a page of shaded texts, and all figures by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from rich.text import Text

from encoderlab.reports.parts.console import console_on, table_of
from encoderlab.reports.parts.page import write_page

if TYPE_CHECKING:
    from encoderlab.runs.inference.importance import TokenImportance

MOST_WORDS = 60  # shown on screen; of a longer text, those with the greatest scores
BAR = 20  # characters
TITLES = {"gradient": "gradient x input", "occlusion": "occlusion"}


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """The results of each method about the prediction for one example, which has a `name`."""

    name: str
    by_method: Sequence[TokenImportance]

    @property
    def first(self) -> TokenImportance:
        """Return the first result, for what all methods have in common: texts, classes, probabilities."""
        return self.by_method[0]

    @property
    def predicted(self) -> str:
        """Return the prediction: the most probable class, the labels of a set, or the number."""
        return self.first.predicted

    def question(self) -> str:
        """Return what the prediction is about, in words."""
        if self.first.word is None:
            return "the whole text" if len(self.first.texts) == 1 else "the pair of texts"
        selected = self.first.texts[0].split(" ")[self.first.word]
        return f"word {self.first.word}, {selected!r}"

    def words(self) -> list[dict[str, Any]]:
        """Return each word with `text` (0, or 1 for the second), `begin`, `end`, `word` and a score by each method's
        name.
        """
        each = [found.words() for found in self.by_method]
        rows = []
        for same in zip(*each, strict=True):
            word = same[0]
            characters = self.first.texts[word.text][word.begin : word.end]
            scores = {found.method: one.score for found, one in zip(self.by_method, same, strict=True)}
            rows.append({"text": word.text, "begin": word.begin, "end": word.end, "word": characters, **scores})
        return rows

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, including scores of single tokens."""
        first = self.first
        return {
            "name": self.name,
            "texts": list(first.texts),
            "truncated": first.truncated,
            "asked_word": first.word,
            "predicted": self.predicted,
            "probabilities": first.probabilities,
            "explained": first.label,
            "words": self.words(),
            "tokens": first.pieces,
            "special": first.special.tolist(),
            "token_scores": {found.method: found.scores.tolist() for found in self.by_method},
        }


def shaded(found: TokenImportance) -> list[list[dict[str, Any]]]:
    """Return for each text its parts in order: `text` and, for a word, its `score`, its `strength` and `against`.

    The word with the greatest score of either sign has strength 1; `against` is True if it counts against the class.

    White space and truncated text have no score. The macro `shaded` of templates/shaded_text.html shows them.
    """
    words = found.words()
    greatest = max((abs(word.score) for word in words), default=0.0) or 1.0
    stretches: list[list[dict[str, Any]]] = []
    for number, text in enumerate(found.texts):
        parts: list[dict[str, Any]] = []
        end = 0
        for word in (word for word in words if word.text == number and word.end > end):
            begin = max(word.begin, end)
            if begin > end:
                parts.append({"text": text[end:begin], "score": None})
            strength = round(abs(word.score) / greatest, 3)
            parts.append(
                {"text": text[begin : word.end], "score": word.score, "strength": strength, "against": word.score < 0}
            )
            end = word.end
        parts.append({"text": text[end:], "score": None})
        stretches.append(parts)
    return stretches


def show_explanation(explanation: Explanation, file: TextIO) -> None:
    """Print the prediction, and a table of words with scores and bars: in the order of the text, or only the strongest."""
    console = console_on(file)
    first, words = explanation.first, explanation.words()
    console.print(Text(f"{explanation.name}: {' | '.join(first.texts)}", style="bold"), soft_wrap=True)
    console.print(_answer(explanation), soft_wrap=True)
    methods = [found.method for found in explanation.by_method]
    shown = words
    if len(words) > MOST_WORDS:
        shown = sorted(words, key=lambda word: -max(abs(word[method]) for method in methods))[:MOST_WORDS]
        console.print(f"The {MOST_WORDS} strongest of {len(words):,} words:", soft_wrap=True)
    table = table_of("word")
    for method in methods:
        table.add_column(TITLES[method], justify="right")
        table.add_column("", justify="left", no_wrap=True)
    greatest = {method: max((abs(word[method]) for word in words), default=0.0) for method in methods}
    for word in shown:
        cells = [cell for method in methods for cell in (f"{word[method]:+.3f}", _bar(word[method], greatest[method]))]
        table.add_row(word["word"], *cells)
    console.print("", table, "", sep="\n")


def _answer(explanation: Explanation) -> str:
    first, likeliest = explanation.first, sorted(explanation.first.probabilities.items(), key=lambda item: -item[1])[:5]
    chances = ", ".join(f"{label} {chance:.1%}" for label, chance in likeliest)
    cut = " The text was truncated to what the model reads." if first.truncated else ""
    if first.label is None:
        return f"For {explanation.question()}: {first.predicted}. + makes it larger, - smaller, in its own units.{cut}"
    return f"For {explanation.question()}: {chances}. + supports {first.label}, - counts against it, in log-odds.{cut}"


def _bar(score: float, greatest: float) -> str:
    """Return a bar of signs, proportional to the greatest score."""
    return ("+" if score >= 0 else "-") * (round(BAR * abs(score) / greatest) if greatest else 0)


def write_explanations(path: Path, task: str, explanations: Sequence[Explanation]) -> None:
    """Write the page: each text shaded once for each method, the classes' probabilities, and the scores as a table."""
    sections = [
        {
            "explanation": explanation,
            "shaded": [(TITLES[found.method], shaded(found)) for found in explanation.by_method],
            "classes": sorted(explanation.first.probabilities.items(), key=lambda item: -item[1]),
            "words": explanation.words(),
            "special": _special(explanation),
        }
        for explanation in explanations
    ]
    methods = {found.method: TITLES[found.method] for found in explanations[0].by_method}
    write_page(path, "explain.html", title=f"Explanations of {task}", sections=sections, methods=methods)


def _special(explanation: Explanation) -> list[tuple[str, list[float]]]:
    """Return the tokens that are not text, with a score by each method."""
    first = explanation.first
    places = np.flatnonzero(first.special)
    return [(first.pieces[place], [float(found.scores[place]) for found in explanation.by_method]) for place in places]
