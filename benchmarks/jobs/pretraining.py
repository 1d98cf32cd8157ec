"""Pretraining, and preparing articles for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from benchmarks.jobs.job import OURS, Job, Target, ours, shared
from benchmarks.shapes import SHAPES
from benchmarks.sides import Side, printed

BERT_PIECES = 30_522  # bert-base-uncased's vocabulary
OWN_PIECES = 8_000  # that of tokenizer=wordpiece
PAIR_LENGTH, MINI_LENGTH = 49, 55  # tokens of a row on average, for the size of the products that are probed
_notebook_bert = replace(SHAPES["notebook_bert"], vocabulary=BERT_PIECES, mlm_rate=0.15)
_mini = replace(SHAPES["mini"], vocabulary=OWN_PIECES, mlm_rate=0.15)
_prepare = ("-m", "benchmarks.ours.prepare", "--cache", "{round}/cache", "--threads", "{threads}")
_few_articles = ("--limit", "100")

PRETRAINING: Mapping[str, Job] = {
    "pretrain_notebook": Job(
        "MLM and NSP, the BERT notebook's model, BERT's vocabulary, pairs of 64 tokens, batch 128, 300 articles",
        (
            ours("pretrain", "experiment=notebook_bert", "dataset.limit=300", steps=100, needs=("hub",)),
            shared("trainer_bert", "--articles", "300", steps=6, small_steps=5),
            shared("notebook_bert", "--articles", "300", steps=25, small_steps=5),
        ),
        (
            Target("examples_per_second", "trainer_bert", 40),
            Target("examples_per_second", "notebook_bert", 5),
        ),
        shape=_notebook_bert,
        tokens=128 * PAIR_LENGTH,
        note="Examples are pairs of sentences.",
    ),
    "pretrain_mini": Job(
        "MLM and NSP, BERT-mini, up to 128 tokens, batch 64, 300 articles, our defaults",
        (
            ours(
                "pretrain",
                "task=wikipedia",
                "model=mini",
                "model.max_length=128",
                "dataset.limit=300",
                steps=100,
                needs=("hub",),
            ),
            shared(
                "trainer_bert",
                *("--size", "mini", "--length", "128", "--batch", "64", "--articles", "300"),
                steps=5,
                small_steps=4,
                shape=replace(_mini, vocabulary=BERT_PIECES),
            ),
        ),
        (Target("tokens_per_second", "trainer_bert", 50), Target("mfu", at_least=0.35)),
        figure="tokens_per_second",
        shape=_mini,
        tokens=64 * MINI_LENGTH,
        note="Examples are pairs of sentences. Our vocabulary has 8,000 pieces and the peer's 30,522, so the same text is "
        "more tokens for us, and the ratio in pairs is smaller.",
    ),
    "prepare_articles": Job(
        "tokenising and preparing 13,354 articles for pretraining, BERT's vocabulary, both cold",
        (
            Side(OURS, _prepare, printed, small=_few_articles, needs=("hub",)),
            Side(
                "map_articles",
                ("-m", "benchmarks.peers.map_articles", "--cache", "{folder}", "--threads", "{threads}"),
                printed,
                small=_few_articles,
                needs=("hub",),
            ),
            Side("second start", _prepare, printed, small=_few_articles, needs=("hub",)),
        ),
        (Target("seconds", "map_articles", 3), Target("seconds", at_most=2, side="second start")),
        figure="seconds",
        setup=(("-c", "import datasets; datasets.load_dataset('wikimedia/wikipedia', '20231101.en')"),),
        note="Examples are articles. Ours splits them into sentences to form pairs; the peer cuts its tokens every 128. "
        "The second start is ours again in a new process, which finds its store. Times exclude imports. "
        "Ours uses a second process on a second core, the peer its tokenizer's threads. "
        "Peak memory is that of the largest process.",
    ),
}
