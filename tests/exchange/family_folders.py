"""Tiny encoders of every family that transformers writes, with random weights and a tokenizer of the family's kind."""

import tokenizers
import torch
import transformers
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 150,
}
TEXTS = [
    f"{word} film, {other}: {n}!" for n in range(40) for word in ("A good", "A bad") for other in ("says", "né Ünder")
]
ROBERTA = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
CONFIGS = {
    "roberta": ("Roberta", ROBERTA),
    "xlm-roberta": ("XLMRoberta", ROBERTA),
    "camembert": ("Camembert", ROBERTA),
    "mpnet": ("MPNet", {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}),
    "modernbert": (
        "ModernBert",
        {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
        | {"local_attention": 12, "classifier_pooling": "mean"},
    ),
    "electra": ("Electra", {"embedding_size": 12}),
}
BERT_SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
NAMES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


def byte_level(specials=ROBERTA_SPECIALS):
    """Return a tokenizer like RoBERTa's."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=specials, initial_alphabet=alphabet)
    backend.train_from_iterator(TEXTS, trainer)
    if specials is ROBERTA_SPECIALS:
        backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    else:
        backend.post_processor = bert_template()
    return backend


def unigram():
    """Return a tokenizer like XLM-RoBERTa's."""
    backend = tokenizers.Tokenizer(models.Unigram())
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=120, special_tokens=ROBERTA_SPECIALS, unk_token="<unk>")
    backend.train_from_iterator(TEXTS, trainer)
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return backend


def wordpiece(specials=BERT_SPECIALS):
    """Return a tokenizer like BERT's."""
    unknown = "<unk>" if specials is ROBERTA_SPECIALS else "[UNK]"
    backend = tokenizers.Tokenizer(models.WordPiece(unk_token=unknown))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.train_from_iterator(TEXTS, trainers.WordPieceTrainer(vocab_size=120, special_tokens=specials))
    backend.post_processor = bert_template()
    if specials is ROBERTA_SPECIALS:
        backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=False)
    return backend


def bert_template():
    return processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )


def tokenizer_of(family):
    """Return the tokenizer of a family, as transformers wraps it."""
    kinds = {"roberta": byte_level, "xlm-roberta": unigram, "camembert": unigram}
    kinds["modernbert"] = lambda: byte_level(BERT_SPECIALS)
    backend = wordpiece(ROBERTA_SPECIALS) if family == "mpnet" else kinds.get(family, wordpiece)()
    like_roberta = backend.token_to_id("<s>") is not None
    texts = [ROBERTA_SPECIALS[i] for i in (1, 3, 0, 2, 4)] if like_roberta else BERT_SPECIALS
    specials = dict(zip(NAMES, texts, strict=True))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **specials)


def model_of(family, head="Model", *, seed=0, **more):
    """Return a model with random weights, including biases and norms, which usually start at 0 and 1."""
    prefix, settings = CONFIGS[family]
    labels = {"num_labels": 3} if "Classification" in head else {}
    vocabulary = {"vocab_size": len(tokenizer_of(family))}
    config = getattr(transformers, f"{prefix}Config")(**SIZES | settings | labels | vocabulary | more)
    torch.manual_seed(seed)
    model = getattr(transformers, f"{prefix}{head}")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model


def folder_of(family, folder, head="Model", **more):
    """Write a model and its tokenizer as transformers does, and return both."""
    model, tokenizer = model_of(family, head, **more), tokenizer_of(family)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer
