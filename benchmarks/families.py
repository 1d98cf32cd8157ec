"""Folders of encoders with random weights, in the shapes of published ones: speed does not depend on the weights.

`python -m benchmarks.families SHAPE FOLDER` writes one as transformers does, with the tokenizer of `mini-en`; in the
shapes of a hundred languages it has as many pieces as theirs, of which English texts need few.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch
from transformers import (
    AutoModel,
    BertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    LongformerConfig,
    ModernBertConfig,
    MPNetConfig,
    PretrainedConfig,
    RobertaConfig,
    XLMRobertaConfig,
)

from encoderlab.shipped import FOLDER

SPECIALS = {"pad_token_id": 0}  # of that tokenizer
PIECES_OF_A_HUNDRED_LANGUAGES = 250_002  # of XLM-R's tokenizer
PUBLISHED = {
    "distilbert": lambda: DistilBertConfig(**SPECIALS),
    "distilroberta": lambda: RobertaConfig(
        num_hidden_layers=6, vocab_size=50_265, max_position_embeddings=514, type_vocab_size=1, **SPECIALS
    ),
    "electra_small": lambda: ElectraConfig(**SPECIALS),
    "ettin_17m": lambda: ModernBertConfig(
        num_hidden_layers=7, hidden_size=256, num_attention_heads=4, intermediate_size=384, **SPECIALS
    ),
    "deberta_v3_xsmall": lambda: DebertaV2Config(
        num_hidden_layers=12,
        hidden_size=384,
        num_attention_heads=6,
        intermediate_size=1536,
        vocab_size=30_522,  # of 128,100: the others are not read, only updated
        type_vocab_size=0,
        relative_attention=True,
        position_buckets=256,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        **SPECIALS,
    ),
    "mpnet": lambda: MPNetConfig(),  # whose code assumes its own padding id
    "multilingual_minilm": lambda: BertConfig(
        num_hidden_layers=12,
        hidden_size=384,
        num_attention_heads=12,
        intermediate_size=1536,
        vocab_size=PIECES_OF_A_HUNDRED_LANGUAGES,
        **SPECIALS,
    ),
    "xlm_roberta": lambda: XLMRobertaConfig(
        vocab_size=PIECES_OF_A_HUNDRED_LANGUAGES, max_position_embeddings=514, type_vocab_size=1, **SPECIALS
    ),
    "longformer": lambda: LongformerConfig(
        attention_window=512, vocab_size=50_265, max_position_embeddings=4098, type_vocab_size=1, **SPECIALS
    ),
}


def write(shape: str, folder: Path) -> None:
    """Write an encoder of that shape."""
    torch.manual_seed(0)
    config: PretrainedConfig = PUBLISHED[shape]()
    AutoModel.from_config(config).save_pretrained(folder)
    for file in (FOLDER / "mini-en").glob("tokenizer*.json"):
        shutil.copy(file, folder)
    if config.vocab_size == PIECES_OF_A_HUNDRED_LANGUAGES:
        _fill_vocabulary(folder / "tokenizer.json", config.vocab_size)


def _fill_vocabulary(tokenizer: Path, pieces: int) -> None:
    """Add pieces that no text has to a tokenizer's vocabulary, up to so many."""
    content = json.loads(tokenizer.read_text(encoding="utf-8"))
    vocabulary = content["model"]["vocab"]
    for id_ in range(len(vocabulary), pieces):
        vocabulary[f"[another language {id_}]"] = id_
    tokenizer.write_text(json.dumps(content), encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
