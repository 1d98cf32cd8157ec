"""Attention maps: how much each token (row) attends to each token (column)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from encoderlab.reports.parts.plots import write_png


def plot_attention(weights: np.ndarray, tokens: Sequence[str], title: str, path: Path) -> None:
    """Plot all heads of one layer side by side: weights [heads, queries, keys]; each row of a map sums to 1.

    All maps share one scale, from 0 to the layer's greatest weight. The figure grows with the tokens and names each of
    them, up to 80; beyond that it stays at that size and names some.
    """
    from matplotlib.figure import Figure

    heads, length = weights.shape[0], len(tokens)
    names = [token if len(token) <= 16 else f"{token[:15]}…" for token in tokens]
    across = heads if heads <= 3 else 4 if length <= 16 else math.ceil(math.sqrt(heads))
    down = -(-heads // across)
    side = min(max(2.6, 0.14 * length + 1.0), 12)
    named = range(0, length, math.ceil(length / 80))
    canvas = Figure(figsize=(across * side + 1.2, down * side + 0.8), layout="constrained")
    grid = canvas.subplots(down, across, squeeze=False)
    for head in range(heads, down * across):
        grid.flat[head].set_visible(False)
    for head, axes in enumerate(grid.flat[:heads]):
        image = axes.imshow(weights[head], cmap="viridis", vmin=0, vmax=float(weights.max()), interpolation="nearest")
        axes.set_title(f"head {head}", fontsize=max(9, side))
        axes.set_xticks(named, [names[i] for i in named], rotation=90, fontsize=7, parse_math=False)
        axes.set_yticks(named, [names[i] for i in named], fontsize=7, parse_math=False)
        axes.tick_params(length=2, pad=1)
    size = max(9, side * across / 1.8)
    canvas.suptitle(title, fontsize=size + 1, wrap=True, parse_math=False)
    canvas.supxlabel("attended to (key)", fontsize=size)
    canvas.supylabel("attending token (query)", fontsize=size)
    bar = canvas.colorbar(image, ax=grid, shrink=0.8, aspect=25 * down)
    bar.set_label("attention weight", fontsize=size)
    bar.ax.tick_params(labelsize=size)
    write_png(canvas, path)
