"""What the card of an exported model says where the run read long texts in windows, which the export does not."""

from __future__ import annotations

from encoderlab.tasks.task import Windowing


def window_card(windows: Windowing | None, max_length: int, *, reader: str = "This folder") -> str:
    """A part of the card in Markdown, `reader` being what reads one window; "" where the run read no windows."""
    if windows is None:
        return ""
    pooled = {"mean": "averages their logits", "max": "takes the largest of their logits for each class"}[windows.pooling]
    return (
        "\n## Long texts\n\n"
        f"{reader} reads one window: a text of more than {max_length} tokens is cut. The run it was exported from reads up to "
        f"{windows.most} windows of a longer text, which share at least {windows.overlap:.0%} of their tokens with the next, and "
        f"{pooled}. `encoderlab predict` with the run, or with `export format=compact` or `onnx`, does so too.\n"
    )
