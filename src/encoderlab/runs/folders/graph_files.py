"""The files of an exported ONNX folder, and how to tell one of ours."""

from __future__ import annotations

from pathlib import Path

from encoderlab.errors import DataError
from encoderlab.exchange.huggingface_files import read_config

LARGEST_CONFIG = 10_000_000  # bytes; it contains every label twice
MODEL_TYPE = "encoderlab"  # in the config.json of our own models
GRAPH = "model.onnx"
GRAPH_FILES = (GRAPH, "config.json", "tokenizer.json", "tokenizer_config.json")


def is_graph(folder: Path) -> bool:
    """Return whether the folder contains a graph that we exported together with the settings of its run."""
    if not all((folder / name).is_file() for name in GRAPH_FILES):
        return False
    try:
        return read_config(folder, LARGEST_CONFIG).get("model_type") == MODEL_TYPE
    except DataError:
        return False
