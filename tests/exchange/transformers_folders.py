"""Tiny encoders of types that ours cannot be, as transformers writes them, with random weights and a tokenizer."""

import tokenizers
import torch
import transformers
from tokenizers import models, normalizers, pre_tokenizers

from tests.exchange.family_folders import BERT_SPECIALS, NAMES, ROBERTA, SIZES, TEXTS, bert_template, tokenizer_of

DEBERTA = {
    "relative_attention": True,
    "position_buckets": 8,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "layer_norm_eps": 1e-7,
    "position_biased_input": False,
    "type_vocab_size": 0,
}
TYPES = {
    "deberta-v2": ("DebertaV2", DEBERTA),
    "albert": ("Albert", {"embedding_size": 12, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}),
    "longformer": ("Longformer", ROBERTA | {"attention_window": 8}),
    "nomic_bert": ("NomicBert", {"pad_token_id": 0}),
}


def unigram():
    """Return a tokenizer like that of DeBERTa-v3 and ALBERT, of words and characters: the library's trainer would number
    them differently each time.
    """
    words = sorted({f"\u2581{word}" for text in TEXTS for word in text.split()})
    characters = sorted({character for word in words for character in word})
    scores = [*((special, 0.0) for special in BERT_SPECIALS), *((word, -2.0) for word in words[:60])]
    scores += [(character, -9.0) for character in characters]
    backend = tokenizers.Tokenizer(models.Unigram(scores, unk_id=1))
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.add_special_tokens(BERT_SPECIALS)
    backend.post_processor = bert_template()
    specials = dict(zip(NAMES, BERT_SPECIALS, strict=True))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **specials)


def tokenizer_for(model_type):
    """Return a tokenizer of the kind that models of this type have."""
    alike = {"longformer": "roberta", "nomic_bert": "bert"}
    return tokenizer_of(alike[model_type]) if model_type in alike else unigram()


def folder_of_type(model_type, folder, head="Model", *, scale=0.3, **more):
    """Write a model and its tokenizer as transformers does, and return both.

    All weights are random, including biases and norms, which usually start at 0 and 1, with this `scale`; None: as
    transformers draws them.
    """
    prefix, settings = TYPES[model_type]
    tokenizer = tokenizer_for(model_type)
    labels = {"num_labels": 3} if "Classification" in head else {}
    sizes = SIZES | {"vocab_size": len(tokenizer) + 5}
    config = getattr(transformers, f"{prefix}Config")(**sizes | settings | labels | more)
    torch.manual_seed(0)
    model = getattr(transformers, f"{prefix}{head}")(config).eval()
    if scale is not None:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(std=scale)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer
