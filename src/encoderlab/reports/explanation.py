"""Which words support a prediction, and what each attention head attends to: on screen, as a page, and as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np
from jaxtyping import Bool, Float

from encoderlab.reports.mistakes import Importance
from encoderlab.reports.page import write_page
from encoderlab.reports.screen import show
from encoderlab.reports.tables import Bar, Block, Folded, Heading, Passage, Table, Text, percent

MOST_WORDS = 60  # shown on screen; of a longer text, those with the greatest scores
MOST_CLASSES = 10  # in the page's table
BAR = 20  # characters
MOST_HEADS = 48  # shown on screen; with more, each layer's mean
HEAD_SCORES = {  # what is measured of each head: its name in a table, and its meaning
    "entropy": ("entropy", "of a token's weights, in nats: 0 for a single token, ln n for n tokens equally"),
    "distance": ("distance", "distance to the attended tokens, in tokens, weighted mean"),
    "first": ("first", "share of the weights on the first token, which is [CLS] if there is one"),
    "separator": ("[SEP]", "share on the separators"),
    "itself": ("itself", "share on the attending token itself"),
    "previous": ("previous", "share on the token before it, if there is one"),
    "next": ("next", "share on the token after it, if there is one"),
}


class TokenImportance(Importance, Protocol):
    """What each token adds to the log-odds of `label`, or to a predicted number."""

    label: str | None
    probabilities: Mapping[str, float]
    predicted: str
    pieces: Sequence[str]
    scores: np.ndarray
    special: np.ndarray
    truncated: bool
    word: int | None


def explanation_of(name: str, importance: TokenImportance) -> dict[str, Any]:
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
        "method": "occlusion",
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
        rows = [[word["word"], f"{word['score']:+.3f}", _bar(word["score"], greatest)] for word in printed]
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
            Table(("word", explanation["method"], ""), rows),
        ]
        show(blocks, file)


def _bar(value: float, greatest: float) -> str:
    """Return a bar of signs, proportional to the greatest score."""
    signs = ("+" if value >= 0 else "-") * (round(BAR * abs(value) / greatest) if greatest else 0)
    return signs.ljust(BAR)


def write_explanations(path: Path, task: str, explanations: Sequence[Mapping[str, Any]]) -> None:
    """Write the page: each text with its words marked, the classes' probabilities, and the scores as a table."""
    measured = "A score is what a word adds to the log-odds of the class: +0.7 doubles the odds, −0.7 halves them."
    if explanations[0]["explained"] is None:
        measured = "A score is what a word adds to the number, in its own units."
    method = explanations[0]["method"]
    blocks: list[Block] = [
        Text(
            f"{measured} It is measured by {method}. It does not capture what several words do only together.",
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
        Passage([(explanation["method"], "quiet")], marked(explanation)),
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


class HeadSummary:
    """Means over all attending tokens, of all texts added.

    After Clark et al. 2019, "What Does BERT Look At?", section 3; the distance after Vig and Belinkov 2019, "Analyzing
    the Structure of Attention in a Transformer Language Model".
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._sums: dict[str, Any] = dict.fromkeys(HEAD_SCORES, 0.0)
        self._counts: dict[str, int] = dict.fromkeys(HEAD_SCORES, 0)

    def add(
        self,
        name: str,
        weights: Float[np.ndarray, "layers heads length length"],
        separators: Bool[np.ndarray, " length"],
    ) -> None:
        """Add a text: each row of `weights` is one token's attention, and sums to 1."""
        self.texts.append(name)
        weights = weights.astype(np.float64)
        places = np.arange(weights.shape[-1])
        logarithms = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
        measured = {
            "entropy": -(weights * logarithms).sum(-1),
            "distance": (weights * abs(places[:, None] - places)).sum(-1),
            "first": weights[..., 0],
            "separator": weights[..., separators].sum(-1),
            "itself": np.diagonal(weights, axis1=-2, axis2=-1),
            "previous": np.diagonal(weights, -1, -2, -1),
            "next": np.diagonal(weights, 1, -2, -1),
        }
        for name, values in measured.items():
            self._sums[name] = self._sums[name] + values.sum(-1)
            self._counts[name] += values.shape[-1]

    def means(self) -> dict[str, Float[np.ndarray, "layers heads"]]:
        """Return each score of each head; NaN if no token has one before or after it."""
        with np.errstate(invalid="ignore"):
            return {name: self._sums[name] / np.float64(self._counts[name]) for name in HEAD_SCORES}

    def as_dict(self) -> dict[str, Any]:
        """Return `heads` as a list, with layers counted from 1 and heads from 0, and the numbers of texts and tokens."""
        means = self.means()
        rows = [
            {"layer": layer + 1, "head": head}
            | {
                name: None if np.isnan(each[layer, head]) else round(float(each[layer, head]), 5)
                for name, each in means.items()
            }
            for layer, head in np.ndindex(*means["entropy"].shape)
        ]
        meanings = {name: meaning for name, (_, meaning) in HEAD_SCORES.items()}
        return {"texts": self.texts, "tokens": self._counts["entropy"], "figures": meanings, "heads": rows}


def show_heads(summary: HeadSummary, file: TextIO | None = None) -> None:
    """Print a row for each head, or for each layer of a model with many, on standard error unless `file` is given."""
    means = summary.means()
    layers, heads = means["entropy"].shape
    each = layers * heads <= MOST_HEADS
    titles = [title for title, _ in HEAD_SCORES.values()]
    rows = []
    for layer in range(layers):
        if each:
            for head in range(heads):
                cells = (_head_score(name, float(means[name][layer, head])) for name in HEAD_SCORES)
                rows.append([str(layer + 1), str(head), *cells])
        else:
            rows.append(
                [str(layer + 1), *(_head_score(name, float(means[name][layer].mean())) for name in HEAD_SCORES)]
            )
    what = "each head" if each else f"each layer, a mean of its {heads} heads"
    blocks: list[Block] = [
        Heading(f"Attention of {what}, on {summary.as_dict()['tokens']:,} tokens"),
        Table(["layer", *(["head"] if each else []), *titles], rows),
        Text("Entropy in nats, distance in tokens; the others are shares of the weights."),
    ]
    show(blocks, file)


def _head_score(name: str, value: float) -> str:
    if np.isnan(value):
        return "-"
    return f"{value:.2f}" if name in ("entropy", "distance") else f"{value:.0%}"
