"""sentence-transformers: the modules that follow an encoder in such a folder, which pool its vectors and apply a linear
head.

The folder's format is that of sentence-transformers 2 and later: modules.json names the modules in their order, and
each has its settings in a folder of its own. The encoder itself is transformers'; see `huggingface`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from encoderlab.batch import HeadSizes
from encoderlab.errors import SettingError
from encoderlab.model.config import ModelConfig, Pooling

POOLING, DENSE = "1_Pooling", "2_Dense"
MODES = {"cls_token": Pooling.cls, "max_tokens": Pooling.max, "mean_tokens": Pooling.mean}  # by their names there


def answers_texts(heads: HeadSizes) -> bool:
    """Return whether the model was trained to answer for whole texts: a head of pretraining is not exported."""
    return heads.sequence_classes is not None and not heads.vocabulary


def pooling_of(config: ModelConfig, heads: HeadSizes) -> Pooling:
    """Return the pooling of the exported folder: that of the trained head, or the mean if there is no such head.

    Raises SettingError for a model that labels words, and for a head on a pooler, which BERT's own classifier has.
    """
    if heads.token_classes is not None:
        raise SettingError(
            "format=sentence_transformers is for models of whole texts, but this model labels words",
            remedy="Use format=huggingface, or heads=false for only the encoder",
        )
    if answers_texts(heads) and config.pooling not in MODES.values():
        raise SettingError(
            f"sentence-transformers has no equivalent of model.pooling={config.pooling.value}",
            remedy="Use format=huggingface",
        )
    return config.pooling if config.pooling in MODES.values() else Pooling.mean


def write_modules(folder: Path, config: ModelConfig, pooling: Pooling, head: Mapping[str, Tensor]) -> None:
    """Write modules.json and the modules it names next to the encoder in `folder`; `head` is its `weight` and `bias`,
    or empty.
    """
    no_pooler = {"add_pooling_layer": False}  # BERT's own, which would be initialised randomly
    reading = {"max_seq_length": config.reach, "do_lower_case": False, "model_args": no_pooler}
    _write(folder / "sentence_bert_config.json", reading)
    _write(folder / POOLING / "config.json", _pooling(config.d_model, pooling))
    modules = [("", "Transformer"), (POOLING, "Pooling")]
    if head:
        classes, d_model = head["weight"].shape
        identity = "torch.nn.modules.linear.Identity"
        _write(
            folder / DENSE / "config.json",
            {"in_features": d_model, "out_features": classes, "bias": True, "activation_function": identity},
        )
        weights = {f"linear.{name}": weight.detach().cpu().float().contiguous() for name, weight in head.items()}
        (folder / DENSE / "model.safetensors").write_bytes(safetensors.torch.save(weights, metadata={"format": "pt"}))
        modules.append((DENSE, "Dense"))
    listed = [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{name}"}
        for place, (path, name) in enumerate(modules)
    ]
    _write(folder / "modules.json", listed)


def _pooling(d_model: int, pooling: Pooling) -> dict[str, Any]:
    modes = {f"pooling_mode_{name}": pooling is mode for name, mode in MODES.items()}
    return {"word_embedding_dimension": d_model, **modes, "pooling_mode_mean_sqrt_len_tokens": False}


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
