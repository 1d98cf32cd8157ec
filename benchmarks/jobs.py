"""The jobs: what is compared with what, on which data, and what is aimed at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from benchmarks.shapes import SHAPES, Shape
from benchmarks.sides import Side, journalled, journalled_until, printed, processor_time

OURS = "encoderlab"
BERT_PIECES = 30_522  # bert-base-uncased's vocabulary
OWN_PIECES = 8_000  # that of tokenizer=wordpiece
SST2_LENGTH, PAIR_LENGTH, MINI_LENGTH = 13, 49, 55  # tokens of a row on average, for the size of the products that are probed
LINE_OF_NOTEBOOK = 0.787  # the notebook's accuracy on SST-2's validation split


@dataclass(frozen=True, slots=True)
class Target:
    """At least, or at most, so much of a figure of ours; `against` a peer, it is the ratio to that peer's."""

    figure: str
    against: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    side: str = OURS


@dataclass(frozen=True, slots=True)
class Job:
    """One comparison: ours is the first of the `sides`. `tokens` are those of a step of ours, for the roof.

    `setup` is run once before the rounds and not measured.
    """

    what: str
    sides: tuple[Side, ...]
    targets: tuple[Target, ...]
    figure: str = "examples_per_second"
    shape: Shape | None = None
    tokens: int = 0
    setup: tuple[tuple[str, ...], ...] = ()
    note: str = ""


def _ours(command: str, *overrides: str, **more: object) -> Side:
    quiet = ("baselines=false", "training.evaluate_every=1000000", "training.keep=last", "training.log_every=10")
    run = ("training.threads={threads}", "seed={seed}", "training.steps={steps}", "run_dir={folder}/run")
    return Side(OURS, ("-m", "encoderlab", command, *quiet, *run, *overrides), journalled, **more)


PEER = ("--steps", "{steps}", "--threads", "{threads}", "--seed", "{seed}")


def _shared(script: str, *arguments: str, watched: tuple[str, ...] = (), **more: object) -> Side:
    """A script of ../shared/peers, as it is, with a meter that sees a little more."""
    program = ("-m", "benchmarks.peers.watched", *watched, f"{{shared}}/peers/{script}.py")
    needs = ("shared", "accelerate") if script.startswith("trainer") else ("shared",)
    return Side(script, (*program, *arguments, *PEER), printed, needs=needs, **more)


def _own_peer(name: str, data: str, size: str, batch: int, steps: int) -> Side:
    """A peer of the project's own. The built-in task needs nothing; SST-2 and its tokenizer come from the hub."""
    program = ("-m", f"benchmarks.peers.{name}", "--data", data, "--size", size, "--batch", str(batch))
    needs = (*(["hub"] if data == "sst2" else []), *(["accelerate"] if name == "trainer" else []))
    return Side(name, (*program, *PEER), printed, steps, small=("--limit", "400"), needs=needs)


def _predict(what: str, texts: tuple[str, ...], repeats: int, sampled: int) -> Job:
    model = ("task=sst2", "training=smoke", "training.evaluate_every=1000000", "baselines=false", "run_dir={work}/run")
    setup = (
        ("-m", "encoderlab", "train", *model),
        ("-m", "encoderlab", "export", "run={work}/run", "format=huggingface", "path={work}/exported"),
        ("-m", "benchmarks.texts", *texts, "--output", "{work}/texts.txt"),
    )
    common = ("--input", "{work}/texts.txt", "--output", "{folder}", "--threads", "{threads}")
    ours = ("-m", "benchmarks.ours.predict", "--run", "{work}/run", *common, "--repeats", str(repeats))
    peer = ("-m", "benchmarks.peers.pipeline", "--model", "{work}/exported", *common, "--sampled", str(sampled))
    sides = (
        Side(OURS, ours, printed, small=("--limit", "200"), needs=("hub",)),
        Side("pipeline", (*peer, "--repeats", str(repeats)), printed, small=("--limit", "200"), needs=("hub",)),
    )
    note = (
        "The same weights on both sides, exported with `encoderlab export`. Timed is from the model loaded to the last answer "
        "written: of ours, the whole of `predict` less what opening the model takes in the same process. The pipeline has the best "
        f"of five batch sizes on 2,000 texts, and is then timed on the first {sampled:,} at most."
    )
    return Job(what, sides, (Target("examples_per_second", "pipeline", 5),), setup=setup, note=note)


def _start(what: str, ours: tuple[str, ...], at_most: float, setup: tuple[tuple[str, ...], ...] = ()) -> Job:
    sides = (Side(OURS, ours, processor_time), Side("import_torch", ("-c", "import torch"), processor_time))
    note = "Processor time of the whole process, user and system. It is a cost: the ratio says how many times as much ours takes."
    target = Target("processor_seconds", "import_torch", at_most=at_most)
    return Job(what, sides, (target,), figure="processor_seconds", setup=setup, note=note)


_train_smoke = (
    *("-m", "encoderlab", "train", "task=brackets", "training=smoke", "training.threads={threads}"),
    *(f"dataset.{split}_rows=64" for split in ("train", "validation", "test")),
)
_notebook_bert = replace(SHAPES["notebook_bert"], vocabulary=BERT_PIECES, mlm_rate=0.15)
_mini = replace(SHAPES["mini"], vocabulary=OWN_PIECES, mlm_rate=0.15)
_prepare = ("-m", "benchmarks.ours.prepare", "--cache", "{round}/cache", "--threads", "{threads}")
_few_articles = ("--limit", "100")

JOBS: Mapping[str, Job] = {
    "docs_tiny": Job(
        "the built-in task, BERT-tiny, own vocabulary of 8,000 pieces, batch 32: needs neither a hub nor ../shared",
        (
            _ours("train", steps=600, small=("dataset.limit=400",)),
            _own_peer("trainer", "docs", "tiny", 32, steps=150),
            _own_peer("plain_loop", "docs", "tiny", 32, steps=150),
        ),
        (),
        shape=SHAPES["tiny"],
        tokens=32 * 60,
    ),
    "sst2_notebook": Job(
        "SST-2 training, the notebook's model and BERT's vocabulary, batch 32",
        (
            _ours(
                "train",
                "experiment=notebook_sst2",
                "tokenizer=bert_base_uncased",
                "training.batching=length",
                steps=2500,
                needs=("hub",),
            ),
            _shared("trainer_sst2", "--size", "notebook", "--batch", "32", steps=400),
            _shared("notebook_sst2", steps=400),
            _own_peer("plain_loop", "sst2", "notebook", 32, steps=400),
        ),
        (Target("examples_per_second", "trainer_sst2", 6),),
        shape=SHAPES["notebook"],
        tokens=32 * SST2_LENGTH,
    ),
    "sst2_tiny": Job(
        "SST-2 training, BERT-tiny: our defaults at batch 128 beside Trainer's (batch 8, fp32)",
        (
            _ours("train", "task=sst2", "model=tiny", "training.batch_size=128", steps=520, needs=("hub",)),
            _shared("trainer_sst2", "--size", "tiny", "--batch", "8", steps=300),
        ),
        (Target("examples_per_second", "trainer_sst2", 12),),
        shape=SHAPES["tiny"],
        tokens=128 * SST2_LENGTH,
    ),
    "pretrain_notebook": Job(
        "MLM and NSP, the BERT notebook's model, BERT's vocabulary, pairs of 64 tokens, batch 128, 300 articles",
        (
            _ours("pretrain", "experiment=notebook_bert", "dataset.limit=300", steps=100, needs=("hub",)),
            _shared("trainer_bert", "--articles", "300", steps=6, small_steps=5),
            _shared("notebook_bert", "--articles", "300", steps=25, small_steps=5),
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
            _ours(
                "pretrain",
                "task=wikipedia",
                "model=mini",
                "model.max_length=128",
                "dataset.limit=300",
                steps=100,
                needs=("hub",),
            ),
            _shared(
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
        note="Examples are pairs of sentences. Our vocabulary has 8,000 pieces, the peer's 30,522, so that the same text is "
        "more tokens for us: the ratio in pairs is the smaller one.",
    ),
    "sst2_to_787": Job(
        f"seconds of SST-2 training until validation accuracy first reaches {LINE_OF_NOTEBOOK}, a new seed in each round",
        (
            Side(
                OURS,
                (
                    *("-m", "encoderlab", "train", "experiment=sst2", "training.evaluate_every=100", "training.keep=best"),
                    *("baselines=false", "training.log_every=10", "training.threads={threads}", "seed={seed}"),
                    "run_dir={folder}/run",
                ),
                journalled_until(LINE_OF_NOTEBOOK),
                small=("training.steps=100",),
                needs=("hub",),
            ),
            _shared(
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
        note="Both sides are scored every 100 steps of 32 rows, off the clock; counted are the seconds before the first evaluation "
        "that "
        "reaches the line.",
    ),
    "start_predict": _start(
        "predicting one text",
        ("-m", "encoderlab", "predict", "run={work}/run", "text=()()", "threads={threads}"),
        1.4,
        setup=((*_train_smoke, "run_dir={work}/run"),),
    ),
    "start_train": _start("training on 64 rows of brackets, to the finished report", (*_train_smoke, "run_dir={folder}/run"), 3),
    "predict_sst2": _predict("prediction, BERT-tiny, SST-2's validation split", ("--data", "sst2"), 5, 872),
    "predict_amazon": _predict(
        "prediction, BERT-tiny, 100,000 texts: Amazon's reviews, repeated", ("--data", "amazon", "--count", "100000"), 1, 10_000
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
        note="Examples are articles. Ours splits them into sentences, to make pairs of them; the peer cuts its tokens every 128. "
        "The second start is ours again in a new process, which finds its store. Seconds leave out what importing takes. "
        "Ours uses a second process where there is a second core, the peer its tokenizer's threads. "
        "Peak memory is that of the largest process.",
    ),
}
