"""Encoders of transformers: reads their folders as our encoder, and converts our encoder to their format.

What a family calls our weights and our settings is in `families`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from encoderlab.errors import DataError, SettingError
from encoderlab.exchange import modernbert
from encoderlab.exchange.families import (
    ACTIVATIONS,
    BERT,
    BY_FAMILY,
    BY_MODEL_TYPE,
    DISTILBERT,
    DISTILBERT_EPSILON,
    ELECTRA,
    MODERNBERT,
    PAIR_HEAD,
    FamilyFormat,
)
from encoderlab.exchange.pooling import (
    POOL,
    Converted,
    with_shifted_pooler,
    with_straight_pooler,
    without_shifted_pooler,
    without_straight_pooler,
)
from encoderlab.exchange.weights import check_shapes, read_config, read_weights, weight_files
from encoderlab.model.config import Activation, HeadSizes, ModelConfig, Pairs, Pooling, Positions, TargetKind
from encoderlab.model.heads import weight_shapes
from encoderlab.model.layers import SinusoidalPositions

PAIR_LABELS = ["follows", "random"]  # the classes of BERT's pair head, in the order of its own code
PROBLEM_TYPES: dict[TargetKind, str] = {
    "label": "single_label_classification",
    "label_set": "multi_label_classification",
    "number": "regression",
}
INITIALIZER_RANGE = 0.02  # what transformers would draw a fresh head with, where our weights were drawn by width
_BUFFERS = ("position_ids", "token_type_ids")  # buffers in older checkpoints that nothing reads
_TABLE, _DECODER = "encoder.embeddings.token.weight", "masked_token_head.decoder.weight"


def format_of(folder: Path, fields: dict[str, Any]) -> FamilyFormat:
    """Return the format of a folder's family. Raises DataError if `fields` in config.json mean another computation."""
    family = BY_MODEL_TYPE.get(str(fields.get("model_type")))
    if family is None:
        raise DataError(
            f"{folder} has a model of model_type={str(fields.get('model_type'))[:80]}", allowed=", ".join(BY_MODEL_TYPE)
        )
    known = [family.prefix + suffix for suffix in family.architectures]
    named = fields.get("architectures") or known
    if not isinstance(named, list) or not {str(name) for name in named} & set(known):
        raise DataError(f"{folder} has a model of architectures={str(named)[:80]}", allowed=", ".join(known))
    only: dict[str, tuple[Any, ...]] = {
        family.activation: ("gelu", *ACTIVATIONS),
        "position_embedding_type": ("absolute", None),
        "is_decoder": (False, None),
        "add_cross_attention": (False, None),
        "tie_word_embeddings": (True, False),
        "problem_type": (*PROBLEM_TYPES.values(), None),
        **family.requires,
    }
    for key, allowed in only.items():
        if fields.get(key, allowed[0]) not in allowed:
            choices = " or ".join(dict.fromkeys(str(choice) for choice in allowed if choice is not None))
            raise DataError(f"{folder} has a model with {key}={str(fields[key])[:80]}", allowed=choices)
    return family


def heads_of(fields: dict[str, Any], family: FamilyFormat, stored: Mapping[str, Tensor]) -> tuple[HeadSizes, bool]:
    """Return the heads that the weights belong to, and whether the sequence head is for pairs of sentences.

    Where heads of sequences and of tokens have the same name, the architecture's name says which it is; if it says
    neither, it is of sequences if there is a pooler.
    """
    names = family.heads
    vocabulary = f"{names['masked_token_head.dense']}.weight" in stored
    if "transform.dense" in names:  # which classifiers have too, under the same name
        vocabulary = vocabulary and f"{names['sequence_head']}.weight" not in stored
    pair_head = family is BERT and f"{PAIR_HEAD}.weight" in stored
    marks = [PAIR_HEAD] if pair_head else [names["sequence_head"], names["token_head"]]
    heads = [f"{mark}.weight" for mark in marks if f"{mark}.weight" in stored]
    if not heads:
        return HeadSizes(vocabulary=vocabulary), False
    weight = stored[heads[0]]
    classes = weight.shape[0] if weight.ndim else 0
    if names["sequence_head"] == names["token_head"]:
        named = str(fields.get("architectures"))
        poolers = {f"{names.get('pool.dense')}.weight", f"{family.body}.{family.pooler}.weight"}
        of_sequences = "ForSequenceClassification" in named or bool(poolers & stored.keys())
        of_tokens = "ForTokenClassification" in named or not of_sequences
    else:
        of_tokens = heads[0] == f"{names['token_head']}.weight"
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


def _refuse_missing_heads(
    folder: Path, fields: dict[str, Any], family: FamilyFormat, stored: Mapping[str, Tensor]
) -> None:
    """Raise DataError if config.json names an architecture whose head is not among the weights.

    transformers would draw such a head at random.
    """
    for architecture in fields.get("architectures") or []:
        suffix = str(architecture).removeprefix(family.prefix)
        if suffix == "ForPreTraining" and family is not BERT:  # another head, which no model of ours has
            continue
        for part in NAMED_HEADS.get(suffix, ()):
            weight = f"{family.heads.get(part, part)}.weight"
            if weight not in stored:
                problem = f"{folder} has a model of architectures={architecture}, but its weights lack {weight}"
                remedy = f"Use a complete copy; if only its encoder is needed, name {family.prefix}Model there"
                raise DataError(problem, remedy=remedy)


def settings_of(
    folder: Path, fields: dict[str, Any], family: FamilyFormat, *, pad_id: int, tie_decoder: bool
) -> tuple[ModelConfig, int]:
    """Return the encoder's settings and the size of its vocabulary. Raises DataError."""
    values = {ours: _number(folder, fields, *theirs) for ours, theirs in family.settings.items()}
    if family is MODERNBERT:
        values |= modernbert.settings_from(folder, fields, values["n_layers"])
    else:
        values["activation"] = ACTIVATIONS[fields.get(family.activation, "gelu")]
    values["max_length"] -= family.first_position(pad_id)
    vocabulary_size = _number(folder, fields, "vocab_size", 30522)
    if not 0 < vocabulary_size <= 2**31:
        raise DataError(f"{folder}: config.json states vocab_size={vocabulary_size}", allowed="1 to 2^31")
    named = {
        "name": family.model_type,
        "family": family.family,
        "pooling": family.pooling,
        "tie_decoder": tie_decoder,
    }
    try:
        config = ModelConfig(**{**named, **family.fixed, **values})
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
    config: ModelConfig, heads: HeadSizes, family: FamilyFormat, *, labels: list[str], vocabulary_size: int, pad_id: int
) -> dict[str, Any]:
    """Return the content of config.json for an encoder that the family has."""
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    fields: dict[str, Any] = {
        "model_type": family.model_type,
        "architectures": [family.prefix + _suffix(heads)],
        "torch_dtype": "float32",
        "vocab_size": vocabulary_size,
        "pad_token_id": pad_id,
        family.activation: names.get(config.activation, "gelu"),
    }
    derived = {
        "d_ff": config.feed_forward_width,
        "d_embedding": config.embedding_width,
        "initializer_range": config.initializer_range or INITIALIZER_RANGE,
        "max_length": config.reach + family.first_position(pad_id),
    }
    keys = {ours: key for ours, (key, _) in family.settings.items() if key is not None}
    fields |= {key: derived.get(ours, getattr(config, ours)) for ours, key in keys.items()}
    fields["tie_word_embeddings"] = config.tie_decoder or not heads.vocabulary
    fields |= {key: allowed[0] for key, allowed in family.requires.items()}
    if family is MODERNBERT:
        fields |= modernbert.fields_of(config)
    if family.one_segment:
        fields["type_vocab_size"] = 1
    if family is BERT:
        fields["position_embedding_type"] = "absolute"
    if family is DISTILBERT:
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
    family = format_of(folder, fields)
    pad_id = _number(folder, fields, "pad_token_id", family.pad_id) if family.positions_follow_pad else 0
    if not 0 <= pad_id <= 2**31:
        raise DataError(f"{folder}: config.json states pad_token_id={pad_id}", allowed="an id of the vocabulary")
    written = _written_weights(folder)
    stored = _normal_weights(folder, family, written, tied=fields.get("tie_word_embeddings", True))
    family.from_theirs(stored, pad_id)
    # all-mpnet-base-v2 and its like were written without a head, and still name the class that training began with.
    if any(name.startswith(f"{family.body}.") for name in written):
        _refuse_missing_heads(folder, fields, family, stored)
    heads, pair_head = heads_of(fields, family, stored)
    labels = labels_of(folder, fields, heads, pair_head)
    untied = f"{family.heads['masked_token_head.decoder']}.weight" in stored
    tie_decoder = fields.get("tie_word_embeddings", True) and not untied
    config, vocabulary_size = settings_of(folder, fields, family, pad_id=pad_id, tie_decoder=tie_decoder)
    head_activation = fields.get(family.activation, "gelu") if family.head_activation is None else "gelu"
    if heads.vocabulary and ACTIVATIONS[head_activation] is not Activation.gelu:
        raise DataError(f"{folder} predicts masked tokens with {head_activation}", allowed="gelu")
    pooler = heads.sequence_classes is None and _has_pooler(family, heads, stored)
    required = _shapes(config, vocabulary_size, heads, pooler=pooler)
    names = family.their_names(required, heads, pair_head=pair_head)
    if family.lacks_biases:
        absent = {name: ours for ours, name in names.items() if name.endswith(".bias") and name not in stored}
        stored |= {name: torch.zeros(required[ours]) for name, ours in absent.items()}
    check_shapes(folder, {names[ours]: shape for ours, shape in required.items()}, stored)
    weights = {ours: stored[theirs].float().contiguous() for ours, theirs in names.items()}
    if heads.sequence_classes is not None and "pool.dense.weight" in weights:
        without_pooler = without_shifted_pooler if family is ELECTRA else without_straight_pooler
        config, weights = without_pooler(config, weights) or (config, weights)
    if family is MODERNBERT and heads.vocabulary:  # transformers starts classifiers from this head
        for kind in ("dense.weight", "dense.bias", "norm.weight", "norm.bias"):
            if f"masked_token_head.{kind}" in weights:
                weights[f"transform.{kind}"] = weights[f"masked_token_head.{kind}"]
    return HuggingFaceModel(config, heads, weights, labels, vocabulary_size, *thresholds_of(fields, labels))


def _has_pooler(family: FamilyFormat, heads: HeadSizes, stored: Mapping[str, Tensor]) -> bool:
    """Return whether an encoder without a sequence head has a pooler all the same."""
    if "pool.dense" not in family.names_of(heads):
        return False
    return set(family.their_names(POOL, heads).values()) <= stored.keys()


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

    DistilBERT if the pooling is DistilBERT's, ELECTRA if it classifies by the first token without a pooler, which gets
    one that changes nothing, otherwise BERT. Sinusoidal positions become a table, absent segments a table of zeros,
    absent biases zeros; scaled embeddings are scaled beforehand. Only ModernBERT has the mean of the tokens. Word
    dropout, which only training knows, is left out. `weights` may have the extra `pool.dense.*` of `HuggingFaceModel`.
    Raises SettingError, with all reasons, if there is no equivalent.
    """
    family = format_for(config, heads)
    if config.pooling is Pooling.max and heads.sequence_classes is not None:
        remedy = f"Use format=onnx, or train with model.pooling={family.pooling.value}"
        raise SettingError("No classifier in transformers has an equivalent of model.pooling=max", remedy=remedy)
    _refuse_what_they_lack(config, heads, family, pad_id)
    config, weights = _as_theirs(config, heads, weights, family)
    pooler = heads == HeadSizes() and weights.keys() >= POOL.keys() and "pool.dense" in family.names_of(heads)
    shapes = _shapes(config, vocabulary_size, heads, pooler=pooler)
    learnt = {name for name in shapes if name in weights or not name.endswith(".bias")}
    ours = {name: weights[name] if name in learnt else torch.zeros(shape) for name, shape in shapes.items()}
    names = family.their_names(ours, heads, pair_head=heads.vocabulary)
    theirs = {names[name]: weight.detach().cpu().float().contiguous() for name, weight in ours.items()}
    family.to_theirs(theirs, pad_id)
    if family is BERT and _DECODER in ours:
        theirs["cls.predictions.decoder.bias"] = theirs["cls.predictions.bias"].clone()
    if heads == HeadSizes():
        theirs = {name.removeprefix(f"{family.body}."): weight for name, weight in theirs.items()}
    fields = config_json(config, heads, family, labels=labels, vocabulary_size=vocabulary_size, pad_id=pad_id)
    return fields, theirs


def format_for(config: ModelConfig, heads: HeadSizes) -> FamilyFormat:
    """Return the format that an encoder is exported to."""
    if config.family is not None:
        return BY_FAMILY[config.family]
    classifies = heads.sequence_classes is not None
    if config.pooling is Pooling.cls and classifies and not heads.vocabulary:
        return ELECTRA
    like_distilbert = config.segments == 0 and config.norm_epsilon == DISTILBERT_EPSILON
    has_its_pooler = config.pooling is Pooling.relu_pooler and (classifies or like_distilbert)
    return DISTILBERT if has_its_pooler else BERT


def _shapes(config: ModelConfig, vocabulary_size: int, heads: HeadSizes, *, pooler: bool) -> dict[str, torch.Size]:
    """Return the names and shapes of a model's weights, found without making it; with `pooler`, a pooler's too."""
    pool = {name: torch.Size([config.d_model] * dimensions) for name, dimensions in POOL.items()} if pooler else {}
    return weight_shapes(config, vocabulary_size, 0, heads) | pool


def _written_weights(folder: Path) -> dict[str, Tensor]:
    """Return all weights of the folder by their names. Raises DataError if two have the same."""
    weights: dict[str, Tensor] = {}
    for file in weight_files(folder):
        for name, weight in read_weights(file).items():
            if name in weights:
                raise DataError(f"{folder} has two weights named {name}", remedy="Use another checkpoint")
            weights[name] = weight
    return weights


def _normal_weights(
    folder: Path, family: FamilyFormat, written: Mapping[str, Tensor], *, tied: bool
) -> dict[str, Tensor]:
    """Return the weights by the names that transformers gives them today, without duplicates such as a tied decoder.

    As in transformers, a decoder that differs from the embeddings is not tied, whatever config.json says.
    """
    stored: dict[str, Tensor] = {}
    for name_in_file, weight in written.items():
        name = family.normal_name(name_in_file)
        if name.endswith(_BUFFERS) or name.startswith(family.unused):
            continue
        if name in stored:
            raise DataError(f"{folder} has two weights named {name}", remedy="Use another checkpoint")
        stored[name] = weight
    decoder, bias = (family.heads[part] for part in ("masked_token_head.decoder", "masked_token_head"))
    if f"{decoder}.bias" in stored:
        stored[f"{bias}.bias"] = stored.pop(f"{decoder}.bias")
    table, decoder = f"{family.body}.{family.embeddings['token']}.weight", f"{decoder}.weight"
    if tied and decoder in stored and table in stored and torch.equal(stored[decoder], stored[table]):
        del stored[decoder]
    return stored


def _refuse_what_they_lack(config: ModelConfig, heads: HeadSizes, family: FamilyFormat, pad_id: int) -> None:
    """Raise SettingError with every setting that the family has no equivalent of, and what to choose instead."""
    classes, of_pairs = heads.sequence_classes, heads.vocabulary and heads.sequence_classes is not None
    distilbert = family is DISTILBERT
    head_width, activation, learned = config.head_width, config.activation.value, Positions.learned
    modern = family is MODERNBERT
    names_head = heads.vocabulary and family.head_activation is None and config.activation is not Activation.gelu
    poolings = {family.pooling}
    if modern:
        poolings |= {Pooling.cls, Pooling.mean}
    if family is ELECTRA or of_pairs:
        poolings.add(Pooling.cls)
    has_segments = config.segments > 0 and "segment" not in family.embeddings
    width, projects = config.embedding_width, "projection" in family.embeddings
    bert = "pooling=pooler (which makes it a BERT)"
    rotates, gated = config.positions is Positions.rotary, config.activation not in ACTIVATIONS.values()
    checks = [
        (rotates and not modern, "positions=rotary", f"positions={learned.value}"),
        *(
            (getattr(config, name) != value, f"{name}={_typed(getattr(config, name))}", f"{name}={_typed(value)}")
            for name, value in family.fixed.items()
            if name != "bias"
        ),
        (gated and not modern, f"activation={activation}", "activation=gelu"),
        (width != config.d_model and not projects, f"d_embedding={width}", "d_embedding=null"),
        (head_width * config.n_heads != config.d_model, f"d_head={head_width}", "d_head=null"),
        (names_head, f"activation={activation} with masked tokens", "activation=gelu"),
        (classes is not None and config.pairs is Pairs.separate, "pairs=separate", "pairs=joint"),
        (
            classes is not None and config.pooling not in poolings,
            f"pooling={config.pooling.value}",
            f"pooling={family.pooling.value}",
        ),
        (distilbert and of_pairs, "pooling=relu_pooler in pretraining on pairs", bert),
        (distilbert and has_segments, f"segments={config.segments}", bert),
        (distilbert and config.norm_epsilon != DISTILBERT_EPSILON, f"norm_epsilon={config.norm_epsilon:g}", bert),
    ]
    if family.family is not None:
        as_bert = "family=null (which makes it a BERT)"
        checks += [
            (has_segments, f"segments={config.segments}", as_bert),
            (of_pairs, "pretraining on pairs", as_bert),
        ]
    pad_ids = family.requires.get("pad_token_id")
    if pad_ids is not None and pad_id not in pad_ids:
        problem = (
            f"{family.prefix} in transformers has padding with the id {pad_ids[0]}, but the tokenizer's is {pad_id}"
        )
        raise SettingError(problem, remedy="Use format=onnx, or train with tokenizer=as_pretrained")
    lacking = {f"model.{setting}": f"model.{instead}" for lacks, setting, instead in checks if lacks}
    if lacking:
        raise SettingError(
            f"{family.prefix.replace('Bert', 'BERT')} in transformers has no equivalent of {', '.join(lacking)}",
            remedy=f"Use format=onnx, or train with {', '.join(dict.fromkeys(lacking.values()))}",
        )


def _typed(value: Any) -> str:
    """Return a setting's value as a user types it."""
    return str(getattr(value, "value", value)).lower()


def _as_theirs(config: ModelConfig, heads: HeadSizes, weights: Mapping[str, Tensor], family: FamilyFormat) -> Converted:
    """Return the same model with no setting that the family lacks."""
    weights = dict(weights)
    if family is MODERNBERT:  # which has both poolings, and no segments or biases to fill in
        return config, weights
    if config.positions is Positions.sinusoidal:
        table = SinusoidalPositions(config.reach, config.embedding_width).table
        weights["encoder.embeddings.position.embedding.weight"] = table
    if heads.sequence_classes is not None and config.pooling is Pooling.cls:
        with_pooler = with_straight_pooler if heads.vocabulary else with_shifted_pooler
        config, weights = with_pooler(config, weights)
    segments = config.segments
    if not segments and "segment" in family.embeddings:
        # its tokenizer distinguishes two texts: by zeros, which have no effect
        segments, weights["encoder.embeddings.segment.weight"] = 2, torch.zeros(2, config.embedding_width)
    theirs = replace(config, positions=Positions.learned, segments=segments, bias=True, d_head=None)
    return theirs, weights
