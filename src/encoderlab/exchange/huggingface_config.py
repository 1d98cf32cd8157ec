"""The config.json of BERT and DistilBERT: as our settings, heads and labels, and written from them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from encoderlab.batch import HeadSizes, TargetKind
from encoderlab.errors import DataError, SettingError
from encoderlab.exchange.huggingface_names import ACTIVATION, SETTINGS, key_and_default
from encoderlab.model.config import Activation, ModelConfig, Pooling

POOLINGS = {"bert": Pooling.pooler, "distilbert": Pooling.relu_pooler}
PREFIXES = {"bert": "Bert", "distilbert": "DistilBert"}
COMMON = ("Model", "ForSequenceClassification", "ForTokenClassification", "ForMaskedLM")
SUFFIXES = {"bert": (*COMMON, "ForPreTraining", "ForNextSentencePrediction"), "distilbert": COMMON}
PAIR_LABELS = ["follows", "random"]  # the classes of BERT's pair head, in the order of its own code
ORDER_LABELS = ["in_order", "swapped"]  # those of our own sentence-order head, as exported
PROBLEM_TYPES: dict[TargetKind, str] = {
    "label": "single_label_classification",
    "label_set": "multi_label_classification",
    "number": "regression",
}
LARGEST_NUMBER = 2**53  # the largest up to which a float is exact; no setting comes near
INITIALIZER_RANGE = 0.02  # what transformers would draw a fresh head with, where our weights were drawn by width


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


def heads_of(fields: dict[str, Any], family: str, found: Mapping[str, Tensor]) -> tuple[HeadSizes, bool]:
    """Return the heads that the weights belong to, and whether the sequence head is for pairs of sentences.

    A `classifier` is of tokens or of sequences as the architecture's name says; if it says neither, of sequences if
    there is a pooler.
    """
    vocabulary = any(name.startswith(("cls.predictions.", "vocab_")) for name in found)
    pair_head = family == "bert" and "cls.seq_relationship.weight" in found
    if not pair_head and "classifier.weight" not in found:
        return HeadSizes(vocabulary=vocabulary), False
    weight = found["cls.seq_relationship.weight" if pair_head else "classifier.weight"]
    classes = weight.shape[0] if weight.ndim else 0
    named = str(fields.get("architectures"))
    of_tokens = "ForTokenClassification" in named
    if not of_tokens and "ForSequenceClassification" not in named:
        of_tokens = not {"bert.pooler.dense.weight", "pre_classifier.weight"} & found.keys()
    if of_tokens and not pair_head:
        return HeadSizes(token_classes=classes), False
    target = "label" if pair_head else _target_of(fields, classes)
    return HeadSizes(sequence_classes=classes, vocabulary=vocabulary, sequence_target=target), pair_head


def _target_of(fields: dict[str, Any], classes: int) -> TargetKind:
    """Return the kind of target of a classifier; without a problem_type, one output means a number, as in transformers."""
    named: dict[str, TargetKind] = {problem_type: target for target, problem_type in PROBLEM_TYPES.items()}
    default: TargetKind = "number" if classes == 1 else "label"
    return named.get(str(fields.get("problem_type")), default)


def settings_of(
    folder: Path, fields: dict[str, Any], family: str, *, tie_decoder: bool
) -> tuple[ModelConfig, int, int]:
    """Return the encoder's settings, the size of its vocabulary, and the id of padding. Raises DataError."""
    values = {row.ours: _number(folder, fields, *key_and_default(row, family)) for row in SETTINGS}
    vocabulary_size = _number(folder, fields, "vocab_size", 30522)
    pad_id = 0 if fields.get("pad_token_id") is None else _number(folder, fields, "pad_token_id", 0)
    if not 0 <= pad_id < vocabulary_size <= 2**31:
        raise DataError(
            f"{folder}: config.json states vocab_size={vocabulary_size} and pad_token_id={pad_id}",
            allowed="an id of the vocabulary for padding",
        )
    activation = Activation(fields.get(ACTIVATION[family], "gelu"))
    try:
        config = ModelConfig(
            name=family, **values, activation=activation, pooling=POOLINGS[family], tie_decoder=tie_decoder
        )
    except SettingError as error:
        raise DataError(f"{folder}: config.json is not supported: {error.wrong}", allowed=error.allowed) from None
    return config, vocabulary_size, pad_id


def labels_of(folder: Path, fields: dict[str, Any], heads: HeadSizes, pair_head: bool) -> list[str]:
    """Return the names of the classes in the order of their ids; [] if no head has classes. Raises DataError."""
    classes = heads.sequence_classes if heads.token_classes is None else heads.token_classes
    if classes is None:
        return []
    if pair_head:
        return _pair_labels(folder, fields, classes)
    if heads.sequence_target == "number":
        if classes != 1:
            raise DataError(f"{folder} has a head with {classes} numbers", allowed="one number")
        return []
    if classes < 2:
        raise DataError(f"{folder} has a head with {classes} class", allowed="two classes or more")
    numbered = [f"LABEL_{number}" for number in range(classes)]
    named = fields.get("id2label") or {str(number): label for number, label in enumerate(numbered)}
    labels: list[Any] = [named.get(str(number)) for number in range(classes)] if isinstance(named, dict) else []
    if len(named) != classes or not all(isinstance(label, str) for label in labels) or len(set(labels)) != classes:
        stated = f"{folder}: config.json states id2label={str(named)[:80]}"
        raise DataError(f"{stated}, but the head has {classes} classes", allowed="a different name for each class")
    return labels


def thresholds_of(fields: dict[str, Any], labels: list[str]) -> dict[str, float] | None:
    """Return the thresholds that our own export records, for every label or for the positive one of two; None if there
    are none.
    """
    named, positive = fields.get("thresholds"), positive_label_of(fields, labels)
    if not isinstance(named, dict) or not all(isinstance(one, int | float) for one in named.values()):
        return None
    return dict(named) if set(named) in (set(labels), {positive}) else None


def positive_label_of(fields: dict[str, Any], labels: list[str]) -> str | None:
    """Return the positive label of two classes that our own export records; None if it records none."""
    named = fields.get("positive_label")
    return named if len(labels) == 2 and named in labels else None


def _pair_labels(folder: Path, fields: dict[str, Any], classes: int) -> list[str]:
    if classes != len(PAIR_LABELS):
        raise DataError(f"{folder} has a head for pairs with {classes} classes", allowed=str(len(PAIR_LABELS)))
    ours = {str(number): label for number, label in enumerate(ORDER_LABELS)}
    return ORDER_LABELS if fields.get("id2label") == ours else PAIR_LABELS


def config_json(
    config: ModelConfig, heads: HeadSizes, family: str, *, labels: list[str], vocabulary_size: int, pad_id: int
) -> dict[str, Any]:
    """Return the content of config.json for an encoder that the family has."""
    fields: dict[str, Any] = {
        "model_type": family,
        "architectures": [PREFIXES[family] + _suffix(heads)],
        "torch_dtype": "float32",
    }
    fields |= {"vocab_size": vocabulary_size, "pad_token_id": pad_id, ACTIVATION[family]: config.activation.value}
    values = {row.ours: getattr(config, row.ours) for row in SETTINGS}
    values |= {"d_ff": config.feed_forward_width, "initializer_range": config.initializer_range or INITIALIZER_RANGE}
    keys = {row.ours: key_and_default(row, family)[0] for row in SETTINGS}
    fields |= {key: values[ours] for ours, key in keys.items() if key is not None}
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
        fields["id2label"], fields["label2id"] = (
            {"0": "LABEL_0"},
            {"LABEL_0": 0},
        )  # transformers counts the outputs by these
    return fields


def _suffix(heads: HeadSizes) -> str:
    if heads.vocabulary:
        return "ForMaskedLM" if heads.sequence_classes is None else "ForPreTraining"
    if heads.token_classes is not None:
        return "ForTokenClassification"
    return "Model" if heads.sequence_classes is None else "ForSequenceClassification"


def _number(folder: Path, fields: dict[str, Any], key: str | None, default: Any) -> Any:
    """Return the value of `key` in config.json, converted to the default's type; the default if there is no such key."""
    value = default if key is None else fields.get(key, default)
    kinds = (int,) if isinstance(default, int) else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or abs(value) > LARGEST_NUMBER:
        kind = "a whole number" if isinstance(default, int) else "a number"
        raise DataError(f"{folder}: config.json has an invalid value: {key}={str(value)[:80]}", allowed=kind)
    return type(default)(value)
