"""What BERT and DistilBERT in transformers call our weights and our settings: tables read in both directions."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

BODY = {  # how the names of a family's encoder begin, in a checkpoint that is an encoder and nothing else
    "bert": ("embeddings.", "encoder.", "pooler."),
    "distilbert": ("embeddings.", "transformer."),
}


class Rename(NamedTuple):
    """One part of a model, which holds a `weight`, a `bias` or both. None: the family has no such part."""

    ours: str
    bert: str | None
    distilbert: str | None


IN_A_LAYER = (  # ours, BERT's and DistilBERT's
    ("attention.query", "attention.self.query", "attention.q_lin"),
    ("attention.key", "attention.self.key", "attention.k_lin"),
    ("attention.value", "attention.self.value", "attention.v_lin"),
    ("attention.output", "attention.output.dense", "attention.out_lin"),
    ("attention_norm", "attention.output.LayerNorm", "sa_layer_norm"),
    ("feed_forward.inner", "intermediate.dense", "ffn.lin1"),
    ("feed_forward.outer", "output.dense", "ffn.lin2"),
    ("feed_forward_norm", "output.LayerNorm", "output_layer_norm"),
)
RENAMES = (
    Rename("encoder.embeddings.token", "bert.embeddings.word_embeddings", "distilbert.embeddings.word_embeddings"),
    Rename(
        "encoder.embeddings.position.embedding",
        "bert.embeddings.position_embeddings",
        "distilbert.embeddings.position_embeddings",
    ),
    Rename("encoder.embeddings.segment", "bert.embeddings.token_type_embeddings", None),
    Rename("encoder.embeddings.norm", "bert.embeddings.LayerNorm", "distilbert.embeddings.LayerNorm"),
    *(
        Rename(
            f"encoder.layers.*.{ours}", f"bert.encoder.layer.*.{bert}", f"distilbert.transformer.layer.*.{distilbert}"
        )
        for ours, bert, distilbert in IN_A_LAYER
    ),
    Rename("pool.dense", "bert.pooler.dense", "pre_classifier"),
    Rename("sequence_head", "classifier", "classifier"),
    Rename("token_head", "classifier", "classifier"),
    Rename("masked_token_head.dense", "cls.predictions.transform.dense", "vocab_transform"),
    Rename("masked_token_head.norm", "cls.predictions.transform.LayerNorm", "vocab_layer_norm"),
    Rename("masked_token_head.decoder", "cls.predictions.decoder", "vocab_projector"),
    Rename("masked_token_head", "cls.predictions", "vocab_projector"),  # the bias of each piece
)
PAIR_HEAD = Rename(
    "sequence_head", "cls.seq_relationship", None
)  # of BertForPreTraining and BertForNextSentencePrediction


class Named(NamedTuple):
    """A setting of the encoder, its key in the config.json of each family (None: fixed), and transformers' default."""

    ours: str
    bert: str | None
    distilbert: str | None
    default: Any
    distilbert_default: Any = None


SETTINGS = (
    Named("n_layers", "num_hidden_layers", "n_layers", 12, 6),
    Named("d_model", "hidden_size", "dim", 768),
    Named("n_heads", "num_attention_heads", "n_heads", 12),
    Named("d_ff", "intermediate_size", "hidden_dim", 3072),
    Named("max_length", "max_position_embeddings", "max_position_embeddings", 512),
    Named("segments", "type_vocab_size", None, 2, 0),
    Named("norm_epsilon", "layer_norm_eps", None, 1e-12),
    Named("dropout", "hidden_dropout_prob", "dropout", 0.1),
    Named("attention_dropout", "attention_probs_dropout_prob", "attention_dropout", 0.1),
    Named("initializer_range", "initializer_range", "initializer_range", 0.02),
)
ACTIVATION = {"bert": "hidden_act", "distilbert": "activation"}


def their_names(family: str, ours: Iterable[str], *, pair_head: bool = False) -> dict[str, str]:
    """Return the name in `family` of each of our weights; with `pair_head`, the sequence head is for pairs of
    sentences.
    """
    table = {row.ours: getattr(row, family) for row in (*RENAMES, *([PAIR_HEAD] if pair_head else []))}
    return {name: _renamed(name, table) for name in ours}


def normal_name(family: str, name: str) -> str:
    """Return a weight's name in today's checkpoints with heads: old ones have gamma and beta, bare encoders have no
    prefix.
    """
    name = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))
    return f"{family}.{name}" if name.startswith(BODY[family]) else name


def bare_name(family: str, name: str) -> str:
    """Return the name that the weight has in a checkpoint without heads."""
    return name.removeprefix(f"{family}.")


def key_and_default(row: Named, family: str) -> tuple[str | None, Any]:
    """Return the key of a setting in the family's config.json, None if its value is fixed; and its default, or that
    value.
    """
    if family == "distilbert" and row.distilbert_default is not None:
        return row.distilbert, row.distilbert_default
    return getattr(row, family), row.default


def _renamed(name: str, table: dict[str, str | None]) -> str:
    part, _, kind = name.rpartition(".")
    number = re.search(r"\.(\d+)\.", part + ".")
    theirs = table[re.sub(r"\.\d+\b", ".*", part, count=1)]
    assert theirs is not None, f"{name} has no name there"
    return f"{theirs.replace('*', number.group(1)) if number else theirs}.{kind}"
