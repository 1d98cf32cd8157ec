"""The settings of `export`."""

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from encoderlab.config.commands import CommandConfig, Examples
from encoderlab.settings import REQUIRED, setting

ExportFormat = Enum("ExportFormat", ["huggingface", "onnx", "int8", "web"])  # that a model can be exported to


@dataclass
class ExportConfig(CommandConfig):
    """Export a run's model to a format that other tools read without encoderlab."""

    command: ClassVar[str] = "export"
    example_lines: ClassVar[Examples] = (
        ("run=... format=huggingface path=exported", "a folder for transformers' Auto classes"),
        ("run=... format=onnx path=exported", "a graph for onnxruntime; format=int8: with 8-bit weights"),
        ("run=... format=web path=page", "a page that predicts in a browser, without a server"),
    )

    run: str = setting(REQUIRED, "A run folder, or its model/ folder.")
    format: ExportFormat = setting(
        ExportFormat.huggingface,
        "huggingface: a folder for transformers' Auto classes; onnx: a graph for onnxruntime, checked against the "
        "model, which predict, serve and eval open too, and transformers.js; int8: the graph in 8 bits, under a "
        "third of the size, whose predictions are compared with the model's; web: a page that runs the 8-bit graph in "
        "a browser, without a server.",
    )
    path: str = setting(REQUIRED, "The new folder to write.")
    library: str = setting(
        "node_modules", "With web: the folder in which npm install @huggingface/transformers put the JavaScript."
    )
    license: str | None = setting(
        None, "The licence in the folder's card, such as apache-2.0; null: that of the encoder it was trained from."
    )
    heads: bool = setting(True, "Export the heads too; false: only the encoder (not in 8 bits).")
