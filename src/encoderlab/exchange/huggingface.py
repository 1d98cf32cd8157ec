"""BERT and DistilBERT of transformers: reads their folders as our encoder, and converts our encoder to their format.

Two tables hold what they call our weights and our settings, and are read in both directions.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from encoderlab.batch import HeadSizes, TargetKind
from encoderlab.errors import DataError, SettingError
from encoderlab.exchange.weights import check_shapes, read_config, read_weights, weight_files
from encoderlab.model.config import Activation, ModelConfig, Norm, NormPosition, Pairs, Pooling, Positions
from encoderlab.model.heads import weight_shapes
from encoderlab.model.layers import SinusoidalPositions

BODY = {  # how the names of a family's encoder begin, in a checkpoint that is an encoder and nothing else
    "bert": ("embeddings.", "encoder.", "pooler."),
    "distilbert": ("embeddings.", "transformer."),
}

# Ours, BERT's and DistilBERT's name of each part, which holds a `weight`, a `bias` or both; None: the family has no
# such part.
IN_A_LAYER = (
    ("attention.query", "attention.self.query", "attention.q_lin"),
    ("attention.key", "attention.self.key", "attention.k_lin"),
    ("attention.value", "attention.self.value", "attention.v_lin"),
    ("attention.output", "attention.output.dense", "attention.out_lin"),
    ("attention_norm", "attention.output.LayerNorm", "sa_layer_norm"),
    ("feed_forward.inner", "intermediate.dense", "ffn.lin1"),
    ("feed_forward.outer", "output.dense", "ffn.lin2"),
    ("feed_forward_norm", "output.LayerNorm", "output_layer_norm"),
)
EMBEDDINGS = (
    ("token", "word_embeddings", "word_embeddings"),
    ("position.embedding", "position_embeddings", "position_embeddings"),
    ("segment", "token_type_embeddings", None),
    ("norm", "LayerNorm", "LayerNorm"),
)
HEADS = (
    ("pool.dense", "bert.pooler.dense", "pre_classifier"),
    ("sequence_head", "classifier", "classifier"),
    ("token_head", "classifier", "classifier"),
    ("masked_token_head.dense", "cls.predictions.transform.dense", "vocab_transform"),
    ("masked_token_head.norm", "cls.predictions.transform.LayerNorm", "vocab_layer_norm"),
    ("masked_token_head.decoder", "cls.predictions.decoder", "vocab_projector"),
    ("masked_token_head", "cls.predictions", "vocab_projector"),  # the bias of each piece
)
PAIR_HEAD = "cls.seq_relationship"  # of BertForPreTraining and BertForNextSentencePrediction
FAMILIES = ("bert", "bert.encoder.layer"), ("distilbert", "distilbert.transformer.layer")  # as the tables' columns
NAMES: dict[str, dict[str, str | None]] = {
    family: {
        **{f"encoder.embeddings.{row[0]}": row[n] and f"{family}.embeddings.{row[n]}" for row in EMBEDDINGS},
        **{f"encoder.layers.*.{row[0]}": f"{layers}.*.{row[n]}" for row in IN_A_LAYER},
        **{row[0]: row[n] for row in HEADS},
    }
    for n, (family, layers) in enumerate(FAMILIES, 1)
}
DISTILBERT_EPSILON = 1e-12  # of all its norms, in its code
# Our settings; the key of each in BERT's and DistilBERT's config.json (None: fixed there), and transformers' default.
_SETTINGS: tuple[Any, ...] = (
    ("n_layers", ("num_hidden_layers", 12), ("n_layers", 6)),
    ("d_model", ("hidden_size", 768), ("dim", 768)),
    ("n_heads", ("num_attention_heads", 12), ("n_heads", 12)),
    ("d_ff", ("intermediate_size", 3072), ("hidden_dim", 3072)),
    ("max_length", ("max_position_embeddings", 512), ("max_position_embeddings", 512)),
    ("segments", ("type_vocab_size", 2), (None, 0)),
    ("norm_epsilon", ("layer_norm_eps", 1e-12), (None, DISTILBERT_EPSILON)),
    ("dropout", ("hidden_dropout_prob", 0.1), ("dropout", 0.1)),
    ("attention_dropout", ("attention_probs_dropout_prob", 0.1), ("attention_dropout", 0.1)),
    ("initializer_range", ("initializer_range", 0.02), ("initializer_range", 0.02)),
)
SETTINGS: dict[str, dict[str, tuple[str | None, Any]]] = {
    family: {row[0]: row[n] for row in _SETTINGS} for n, (family, _) in enumerate(FAMILIES, 1)
}
ACTIVATION = {"bert": "hidden_act", "distilbert": "activation"}
POOLINGS = {"bert": Pooling.pooler, "distilbert": Pooling.relu_pooler}
PREFIXES = {"bert": "Bert", "distilbert": "DistilBert"}
COMMON = ("Model", "ForSequenceClassification", "ForTokenClassification", "ForMaskedLM")
SUFFIXES = {"bert": (*COMMON, "ForPreTraining", "ForNextSentencePrediction"), "distilbert": COMMON}
PAIR_LABELS = ["follows", "random"]  # the classes of BERT's pair head, in the order of its own code
PROBLEM_TYPES: dict[TargetKind, str] = {
    "label": "single_label_classification",
    "label_set": "multi_label_classification",
    "number": "regression",
}
INITIALIZER_RANGE = 0.02  # what transformers would draw a fresh head with, where our weights were drawn by width
_BUFFERS = ("position_ids", "token_type_ids")  # buffers in older checkpoints that nothing reads
STRAIGHT = 2.0**-13  # tanh(STRAIGHT * x) / STRAIGHT is x, to within a millionth where |x| < 14
_POOL = {"pool.dense.weight": 2, "pool.dense.bias": 1}  # names and dimensions
Converted = tuple[ModelConfig, dict[str, Tensor]]  # the settings and weights of a model with the same outputs
_TABLE, _DECODER = "encoder.embeddings.token.weight", "masked_token_head.decoder.weight"


def their_names(family: str, ours: Iterable[str], *, pair_head: bool = False) -> dict[str, str]:
    """Return the family's name of each of our weights; with `pair_head`, the sequence head is for pairs."""
    table = NAMES[family] | ({"sequence_head": PAIR_HEAD} if pair_head else {})
    names = {}
    for name in ours:
        part, _, kind = name.rpartition(".")
        number = re.search(r"\.(\d+)\.", part + ".")
        theirs = table[re.sub(r"\.\d+\b", ".*", part, count=1)]
        assert theirs is not None, f"{name} has no name there"
        names[name] = f"{theirs.replace('*', number.group(1)) if number else theirs}.{kind}"
    return names


def normal_name(family: str, name: str) -> str:
    """Return a weight's name of today: old ones have gamma and beta, those of bare encoders no prefix."""
    name = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))
    return f"{family}.{name}" if name.startswith(BODY[family]) else name


def family_of(folder: Path, fields: dict[str, Any]) -> str:
    """Return "bert" or "distilbert". Raises DataError if `fields` in config.json mean another computation than ours."""
    family = fields.get("model_type")
    if not isinstance(family, str) or family not in PREFIXES:
        raise DataError(f"{folder} has a model of model_type={family}", allowed=", ".join(PREFIXES))
    known = [PREFIXES[family] + suffix for suffix in SUFFIXES[family]]
    named = fields.get("architectures") or known
    if not isinstance(named, list) or not {str(name) for name in named} & set(known):
        raise DataError(f"{folder} has a model of architectures={str(named)[:80]}", allowed=", ".join(known))
    only: dict[str, tuple[Any, ...]] = {
        ACTIVATION[family]: ("gelu", "relu"),
        "position_embedding_type": ("absolute", None),
        "is_decoder": (False, None),
        "add_cross_attention": (False, None),
        "tie_word_embeddings": (True, False),
        "problem_type": (*PROBLEM_TYPES.values(), None),
    }
    for key, allowed in only.items():
        if fields.get(key, allowed[0]) not in allowed:
            choices = " or ".join(str(choice) for choice in allowed if choice is not None)
            raise DataError(f"{folder} has a model with {key}={str(fields[key])[:80]}", allowed=choices)
    return family


def heads_of(fields: dict[str, Any], family: str, stored: Mapping[str, Tensor]) -> tuple[HeadSizes, bool]:
    """Return the heads that the weights belong to, and whether the sequence head is for pairs of sentences.

    A `classifier` is of what the architecture's name says; if it says neither, of sequences if there is a pooler.
    """
    vocabulary = any(name.startswith(("cls.predictions.", "vocab_")) for name in stored)
    pair_head = family == "bert" and "cls.seq_relationship.weight" in stored
    if not pair_head and "classifier.weight" not in stored:
        return HeadSizes(vocabulary=vocabulary), False
    weight = stored["cls.seq_relationship.weight" if pair_head else "classifier.weight"]
    named = str(fields.get("architectures"))
    classes = weight.shape[0] if weight.ndim else 0
    has_pooler = bool({"bert.pooler.dense.weight", "pre_classifier.weight"} & stored.keys())
    of_tokens = "ForTokenClassification" in named or ("ForSequenceClassification" not in named and not has_pooler)
    if of_tokens and not pair_head:
        return HeadSizes(token_classes=classes), False
    targets: dict[str, TargetKind] = {problem_type: target for target, problem_type in PROBLEM_TYPES.items()}
    default: TargetKind = "number" if classes == 1 else "label"  # as in transformers
    target = "label" if pair_head else targets.get(str(fields.get("problem_type")), default)
    return HeadSizes(sequence_classes=classes, vocabulary=vocabulary, sequence_target=target), pair_head


# The parts that an architecture has besides its encoder, by the end of its name.
NAMED_HEADS = {
    "ForSequenceClassification": ("sequence_head",),
    "ForTokenClassification": ("token_head",),
    "ForMaskedLM": ("masked_token_head.dense",),
    "ForPreTraining": ("masked_token_head.dense", PAIR_HEAD),
    "ForNextSentencePrediction": (PAIR_HEAD,),
}


def _refuse_missing_heads(folder: Path, fields: dict[str, Any], family: str, stored: Mapping[str, Tensor]) -> None:
    """Raise DataError if config.json names an architecture whose head is not among the weights.

    transformers would draw such a head at random.
    """
    for architecture in fields.get("architectures") or []:
        suffix = str(architecture).removeprefix(PREFIXES[family])
        for part in NAMED_HEADS.get(suffix, ()):
            weight = f"{NAMES[family].get(part, part)}.weight"
            if weight not in stored:
                wrong = f"{folder} has a model of architectures={architecture}, but its weights lack {weight}"
                remedy = f"Use a complete copy; if only its encoder is needed, name {PREFIXES[family]}Model there"
                raise DataError(wrong, remedy=remedy)


def settings_of(folder: Path, fields: dict[str, Any], family: str, *, tie_decoder: bool) -> tuple[ModelConfig, int]:
    """Return the encoder's settings and the size of its vocabulary. Raises DataError."""
    values = {ours: _number(folder, fields, *theirs) for ours, theirs in SETTINGS[family].items()}
    vocabulary_size = _number(folder, fields, "vocab_size", 30522)
    if not 0 < vocabulary_size <= 2**31:
        raise DataError(f"{folder}: config.json states vocab_size={vocabulary_size}", allowed="1 to 2^31")
    activation = Activation(fields.get(ACTIVATION[family], "gelu"))
    try:
        config = ModelConfig(
            name=family, **values, activation=activation, pooling=POOLINGS[family], tie_decoder=tie_decoder
        )
    except SettingError as error:
        raise DataError(f"{folder}: config.json is not supported: {error.wrong}", allowed=error.allowed) from None
    return config, vocabulary_size


def labels_of(folder: Path, fields: dict[str, Any], heads: HeadSizes, pair_head: bool) -> list[str]:
    """Return the names of the classes in the order of their ids; [] if no head has classes. Raises DataError."""
    classes = heads.sequence_classes if heads.token_classes is None else heads.token_classes
    if classes is None:
        return []
    is_number = heads.sequence_target == "number"
    needed = len(PAIR_LABELS) if pair_head else 1 if is_number else None
    if (classes < 2) if needed is None else (classes != needed):
        raise DataError(f"{folder} has a head with {classes} outputs", allowed=str(needed or "two or more"))
    if needed is not None:
        return [] if is_number else PAIR_LABELS
    named = fields.get("id2label") or {str(number): f"LABEL_{number}" for number in range(classes)}
    labels: list[Any] = [named.get(str(number)) for number in range(classes)] if isinstance(named, dict) else []
    if len(named) != classes or not all(isinstance(label, str) for label in labels) or len(set(labels)) != classes:
        stated = f"{folder}: config.json states id2label={str(named)[:80]}"
        raise DataError(f"{stated}, but the head has {classes} classes", allowed="a different name for each class")
    return labels


def thresholds_of(fields: dict[str, Any], labels: list[str]) -> tuple[dict[str, float] | None, str | None]:
    """Return what our export records, or None: thresholds (of all labels or the positive one), and the positive one."""
    named, positive = fields.get("thresholds"), fields.get("positive_label")
    positive = positive if len(labels) == 2 and positive in labels else None
    if not isinstance(named, dict) or not all(isinstance(one, int | float) for one in named.values()):
        return None, positive
    return named if set(named) in (set(labels), {positive}) else None, positive


def config_json(
    config: ModelConfig, heads: HeadSizes, family: str, *, labels: list[str], vocabulary_size: int, pad_id: int
) -> dict[str, Any]:
    """Return the content of config.json for an encoder that the family has."""
    architecture = PREFIXES[family] + _suffix(heads)
    fields: dict[str, Any] = {"model_type": family, "architectures": [architecture], "torch_dtype": "float32"}
    fields |= {"vocab_size": vocabulary_size, "pad_token_id": pad_id, ACTIVATION[family]: config.activation.value}
    derived = {"d_ff": config.feed_forward_width, "initializer_range": config.initializer_range or INITIALIZER_RANGE}
    keys = {ours: key for ours, (key, _) in SETTINGS[family].items() if key is not None}
    fields |= {key: derived.get(ours, getattr(config, ours)) for ours, key in keys.items()}
    fields["tie_word_embeddings"] = config.tie_decoder or not heads.vocabulary
    if family == "bert":
        fields["position_embedding_type"] = "absolute"
    else:
        fields["seq_classif_dropout"] = config.dropout
    if labels:
        fields["id2label"] = {str(number): label for number, label in enumerate(labels)}
        fields["label2id"] = {label: number for number, label in enumerate(labels)}
    if heads.sequence_classes is not None and not heads.vocabulary:
        fields["problem_type"] = PROBLEM_TYPES[heads.sequence_target]
    if heads.sequence_target == "number":
        fields |= {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}  # transformers counts the outputs by these
    return fields


def _suffix(heads: HeadSizes) -> str:
    if heads.vocabulary:
        return "ForMaskedLM" if heads.sequence_classes is None else "ForPreTraining"
    if heads.token_classes is not None:
        return "ForTokenClassification"
    return "Model" if heads.sequence_classes is None else "ForSequenceClassification"


def _number(folder: Path, fields: dict[str, Any], key: str | None, default: Any) -> Any:
    """Return the value of `key` in config.json, or else the default, as a number of the default's type."""
    value = default if key is None else fields.get(key, default)
    is_number = isinstance(value, int | type(default)) and not isinstance(value, bool)
    if not is_number or abs(value) > 2**53:  # the largest up to which a float is exact; no setting comes near
        kind = "a whole number" if isinstance(default, int) else "a number"
        raise DataError(f"{folder}: config.json has an invalid value: {key}={str(value)[:80]}", allowed=kind)
    return type(default)(value)


@dataclass(frozen=True, slots=True)
class HuggingFaceModel:
    """The content of a transformers folder, in our terms.

    `weights` has the names of `EncoderWithHeads.state_dict()`; if there is no sequence head but the checkpoint has a
    pooler, also `pool.dense.weight` and `pool.dense.bias`, which that model does not have. `labels` are those of a head
    with classes, else [].
    """

    config: ModelConfig
    heads: HeadSizes
    weights: dict[str, Tensor]
    labels: list[str]
    vocabulary_size: int
    thresholds: dict[str, float] | None = None
    positive_label: str | None = None


def read_huggingface(folder: Path) -> HuggingFaceModel:
    """Read a local folder with config.json and safetensors; nothing in it is run.

    The weights determine the heads, and for a `classifier` the architecture's name. Weights become float32. Raises
    DataError for anything that cannot be read as the same model.
    """
    fields = read_config(folder)
    family = family_of(folder, fields)
    stored = _normal_weights(folder, family, tied=fields.get("tie_word_embeddings", True))
    _refuse_missing_heads(folder, fields, family, stored)
    heads, pair_head = heads_of(fields, family, stored)
    labels = labels_of(folder, fields, heads, pair_head)
    tie_decoder = fields.get("tie_word_embeddings", True) and their_names(family, [_DECODER])[_DECODER] not in stored
    config, vocabulary_size = settings_of(folder, fields, family, tie_decoder=tie_decoder)
    if heads.vocabulary and config.activation is not Activation.gelu:
        raise DataError(f"{folder} predicts masked tokens with {config.activation.value}", allowed="gelu")
    pooler = heads.sequence_classes is None and set(their_names(family, _POOL).values()) <= stored.keys()
    required = _shapes(config, vocabulary_size, heads, pooler=pooler)
    names = their_names(family, required, pair_head=pair_head)
    check_shapes(folder, {names[ours]: shape for ours, shape in required.items()}, stored)
    weights = {ours: stored[theirs].float().contiguous() for ours, theirs in names.items()}
    if heads.sequence_classes is not None:
        original = _without_straight_pooler(config, weights) or without_averaging_layer(config, weights)
        config, weights = original or (config, weights)
    return HuggingFaceModel(config, heads, weights, labels, vocabulary_size, *thresholds_of(fields, labels))


def to_huggingface(
    config: ModelConfig,
    heads: HeadSizes,
    weights: Mapping[str, Tensor],
    *,
    labels: list[str],
    vocabulary_size: int,
    pad_id: int,
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the content of config.json, and the weights by their names, of a model with the same logits there.

    DistilBERT if the pooling is DistilBERT's, otherwise BERT. Sinusoidal positions become a table, absent segments a
    table of zeros, absent biases zeros; scaled embeddings are scaled beforehand; CLS without a pooler gets one that
    changes nothing, and a mean becomes a layer (see `add_averaging_layer`). Word dropout, which only training knows, is
    left out. `weights` may have the extra `pool.dense.*` of `HuggingFaceModel`. Raises SettingError, with all reasons,
    if there is no equivalent.
    """
    like_distilbert = config.segments == 0 and config.norm_epsilon == DISTILBERT_EPSILON
    has_its_pooler = config.pooling is Pooling.relu_pooler and (heads.sequence_classes is not None or like_distilbert)
    family = "distilbert" if has_its_pooler else "bert"
    _refuse_what_they_lack(config, heads, family)
    config, weights = _as_theirs(config, heads, weights, family)
    pooler = heads == HeadSizes() and weights.keys() >= _POOL.keys()
    shapes = _shapes(config, vocabulary_size, heads, pooler=pooler)
    learnt = {name for name in shapes if name in weights or not name.endswith(".bias")}
    ours = {name: weights[name] if name in learnt else torch.zeros(shape) for name, shape in shapes.items()}
    names = their_names(family, ours, pair_head=heads.vocabulary)
    theirs = {names[name]: weight.detach().cpu().float().contiguous() for name, weight in ours.items()}
    if family == "bert" and _DECODER in ours:
        theirs["cls.predictions.decoder.bias"] = theirs["cls.predictions.bias"].clone()
    if heads == HeadSizes():
        theirs = {name.removeprefix(f"{family}."): weight for name, weight in theirs.items()}
    fields = config_json(config, heads, family, labels=labels, vocabulary_size=vocabulary_size, pad_id=pad_id)
    return fields, theirs


def _shapes(config: ModelConfig, vocabulary_size: int, heads: HeadSizes, *, pooler: bool) -> dict[str, torch.Size]:
    """Return the names and shapes of a model's weights, found without making it; with `pooler`, a pooler's too."""
    pool = {name: torch.Size([config.d_model] * dimensions) for name, dimensions in _POOL.items()} if pooler else {}
    return weight_shapes(config, vocabulary_size, 0, heads) | pool


def _normal_weights(folder: Path, family: str, *, tied: bool) -> dict[str, Tensor]:
    """Return the weights by the names that transformers gives them today, without duplicates such as a tied decoder.

    As in transformers, a decoder that differs from the embeddings is not tied, whatever config.json says.
    """
    stored: dict[str, Tensor] = {}
    for written, weight in chain.from_iterable(read_weights(file).items() for file in weight_files(folder)):
        name = normal_name(family, written)
        if name.endswith(_BUFFERS):
            continue
        if name in stored:
            raise DataError(f"{folder} has two weights named {name}", remedy="Use another checkpoint")
        stored[name] = weight
    if "cls.predictions.decoder.bias" in stored:
        stored["cls.predictions.bias"] = stored.pop("cls.predictions.decoder.bias")
    table, decoder = their_names(family, [_TABLE, _DECODER]).values()
    if tied and decoder in stored and table in stored and torch.equal(stored[decoder], stored[table]):
        del stored[decoder]
    return stored


def _refuse_what_they_lack(config: ModelConfig, heads: HeadSizes, family: str) -> None:
    """Raise SettingError with every setting that the family has no equivalent of, and what to choose instead."""
    classes, of_pairs = heads.sequence_classes, heads.vocabulary and heads.sequence_classes is not None
    mean, distilbert = config.pooling is Pooling.mean and classes is not None, family == "distilbert"
    relu, head_width = config.activation is Activation.relu, config.head_width
    too_many = mean and not of_pairs and (classes or 0) > config.d_model - UNUSED
    bert = "pooling=pooler (which makes it a BERT)"
    checks = (
        (config.positions is Positions.rotary, "positions=rotary", "positions=learned"),
        (config.norm is not Norm.layer, f"norm={config.norm.value}", "norm=layer"),
        (config.norm_position is NormPosition.pre, "norm_position=pre", "norm_position=post"),
        (config.activation is Activation.geglu, "activation=geglu", "activation=gelu"),
        (not config.embedding_norm, "embedding_norm=false", "embedding_norm=true"),
        (head_width * config.n_heads != config.d_model, f"d_head={head_width}", "d_head=null"),
        (heads.vocabulary and relu, "activation=relu with masked tokens", "activation=gelu"),
        (classes is not None and config.pairs is Pairs.separate, "pairs=separate", "pairs=joint"),
        (mean and of_pairs, "pooling=mean in pretraining on pairs", "pooling=pooler"),
        (too_many, f"pooling=mean with {classes} classes", "pooling=pooler"),
        (distilbert and of_pairs, "pooling=relu_pooler in pretraining on pairs", bert),
        (distilbert and config.segments > 0, f"segments={config.segments}", bert),
        (distilbert and config.norm_epsilon != DISTILBERT_EPSILON, f"norm_epsilon={config.norm_epsilon:g}", bert),
    )
    lacking = {f"model.{setting}": f"model.{instead}" for lacks, setting, instead in checks if lacks}
    if lacking:
        name = "DistilBERT" if distilbert else "BERT"
        raise SettingError(
            f"{name} in transformers has no equivalent of {', '.join(lacking)}",
            remedy=f"Use format=onnx, or train with {', '.join(dict.fromkeys(lacking.values()))}",
        )


def _as_theirs(config: ModelConfig, heads: HeadSizes, weights: Mapping[str, Tensor], family: str) -> Converted:
    """Return the same model with no setting that the family lacks."""
    weights = dict(weights)
    if config.positions is Positions.sinusoidal:
        table = SinusoidalPositions(config.reach, config.d_model).table
        weights["encoder.embeddings.position.embedding.weight"] = table
    if heads.sequence_classes is not None and config.pooling is Pooling.cls:
        config, weights = replace(config, pooling=Pooling.pooler), weights | _straight_pooler(config, weights)
    if heads.sequence_classes is not None and config.pooling is Pooling.mean:
        config, weights = add_averaging_layer(config, weights)
    segments = config.segments
    if not segments and family == "bert":  # its tokenizer distinguishes two texts: by zeros, which have no effect
        segments, weights["encoder.embeddings.segment.weight"] = 2, torch.zeros(2, config.d_model)
    theirs = replace(config, positions=Positions.learned, segments=segments, bias=True, d_head=None)
    return theirs, weights


def _straight_pooler(config: ModelConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a pooler that shrinks the vectors to where tanh is straight, and a head that makes up for it."""
    return {
        "pool.dense.weight": torch.eye(config.d_model) * STRAIGHT,
        "pool.dense.bias": torch.zeros(config.d_model),
        "sequence_head.weight": weights["sequence_head.weight"].detach().cpu() / STRAIGHT,
    }


def _without_straight_pooler(config: ModelConfig, weights: Mapping[str, Tensor]) -> Converted | None:
    """Undo `_straight_pooler`; None if the pooler is another one."""
    dense, bias = (weights[name] for name in _POOL)
    if bias.any() or not torch.equal(dense, torch.eye(len(dense)) * STRAIGHT):
        return None
    kept = {name: weight for name, weight in weights.items() if name not in _POOL}
    kept["sequence_head.weight"] = weights["sequence_head.weight"] * STRAIGHT
    return replace(config, pooling=Pooling.cls), kept


# Mean pooling as one more layer of BERT, so that transformers' own class computes it and no code travels with a model.
# A classifier of BERT's reads the first token alone. A layer whose queries and keys are zero attends to all real tokens
# evenly, so its attention gives every token, the first too, the mean of the values. With the head's weights as values,
# the mean is that of the logits, which are the logits of the mean. What else the layer does must not show:
#
# * The residual connection adds the first token's own vector: the last norm before is scaled down by SMALL, and the
#   values up again.
# * Two norms divide by the vector's deviation: two large constants of opposite sign (ANCHOR) determine it, whatever the
#   logits, and the norms' weights multiply by it again. The mean that they subtract is that of an unused feature, too.
# * The pooler's tanh is straight near zero, where FLAT moves the logits.
#
# Every factor but the norms' is a power of two, so nothing is rounded by them, and what remains changes a logit by
# about 1e-5. The numbers also fit into bfloat16 and float16.
SMALL = 2.0**-16
VALUES, OUTPUT = 2.0**9, 2.0**8  # together they undo SMALL and double the logits
SCALE = SMALL * VALUES * OUTPUT
ANCHOR = 2.0**15
FLAT = 2.0**-14  # tanh(x) is x to within a millionth where |x| < 0.0017: logits below 14
UNUSED = 3  # features without a logit: the two anchors, and one more


def add_averaging_layer(config: ModelConfig, weights: Mapping[str, Tensor]) -> Converted:
    """Return a model with `pooling=pooler` that gives the logits of one with `pooling=mean`, in one layer more."""
    d_model, d_ff = config.d_model, config.feed_forward_width
    head = weights["sequence_head.weight"].detach().cpu().float()
    n_classes, last, new = len(head), f"encoder.layers.{config.n_layers - 1}", f"encoder.layers.{config.n_layers}"
    deviation = ANCHOR * math.sqrt(2 / d_model)
    values, anchors, pooler = torch.zeros(d_model, d_model), torch.zeros(d_model), torch.zeros(d_model, d_model)
    values[:n_classes] = head * VALUES
    anchors[-2:] = torch.tensor([ANCHOR, -ANCHOR])
    pooler[:n_classes, :n_classes] = torch.eye(n_classes) * FLAT
    pooler[:n_classes, -UNUSED] = -FLAT
    shrunk = {
        name: weights[name].detach().cpu() * SMALL
        for name in (f"{last}.feed_forward_norm.weight", f"{last}.feed_forward_norm.bias")
        if name in weights
    }
    added = {
        f"{new}.attention.query.weight": torch.zeros(d_model, d_model),
        f"{new}.attention.key.weight": torch.zeros(d_model, d_model),
        f"{new}.attention.value.weight": values,
        f"{new}.attention.output.weight": torch.eye(d_model) * OUTPUT,
        f"{new}.attention.output.bias": anchors,
        f"{new}.attention_norm.weight": torch.full((d_model,), deviation),
        f"{new}.feed_forward.inner.weight": torch.zeros(d_ff, d_model),
        f"{new}.feed_forward.outer.weight": torch.zeros(d_model, d_ff),
        f"{new}.feed_forward_norm.weight": torch.full((d_model,), deviation),
        "pool.dense.weight": pooler,
        "pool.dense.bias": torch.zeros(d_model),
        "sequence_head.weight": torch.eye(n_classes, d_model) / (SCALE * FLAT),
    }
    theirs = replace(config, n_layers=config.n_layers + 1, d_ff=d_ff, pooling=Pooling.pooler)
    return theirs, {**weights, **shrunk, **added}


def without_averaging_layer(config: ModelConfig, weights: Mapping[str, Tensor]) -> Converted | None:
    """Undo `add_averaging_layer`; None if the last layer is not one."""
    last, before = (f"encoder.layers.{config.n_layers - number}." for number in (1, 2))
    output, head = weights[f"{last}attention.output.weight"], weights["sequence_head.weight"]
    marks = [weights[f"{last}attention.query.weight"], weights[f"{last}feed_forward.inner.weight"]]
    if config.n_layers < 2 or any(mark.any() for mark in marks):
        return None
    if not torch.equal(output, torch.eye(len(output)) * OUTPUT):
        return None
    kept = {name: weight for name, weight in weights.items() if not name.startswith((last, "pool."))}
    for name in (f"{before}feed_forward_norm.weight", f"{before}feed_forward_norm.bias"):
        kept[name] = kept[name] / SMALL
    kept["sequence_head.weight"] = weights[f"{last}attention.value.weight"][: len(head)] / VALUES
    return replace(config, n_layers=config.n_layers - 1, pooling=Pooling.mean), kept
