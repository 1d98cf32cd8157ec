"""BERT and DistilBERT of transformers: reads their folders as our encoder, and converts our encoder to their format."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from encoderlab.batch import HeadSizes
from encoderlab.errors import DataError, SettingError
from encoderlab.exchange.huggingface_config import (
    config_json,
    family_of,
    heads_of,
    labels_of,
    positive_label_of,
    settings_of,
    thresholds_of,
)
from encoderlab.exchange.huggingface_files import read_config, stored_weights
from encoderlab.exchange.huggingface_names import bare_name, normal_name, their_names
from encoderlab.model.config import Activation, ModelConfig, Norm, NormPosition, Pairs, Pooling, Positions
from encoderlab.model.heads import without_weights
from encoderlab.model.positions import SinusoidalPositions

DISTILBERT_EPSILON = 1e-12  # of all its norms, in its code
_BUFFERS = ("position_ids", "token_type_ids")  # buffers in older checkpoints that nothing reads
STRAIGHT = 2.0**-13  # tanh(STRAIGHT * x) / STRAIGHT is x, to within a millionth where |x| < 14
_POOL = {"pool.dense.weight": 2, "pool.dense.bias": 1}  # names and dimensions
_POOLED_THERE = (
    "model.pooling=mean",
    "model.pooling=max",
)  # what sentence-transformers has, and a classifier of BERT's does not
_TABLE, _DECODER = "encoder.embeddings.token.weight", "masked_token_head.decoder.weight"


@dataclass(frozen=True, slots=True)
class HuggingFaceModel:
    """The content of a transformers folder, in our terms.

    `weights` has the names of `EncoderWithHeads.state_dict()`; if there is no sequence head but the checkpoint has a
    pooler, also `pool.dense.weight` and `pool.dense.bias`, which that model does not have. `labels` are those of a head
    with classes, else []. `family` is "bert" or "distilbert".
    """

    config: ModelConfig
    heads: HeadSizes
    weights: dict[str, Tensor]
    labels: list[str]
    vocabulary_size: int
    pad_id: int
    family: str
    thresholds: dict[str, float] | None = None
    positive_label: str | None = None


def read_huggingface(folder: Path) -> HuggingFaceModel:
    """Read a local folder with config.json and safetensors; nothing in it is run.

    The weights determine the heads, and for a `classifier` the architecture's name. Weights become float32. Raises
    DataError for anything that cannot be read as the same model.
    """
    fields = read_config(folder)
    family = family_of(folder, fields)
    found = _normal_weights(folder, family, tied=fields.get("tie_word_embeddings", True))
    heads, pair_head = heads_of(fields, family, found)
    labels = labels_of(folder, fields, heads, pair_head)
    tie_decoder = fields.get("tie_word_embeddings", True) and their_names(family, [_DECODER])[_DECODER] not in found
    config, vocabulary_size, pad_id = settings_of(folder, fields, family, tie_decoder=tie_decoder)
    if heads.vocabulary and config.activation is not Activation.gelu:
        raise DataError(
            f"{folder} predicts masked tokens with {config.activation.value}", allowed="gelu, as in our head"
        )
    if config.n_layers > len(found):
        raise DataError(f"{folder}: config.json states {config.n_layers} layers, but there are {len(found)} weights")
    pooler = heads.sequence_classes is None and set(their_names(family, _POOL).values()) <= found.keys()
    wanted = _shapes(config, vocabulary_size, pad_id, heads, pooler=pooler)
    names = their_names(family, wanted, pair_head=pair_head)
    _check_weights(folder, {names[ours]: shape for ours, shape in wanted.items()}, found)
    weights = {ours: found[theirs].float().contiguous() for ours, theirs in names.items()}
    if heads.sequence_classes is not None and _is_straight(weights):
        config, weights = replace(config, pooling=Pooling.cls), _without_pooler(weights)
    of_labels = thresholds_of(fields, labels), positive_label_of(fields, labels)
    return HuggingFaceModel(config, heads, weights, labels, vocabulary_size, pad_id, family, *of_labels)


def to_huggingface(
    config: ModelConfig,
    heads: HeadSizes,
    weights: Mapping[str, Tensor],
    *,
    labels: list[str],
    vocabulary_size: int,
    pad_id: int,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the content of config.json and the weights under their names, for a model that gives the same logits in
    transformers.

    DistilBERT if the pooling is DistilBERT's, otherwise BERT. Sinusoidal positions become a table, absent segments a
    table of zeros, absent biases zeros; scaled embeddings are scaled beforehand; CLS without a pooler gets one that
    changes nothing. Word dropout, which only training knows, is left out. `weights` may have the extra `pool.dense.*`
    of `HuggingFaceModel`. Raises SettingError, with all reasons, if there is no equivalent.
    """
    family = _family_for(config, heads)
    _refuse_what_they_lack(config, heads, family)
    config, weights = _as_theirs(config, heads, weights, family)
    pooler = heads == HeadSizes() and weights.keys() >= _POOL.keys()
    shapes = _shapes(config, vocabulary_size, pad_id, heads, pooler=pooler)
    learnt = {name for name in shapes if name in weights or not name.endswith(".bias")}
    ours = {name: weights[name] if name in learnt else torch.zeros(shape) for name, shape in shapes.items()}
    names = their_names(family, ours, pair_head=heads.vocabulary)
    theirs = {names[name]: weight.detach().cpu().float().contiguous() for name, weight in ours.items()}
    if family == "bert" and _DECODER in ours:
        theirs["cls.predictions.decoder.bias"] = theirs["cls.predictions.bias"].clone()
    if heads == HeadSizes():
        theirs = {bare_name(family, name): weight for name, weight in theirs.items()}
    fields = config_json(config, heads, family, labels=labels, vocabulary_size=vocabulary_size, pad_id=pad_id)
    return fields, theirs


def _shapes(
    config: ModelConfig, vocabulary_size: int, pad_id: int, heads: HeadSizes, *, pooler: bool
) -> dict[str, torch.Size]:
    """Return the names and shapes of a model's weights, found without making it; with `pooler`, a pooler's too."""
    pool = {name: torch.Size([config.d_model] * dimensions) for name, dimensions in _POOL.items()} if pooler else {}
    model = without_weights(config, vocabulary_size, pad_id, heads)
    return {name: weight.shape for name, weight in model.state_dict().items()} | pool


def _normal_weights(folder: Path, family: str, *, tied: bool) -> dict[str, Tensor]:
    """Return the weights under the names that transformers gives them today, without duplicates such as a tied decoder.

    As in transformers, a decoder that differs from the embeddings is not tied, whatever config.json says; its bias is
    the head's.
    """
    found: dict[str, Tensor] = {}
    for stored, weight in stored_weights(folder):
        name = normal_name(family, stored)
        if name.endswith(_BUFFERS):
            continue
        if name in found:
            raise DataError(f"{folder} has two weights named {name}", remedy="Use another checkpoint")
        found[name] = weight
    if "cls.predictions.decoder.bias" in found:
        found["cls.predictions.bias"] = found.pop("cls.predictions.decoder.bias")
    table, decoder = their_names(family, [_TABLE, _DECODER]).values()
    if tied and decoder in found and table in found and torch.equal(found[decoder], found[table]):
        del found[decoder]
    return found


def _check_weights(folder: Path, wanted: dict[str, torch.Size], found: Mapping[str, Tensor]) -> None:
    """Refuse weights that are missing, of another shape, or of a part that ours does not have."""
    remedy = "Use another checkpoint, or correct its config.json"
    if missing := wanted.keys() - found.keys():
        raise DataError(f"{folder} lacks the weight {_first(missing)}", remedy=remedy)
    for name, shape in wanted.items():
        if found[name].shape != shape:
            raise DataError(
                f"{folder}: {name} has the shape {list(found[name].shape)}, but config.json requires {list(shape)}",
                remedy=remedy,
            )
    if unknown := found.keys() - wanted.keys():
        raise DataError(f"{folder} has the unknown weight {_first(unknown)}", remedy=remedy)


def _first(names: set[str]) -> str:
    more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    return f"{min(names)}{more}"


def _family_for(config: ModelConfig, heads: HeadSizes) -> str:
    """Return DistilBERT if its pooler is needed or the encoder has its shape, otherwise BERT."""
    like_distilbert = config.segments == 0 and config.norm_epsilon == DISTILBERT_EPSILON
    if config.pooling is Pooling.relu_pooler and (heads.sequence_classes is not None or like_distilbert):
        return "distilbert"
    return "bert"


def _refuse_what_they_lack(config: ModelConfig, heads: HeadSizes, family: str) -> None:
    """Raise SettingError with every setting that the family has no equivalent of, and what to choose instead."""
    if found := list(_without_equivalent(config, heads, family)):
        name = {"bert": "BERT", "distilbert": "DistilBERT"}[family]
        lacking = [setting for setting, _ in found]
        other = "sentence_transformers" if len(lacking) == 1 and lacking[0] in _POOLED_THERE else "onnx"
        raise SettingError(
            f"{name} in transformers has no equivalent of {', '.join(lacking)}",
            remedy=f"Use format={other}, or train with {', '.join(dict.fromkeys(instead for _, instead in found))}",
        )


def _without_equivalent(config: ModelConfig, heads: HeadSizes, family: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of a setting that has no equivalent and the one to choose instead."""
    for name, value, instead in (
        ("positions", Positions.rotary, "learned"),
        ("norm", Norm.rms, "layer"),
        ("norm", Norm.scalar, "layer"),
        ("norm_position", NormPosition.pre, "post"),
        ("activation", Activation.geglu, "gelu"),
    ):
        if getattr(config, name) is value:
            yield f"model.{name}={value.value}", f"model.{name}={instead}"
    if not config.embedding_norm:
        yield "model.embedding_norm=false", "model.embedding_norm=true"
    if config.head_width * config.n_heads != config.d_model:
        yield (
            f"model.d_head={config.head_width} with model.d_model={config.d_model}",
            "model.d_head=null and a model.n_heads that divides model.d_model",
        )
    if heads.vocabulary and config.activation is Activation.relu:
        yield "model.activation=relu with masked tokens", "model.activation=gelu"
    if heads.sequence_classes is not None and config.pairs is Pairs.separate:
        yield "model.pairs=separate", "model.pairs=joint"
    if heads.sequence_classes is not None and config.pooling in (Pooling.mean, Pooling.max):
        yield f"model.pooling={config.pooling.value}", "model.pooling=pooler"
    if family == "distilbert":
        yield from _beyond_distilbert(config, heads)


def _beyond_distilbert(config: ModelConfig, heads: HeadSizes) -> Iterator[tuple[str, str]]:
    instead = "model.pooling=pooler (which makes it a BERT)"
    if heads.vocabulary and heads.sequence_classes is not None:
        yield "model.pooling=relu_pooler in pretraining on pairs", instead
    if config.segments:
        yield f"model.segments={config.segments}", instead
    if config.norm_epsilon != DISTILBERT_EPSILON:
        yield f"model.norm_epsilon={config.norm_epsilon:g}", instead


def _as_theirs(
    config: ModelConfig, heads: HeadSizes, weights: Mapping[str, Tensor], family: str
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Return the same model with no setting that the family lacks."""
    weights = dict(weights)
    if config.positions is Positions.sinusoidal:
        weights["encoder.embeddings.position.embedding.weight"] = SinusoidalPositions(
            config.reach, config.d_model
        ).table
    if config.scale_embeddings:
        if heads.vocabulary and config.tie_decoder:  # the decoder's are not scaled
            weights[_DECODER], config = weights[_TABLE], replace(config, tie_decoder=False)
        weights[_TABLE] = weights[_TABLE] * math.sqrt(config.d_model)
    if heads.sequence_classes is not None and config.pooling is Pooling.cls:
        config, weights = replace(config, pooling=Pooling.pooler), weights | _straight_pooler(config, weights)
    segments = config.segments
    if not segments and family == "bert":  # its tokenizer distinguishes two texts: by zeros, which have no effect
        segments, weights["encoder.embeddings.segment.weight"] = 2, torch.zeros(2, config.d_model)
    theirs = replace(
        config, positions=Positions.learned, scale_embeddings=False, segments=segments, bias=True, d_head=None
    )
    return theirs, weights


def _straight_pooler(config: ModelConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a pooler that makes the first token's vector small, where tanh is linear, and a head that compensates for
    it.
    """
    return {
        "pool.dense.weight": torch.eye(config.d_model) * STRAIGHT,
        "pool.dense.bias": torch.zeros(config.d_model),
        "sequence_head.weight": weights["sequence_head.weight"].detach().cpu() / STRAIGHT,
    }


def _is_straight(weights: Mapping[str, Tensor]) -> bool:
    """Return whether the pooler is the one that `_straight_pooler` makes."""
    dense, bias = (weights.get(name) for name in _POOL)
    return dense is not None and bool((bias == 0).all()) and torch.equal(dense, torch.eye(len(dense)) * STRAIGHT)


def _without_pooler(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Undo `_straight_pooler`."""
    kept = {name: weight for name, weight in weights.items() if name not in _POOL}
    return kept | {"sequence_head.weight": weights["sequence_head.weight"] * STRAIGHT}
