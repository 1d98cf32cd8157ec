"""Finetuning pretrained encoders on 5,000 short rows: the first 5,000 of SST-2's training split."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.jobs.job import PEER, SST2_LENGTH, Job, Target, ours
from benchmarks.shapes import SHAPES
from benchmarks.sides import Side, printed

ROWS = "5000"
FEW = ("--limit", "400")
_rows = ("task=sst2", f"dataset.limit={ROWS}", "training.batch_size=32", "training.layer_decay=1")
_fewer = ("dataset.limit=400",)


def _trainer(name: str = "trainer", *arguments: str) -> Side:
    """Return the side of Trainer finetuning MiniLM, which most people would use."""
    data = ("--data", "sst2", "--limit", ROWS, "--batch", "32")
    program = ("-m", "benchmarks.peers.trainer", "--model", "{minilm}", *data, *arguments)
    return Side(name, (*program, *PEER), printed, steps=150, small=FEW, needs=("hub", "accelerate", "minilm"))


_SAME = (
    "The peer uses the recipe of our training=finetuning (AdamW, the same peak learning rate, warmup, linear decay, weight decay, "
    "clipping); ours omits layer-wise decay, which Trainer lacks. The peer pads each batch to its longest row."
)

FINETUNING: Mapping[str, Job] = {
    "finetune_minilm": Job(
        "finetuning all-MiniLM-L6-v2 on 5,000 rows of SST-2, batch 32",
        (
            ours("finetune", "init_from={minilm}", *_rows, steps=300, small=_fewer, needs=("hub", "minilm")),
            _trainer(),
            _trainer("trainer, bf16", "--bf16"),
        ),
        (Target("examples_per_second", "trainer", 2.5), Target("peak_memory", "trainer", at_most=1)),
        shape=SHAPES["minilm"],
        tokens=32 * SST2_LENGTH,
        note=_SAME,
    ),
    "finetune_box": Job(
        "finetuning the shipped encoder on 5,000 rows of SST-2, batch 32, against Trainer finetuning all-MiniLM-L6-v2",
        (ours("finetune", *_rows, steps=900, small=_fewer, needs=("hub",)), _trainer()),
        (Target("examples_per_second", "trainer", 12),),
        shape=SHAPES["mini"],
        tokens=32 * SST2_LENGTH,
        note=f"{_SAME} The encoders differ: mini-en has 4 layers of 256, MiniLM 6 of 384.",
    ),
}
