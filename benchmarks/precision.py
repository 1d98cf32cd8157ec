"""How many times as fast bf16 is as fp32 on this machine's CPU, by type of encoder, with random weights.

`python -m benchmarks.precision THREADS [SHAPE ...]` prints rows of a table: training steps, and predictions.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import torch
from transformers import AutoConfig, AutoModel

from encoderlab.models.pretrained import load_pretrained
from encoderlab.network.packing import FIRST_TOKENS
from encoderlab.network.transformers_encoder import TransformersEncoder
from encoderlab.shipped import FOLDER
from encoderlab.system.device import Compute, set_up_compute

SIZES = ((8, 64), (4, 256))  # rows and tokens
ROUNDS = 7
VOCABULARY = 30_522
COMMON = {"vocab_size": VOCABULARY, "num_hidden_layers": 2, "pad_token_id": 0}
WIDE = COMMON | {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
DEBERTA = {
    "relative_attention": True,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "type_vocab_size": 0,
}
NARROW = {"num_hidden_layers": 3, "hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
LONGFORMER = {"attention_window": 512, "max_position_embeddings": 4098, "type_vocab_size": 1}
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("bert", WIDE),
    "modernbert": ("modernbert", COMMON | {"num_hidden_layers": 3}),
    "deberta_narrow": ("deberta-v2", COMMON | DEBERTA | NARROW),
    "deberta": ("deberta-v2", WIDE | DEBERTA),
    "albert": ("albert", WIDE | {"bos_token_id": 2, "eos_token_id": 3}),
    "nomic_bert": ("nomic_bert", COMMON),
    "roformer": ("roformer", COMMON),
    "rembert": ("rembert", WIDE),
    "esm": ("esm", WIDE | {"mask_token_id": 4}),
    "longformer": ("longformer", COMMON | LONGFORMER),
}


def encoder_of(shape: str) -> Any:
    """Return an encoder of that shape, as a run would start from it."""
    model_type, fields = SHAPES[shape]
    torch.manual_seed(0)
    with TemporaryDirectory() as folder:
        AutoModel.from_config(AutoConfig.for_model(model_type, **fields)).save_pretrained(folder)
        for file in (FOLDER / "mini-en").glob("tokenizer*.json"):
            shutil.copy(file, folder)
        encoder = load_pretrained(str(Path(folder))).network.encoder
    if isinstance(encoder, TransformersEncoder):
        encoder.classify_by_first_token()
    return encoder


def gain(step: Callable[[Compute], None], computes: list[Compute]) -> float:
    """Return how many times as fast a step is with the second of two as with the first: they take turns."""
    ratios = []
    for _ in range(1 + ROUNDS):
        seconds = []
        for compute in computes:
            start = perf_counter()
            step(compute)
            seconds.append(perf_counter() - start)
        ratios.append(seconds[0] / seconds[1])
    return median(ratios[1:])


def gains(encoder: Any, rows: int, length: int, computes: list[Compute]) -> list[float]:
    """Return the gain of a training step, forward and backward from the first token, and that of a prediction."""
    ids = torch.randint(5, VOCABULARY, (rows, length))
    segments = torch.zeros_like(ids)

    def forward(compute: Compute) -> torch.Tensor:
        with compute.autocast():
            return encoder.encode(ids, segments, None, selection=FIRST_TOKENS)

    def train(compute: Compute) -> None:
        forward(compute).float().square().mean().backward()
        encoder.zero_grad(set_to_none=True)

    def predict(compute: Compute) -> None:
        with torch.inference_mode():
            forward(compute)

    encoder.train()
    training = gain(train, computes)
    encoder.eval()
    return [training, gain(predict, computes)]


if __name__ == "__main__":
    both = [set_up_compute("cpu", precision, int(sys.argv[1])) for precision in ("fp32", "bf16")]
    for name in sys.argv[2:] or SHAPES:
        measured = [one for size in SIZES for one in gains(encoder_of(name), *size, both)]
        print(f"| {name} | {' | '.join(f'{one:.2f}x' for one in measured)} |", flush=True)
