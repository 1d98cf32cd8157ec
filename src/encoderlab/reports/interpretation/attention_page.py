"""An interactive attention page: any layer and head, what a token attends to and what attends to it (after BertViz, Vig
2019).
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from encoderlab.reports.interpretation.attention_heads import FIGURES, HeadSummary, shown
from encoderlab.reports.parts.page import picture, write_page

if TYPE_CHECKING:
    from markupsafe import Markup

MOST_WEIGHTS = 1_500_000  # in a page, a byte each, which makes the page 2 MB
MOST_TOKENS = 256
NAMED = 40  # tokens named along an axis


def write_attention_page(
    path: Path,
    title: str,
    weights: Float[np.ndarray, "layers heads length length"],
    tokens: Sequence[str],
    summary: HeadSummary,
) -> None:
    """Write the page. Without a script it shows the mean of each layer's heads as pictures, and the figures of each
    head.

    For a long text, its maps show the first tokens, as many as MOST_TOKENS and MOST_WEIGHTS allow, and the page says
    so.
    """
    layers, heads, length, _ = weights.shape
    kept = min(length, MOST_TOKENS, math.isqrt(MOST_WEIGHTS // (layers * heads)))
    weights, first = weights[..., :kept, :kept], list(tokens[:kept])
    values = {
        "layers": [_mean_map(layer, first, number) for number, layer in enumerate(weights, start=1)],
        "data": {"tokens": first, "layers": layers, "heads": heads, "weights": coded(weights)},
        "n_tokens": length,
        "figures": FIGURES,
        "heads": summary.as_dict()["heads"],
        "shown": lambda figure, value: shown(figure, math.nan if value is None else value),
    }
    write_page(path, "attention.html", title=title, **values)


def coded(weights: Float[np.ndarray, "layers heads length length"]) -> str:
    """Return the weights as base64 of a byte each; 255 is all of a token's attention."""
    return base64.b64encode(np.rint(weights * 255).astype(np.uint8).tobytes()).decode("ascii")


def _mean_map(layer: Float[np.ndarray, "heads length length"], tokens: Sequence[str], number: int) -> Markup:
    """Return a layer's weights, averaged over its heads, as a plot."""
    from matplotlib.figure import Figure

    length = len(tokens)
    named = range(0, length, math.ceil(length / NAMED))
    names = [tokens[place] if len(tokens[place]) <= 12 else f"{tokens[place][:11]}…" for place in named]
    side = min(max(2.6, 0.16 * length + 1.2), 6.4)
    figure = Figure(figsize=(side + 0.7, side), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(layer.mean(0), cmap="viridis", vmin=0, interpolation="none")  # unscaled; the page draws squares
    axes.set_xticks(named, names, rotation=90, fontsize=7, parse_math=False)
    axes.set_yticks(named, names, fontsize=7, parse_math=False)
    axes.set_title(f"layer {number}", fontsize=9)
    axes.set_xlabel("attended to", fontsize=8)
    axes.set_ylabel("looks", fontsize=8)
    bar = figure.colorbar(image, ax=axes, shrink=0.8)
    bar.ax.tick_params(labelsize=7)
    return picture(
        figure, f"Layer {number}: how much each token (row) attends to each token (column), averaged over all heads"
    )
