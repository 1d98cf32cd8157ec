"""The families of transformers whose encoders ours can be: what each calls our weights and our settings.

The tables are read in both directions. A part holds a `weight`, a `bias` or both. The names of an encoder's parts are
those within it; a model with a head has the encoder under the family's own name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from encoderlab.exchange.modernbert import modernbert_fields, modernbert_settings
from encoderlab.network.config import (
    Activation,
    Family,
    Head,
    HeadSizes,
    ModelConfig,
    Norm,
    NormPosition,
    Pooling,
    Positions,
)

Weights = dict[str, Tensor]
ReadSettings = Callable[[Path, Mapping[str, Any], int], dict[str, Any]]  # of a folder with these fields, so many layers
WriteFields = Callable[[ModelConfig], dict[str, Any]]
Setting = tuple[str | None, Any]  # the key in config.json (None: fixed by the family), and transformers' default

BERT_EMBEDDINGS = {
    "token": "embeddings.word_embeddings",
    "position.embedding": "embeddings.position_embeddings",
    "segment": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
}
NO_SEGMENTS = {ours: theirs for ours, theirs in BERT_EMBEDDINGS.items() if ours != "segment"}
BERT_LAYER = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feed_forward.inner": "intermediate.dense",
    "feed_forward.outer": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}
DISTILBERT_LAYER = {
    "attention.query": "attention.q_lin",
    "attention.key": "attention.k_lin",
    "attention.value": "attention.v_lin",
    "attention.output": "attention.out_lin",
    "attention_norm": "sa_layer_norm",
    "feed_forward.inner": "ffn.lin1",
    "feed_forward.outer": "ffn.lin2",
    "feed_forward_norm": "output_layer_norm",
}
PAIR_HEAD = "cls.seq_relationship"  # of BertForPreTraining and BertForNextSentencePrediction
BERT_HEADS = {
    "sequence_head": "classifier",
    "token_head": "classifier",
    "masked_token_head.dense": "cls.predictions.transform.dense",
    "masked_token_head.norm": "cls.predictions.transform.LayerNorm",
    "masked_token_head.decoder": "cls.predictions.decoder",
    "masked_token_head": "cls.predictions",  # the bias of each piece
}
DISTILBERT_HEADS = {
    "pool.dense": "pre_classifier",
    "sequence_head": "classifier",
    "token_head": "classifier",
    "masked_token_head.dense": "vocab_transform",
    "masked_token_head.norm": "vocab_layer_norm",
    "masked_token_head.decoder": "vocab_projector",
    "masked_token_head": "vocab_projector",
}
ROBERTA_HEADS = {
    "pool.dense": "classifier.dense",
    "sequence_head": "classifier.out_proj",
    "token_head": "classifier",
    "masked_token_head.dense": "lm_head.dense",
    "masked_token_head.norm": "lm_head.layer_norm",
    "masked_token_head.decoder": "lm_head.decoder",
    "masked_token_head": "lm_head",
}
MPNET_LAYER = {
    "attention.query": "attention.attn.q",
    "attention.key": "attention.attn.k",
    "attention.value": "attention.attn.v",
    "attention.output": "attention.attn.o",
    "attention_norm": "attention.LayerNorm",
    "feed_forward.inner": "intermediate.dense",
    "feed_forward.outer": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}
MODERNBERT_LAYER = {
    "attention.query": "attn.Wqkv.query",  # these three are one there, see `fused`
    "attention.key": "attn.Wqkv.key",
    "attention.value": "attn.Wqkv.value",
    "attention.output": "attn.Wo",
    "attention_norm": "attn_norm",
    "feed_forward.inner": "mlp.Wi",
    "feed_forward.outer": "mlp.Wo",
    "feed_forward_norm": "mlp_norm",
}
MODERNBERT_HEADS = {
    "transform.dense": "head.dense",
    "transform.norm": "head.norm",
    "sequence_head": "classifier",
    "token_head": "classifier",
    "masked_token_head.dense": "head.dense",
    "masked_token_head.norm": "head.norm",
    "masked_token_head.decoder": "decoder",
    "masked_token_head": "decoder",
}
ELECTRA_HEADS = {
    "pool.dense": "classifier.dense",
    "sequence_head": "classifier.out_proj",
    "token_head": "classifier",
    "masked_token_head.dense": "generator_predictions.dense",
    "masked_token_head.norm": "generator_predictions.LayerNorm",
    "masked_token_head.decoder": "generator_lm_head",
    "masked_token_head": "generator_lm_head",
}
BERT_SETTINGS: dict[str, Setting] = {
    "n_layers": ("num_hidden_layers", 12),
    "d_model": ("hidden_size", 768),
    "n_heads": ("num_attention_heads", 12),
    "d_ff": ("intermediate_size", 3072),
    "max_length": ("max_position_embeddings", 512),
    "segments": ("type_vocab_size", 2),
    "norm_epsilon": ("layer_norm_eps", 1e-12),
    "dropout": ("hidden_dropout_prob", 0.1),
    "attention_dropout": ("attention_probs_dropout_prob", 0.1),
    "initializer_range": ("initializer_range", 0.02),
}
DISTILBERT_EPSILON = 1e-12  # of all its norms, in its code
DISTILBERT_SETTINGS: dict[str, Setting] = {
    "n_layers": ("n_layers", 6),
    "d_model": ("dim", 768),
    "n_heads": ("n_heads", 12),
    "d_ff": ("hidden_dim", 3072),
    "max_length": ("max_position_embeddings", 512),
    "segments": (None, 0),
    "norm_epsilon": (None, DISTILBERT_EPSILON),
    "dropout": ("dropout", 0.1),
    "attention_dropout": ("attention_dropout", 0.1),
    "initializer_range": ("initializer_range", 0.02),
}
# The settings that all encoders of BERT's kind have, and no config.json names.
LIKE_BERT: dict[str, Any] = {
    "norm": Norm.layer,
    "norm_position": NormPosition.post,
    "embedding_norm": True,
    "bias": True,
    "relative_buckets": 0,
    "window": None,
    "head": Head.linear,
}
MODERNBERT_SETTINGS: dict[str, Setting] = {
    "n_layers": ("num_hidden_layers", 22),
    "d_model": ("hidden_size", 768),
    "n_heads": ("num_attention_heads", 12),
    "d_ff": ("intermediate_size", 1152),
    "max_length": ("max_position_embeddings", 8192),
    "segments": (None, 0),
    "norm_epsilon": ("norm_eps", 1e-5),
    "dropout": ("mlp_dropout", 0.0),
    "attention_dropout": ("attention_dropout", 0.0),
    "initializer_range": ("initializer_range", 0.02),
}
LIKE_MODERNBERT: dict[str, Any] = {
    "positions": Positions.rotary,
    "norm": Norm.layer,
    "norm_position": NormPosition.pre,
    "embedding_norm": True,
    "first_norm": False,
    "activation": Activation.geglu,
    "relative_buckets": 0,
    "head": Head.prediction,
}
# What transformers calls the activations that ours has too.
ACTIVATIONS = {
    "gelu": Activation.gelu,
    "gelu_python": Activation.gelu,
    "gelu_new": Activation.gelu_tanh,
    "gelu_fast": Activation.gelu_tanh,
    "gelu_accurate": Activation.gelu_tanh,
    "gelu_pytorch_tanh": Activation.gelu_tanh,
    "gelu_python_tanh": Activation.gelu_tanh,
    "quick_gelu": Activation.quick_gelu,
    "relu": Activation.relu,
    "relu2": Activation.relu2,
    "relu6": Activation.relu6,
    "leaky_relu": Activation.leaky_relu,
    "silu": Activation.silu,
    "swish": Activation.silu,
    "hardswish": Activation.hardswish,
    "mish": Activation.mish,
    "sigmoid": Activation.sigmoid,
    "tanh": Activation.tanh,
}
COMMON = ("Model", "ForSequenceClassification", "ForTokenClassification", "ForMaskedLM")


@dataclass(frozen=True)
class FamilyFormat:
    """A family's folder: the names of its classes, weights and settings, and how they differ from ours."""

    model_type: str
    prefix: str  # of its classes' names
    body: str  # the name of the encoder inside a model with a head
    embeddings: Mapping[str, str]
    layers: str  # the name of the list of layers inside the encoder
    layer: Mapping[str, str]
    heads: Mapping[str, str]
    settings: Mapping[str, Setting]
    pooling: Pooling
    others: Mapping[str, str] = field(default_factory=dict)  # further parts of the encoder
    family: Family | None = None  # what `model.family` says of such a model
    pooler: str | None = None  # inside an encoder without a sequence head; None: named like the head's
    activation: str = "hidden_act"
    head_activation: str | None = "gelu"  # of its masked token head; None: that of the layers
    architectures: tuple[str, ...] = COMMON
    unused: tuple[str, ...] = ()  # how the names of weights begin that no model of ours has
    fused: tuple[str, tuple[str, ...]] | None = None  # the name of what are several parts of ours, and their names
    lacks_biases: bool = False  # a weight without a bias has the bias zero
    fixed: Mapping[str, Any] = field(default_factory=lambda: LIKE_BERT)
    requires: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # values of config.json, the default first
    positions_follow_pad: bool = False  # the first token reads the row of the positions' table after padding's id
    pad_id: int = 0  # of its tokenizers, where config.json does not say
    one_segment: bool = False  # all tokens are in the first of its segments
    pair_head: str | None = None  # the sequence head of its pretraining on pairs of sentences
    further_poolings: tuple[Pooling, ...] = ()  # that its classifiers can have besides `pooling`
    copies: Mapping[str, str] = field(default_factory=dict)  # of a weight beside an untied decoder
    read_further: ReadSettings | None = None  # of config.json, besides the numbers in `settings`; None: the activation
    write_further: WriteFields = lambda config: {}  # noqa: ARG005

    def further_settings(self, folder: Path, fields: Mapping[str, Any], n_layers: int) -> dict[str, Any]:
        """Return our settings for what config.json says besides numbers. Raises DataError if we have none."""
        if self.read_further is None:
            return {"activation": ACTIVATIONS[fields.get(self.activation, "gelu")]}
        return self.read_further(folder, fields, n_layers)

    def names_of(self, heads: HeadSizes, *, pair_head: bool = False) -> dict[str, str]:
        """Return the family's name of each part of a model with these heads; `*` stands for a layer's number.

        With `pair_head`, the sequence head is that of its pretraining on pairs of sentences, if it has one.
        """
        names = {f"encoder.embeddings.{ours}": f"{self.body}.{theirs}" for ours, theirs in self.embeddings.items()}
        for ours, theirs in self.layer.items():
            names[f"encoder.layers.*.{ours}"] = f"{self.body}.{self.layers}.*.{theirs}"
        names |= {f"encoder.{ours}": f"{self.body}.{theirs}" for ours, theirs in self.others.items()}
        names |= self.heads
        if self.pooler is not None and not (heads.judges_texts and "pool.dense" in self.heads):
            names["pool.dense"] = f"{self.body}.{self.pooler}"
        if pair_head and self.pair_head is not None:
            names["sequence_head"] = self.pair_head
        return names

    def their_names(self, ours: Iterable[str], heads: HeadSizes, *, pair_head: bool = False) -> dict[str, str]:
        """Return the family's name of each of our weights, which must have one."""
        table = self.names_of(heads, pair_head=pair_head)
        names: dict[str, str] = {}
        for name in ours:
            part, _, kind = name.rpartition(".")
            number = re.search(r"\.(\d+)\.", part + ".")
            theirs = table[re.sub(r"\.\d+\b", ".*", part, count=1)]
            names[name] = f"{theirs.replace('*', number.group(1)) if number else theirs}.{kind}"
        return names

    def normal_name(self, name: str) -> str:
        """Return a weight's name of today: old ones have gamma and beta, those of bare encoders no prefix."""
        name = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))
        parts = [*self.embeddings.values(), self.layers, *self.others.values(), *([self.pooler] if self.pooler else [])]
        return f"{self.body}.{name}" if name.partition(".")[0] in {part.partition(".")[0] for part in parts} else name

    def first_position(self, pad_id: int) -> int:
        """Return the row that a first token reads in the table of positions."""
        return pad_id + 1 if self.positions_follow_pad else 0

    def from_theirs(self, weights: Weights, pad_id: int) -> None:
        """Change the weights of a folder, by the family's names, into those that ours has."""
        if self.positions_follow_pad and self._positions in weights:
            weights[self._positions] = weights[self._positions][self.first_position(pad_id) :]
        if self.one_segment:
            self._add_segment(weights)
        if self.fused is not None:
            whole, parts = self.fused
            for name in [name for name in weights if f".{whole}." in name]:
                pieces = weights.pop(name).tensor_split(len(parts))
                weights |= {name.replace(whole, part): piece for part, piece in zip(parts, pieces, strict=True)}

    def to_theirs(self, weights: Weights, pad_id: int) -> None:
        """Change the weights of ours, by the family's names, into those that it has."""
        if self.positions_follow_pad:
            table = weights[self._positions]
            unread = table.new_zeros(self.first_position(pad_id), table.shape[1])
            weights[self._positions] = torch.cat([unread, table])
        if self.fused is not None:
            whole, parts = self.fused
            for name in [name for name in weights if f".{parts[0]}." in name]:
                pieces = [weights.pop(name.replace(parts[0], part)) for part in parts]
                weights[name.replace(parts[0], whole)] = torch.cat(pieces)
        if self.one_segment:
            weights[self._segments] = torch.zeros(1, weights[self._positions].shape[1])

    def _add_segment(self, weights: Weights) -> None:
        """Add the vector of the only segment to that of each position, as the sum of the embeddings does."""
        positions = weights.get(self._positions)
        segments = weights.pop(self._segments, None)
        if positions is not None and segments is not None and positions.shape[1:] == segments.shape[1:]:
            weights[self._positions] = positions.float() + segments[:1].float()

    @property
    def _positions(self) -> str:
        return f"{self.body}.{BERT_EMBEDDINGS['position.embedding']}.weight"

    @property
    def _segments(self) -> str:
        return f"{self.body}.{BERT_EMBEDDINGS['segment']}.weight"


BERT = FamilyFormat(
    model_type="bert",
    prefix="Bert",
    body="bert",
    embeddings=BERT_EMBEDDINGS,
    layers="encoder.layer",
    layer=BERT_LAYER,
    heads=BERT_HEADS,
    settings=BERT_SETTINGS,
    pooling=Pooling.pooler,
    pooler="pooler.dense",
    head_activation=None,
    architectures=(*COMMON, "ForPreTraining", "ForNextSentencePrediction"),
    pair_head=PAIR_HEAD,
    copies={"cls.predictions.decoder.bias": "cls.predictions.bias"},
    write_further=lambda config: {"position_embedding_type": "absolute"},  # noqa: ARG005
)
DISTILBERT = FamilyFormat(
    model_type="distilbert",
    prefix="DistilBert",
    body="distilbert",
    embeddings=NO_SEGMENTS,
    layers="transformer.layer",
    layer=DISTILBERT_LAYER,
    heads=DISTILBERT_HEADS,
    settings=DISTILBERT_SETTINGS,
    pooling=Pooling.relu_pooler,
    activation="activation",
    head_activation=None,
    write_further=lambda config: {"seq_classif_dropout": config.dropout},
)


def _roberta(model_type: str, prefix: str, family: Family) -> FamilyFormat:
    """Return RoBERTa's format (Liu et al. 2019), which multilingual and other languages' models share.

    The positions of its tokens begin behind the padding's id, and all tokens are in the one segment.
    """
    return FamilyFormat(
        model_type=model_type,
        prefix=prefix,
        body="roberta",
        embeddings=NO_SEGMENTS,
        layers="encoder.layer",
        layer=BERT_LAYER,
        heads=ROBERTA_HEADS,
        settings=BERT_SETTINGS | {"segments": (None, 0)},
        pooling=Pooling.pooler,
        family=family,
        pooler="pooler.dense",
        positions_follow_pad=True,
        pad_id=1,
        one_segment=True,
        write_further=lambda config: {"type_vocab_size": 1},  # noqa: ARG005
    )


ELECTRA = FamilyFormat(  # Clark et al. 2020; its discriminator's own head detects replaced tokens, and is not read
    model_type="electra",
    prefix="Electra",
    body="electra",
    embeddings=BERT_EMBEDDINGS | {"projection": "embeddings_project"},
    layers="encoder.layer",
    layer=BERT_LAYER,
    heads=ELECTRA_HEADS,
    settings=BERT_SETTINGS | {"d_embedding": ("embedding_size", 128)},
    pooling=Pooling.gelu_pooler,
    family=Family.electra,
    architectures=(*COMMON, "ForPreTraining"),
    unused=("discriminator_predictions.",),
    further_poolings=(Pooling.cls,),  # by a pooler that changes nothing
)

MPNET = FamilyFormat(
    model_type="mpnet",
    prefix="MPNet",
    body="mpnet",
    embeddings=NO_SEGMENTS,
    layers="encoder.layer",
    layer=MPNET_LAYER,
    heads=ROBERTA_HEADS,
    others={"relative.bias": "encoder.relative_attention_bias"},
    settings=BERT_SETTINGS | {"segments": (None, 0)},
    pooling=Pooling.pooler,
    family=Family.mpnet,
    pooler="pooler.dense",
    fixed=LIKE_BERT | {"relative_buckets": 32},
    requires={"relative_attention_num_buckets": (32,), "pad_token_id": (1,)},  # which its code assumes
    positions_follow_pad=True,
    pad_id=1,
)

MODERNBERT = FamilyFormat(  # Warner et al. 2024; Ettin has this type too
    model_type="modernbert",
    prefix="ModernBert",
    body="model",
    embeddings={"token": "embeddings.tok_embeddings", "norm": "embeddings.norm"},
    layers="layers",
    layer=MODERNBERT_LAYER,
    heads=MODERNBERT_HEADS,
    others={"final_norm": "final_norm"},
    settings=MODERNBERT_SETTINGS,
    pooling=Pooling.cls,
    family=Family.modernbert,
    activation="hidden_activation",
    fused=("attn.Wqkv", ("attn.Wqkv.query", "attn.Wqkv.key", "attn.Wqkv.value")),
    lacks_biases=True,
    fixed=LIKE_MODERNBERT,
    requires={"hidden_activation": ("gelu",), "classifier_activation": ("gelu",)},
    further_poolings=(Pooling.mean,),
    read_further=modernbert_settings,
    write_further=modernbert_fields,
)


FAMILIES = (
    BERT,
    DISTILBERT,
    _roberta("roberta", "Roberta", Family.roberta),
    _roberta("xlm-roberta", "XLMRoberta", Family.xlm_roberta),
    _roberta("camembert", "Camembert", Family.camembert),
    ELECTRA,
    MPNET,
    MODERNBERT,
)
BY_MODEL_TYPE = {family.model_type: family for family in FAMILIES}
BY_FAMILY = {family.family: family for family in FAMILIES if family.family is not None}
