"""Prediction compared with transformers.pipeline, and sentence vectors compared with sentence-transformers."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.jobs.job import OURS, Job, Target
from benchmarks.sides import Side, printed

_FEW = ("--limit", "200")
_SMOKE = ("training=smoke", "training.evaluate_every=1000000", "baselines=false", "run_dir={work}/run")
_COMMON = ("--input", "{work}/texts.txt", "--output", "{folder}", "--threads", "{threads}")
_POOLER = (
    "model.pooling=pooler",
    "model.max_length=128",
)  # pooling of BERT's own classifier, and the length of the texts
_BERT = ("model.positions=learned", "model.norm_position=post", *_POOLER)  # what transformers can open
_TINY = ("train", "task=sst2", *_BERT, *_SMOKE)
_MINILM = ("finetune", "task=sst2", "dataset.limit=400", "init_from={minilm}", *_POOLER, *_SMOKE)


def _predict(
    what: str,
    texts: tuple[str, ...],
    repeats: int,
    sampled: int,
    *,
    model: tuple[str, ...] = _TINY,
    precision: str = "auto",
    at_least: float = 5,
) -> Job:
    setup = (
        ("-m", "encoderlab", *model),
        ("-m", "encoderlab", "export", "run={work}/run", "format=huggingface", "path={work}/exported"),
        ("-m", "benchmarks.texts", *texts, "--output", "{work}/texts.txt"),
    )
    ours = (
        "-m",
        "benchmarks.ours.predict",
        "--run",
        "{work}/run",
        *_COMMON,
        "--precision",
        precision,
        "--repeats",
        str(repeats),
    )
    peer = ("-m", "benchmarks.peers.pipeline", "--model", "{work}/exported", *_COMMON, "--sampled", str(sampled))
    needs = ("hub", "minilm") if model is _MINILM else ("hub",)
    sides = (
        Side(OURS, ours, printed, small=_FEW, needs=needs),
        Side("pipeline", (*peer, "--repeats", str(repeats)), printed, small=_FEW, needs=needs),
    )
    note = (
        "The same weights on both sides, exported with `encoderlab export`. The time is from the loaded model to the last "
        "prediction written; for ours, the whole of `predict` minus opening the model in the same process. The pipeline uses the "
        f"best of five batch sizes on 2,000 texts, and is then timed on at most the first {sampled:,}."
    )
    return Job(what, sides, (Target("examples_per_second", "pipeline", at_least),), setup=setup, note=note)


def _int8() -> Job:
    """Return the job of an 8-bit graph and the run it was exported from."""
    ours = ("-m", "benchmarks.ours.predict", *_COMMON, "--repeats", "3")
    needs = ("hub", "minilm", "onnxruntime")
    return Job(
        "prediction, the same model exported with format=int8, 10,000 short texts, against the run in fp32",
        (
            Side(OURS, (*ours, "--run", "{work}/int8"), printed, small=_FEW, needs=needs),
            Side("fp32", (*ours, "--run", "{work}/run", "--precision", "fp32"), printed, small=_FEW, needs=needs),
        ),
        (Target("examples_per_second", "fp32", 2),),
        setup=(
            ("-m", "encoderlab", *_MINILM),
            ("-m", "encoderlab", "export", "run={work}/run", "format=int8", "path={work}/int8"),
            ("-m", "benchmarks.texts", *_TEN_THOUSAND, "--output", "{work}/texts.txt"),
        ),
        note="Timed as in `predict_minilm`.",
    )


def _embed() -> Job:
    ours = ("-m", "benchmarks.ours.embed", "--encoder", "{minilm}", *_COMMON, "--repeats", "3")
    peer = ("-m", "benchmarks.peers.sentence_encoder", "--model", "{minilm}", *_COMMON, "--repeats", "3")
    return Job(
        "vectors of 10,000 sentences, all-MiniLM-L6-v2, fp32",
        (
            Side(OURS, ours, printed, small=_FEW, needs=("hub", "minilm")),
            Side("sentence_transformers", peer, printed, small=_FEW, needs=("hub", "minilm", "sentence_transformers")),
        ),
        (Target("examples_per_second", "sentence_transformers", 1.5),),
        setup=(("-m", "benchmarks.texts", *_TEN_THOUSAND, "--output", "{work}/texts.txt"),),
        note="Sentences of SST-2. The time is from the loaded model to the vectors written, as for prediction. The peer's `encode` "
        "uses the best of five batch sizes on 2,000 sentences.",
    )


_TEN_THOUSAND = ("--data", "sst2_train", "--count", "10000")

PREDICTION: Mapping[str, Job] = {
    "predict_sst2": _predict("prediction, BERT-tiny, SST-2's validation split", ("--data", "sst2"), 5, 872),
    "predict_amazon": _predict(
        "prediction, BERT-tiny, 100,000 texts: Amazon's reviews, repeated",
        ("--data", "amazon", "--count", "100000"),
        1,
        10_000,
    ),
    "predict_minilm": _predict(
        "prediction, all-MiniLM-L6-v2 with a classifier, 10,000 short texts of SST-2, fp32",
        _TEN_THOUSAND,
        1,
        10_000,
        model=_MINILM,
        precision="fp32",
        at_least=3,
    ),
    "predict_int8": _int8(),
    "embed_minilm": _embed(),
}
