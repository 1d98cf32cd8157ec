"""The part of an exported model's card about windows: the run read long texts in windows, and the export does not."""

from __future__ import annotations

from encoderlab.tasks.sequences import Windowing


def window_card(windows: Windowing | None, max_length: int, *, reader: str = "This folder") -> str:
    """Return a part of the card in Markdown, on what the `reader` truncates; "" if the run did not read windows."""
    if windows is None:
        return ""
    pooled = {"mean": "averages their logits", "max": "takes the largest of their logits for each class"}[
        windows.pooling
    ]
    return (
        "\n## Long texts\n\n"
        f"{reader} reads one window: a text of more than {max_length} tokens is truncated. The original run reads up to "
        f"{windows.most} windows of a longer text, which share at least {windows.overlap:.0%} of their tokens with the next, and "
        f"{pooled}. `encoderlab predict` with the run, or with `export format=compact` or `onnx`, does the same.\n"
    )
