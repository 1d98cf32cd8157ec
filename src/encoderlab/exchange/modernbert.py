"""ModernBERT's settings that are no single number of config.json: which layers attend locally, the bases of rotary
positions, biases, and the pooling of its classifier.

They are read from today's config.json and older ones.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from encoderlab.errors import DataError
from encoderlab.network.config import ModelConfig, Pooling

BIASES = ("attention_bias", "mlp_bias", "norm_bias")
LOCAL = "sliding_attention"
GLOBAL = "full_attention"
BASES = {GLOBAL: ("global_rope_theta", 160_000.0), LOCAL: ("local_rope_theta", 10_000.0)}  # older keys, and defaults


def modernbert_settings(folder: Path, fields: Mapping[str, Any], n_layers: int) -> dict[str, Any]:
    """Return our settings for what `fields` of config.json say. Raises DataError if we have none."""
    pooling = fields.get("classifier_pooling", "cls")
    if pooling not in ("cls", "mean"):
        raise _unsupported(folder, "classifier_pooling", pooling, "cls or mean")
    local_attention = fields.get("local_attention", 128)
    if not isinstance(local_attention, int) or local_attention < 2:
        raise _unsupported(folder, "local_attention", local_attention, "a whole number from 2")
    return {
        "pooling": Pooling(pooling),
        "bias": any(fields.get(key) is True for key in BIASES),
        "window": local_attention // 2,
        "global_every": _global_every(folder, fields, n_layers),
        "rotary_base": _base(folder, fields, GLOBAL),
        "window_rotary_base": _base(folder, fields, LOCAL),
    }


def _global_every(folder: Path, fields: Mapping[str, Any], n_layers: int) -> int:
    """Return every how many layers attention is global."""
    every = fields.get("global_attn_every_n_layers", 3)
    kinds = fields.get("layer_types")
    if isinstance(kinds, list) and len(kinds) == n_layers:
        later = [n for n, kind in enumerate(kinds) if n and kind == GLOBAL]
        every = later[0] if later else max(n_layers, 1)
    if not isinstance(every, int) or every < 1:
        raise _unsupported(folder, "global_attn_every_n_layers", every, "a whole number from 1")
    if kinds is not None and kinds != [LOCAL if n % every else GLOBAL for n in range(n_layers)]:
        raise _unsupported(
            folder, "layer_types", kinds, "global attention in the first layer and every so many after it"
        )
    return every


def _base(folder: Path, fields: Mapping[str, Any], kind: str) -> float:
    """Return the base of the rotary positions in one kind of layers."""
    key, default = BASES[kind]
    parameters = fields.get("rope_parameters")
    stated = parameters.get(kind) if isinstance(parameters, dict) else None
    stated = stated if isinstance(stated, dict) else {}
    if stated.get("rope_type", "default") != "default" or fields.get("rope_scaling"):
        raise _unsupported(folder, "rope_parameters", stated or fields.get("rope_scaling"), "the type default")
    base = stated.get("rope_theta", fields.get(key, default))
    if not isinstance(base, int | float) or isinstance(base, bool) or not 1 < base < 1e15:
        raise _unsupported(folder, key, base, "a number above 1")
    return float(base)


def _unsupported(folder: Path, key: str, value: Any, allowed: str) -> DataError:
    return DataError(f"{folder} has a model with {key}={str(value)[:80]}", allowed=allowed)


def modernbert_fields(config: ModelConfig) -> dict[str, Any]:
    """Return the fields of config.json for our settings."""
    bases = {GLOBAL: config.rotary_base, LOCAL: config.window_rotary_base or config.rotary_base}
    window = config.reach if config.window is None else config.window
    kinds = [GLOBAL if config.window_of(layer) is None else LOCAL for layer in range(config.n_layers)]
    return {
        **dict.fromkeys(BIASES, config.bias),
        "classifier_pooling": "cls" if config.pooling is Pooling.cls else "mean",
        "classifier_bias": True,
        "decoder_bias": True,
        "local_attention": 2 * window,
        "layer_types": kinds,
        "global_attn_every_n_layers": config.global_every,
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": base} for kind, base in bases.items()},
        **{key: bases[kind] for kind, (key, _) in BASES.items()},
        "embedding_dropout": config.dropout,
        "classifier_dropout": config.dropout,
    }
