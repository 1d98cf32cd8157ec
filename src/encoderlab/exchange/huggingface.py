"""Encoders of transformers: reads their folders as our encoder, and converts our encoder to their format.

What a family calls our weights and our settings is in `families`.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from encoderlab.errors import DataError, SettingError
from encoderlab.exchange.config_json import (
    HuggingFaceModel,
    config_json,
    encoder_settings,
    family_format,
    format_for,
    labels_of,
    number_of,
    target_of,
    thresholds_of,
)
from encoderlab.exchange.families import (
    ACTIVATIONS,
    PAIR_HEAD,
    FamilyFormat,
)
from encoderlab.exchange.weights import check_shapes, read_config, weights_in
from encoderlab.network.config import Activation, HeadSizes, ModelConfig, Pairs, Pooling, Positions
from encoderlab.network.heads import weight_shapes
from encoderlab.network.layers import SinusoidalPositions

_BUFFERS = ("position_ids", "token_type_ids")  # buffers in older checkpoints that nothing reads
POOL = {"pool.dense.weight": 2, "pool.dense.bias": 1}  # names and dimensions
_DECODER = "masked_token_head.decoder.weight"


def heads_of(fields: dict[str, Any], family: FamilyFormat, stored: Mapping[str, Tensor]) -> tuple[HeadSizes, bool]:
    """Return the heads that the weights belong to, and whether the sequence head is for pairs of sentences.

    Where heads of sequences and of tokens have the same name, the architecture's name says which it is; if it says
    neither, it is of sequences if there is a pooler.
    """
    names = family.heads
    vocabulary = f"{names['masked_token_head.dense']}.weight" in stored
    if "transform.dense" in names:  # which classifiers have too, under the same name
        vocabulary = vocabulary and f"{names['sequence_head']}.weight" not in stored
    pair_head = family.pair_head is not None and f"{family.pair_head}.weight" in stored
    marks = [family.pair_head] if pair_head else [names["sequence_head"], names["token_head"]]
    heads = [f"{mark}.weight" for mark in marks if f"{mark}.weight" in stored]
    if not heads:
        return HeadSizes(vocabulary=vocabulary), False
    weight = stored[heads[0]]
    classes = weight.shape[0] if weight.ndim else 0
    if names["sequence_head"] == names["token_head"]:
        named = str(fields.get("architectures"))
        poolers = {f"{names.get('pool.dense')}.weight", f"{family.body}.{family.pooler}.weight"}
        classifies_sequences = "ForSequenceClassification" in named or bool(poolers & stored.keys())
        classifies_tokens = "ForTokenClassification" in named or not classifies_sequences
    else:
        classifies_tokens = heads[0] == f"{names['token_head']}.weight"
    if classifies_tokens and not pair_head:
        return HeadSizes(token_classes=classes), False
    target = "label" if pair_head else target_of(fields, classes)
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
        if suffix == "ForPreTraining" and family.pair_head is None:  # another head, which no model of ours has
            continue
        for part in NAMED_HEADS.get(suffix, ()):
            weight = f"{family.heads.get(part, part)}.weight"
            if weight not in stored:
                problem = f"{folder} has a model of architectures={architecture}, but its weights lack {weight}"
                remedy = f"Use a complete copy; if only its encoder is needed, name {family.prefix}Model there"
                raise DataError(problem, remedy=remedy)


def read_huggingface(folder: Path) -> HuggingFaceModel:
    """Read a local folder with config.json and safetensors; nothing in it is run.

    The weights determine the heads, and for a `classifier` the architecture's name. Weights become float32. Raises
    DataError for anything that cannot be read as the same model.
    """
    fields = read_config(folder)
    family = family_format(folder, fields)
    pad_id = number_of(folder, fields, "pad_token_id", family.pad_id) if family.positions_follow_pad else 0
    if not 0 <= pad_id <= 2**31:
        raise DataError(f"{folder}: config.json states pad_token_id={pad_id}", allowed="an id of the vocabulary")
    written = weights_in(folder)
    stored = _normal_weights(folder, family, written, tied=fields.get("tie_word_embeddings", True))
    family.from_theirs(stored, pad_id)
    # all-mpnet-base-v2 and its like were written without a head, and still name the class that training began with.
    if any(name.startswith(f"{family.body}.") for name in written):
        _refuse_missing_heads(folder, fields, family, stored)
    heads, pair_head = heads_of(fields, family, stored)
    labels = labels_of(folder, fields, heads, pair_head)
    untied = f"{family.heads['masked_token_head.decoder']}.weight" in stored
    tie_decoder = fields.get("tie_word_embeddings", True) and not untied
    config, vocabulary_size = encoder_settings(folder, fields, family, pad_id=pad_id, tie_decoder=tie_decoder)
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
        without_pooler = without_shifted_pooler if family.pooling is Pooling.gelu_pooler else without_straight_pooler
        without = without_pooler(config, weights)
        if without is not None:
            config = replace(config, pooling=Pooling.cls)
            weights = without
    if "transform.dense" in family.heads and heads.vocabulary:  # transformers starts classifiers from this head
        for kind in ("dense.weight", "dense.bias", "norm.weight", "norm.bias"):
            if f"masked_token_head.{kind}" in weights:
                weights[f"transform.{kind}"] = weights[f"masked_token_head.{kind}"]
    return HuggingFaceModel(config, heads, weights, labels, vocabulary_size, *thresholds_of(fields, labels))


def _has_pooler(family: FamilyFormat, heads: HeadSizes, stored: Mapping[str, Tensor]) -> bool:
    """Return whether an encoder without a sequence head has a pooler all the same."""
    if "pool.dense" not in family.names_of(heads):
        return False
    return set(family.their_names(POOL, heads).values()) <= stored.keys()


def to_huggingface(model: HuggingFaceModel, pad_id: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the content of config.json, and the weights by their names, of a model with the same logits there.

    DistilBERT if the pooling is DistilBERT's, ELECTRA if it classifies by the first token without a pooler, which gets
    one that changes nothing, otherwise BERT. Sinusoidal positions become a table, absent segments a table of zeros,
    absent biases zeros; scaled embeddings are scaled beforehand. Only ModernBERT has the mean of the tokens. Word
    dropout, which only training knows, is left out. Raises SettingError, with all reasons, if there is no equivalent.
    """
    heads = model.heads
    family = format_for(model.config, heads)
    if model.config.pooling is Pooling.max and heads.sequence_classes is not None:
        remedy = f"Use format=onnx, or train with model.pooling={family.pooling.value}"
        raise SettingError("No classifier in transformers has an equivalent of model.pooling=max", remedy=remedy)
    _refuse_what_they_lack(model.config, heads, family, pad_id)
    model = _as_theirs(model, family)
    weights = model.weights
    pooler = heads == HeadSizes() and weights.keys() >= POOL.keys() and "pool.dense" in family.names_of(heads)
    shapes = _shapes(model.config, model.vocabulary_size, heads, pooler=pooler)
    learnt = {name for name in shapes if name in weights or not name.endswith(".bias")}
    ours = {name: weights[name] if name in learnt else torch.zeros(shape) for name, shape in shapes.items()}
    names = family.their_names(ours, heads, pair_head=heads.vocabulary)
    theirs = {names[name]: weight.detach().cpu().float().contiguous() for name, weight in ours.items()}
    family.to_theirs(theirs, pad_id)
    if _DECODER in ours:
        theirs |= {copy: theirs[original].clone() for copy, original in family.copies.items()}
    if heads == HeadSizes():
        theirs = {name.removeprefix(f"{family.body}."): weight for name, weight in theirs.items()}
    return config_json(model, family, pad_id), theirs


def _shapes(config: ModelConfig, vocabulary_size: int, heads: HeadSizes, *, pooler: bool) -> dict[str, torch.Size]:
    """Return the names and shapes of a model's weights, found without making it; with `pooler`, a pooler's too."""
    pool = {name: torch.Size([config.d_model] * dimensions) for name, dimensions in POOL.items()} if pooler else {}
    return weight_shapes(config, vocabulary_size, 0, heads) | pool


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
    decoder = family.heads["masked_token_head.decoder"]
    bias = family.heads["masked_token_head"]
    if f"{decoder}.bias" in stored:
        stored[f"{bias}.bias"] = stored.pop(f"{decoder}.bias")
    table = f"{family.body}.{family.embeddings['token']}.weight"
    decoder = f"{decoder}.weight"
    if tied and decoder in stored and table in stored and torch.equal(stored[decoder], stored[table]):
        del stored[decoder]
    return stored


def _refuse_what_they_lack(config: ModelConfig, heads: HeadSizes, family: FamilyFormat, pad_id: int) -> None:
    """Raise SettingError with every setting that the family has no equivalent of, and what to choose instead."""
    classes = heads.sequence_classes
    reads_pairs = heads.vocabulary and classes is not None
    head_width = config.head_width
    activation = config.activation.value
    learned = Positions.learned
    names_head = heads.vocabulary and family.head_activation is None and config.activation is not Activation.gelu
    poolings = {family.pooling, *family.further_poolings}
    if reads_pairs:
        poolings.add(Pooling.cls)
    has_segments = config.segments > 0 and "segment" not in family.embeddings
    width = config.embedding_width
    projects = "projection" in family.embeddings
    epsilon_key, only_epsilon = family.settings["norm_epsilon"]
    other_epsilon = epsilon_key is None and config.norm_epsilon != only_epsilon
    as_bert = "pooling=pooler" if family.family is None else "family=null"
    bert = f"{as_bert} (which makes it a BERT)"
    rotates = config.positions is Positions.rotary
    gated = config.activation not in ACTIVATIONS.values()
    checks = [
        (rotates and "positions" not in family.fixed, "positions=rotary", f"positions={learned.value}"),
        *_differing_from_fixed(config, family),
        (gated and "activation" not in family.fixed, f"activation={activation}", "activation=gelu"),
        (width != config.d_model and not projects, f"d_embedding={width}", "d_embedding=null"),
        (head_width * config.n_heads != config.d_model, f"d_head={head_width}", "d_head=null"),
        (names_head, f"activation={activation} with masked tokens", "activation=gelu"),
        (classes is not None and config.pairs is Pairs.separate, "pairs=separate", "pairs=joint"),
        (
            classes is not None and config.pooling not in poolings,
            f"pooling={config.pooling.value}",
            f"pooling={family.pooling.value}",
        ),
        (reads_pairs and family.pair_head is None, f"pooling={config.pooling.value} in pretraining on pairs", bert),
        (has_segments, f"segments={config.segments}", bert),
        (other_epsilon, f"norm_epsilon={config.norm_epsilon:g}", bert),
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


def _differing_from_fixed(config: ModelConfig, family: FamilyFormat) -> list[tuple[bool, str, str]]:
    """Return for each setting that the family fixes, but biases, whether ours is another one, and both as typed."""
    checks = []
    for name, value in family.fixed.items():
        own = getattr(config, name)
        if name != "bias":
            checks.append((own != value, f"{name}={_typed(own)}", f"{name}={_typed(value)}"))
    return checks


def _typed(value: Any) -> str:
    """Return a setting's value as a user types it."""
    return str(getattr(value, "value", value)).lower()


def _as_theirs(model: HuggingFaceModel, family: FamilyFormat) -> HuggingFaceModel:
    """Return the same model with no setting that the family lacks."""
    if family.lacks_biases:  # and has both poolings and no segments: nothing is to be filled in
        return model
    config = model.config
    heads = model.heads
    weights = dict(model.weights)
    if config.positions is Positions.sinusoidal:
        table = SinusoidalPositions(config.reach, config.embedding_width).table
        weights["encoder.embeddings.position.embedding.weight"] = table
    elif config.positions is Positions.none:
        zeros = torch.zeros(config.reach, config.embedding_width)
        weights["encoder.embeddings.position.embedding.weight"] = zeros
    pooling = config.pooling
    if heads.sequence_classes is not None and pooling is Pooling.cls:
        weights |= straight_pooler(config, weights) if heads.vocabulary else shifted_pooler(config, weights)
        pooling = Pooling.pooler if heads.vocabulary else Pooling.gelu_pooler
    segments = config.segments
    if not segments and "segment" in family.embeddings:
        # its tokenizer distinguishes two texts: by zeros, which have no effect
        segments = 2
        weights["encoder.embeddings.segment.weight"] = torch.zeros(segments, config.embedding_width)
    theirs = replace(config, positions=Positions.learned, segments=segments, bias=True, d_head=None, pooling=pooling)
    return HuggingFaceModel(theirs, heads, weights, model.labels, model.vocabulary_size)


# A first token without a pooler, as ELECTRA's head, so that transformers' own class computes it.
#
# That head is a dense layer and a GELU. The dense layer becomes the identity plus a shift that makes every coordinate
# so large that a GELU changes nothing; the classifier's bias takes the shift away again. All weights keep their scale,
# so the model can be quantized and trained further. BERT's head for pairs in pretraining has a tanh instead, so there
# the vectors are shrunk to where that is straight. Both are undone when such a folder is read.

CLASSIFIER = "sequence_head"
IDENTITY_FROM = 6.0  # from here on, gelu(x) is x in float32
STRAIGHT = 2.0**-13  # tanh(STRAIGHT * x) / STRAIGHT is x, to within a millionth where |x| < 14


def shifted_pooler(config: ModelConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights by which a classifier has ELECTRA's pooler in the place of none."""
    shift = _shift(config, weights)
    classifier = weights[f"{CLASSIFIER}.weight"].detach().cpu().float()
    bias = weights.get(f"{CLASSIFIER}.bias", torch.zeros(len(classifier))).detach().cpu().float()
    return {
        "pool.dense.weight": torch.eye(config.d_model),
        "pool.dense.bias": shift,
        f"{CLASSIFIER}.bias": bias - classifier @ shift,
    }


def without_shifted_pooler(config: ModelConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """Return the weights without a `shifted_pooler`; None if the pooler is another one."""
    dense, shift = (weights[name] for name in POOL)
    if not torch.equal(dense, torch.eye(len(dense))) or not torch.equal(shift, _shift(config, weights)):
        return None
    kept = {name: weight for name, weight in weights.items() if name not in POOL}
    kept[f"{CLASSIFIER}.bias"] = weights[f"{CLASSIFIER}.bias"] + weights[f"{CLASSIFIER}.weight"] @ shift
    return kept


def _shift(config: ModelConfig, weights: Mapping[str, Tensor]) -> Tensor:
    """Return for each coordinate of the encoder's output what lifts all its values above `IDENTITY_FROM`, [d_model].

    The last layer ends in a layer norm, whose standardized vector has the length sqrt(d_model), so that none of its
    coordinates is below -sqrt(d_model - 1).
    """
    norm = f"encoder.layers.{config.n_layers - 1}.feed_forward_norm"
    scale = weights[f"{norm}.weight"].detach().cpu().float()
    bias = weights.get(f"{norm}.bias", torch.zeros_like(scale)).detach().cpu().float()
    lowest = bias - scale.abs() * (config.d_model - 1) ** 0.5
    return (IDENTITY_FROM - lowest).relu()


def straight_pooler(config: ModelConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights by which a model of pairs has BERT's pooler in the place of none: the head makes up for its
    small scale.
    """
    return {
        "pool.dense.weight": torch.eye(config.d_model) * STRAIGHT,
        "pool.dense.bias": torch.zeros(config.d_model),
        f"{CLASSIFIER}.weight": weights[f"{CLASSIFIER}.weight"].detach().cpu() / STRAIGHT,
    }


def without_straight_pooler(config: ModelConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
    """Return the weights without a `straight_pooler`; None if the pooler is another one."""
    dense, bias = (weights[name] for name in POOL)
    if bias.any() or not torch.equal(dense, torch.eye(len(dense)) * STRAIGHT):
        return None
    kept = {name: weight for name, weight in weights.items() if name not in POOL}
    kept[f"{CLASSIFIER}.weight"] = weights[f"{CLASSIFIER}.weight"] * STRAIGHT
    return kept
