"""Training from scratch: the built-in task and SST-2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from benchmarks.jobs.job import OURS, SST2_LENGTH, Job, Target, ours, own_peer, shared
from benchmarks.shapes import SHAPES
from benchmarks.sides import Side, journalled_until

LINE_OF_NOTEBOOK = 0.787  # the notebook's accuracy on SST-2's validation split
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}


def _tiny(what: str, *overrides: str) -> Job:
    return Job(
        what,
        (
            ours("train", "task=sst2", "model=tiny", "training.batch_size=128", *overrides, steps=520, needs=("hub",)),
            shared("trainer_sst2", "--size", "tiny", "--batch", "8", steps=300),
        ),
        (Target("examples_per_second", "trainer_sst2", 12),),
        shape=SHAPES["tiny"],
        tokens=128 * SST2_LENGTH,
    )


TRAINING: Mapping[str, Job] = {
    "docs_tiny": Job(
        "the built-in task, BERT-tiny, own vocabulary of 8,000 pieces, batch 32: needs neither a hub nor ../shared",
        (
            ours("train", steps=600, small=("dataset.limit=400",)),
            own_peer("trainer", "intents", "tiny", 32, steps=150),
            own_peer("plain_loop", "intents", "tiny", 32, steps=150),
        ),
        (),
        shape=SHAPES["tiny"],
        tokens=32 * 60,
    ),
    "sst2_notebook": Job(
        "SST-2 training, the notebook's model and BERT's vocabulary, batch 32",
        (
            ours(
                "train",
                "experiment=notebook_sst2",
                "tokenizer=bert_base_uncased",
                "training.batching=length",
                steps=2500,
                needs=("hub",),
            ),
            shared("trainer_sst2", "--size", "notebook", "--batch", "32", steps=400),
            shared("notebook_sst2", steps=400),
            own_peer("plain_loop", "sst2", "notebook", 32, steps=400),
        ),
        (Target("examples_per_second", "trainer_sst2", 5),),
        shape=SHAPES["notebook"],
        tokens=32 * SST2_LENGTH,
    ),
    "sst2_tiny": _tiny("SST-2 training, BERT-tiny: our defaults at batch 128 against Trainer's (batch 8, fp32)"),
    "sst2_tiny_avx2": replace(
        _tiny(
            "SST-2 training, BERT-tiny, fp32, as on a processor with AVX2 only: batch 128 against Trainer's defaults (batch 8)",
            "training.precision=fp32",
        ),
        environment=AVX2,
        note="On both sides, the libraries are restricted to AVX2 instructions.",
    ),
    "sst2_to_787": Job(
        f"seconds of SST-2 training until validation accuracy first reaches {LINE_OF_NOTEBOOK}, a new seed in each round",
        (
            Side(
                OURS,
                (
                    *(
                        "-m",
                        "encoderlab",
                        "train",
                        "experiment=sst2",
                        "training.evaluate_every=100",
                        "training.keep=best",
                    ),
                    *("baselines=false", "training.log_every=10", "training.threads={threads}", "seed={seed}"),
                    "run_dir={folder}/run",
                ),
                journalled_until(LINE_OF_NOTEBOOK),
                small=("training.steps=100",),
                needs=("hub",),
            ),
            shared(
                "notebook_sst2",
                *("--epochs", "4"),
                watched=("--evaluate-every", "100", "--until", str(LINE_OF_NOTEBOOK)),
                small_steps=100,
                shape=SHAPES["notebook"],
            ),
        ),
        (Target("seconds_to_target", "notebook_sst2", 8),),
        figure="seconds_to_target",
        shape=SHAPES["tiny"],
        tokens=32 * SST2_LENGTH,
        note="Both sides are scored every 100 steps of 32 rows, off the clock; the time ends before the first evaluation "
        "that reaches the target.",
    ),
}
