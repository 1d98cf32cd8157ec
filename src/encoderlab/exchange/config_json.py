"""The config.json of a folder of transformers: read as our settings, and written.

What a family calls our settings is in `families`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from encoderlab.errors import DataError, SettingError
from encoderlab.exchange.families import (
    ACTIVATIONS,
    BERT,
    BY_FAMILY,
    BY_MODEL_TYPE,
    DISTILBERT,
    DISTILBERT_EPSILON,
    ELECTRA,
    FamilyFormat,
)
from encoderlab.network.config import HeadSizes, ModelConfig, Pooling, TargetKind

PAIR_LABELS = ["follows", "random"]  # the classes of BERT's pair head, in the order of its own code
PROBLEM_TYPES: dict[TargetKind, str] = {
    "label": "single_label_classification",
    "label_set": "multi_label_classification",
    "number": "regression",
}
INITIALIZER_RANGE = 0.02  # what transformers would draw a fresh head with, where our weights were drawn by width


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


def family_format(folder: Path, fields: dict[str, Any]) -> FamilyFormat:
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


def encoder_settings(
    folder: Path, fields: dict[str, Any], family: FamilyFormat, *, pad_id: int, tie_decoder: bool
) -> tuple[ModelConfig, int]:
    """Return the encoder's settings and the size of its vocabulary. Raises DataError."""
    values = {ours: number_of(folder, fields, *theirs) for ours, theirs in family.settings.items()}
    values |= family.further_settings(folder, fields, values["n_layers"])
    values["max_length"] -= family.first_position(pad_id)
    vocabulary_size = number_of(folder, fields, "vocab_size", 30522)
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


def number_of(folder: Path, fields: dict[str, Any], key: str | None, default: Any) -> Any:
    """Return the value of `key` in config.json, or else the default, as a number of the default's type."""
    value = default if key is None else fields.get(key, default)
    is_number = isinstance(value, int | type(default)) and not isinstance(value, bool)
    if not is_number or abs(value) > 2**53:  # the largest up to which a float is exact; no setting comes near
        kind = "a whole number" if isinstance(default, int) else "a number"
        raise DataError(f"{folder}: config.json has an invalid value: {key}={str(value)[:80]}", allowed=kind)
    return type(default)(value)


def labels_of(folder: Path, fields: dict[str, Any], heads: HeadSizes, pair_head: bool) -> list[str]:
    """Return the names of the classes in the order of their ids; [] if no head has classes. Raises DataError."""
    classes = heads.sequence_classes if heads.token_classes is None else heads.token_classes
    if classes is None:
        return []
    is_number = heads.sequence_target == "number"
    needed = None
    if pair_head:
        needed = len(PAIR_LABELS)
    elif is_number:
        needed = 1
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


def target_of(fields: dict[str, Any], classes: int) -> TargetKind:
    """Return the kind of target of a classifier with so many outputs, as transformers decides it."""
    targets: dict[str, TargetKind] = {problem_type: target for target, problem_type in PROBLEM_TYPES.items()}
    default: TargetKind = "number" if classes == 1 else "label"
    return targets.get(str(fields.get("problem_type")), default)


def thresholds_of(fields: dict[str, Any], labels: list[str]) -> tuple[dict[str, float] | None, str | None]:
    """Return what our export records, or None: the thresholds of labels, and which of two is the positive one."""
    named = fields.get("thresholds")
    positive = fields.get("positive_label")
    positive = positive if len(labels) == 2 and positive in labels else None
    if not isinstance(named, dict) or not all(isinstance(one, int | float) for one in named.values()):
        return None, positive
    is_set = fields.get("problem_type") == PROBLEM_TYPES["label_set"]  # in which each label has one
    fits = set(named) == set(labels) if is_set else set(named) <= set(labels)
    return {label: float(value) for label, value in named.items()} if fits else None, positive


def format_for(config: ModelConfig, heads: HeadSizes) -> FamilyFormat:
    """Return the format that an encoder is exported to."""
    if config.family is not None:
        return BY_FAMILY[config.family]
    if config.pooling is Pooling.cls and heads.judges_texts:
        return ELECTRA
    like_distilbert = config.segments == 0 and config.norm_epsilon == DISTILBERT_EPSILON
    has_its_pooler = config.pooling is Pooling.relu_pooler and (heads.sequence_classes is not None or like_distilbert)
    return DISTILBERT if has_its_pooler else BERT


def config_json(model: HuggingFaceModel, family: FamilyFormat, pad_id: int) -> dict[str, Any]:
    """Return the content of config.json for a model that the family has."""
    config = model.config
    heads = model.heads
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    fields: dict[str, Any] = {
        "model_type": family.model_type,
        "architectures": [family.prefix + _suffix(heads)],
        "torch_dtype": "float32",
        "vocab_size": model.vocabulary_size,
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
    fields |= family.write_further(config)
    if model.labels:
        fields["id2label"] = {str(number): label for number, label in enumerate(model.labels)}
        fields["label2id"] = {label: number for number, label in enumerate(model.labels)}
    if heads.judges_texts:
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


def graph_config(model: HuggingFaceModel, pad_id: int, *, is_int8: bool) -> dict[str, Any]:
    """Return the content of config.json for the ONNX graph of a model, in 8 bits or in 32.

    By it transformers.js and optimum know what to do with the graph's outputs: they read the sizes and labels from it,
    and run the graph, whatever it computes. A model that no class of transformers computes is therefore called a BERT.
    """
    family = format_for(model.config, model.heads)
    fields = config_json(model, family, pad_id)
    if model.heads.vocabulary:  # transformers.js has no class for masked tokens and pairs together
        fields["architectures"] = [f"{family.prefix}ForMaskedLM"]
    # the file it loads where a program does not choose: without, a browser looks for one in 8 bits, Node in 32
    fields["transformers.js_config"] = {"dtype": "q8" if is_int8 else "fp32"}
    return fields
