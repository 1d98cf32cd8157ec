"""Models of transformers whose encoder ours cannot be: reads their folders, and writes folders that they open.

Their encoders stay as they are (`network/transformers_encoder.py`). A head of theirs is read, and ours written, only if
the other computes the same, which is tried. No code of a folder is run, and no weight that is used is drawn at random.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from encoderlab.batch import Batch, Prediction
from encoderlab.errors import DataError, SettingError, one_line
from encoderlab.exchange.config_json import PROBLEM_TYPES, HuggingFaceModel, labels_of, target_of, thresholds_of
from encoderlab.exchange.families import BY_MODEL_TYPE
from encoderlab.exchange.huggingface import POOL, read_huggingface, to_huggingface
from encoderlab.exchange.weights import read_config, weights_in
from encoderlab.network.config import HeadSizes, Pairs, Pooling, TransformersConfig, check_sizes
from encoderlab.network.heads import EncoderWithHeads, without_weights
from encoderlab.network.layers import NothingDrawn
from encoderlab.network.transformers_encoder import n_segments, reach, stack, transformers_config, without_code

# How the classifiers of a type pool, where ours can; others start with the mean.
BY_TANH = ("albert", "data2vec-text", "ernie", "esm", "esmc", "gte", "ibert", "jina_embeddings_v3", "layoutlm")
BY_TANH += ("longformer", "luke", "megatron-bert", "mobilebert", "nomic_bert", "rembert", "roberta-prelayernorm")
BY_TANH += ("roc_bert", "squeezebert", "xlm-roberta-xl")
BY_GELU = ("deberta", "deberta-v2", "roformer")
POOLINGS: dict[str, Pooling] = {
    **dict.fromkeys(BY_TANH, Pooling.pooler),
    **dict.fromkeys(BY_GELU, Pooling.gelu_pooler),
}
# Fields of config.json that do not belong to the encoder, or choose what it returns.
LEFT_OUT = {
    "architectures",
    "chunk_size_feed_forward",
    "dtype",
    "fusion_config",
    "id2label",
    "label2id",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "problem_type",
    "return_dict",
    "task_specific_params",
    "torch_dtype",
    "torchscript",
    "transformers_version",
}
ENCODER = "encoder.model."  # how the names of our weights of such an encoder begin
OF_TEXTS = "ForSequenceClassification"  # how the names of their classes end, by the head
OF_TOKENS = "ForTokenClassification"
NO_HEAD = "Model"
TOLERANCE = 1e-4  # between what ours and theirs compute, relative to the largest number


def read_folder(folder: Path) -> HuggingFaceModel:
    """Read a folder of transformers: as our own encoder if it is of a family that ours can be.

    Raises DataError for anything that cannot be read as the same model.
    """
    is_ours = str(read_config(folder).get("model_type")) in BY_MODEL_TYPE
    return read_huggingface(folder) if is_ours else read_transformers(folder)


def read_transformers(folder: Path) -> HuggingFaceModel:
    """Read a folder with config.json and safetensors as an encoder of transformers, and its head if ours can be it.

    Raises DataError for a model that is no encoder of texts, or incomplete.
    """
    fields = read_config(folder)
    _check_type(folder, fields)
    stored = weights_in(folder)
    architecture = str((fields.get("architectures") or [NO_HEAD])[0])
    suffix = next((suffix for suffix in (OF_TEXTS, OF_TOKENS) if architecture.endswith(suffix)), NO_HEAD)
    theirs, lacks_pooler = _loaded(folder, fields, suffix, stored)
    base = theirs.base_model
    config = _settings_of(folder, fields, base)

    # The encoder alone: does it do what is expected of an encoder?
    heads = HeadSizes()
    labels: list[str] = []
    weights = {f"{ENCODER}{name}": weight for name, weight in base.state_dict().items() if not _of_pooler(name)}
    network = _network(config, heads, weights)
    _check_vectors(folder, base, network)
    n_tokens = len(network.encoder.token_table)

    # A head that is trained, if ours computes the same.
    if suffix != NO_HEAD:
        classifier_heads = _head_sizes(fields, theirs, suffix)
        names = _names(theirs, without_weights(config, n_tokens, 0, classifier_heads))
        own = theirs.state_dict()
        with_head = {ours: own[name] for ours, name in names.items()}
        if names and _difference(theirs, _network(config, classifier_heads, with_head)) <= TOLERANCE:
            heads = classifier_heads
            weights = with_head
            labels = labels_of(folder, fields, heads, pair_head=False)
    if heads == HeadSizes() and not lacks_pooler:
        weights = weights | _pooler(base)
    return HuggingFaceModel(config, heads, weights, labels, n_tokens, *thresholds_of(fields, labels))


def to_folder(model: HuggingFaceModel, pad_id: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the content of config.json, and the weights by their names, of a folder that transformers opens.

    Raises SettingError if none of its models computes the same.
    """
    if isinstance(model.config, TransformersConfig):
        return to_transformers(model, model.config)
    return to_huggingface(model, pad_id)


def to_transformers(model: HuggingFaceModel, config: TransformersConfig) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the content of config.json, and the weights by their names, of a model of the encoder's own type, which
    `config` states, with the same logits.

    Raises SettingError if its classifiers have another head.
    """
    heads = model.heads
    weights = model.weights
    fields = config.transformers | {"dtype": "float32"}
    if config.segments:
        fields["type_vocab_size"] = config.segments
    suffix = NO_HEAD
    classes = heads.sequence_classes
    if classes is not None:
        suffix = OF_TEXTS
    elif heads.token_classes is not None:
        suffix = OF_TOKENS
        classes = heads.token_classes
    named = model.labels or [f"LABEL_{number}" for number in range(classes or 0)]
    if named:
        fields["id2label"] = {str(number): label for number, label in enumerate(named)}
        fields["label2id"] = {label: number for number, label in enumerate(named)}
    if suffix == OF_TEXTS:
        fields["problem_type"] = PROBLEM_TYPES[heads.sequence_target]

    # Its own class must have places for our weights, and compute the same from them.
    theirs = _built(fields, suffix)
    fields["architectures"] = [type(theirs).__name__]
    names = _names(theirs, without_weights(config, model.vocabulary_size, 0, heads))
    own = {name: weights[ours].detach().cpu().float().contiguous() for ours, name in names.items()}
    if suffix == NO_HEAD:
        own |= {name: weights[ours] for ours, name in _pooler_names(theirs).items() if ours in weights}
        return fields, own
    if names:
        theirs.load_state_dict(own, strict=False)
    if not names or not _difference(theirs, _network(config, heads, weights)) <= TOLERANCE:
        raise _no_equivalent(config, type(theirs).__name__)
    return fields, own


def _no_equivalent(config: TransformersConfig, class_name: str) -> SettingError:
    """Return the error for a head that a class of transformers lacks."""
    has = [f"model.pooling={config.pooling.value}"]
    instead = []
    own_pooling = POOLINGS.get(config.name)
    if config.pairs is Pairs.separate:
        has.append("model.pairs=separate")
        instead.append("model.pairs=joint")
    if own_pooling not in (None, config.pooling):
        instead.append(f"model.pooling={own_pooling.value}")
    problem = f"{class_name} in transformers has no equivalent of the head with {' and '.join(has)}"
    train = f", or train with {' and '.join(instead)}" if own_pooling and instead else ""
    return SettingError(problem, remedy=f"Use format=onnx{train}")


def _check_type(folder: Path, fields: dict[str, Any]) -> None:
    """Raise DataError if transformers has no encoder of this type, or it is used as something else."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    model_type = str(fields.get("model_type"))[:80]
    allowed = f"{', '.join(BY_MODEL_TYPE)}, or an encoder of transformers such as deberta-v2, albert or longformer"
    if model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        own_code = ", whose own code (auto_map) is never run" if fields.get("auto_map") else ""
        raise DataError(f"{folder} has a model of model_type={model_type}{own_code}", allowed=allowed)
    for key in ("is_encoder_decoder", "is_decoder", "add_cross_attention", "quantization_config"):
        if fields.get(key):
            raise DataError(f"{folder} has a model with {key}={str(fields[key])[:80]}", allowed=allowed)
    try:
        check_sizes(fields)
    except SettingError as error:
        raise DataError(f"{folder}: {error.wrong}", allowed=error.allowed) from None


def _loaded(folder: Path, fields: dict[str, Any], suffix: str, stored: dict[str, Tensor]) -> tuple[Any, bool]:
    """Return the model of transformers with these weights, and whether it lacks those of a pooler.

    Raises DataError if it cannot be built, or lacks any others.
    """
    head = {name: fields[name] for name in ("id2label", "label2id", "problem_type") if name in fields}
    try:
        config = transformers_config(_of_encoder(fields) | head)
        if config.is_encoder_decoder:
            raise ValueError("it has a decoder")
        with _silent():
            model, found = _class_of(config, suffix).from_pretrained(
                None, config=config, state_dict=stored, dtype=torch.float32, output_loading_info=True
            )
    except Exception as error:  # of any kind: every class checks its own settings
        problem = f"{folder} has a model that transformers cannot open: {one_line(str(error))[:200]}"
        raise DataError(problem, remedy="Use another copy, or correct its config.json") from None
    missing = sorted(found["missing_keys"])
    poolers = [name for name in missing if suffix == NO_HEAD and _of_pooler(name)]
    needed = [name for name in missing if name not in poolers]
    if needed:
        more = f" and {len(needed) - 1} more" if len(needed) > 1 else ""
        problem = (
            f"{folder} has a model of architectures={type(model).__name__}, but its weights lack {needed[0]}{more}"
        )
        remedy = "Use a complete copy; if only its encoder is needed, name that class in architectures"
        raise DataError(problem, remedy=remedy)
    return model.eval(), bool(poolers)


def _of_encoder(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of config.json that say what the encoder computes."""
    return {name: value for name, value in without_code(fields).items() if name not in LEFT_OUT}


def _class_of(config: Any, suffix: str) -> Any:
    """Return the class of transformers for such a config, with the head that `suffix` names."""
    from transformers.models.auto import modeling_auto as auto

    mappings: dict[str, Any] = {
        NO_HEAD: auto.MODEL_MAPPING,
        OF_TEXTS: auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
        OF_TOKENS: auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING,
    }
    found = mappings[suffix][type(config)]
    return found[0] if isinstance(found, tuple) else found


def _built(fields: dict[str, Any], suffix: str) -> Any:
    """Return a model of transformers with any content in its weights. Raises SettingError if there is no such class."""
    config = transformers_config(fields)
    try:
        model_class = _class_of(config, suffix)
    except KeyError:
        problem = f"transformers has no {suffix} of type {config.model_type}"
        raise SettingError(problem, remedy="Use format=onnx") from None
    with NothingDrawn():
        return model_class(config).eval()


def _settings_of(folder: Path, fields: dict[str, Any], base: Any) -> TransformersConfig:
    """Return our settings of an encoder. Raises DataError if its config.json does not say its size."""
    theirs = base.config
    n_heads = getattr(theirs, "num_attention_heads", 1)
    try:
        return TransformersConfig(
            name=theirs.model_type,
            n_layers=len(stack(base)),
            d_model=theirs.hidden_size,
            n_heads=n_heads,
            d_head=max(theirs.hidden_size // n_heads, 1),
            d_ff=getattr(theirs, "intermediate_size", None),
            d_embedding=base.get_input_embeddings().weight.shape[1],
            max_length=reach(base),
            segments=n_segments(base),
            pooling=POOLINGS.get(theirs.model_type, Pooling.mean),
            dropout=getattr(theirs, "hidden_dropout_prob", 0.0),
            attention_dropout=getattr(theirs, "attention_probs_dropout_prob", 0.0),
            initializer_range=getattr(theirs, "initializer_range", None),
            transformers=_of_encoder(fields),
        )
    except (SettingError, AttributeError, TypeError, ValueError) as error:
        problem = f"{folder} has a model of type {theirs.model_type} that cannot be used: {one_line(str(error))[:200]}"
        raise DataError(problem, allowed="an encoder of texts") from None


def _check_vectors(folder: Path, base: Any, network: EncoderWithHeads) -> None:
    """Raise DataError unless the encoder gives each token a vector, which does not depend on padding."""
    config = base.config
    batch, mask = _two_rows(base)
    n_real = int(mask[1].sum())
    alone = batch.input_ids[1:, :n_real]
    try:
        with torch.no_grad():
            padded = network.encoder(batch.input_ids, batch.token_type_ids, mask)
            expected = network.encoder(alone, torch.zeros_like(alone), None)
        off = _largest_difference(padded[1:, :n_real], expected)
    except Exception as error:  # of any kind: it may need more than ids and a mask
        problem = f"{folder} has a model of type {config.model_type} that does not work: {one_line(str(error))[:200]}"
        raise DataError(problem, allowed="an encoder that reads token ids") from None
    if padded.shape != (*batch.input_ids.shape, config.hidden_size) or not off <= TOLERANCE:
        problem = f"{folder} has a model of type {config.model_type}, whose token vectors depend on padding"
        raise DataError(problem, allowed="an encoder with a vector for each token")


LONGEST = 16  # tokens of the rows that are compared


def _two_rows(base: Any) -> tuple[Batch, Tensor]:
    """Return two rows for an encoder, the second a third as long as the first, of which each token is a target; and the
    mask of their tokens.
    """
    config = base.config
    pad = getattr(config, "pad_token_id", None) or 0
    length = min(LONGEST, reach(base))
    shorter = max(length // 3, 1)
    ids = torch.tensor([id_ for id_ in range(config.vocab_size) if id_ != pad][:length])
    rows = ids[torch.arange(length) % len(ids)].repeat(2, 1)
    mask = torch.arange(length) < torch.tensor([[length], [shorter]])
    batch = Batch(
        input_ids=rows.where(mask, pad),
        token_type_ids=torch.zeros_like(rows),
        attention_mask=mask,
        rows=torch.arange(2),
        target_positions=torch.arange(2 * length),
        labels=None,
        token_labels=None,
        n_tokens=length + shorter,
    )
    return batch, mask


def _head_sizes(fields: dict[str, Any], theirs: Any, suffix: str) -> HeadSizes:
    """Return the heads of a classifier of transformers."""
    classes = theirs.config.num_labels
    if suffix == OF_TOKENS:
        return HeadSizes(token_classes=classes)
    return HeadSizes(sequence_classes=classes, sequence_target=target_of(fields, classes))


def _network(config: TransformersConfig, heads: HeadSizes, weights: Mapping[str, Tensor]) -> EncoderWithHeads:
    """Return our network with these weights, which it shares, in evaluation mode."""
    network = without_weights(config, 0, 0, heads)
    network.load_state_dict({name: weights[name].float() for name in network.state_dict()}, assign=True)
    return network.eval()


def _names(theirs: Any, ours: EncoderWithHeads) -> dict[str, str]:
    """Return the name there of each of our weights; {} if not every weight of the one has a place in the other.

    Both list the heads' weights in the order in which they are used, those of a pooler before those of the output.
    """
    own = theirs.state_dict()
    prefix = f"{theirs.base_model_prefix}." if theirs.base_model is not theirs else ""
    names = {}
    for name in own:
        if name.startswith(prefix) and not _of_pooler(name.removeprefix(prefix)):
            names[f"{ENCODER}{name.removeprefix(prefix)}"] = name
    needed = ours.state_dict()
    our_head = [name for name in needed if name not in names]
    their_head = [name for name in own if name not in names.values()]
    if not prefix:
        return names
    if [needed[name].shape for name in our_head] != [own[name].shape for name in their_head]:
        return {}
    return names | dict(zip(our_head, their_head, strict=True))


def _difference(theirs: Any, ours: EncoderWithHeads) -> float:
    """Return the largest difference between the logits of two models, relative like TOLERANCE."""
    batch, mask = _two_rows(theirs.base_model)
    inputs = {"input_ids": batch.input_ids, "attention_mask": mask.long()}
    if ours.encoder.n_segments:
        inputs["token_type_ids"] = batch.token_type_ids
    with torch.no_grad(), _silent():
        expected = theirs(**inputs).logits
        prediction: Prediction = ours(batch)
    if prediction.token_logits is not None:
        return _largest_difference(prediction.token_logits, expected.flatten(0, 1))
    assert prediction.sequence_logits is not None
    return _largest_difference(prediction.sequence_logits, expected)


def _largest_difference(some: Tensor, expected: Tensor) -> float:
    return float((some - expected).abs().max() / expected.abs().max())


def _of_pooler(name: str) -> bool:
    """Return whether a weight of an encoder belongs to its pooler, which only classifiers use."""
    return name.startswith("pooler.")


def _pooler_names(base: Any) -> dict[str, str]:
    """Return the names of the pooler's weights by those of ours; {} if it is another kind of pooler, or none."""
    names = [name for name in base.state_dict() if _of_pooler(name)]
    width = base.config.hidden_size
    shapes = [tuple(base.state_dict()[name].shape) for name in names]
    return dict(zip(POOL, names, strict=True)) if shapes == [(width, width), (width,)] else {}


def _pooler(base: Any) -> dict[str, Tensor]:
    """Return the weights of a pooler that came with an encoder, by our names."""
    own = base.state_dict()
    return {ours: own[name] for ours, name in _pooler_names(base).items()}


@contextmanager
def _silent() -> Iterator[None]:
    """Suppress what transformers prints about weights that it draws or leaves out, which is checked here."""
    from transformers.utils import logging as theirs

    level = theirs.get_verbosity()
    had_bars = theirs.is_progress_bar_enabled()
    theirs.set_verbosity(logging.CRITICAL)
    theirs.disable_progress_bar()
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        theirs.set_verbosity(level)
        if had_bars:
            theirs.enable_progress_bar()
