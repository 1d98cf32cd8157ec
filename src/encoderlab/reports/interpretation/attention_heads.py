"""Figures for each attention head: how widely, how far, and to which tokens it attends."""

from __future__ import annotations

from typing import Any, TextIO

import numpy as np
from jaxtyping import Bool, Float
from rich.text import Text

from encoderlab.reports.parts.console import console_on, table_of

# The name of each figure in a table, and its meaning.
FIGURES = {
    "entropy": ("entropy", "of a token's weights, in nats: 0 for a single token, ln n for n tokens equally"),
    "distance": ("distance", "distance to the attended tokens, in tokens, weighted mean"),
    "first": ("first", "share of the weights on the first token, which is [CLS] if there is one"),
    "separator": ("[SEP]", "share on the separators"),
    "itself": ("itself", "share on the attending token itself"),
    "previous": ("previous", "share on the token before it, if there is one"),
    "next": ("next", "share on the token after it, if there is one"),
}
MOST_HEADS = 48  # shown on screen; with more, each layer's mean


class HeadSummary:
    """Means over all attending tokens, of all texts added.

    After Clark et al. 2019, "What Does BERT Look At?", section 3; the distance after Vig and Belinkov 2019, "Analyzing
    the Structure of Attention in a Transformer Language Model".
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._sums: dict[str, Any] = dict.fromkeys(FIGURES, 0.0)
        self._counts: dict[str, int] = dict.fromkeys(FIGURES, 0)

    def add(
        self,
        name: str,
        weights: Float[np.ndarray, "layers heads length length"],
        separators: Bool[np.ndarray, " length"],
    ) -> None:
        """Add a text: each row of `weights` is one token's attention, and sums to 1."""
        self.texts.append(name)
        length = weights.shape[-1]
        weights = weights.astype(np.float64)
        places = np.arange(length)
        logarithms = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
        found = {
            "entropy": -(weights * logarithms).sum(-1),
            "distance": (weights * abs(places[:, None] - places)).sum(-1),
            "first": weights[..., 0],
            "separator": weights[..., separators].sum(-1),
            "itself": np.diagonal(weights, axis1=-2, axis2=-1),
            "previous": np.diagonal(weights, -1, -2, -1),
            "next": np.diagonal(weights, 1, -2, -1),
        }
        for figure, values in found.items():
            self._sums[figure] = self._sums[figure] + values.sum(-1)
            self._counts[figure] += values.shape[-1]

    def means(self) -> dict[str, Float[np.ndarray, "layers heads"]]:
        """Return each figure of each head; NaN if no token has one before or after it."""
        with np.errstate(invalid="ignore"):
            return {figure: self._sums[figure] / np.float64(self._counts[figure]) for figure in FIGURES}

    def as_dict(self) -> dict[str, Any]:
        """Return `heads` as a list, with layers counted from 1 and heads from 0, and the numbers of texts and tokens."""
        means = self.means()
        layers, heads = means["entropy"].shape
        rows = [
            {"layer": layer + 1, "head": head}
            | {figure: _plain(values[layer, head]) for figure, values in means.items()}
            for layer in range(layers)
            for head in range(heads)
        ]
        return {"texts": self.texts, "tokens": self._counts["entropy"], "figures": _meanings(), "heads": rows}


def show_heads(summary: HeadSummary, file: TextIO | None = None) -> None:
    """Print a row for each head, or for each layer of a model with many, on standard error unless `file` is given."""
    means = summary.means()
    layers, heads = means["entropy"].shape
    each = layers * heads <= MOST_HEADS
    table = table_of("layer", *(["head"] if each else []), *(title for title, _ in FIGURES.values()))
    for layer in range(layers):
        if not each:
            table.add_row(str(layer + 1), *(shown(figure, float(means[figure][layer].mean())) for figure in FIGURES))
            continue
        for head in range(heads):
            cells = (shown(figure, float(means[figure][layer, head])) for figure in FIGURES)
            table.add_row(str(layer + 1) if head == 0 else "", str(head), *cells)
    console = console_on(file)
    what = "each head" if each else f"each layer, a mean of its {heads} heads"
    console.print(Text(f"Attention of {what}, on {summary.as_dict()['tokens']:,} tokens", style="bold"))
    console.print(table)
    console.print("Entropy in nats, distance in tokens; the others are shares of the weights.", soft_wrap=True)


def shown(figure: str, value: float) -> str:
    """Return a figure formatted for people."""
    if np.isnan(value):
        return "-"
    return f"{value:.2f}" if figure in ("entropy", "distance") else f"{value:.0%}"


def _plain(value: np.floating) -> float | None:
    return None if np.isnan(value) else round(float(value), 5)


def _meanings() -> dict[str, str]:
    return {figure: meaning for figure, (_, meaning) in FIGURES.items()}
