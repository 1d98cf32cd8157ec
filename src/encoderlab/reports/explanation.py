"""Which words support a prediction: as plain values, on screen, and as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from encoderlab.reports.page import write_page
from encoderlab.reports.screen import show
from encoderlab.reports.tables import Bar, Block, Folded, Heading, Passage, Table, Text, percent

MOST_WORDS = 60  # shown on screen; of a longer text, those with the greatest scores
MOST_CLASSES = 10  # in the page's table
BAR = 20  # characters


def explanation_of(name: str, importance: Any) -> dict[str, Any]:
    """Return what explain.json holds of the example `name`: its prediction and the score of each word and token.

    A word has `text` (0, or 1 for the second of a pair), its characters from `begin` to `end`, `word` and its `score`.
    """
    words = [
        {
            "text": one.text,
            "begin": one.begin,
            "end": one.end,
            "word": importance.texts[one.text][one.begin : one.end],
            "score": one.score,
        }
        for one in importance.words()
    ]
    return {
        "name": name,
        "texts": list(importance.texts),
        "truncated": importance.truncated,
        "asked_word": importance.word,
        "predicted": importance.predicted,
        "probabilities": dict(importance.probabilities),
        "explained": importance.label,
        "words": words,
        "tokens": list(importance.pieces),
        "special": importance.special.tolist(),
        "token_scores": importance.scores.tolist(),
    }


def _subject(explanation: Mapping[str, Any]) -> str:
    """Return what the prediction is about."""
    texts, place = explanation["texts"], explanation["asked_word"]
    if place is None:
        return "the whole text" if len(texts) == 1 else "the pair of texts"
    return f"word {place}, {texts[0].split(' ')[place]!r}"


def _likeliest(explanation: Mapping[str, Any]) -> list[tuple[str, float]]:
    return sorted(explanation["probabilities"].items(), key=lambda item: -item[1])


def show_explanations(explanations: Sequence[Mapping[str, Any]], file: TextIO) -> None:
    """Print each prediction, and its words with their scores: in the order of the text, or only the strongest."""
    for explanation in explanations:
        words, label = explanation["words"], explanation["explained"]
        strongest = sorted(words, key=lambda word: -abs(word["score"]))
        printed = words if len(words) <= MOST_WORDS else strongest[:MOST_WORDS]
        greatest = max((abs(word["score"]) for word in words), default=0.0)
        rows = [[word["word"], _bar(word["score"], greatest), f"{word['score']:+.3f}"] for word in printed]
        result = ", ".join(f"{name} {percent(share)}" for name, share in _likeliest(explanation)[:5])
        meaning = f"+ supports {label}, - counts against it, in log-odds."
        if label is None:
            result, meaning = explanation["predicted"], "+ makes it larger, - smaller, in its own units."
        cut = " The text was truncated to what the model reads." if explanation["truncated"] else ""
        few = f"The {MOST_WORDS} strongest of {len(words):,} words:" if len(words) > MOST_WORDS else ""
        blocks: list[Block] = [
            Heading(f"{explanation['name']}: {' | '.join(explanation['texts'])}"),
            Text(f"For {_subject(explanation)}: {result}. {meaning}{cut}"),
            Text(few),
            Table(("word", "", "score"), rows, n_texts=2),
        ]
        show(blocks, file)


def _bar(value: float, greatest: float) -> str:
    """Return a bar of signs, proportional to the greatest score."""
    return ("+" if value >= 0 else "-") * (round(BAR * abs(value) / greatest) if greatest else 0)


def write_explanations(path: Path, task: str, explanations: Sequence[Mapping[str, Any]]) -> None:
    """Write the page: each text with its words marked, the classes' probabilities, and the scores as a table."""
    measured = "A score is what a word adds to the log-odds of the class: +0.7 doubles the odds, −0.7 halves them."
    if explanations[0]["explained"] is None:
        measured = "A score is what a word adds to the number, in its own units."
    blocks: list[Block] = [
        Text(
            f"{measured} It is the change when the word is hidden, so what several words do only together is not "
            "captured.",
            tone="quiet",
        )
    ]
    for explanation in explanations:
        blocks += _page_section(explanation)
    write_page(path, f"Explanations of {task}", blocks)


def _page_section(explanation: Mapping[str, Any]) -> list[Block]:
    label, predicted = explanation["explained"], explanation["predicted"]
    supports = "increase the number (blue) or decrease it"
    if label is not None:
        other = "" if label in predicted.split(", ") else ", which the model did not predict,"
        supports = f"support {label}{other} (blue) or count against it"
    cut = " The model read only the beginning." if explanation["truncated"] else ""
    words = f"The prediction is about {_subject(explanation)}. The words are marked by how much they {supports}"
    classes = _likeliest(explanation)
    shares = [[name, percent(share), Bar(share)] for name, share in classes[:MOST_CLASSES]]
    more = len(classes) - MOST_CLASSES
    rows = [[word["word"], f"{word['score']:+.3f}"] for word in explanation["words"]]
    tokens = zip(explanation["tokens"], explanation["special"], explanation["token_scores"], strict=True)
    rows += [[token, f"{value:+.3f}"] for token, special, value in tokens if special]
    return [
        Heading(f"{explanation['name']}: {predicted}"),
        Text(f"{words} (orange, dotted).{cut}"),
        *([Table(("class", "probability", ""), shares)] if shares else []),
        Text(f"and {more} more classes, all less probable" if more > 0 else "", tone="quiet"),
        Passage([], marked(explanation)),
        Folded(f"The scores of all {len(explanation['words'])} words", [Table(("word", "score"), rows)]),
    ]


def marked(explanation: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    """Return each text in parts with `text` and `weight`; the strongest word weighs 1 or -1."""
    words = explanation["words"]
    greatest = max((abs(word["score"]) for word in words), default=0.0) or 1.0
    texts = []
    for number, text in enumerate(explanation["texts"]):
        parts: list[dict[str, Any]] = []
        done = 0
        for word in (word for word in words if word["text"] == number and word["end"] > done):
            begin = max(word["begin"], done)
            weight = round(word["score"] / greatest, 3)
            parts += [{"text": text[done:begin], "weight": 0}, {"text": text[begin : word["end"]], "weight": weight}]
            done = word["end"]
        texts.append([*parts, {"text": text[done:], "weight": 0}])
    return texts
