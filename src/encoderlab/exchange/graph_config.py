"""The config.json of an exported ONNX graph, by which transformers.js and optimum know what to do with its outputs.

They read the sizes and labels from it, and run the graph, whatever it computes. A model that no class of transformers
computes is therefore called a BERT.
"""

from __future__ import annotations

from typing import Any

from encoderlab.exchange.huggingface import config_json, format_for
from encoderlab.model.config import HeadSizes, ModelConfig


def graph_config(
    config: ModelConfig, heads: HeadSizes, *, labels: list[str], vocabulary_size: int, pad_id: int, is_int8: bool
) -> dict[str, Any]:
    """Return the content of config.json for a graph, in 8 bits or in 32."""
    family = format_for(config, heads)
    fields = config_json(config, heads, family, labels=labels, vocabulary_size=vocabulary_size, pad_id=pad_id)
    if heads.vocabulary:  # transformers.js has no class for masked tokens and pairs together
        fields["architectures"] = [f"{family.prefix}ForMaskedLM"]
    # the file it loads where a program does not choose: without, a browser looks for one in 8 bits, Node in 32
    fields["transformers.js_config"] = {"dtype": "q8" if is_int8 else "fp32"}
    return fields
