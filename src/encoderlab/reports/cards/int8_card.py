"""The part of a model card on an 8-bit graph: how predictions, size and speed change."""

from __future__ import annotations

from encoderlab.reports.cards.compact_card import megabytes
from encoderlab.reports.parts.console import words_of
from encoderlab.runs.inference.int8_check import Int8Check


def agreement_in_words(check: Int8Check) -> str:
    """Return a clause on how well the predictions agree."""
    rows = f"{check.rows:,} rows of {check.split}" if check.split else f"{check.rows} sentences"
    if check.agreement is None:
        return f"on {rows} a number changes by at most {check.change:.4g}"
    return f"on {rows} {check.agreement:.2%} of the predictions agree, and a probability changes by at most {check.change:.4f}"


def int8_card(check: Int8Check, n_bytes: tuple[int, int]) -> str:
    """Return the section; `n_bytes` are the sizes of the graph before and after."""
    sizes, speeds = map(megabytes, n_bytes), (f"{speed:,.0f}" for speed in check.texts_per_second)
    table = ["| | 32 bits | 8 bits |\n|---|---|---|\n", f"| graph | {' | '.join(sizes)} |\n"]
    threads = f"{check.threads} thread{'' if check.threads == 1 else 's'}"
    table.append(f"| texts per second, encoderlab in fp32 and this graph, {threads} | {' | '.join(speeds)} |\n")
    if check.before is not None:
        table.append(f"| {words_of(check.score)} on {check.split} | {check.before:.4f} | {check.after:.4f} |\n")
    unscored = f" It was not scored: {check.unscored}" if check.unscored else ""
    return (
        "\n## 8 bits\n\nThe weights of matrix products and embeddings are 8-bit integers; those of matrix products have a "
        "scale for each channel. Activations are quantized dynamically. "
        f"Compared with the 32-bit model, {agreement_in_words(check)}.{unscored}\n\n{''.join(table)}"
    )
