"""The jobs: what is compared with what, on which data; how each side is started, and how its numbers are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.processes import Finished
from benchmarks.roof import SHAPES, Shape

OURS = "encoderlab"
WARMUP = 10  # steps not counted in the speed, as in the peers' own meter
# Tokens of a row on average, for the size of the products probed.
SST2_LENGTH = 13
PAIR_LENGTH = 49
MINI_LENGTH = 55
BERT_PIECES = 30_522  # the vocabulary of bert-base-uncased
OWN_PIECES = 8_000  # that of tokenizer=wordpiece
Numbers = dict[str, Any]
Reader = Callable[[Finished, Path], Numbers]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the programs to compare.

    `arguments` are Python's, with places such as {steps} to be filled in; `small` are added where only a few
    `small_steps` are wanted. `needs` names what has to be there: hub, shared, minilm, before (a checkout of an earlier
    commit, which BENCHMARK_BEFORE names), or a package. `shape` is the model's where it differs from the job's. It runs
    beside `busy` other processes that keep a core busy each, and with `environment`, in which None unsets a variable.
    """

    name: str
    arguments: tuple[str, ...]
    read: Reader
    steps: int = 0
    small_steps: int = 20
    small: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    shape: Shape | None = None
    busy: int = 0
    environment: Mapping[str, str | None] = field(default_factory=dict)

    def command(self, *, small: bool) -> list[str]:
        """Return Python's arguments with the number of steps filled in, but not the other places."""
        steps = str(self.small_steps if small else self.steps)
        return [word.replace("{steps}", steps) for word in (*self.arguments, *(self.small if small else ()))]


@dataclass(frozen=True, slots=True)
class Job:
    """One comparison: ours is the first of the `sides`. `tokens` is the number in one of our steps, for the roof.

    `setup` runs once before the rounds and is not measured. `environment` is added to that of every side.
    """

    what: str
    sides: tuple[Side, ...]
    metric: str = "examples_per_second"
    shape: Shape | None = None
    tokens: int = 0
    setup: tuple[tuple[str, ...], ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


# Readers


def printed(done: Finished, folder: Path) -> Numbers:
    """Return the numbers of a script that ends with a line of JSON."""
    return {name.removeprefix("real_"): value for name, value in json.loads(done.last_line).items()}


def processor_time(done: Finished, folder: Path) -> Numbers:
    """Return the cost of the whole process, from start to end."""
    return {"processor_seconds": round(done.processor_seconds, 3)}


def logged(done: Finished, folder: Path, *, compiled: bool = False) -> Numbers:
    """Return the numbers of our own run in `folder`/run, from the first logged step after the warmup to the last one.

    If the model was `compiled`, they start after the last recompilation.
    """
    steps = [line for line in _log(folder / "run") if line["kind"] == "step"]
    counted_from = max(WARMUP, _last_slow_step(steps) if compiled else 0)
    first = next((line for line in steps[:-1] if line["step"] >= counted_from), steps[0])
    last = steps[-1]
    counted = {name: last[name] - first[name] for name in ("examples", "tokens", "padded_tokens", "seconds")}
    seconds = max(counted["seconds"], 1e-9)
    environment = json.loads((folder / "run" / "environment.json").read_text(encoding="utf-8"))
    return {
        "steps": last["step"] - first["step"],
        "seconds": round(seconds, 3),
        "examples_per_second": round(counted["examples"] / seconds, 1),
        "tokens_per_second": round(counted["tokens"] / seconds, 1),
        "padding": round(1 - counted["tokens"] / max(counted["padded_tokens"], 1), 4),
        "first_step_seconds": round(steps[0]["time"] - done.started, 3),
        "precision": environment["hardware"]["precision"],
    }


def _last_slow_step(steps: Sequence[Mapping[str, Any]]) -> int:
    """Return the last logged step preceded by one of more than twice the usual time; 0 if there is none."""
    pairs = list(zip(steps[:-1], steps[1:], strict=True))
    paces = [(after["seconds"] - before["seconds"]) / (after["step"] - before["step"]) for before, after in pairs]
    slow = [after["step"] for (_, after), pace in zip(pairs[:-1], paces, strict=False) if pace > 2 * median(paces)]
    return max(slow, default=0)


def _log(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


# Sides

_PEER = ("--steps", "{steps}", "--threads", "{threads}", "--seed", "{seed}")
_QUIET = ("baselines=false", "training.evaluate_every=1000000", "training.keep=last", "training.log_every=10")
_RUN = ("training.threads={threads}", "seed={seed}", "training.steps={steps}", "run_dir={folder}/run")
_LITTLE = ("training=smoke", "training.evaluate_every=1000000", "baselines=false", "run_dir={work}/run")


def ours(command: str, *overrides: str, read: Reader = logged, **more: Any) -> Side:
    """Return the side of our own command with nothing but training; `more` are fields of the side."""
    return Side(OURS, ("-m", "encoderlab", command, *_QUIET, *_RUN, *overrides), read, **more)


def _shared(script: str, *arguments: str, **more: Any) -> Side:
    """Return the side of an unchanged script from ../shared/peers, with a meter that records more."""
    program = ("-m", "benchmarks.peers.watched", f"{{shared}}/peers/{script}.py")
    needs = ("shared", "accelerate") if script.startswith("trainer") else ("shared",)
    return Side(script, (*program, *arguments, *_PEER), printed, needs=needs, **more)


# Training from scratch


def _tiny(what: str, *overrides: str) -> Job:
    words = ("task=sst2", "model=tiny", "training.batch_size=128", *overrides)
    peer = _shared("trainer_sst2", "--size", "tiny", "--batch", "8", steps=300)
    sides = (ours("train", *words, steps=520, needs=("hub",)), peer)
    return Job(f"SST-2 training, BERT-tiny, {what}", sides, shape=SHAPES["tiny"], tokens=128 * SST2_LENGTH)


_NOTEBOOK = ("experiment=notebook_sst2", "tokenizer=bert_base_uncased", "training.batching=length")
TRAINING = {
    "intents_tiny": Job(
        "the built-in task, BERT-tiny, own vocabulary, batch 32: needs neither a hub nor ../shared",
        (
            ours("train", "training.batch_size=32", steps=600, small=("dataset.limit=400",)),
            Side(
                "trainer",
                ("-m", "benchmarks.peers.trainer", "--data", "intents", "--batch", "32", *_PEER),
                printed,
                steps=150,
                small=("--limit", "400"),
                needs=("accelerate",),
            ),
        ),
        shape=SHAPES["tiny"],
        tokens=32 * SST2_LENGTH,
    ),
    "sst2_notebook": Job(
        "SST-2 training, the notebook's model and BERT's vocabulary, batch 32",
        (
            ours("train", *_NOTEBOOK, steps=2500, needs=("hub",)),
            _shared("trainer_sst2", "--size", "notebook", "--batch", "32", steps=400),
            _shared("notebook_sst2", steps=400),
        ),
        shape=SHAPES["notebook"],
        tokens=32 * SST2_LENGTH,
    ),
    "sst2_tiny": _tiny("our defaults at batch 128 against Trainer's (batch 8, fp32)"),
    "sst2_tiny_avx2": replace(
        _tiny("fp32 and AVX2 only, batch 128 against Trainer's defaults (batch 8)", "training.precision=fp32"),
        environment={"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    ),
}

# Finetuning: the peer has the recipe of our training=finetuning, without layer-wise decay, which Trainer lacks

_ROWS = ("task=sst2", "dataset.limit=5000", "training.batch_size=32", "training.layer_decay=1")
_FEWER = {"small": ("dataset.limit=400",)}


def _finetuning_peer(name: str, *arguments: str) -> Side:
    data = ("--model", "{minilm}", "--data", "sst2", "--limit", "5000", "--batch", "32", *arguments)
    needs = ("hub", "accelerate", "minilm")
    program = ("-m", "benchmarks.peers.trainer", *data, *_PEER)
    return Side(name, program, printed, steps=150, small=("--limit", "400"), needs=needs)


FINETUNING = {
    "finetune_minilm": Job(
        "finetuning all-MiniLM-L6-v2 on 5,000 rows of SST-2, batch 32",
        (
            ours("finetune", "init_from={minilm}", *_ROWS, steps=300, needs=("hub", "minilm"), **_FEWER),
            _finetuning_peer("trainer"),
            _finetuning_peer("trainer, bf16", "--bf16"),
        ),
        shape=SHAPES["minilm"],
        tokens=32 * SST2_LENGTH,
    ),
    "finetune_box": Job(
        "finetuning mini-en on 5,000 rows of SST-2, batch 32, against Trainer finetuning all-MiniLM-L6-v2",
        (ours("finetune", *_ROWS, steps=900, needs=("hub",), **_FEWER), _finetuning_peer("trainer")),
        shape=SHAPES["mini"],
        tokens=32 * SST2_LENGTH,
    ),
}

# Families of encoders: random weights in published shapes, on the built-in task, which needs no hub

_FROM = "{work}/encoder"
_ON_INTENTS = ("task=intents", f"init_from={_FROM}", "training.layer_decay=1")


def _family(shape: str, what: str, *settings: str, batch: int = 32, rows: int | None = None) -> Job:
    """Return the job of an encoder of that shape, ours with these settings besides; slow ones are trained and scored on
    a few `rows`.
    """
    words = (*_ON_INTENTS, f"training.batch_size={batch}", *settings)
    data = ("--model", _FROM, "--data", "intents", "--batch", str(batch), *_PEER)
    if rows is not None:
        words += (f"dataset.limit={rows}",)
        data += ("--limit", str(rows))
    mine = ours("finetune", *words, steps=60, small_steps=12, small=(f"dataset.limit={rows or 400}",))
    peer = Side(
        "trainer",
        ("-m", "benchmarks.peers.trainer", *data),
        printed,
        steps=40,
        small_steps=12,
        small=("--limit", str(rows or 400)),
        needs=("accelerate",),
    )
    setup = (("-m", "benchmarks.families", shape, _FROM),)
    return Job(f"finetuning {what} on the built-in task, batch {batch}", (mine, peer), setup=setup)


FAMILIES = {
    "finetune_distilbert": _family("distilbert", "an encoder of DistilBERT's shape"),
    "finetune_distilroberta": _family("distilroberta", "an encoder of DistilRoBERTa's shape"),
    "finetune_electra": _family("electra_small", "an encoder of ELECTRA-small's shape"),
    "finetune_ettin": _family("ettin_17m", "an encoder of Ettin-17M's shape (ModernBERT)"),
    "finetune_deberta": _family(
        "deberta_v3_xsmall", "an encoder of DeBERTa-v3-xsmall's shape, which transformers computes"
    ),
    "finetune_mpnet": _family("mpnet", "an encoder of MPNet-base's shape"),
    # It computes 512 tokens, its window, for each row. Measured in fp32 so far, see results/families.md.
    "finetune_longformer": _family(
        "longformer",
        "an encoder of Longformer-base's shape, which transformers computes",
        "training.precision=fp32",
        "train_on_names=false",
        batch=2,
        rows=40,
    ),
}

# Tables of which few rows occur: peak memory and speed of whole runs, by our defaults, beside an earlier commit

_BEFORE = {"PYTHONPATH": "{before}/src"}
_WHOLE_RUN = ("seed={seed}", "run_dir={folder}/run", "task=intents", "training.threads={threads}")


def _beside_before(*words: str, read: Reader = logged, **more: Any) -> tuple[Side, Side]:
    """Return finetuning by our defaults, and the same by an earlier commit."""
    arguments = ("-m", "encoderlab", "finetune", *_WHOLE_RUN, "baselines=false", *words)
    mine = Side(OURS, arguments, read, small=("dataset.limit=400",), **more)
    return mine, replace(mine, name="before", needs=("before",), environment=_BEFORE)


def _of_a_hundred_languages(shape: str, what: str, metric: str, *words: str, rows: int, steps: int) -> Job:
    """Return the job of an encoder of that shape on some rows of the built-in task, of whose pieces they have few."""
    sides = _beside_before(f"init_from={_FROM}", f"dataset.limit={rows}", *words)
    data = ("--model", _FROM, "--data", "intents", "--batch", "32", "--limit", str(rows), *_PEER)
    program = ("-m", "benchmarks.peers.trainer", *data)
    peer = Side("trainer", program, printed, steps=steps, small_steps=5, needs=("accelerate",))
    setup = (("-m", "benchmarks.families", shape, _FROM),)
    return Job(f"finetuning an encoder of {what}, batch 32: {metric}", (*sides, peer), metric, setup=setup)


_MULTILINGUAL = ("multilingual_minilm", "the shape of the multilingual MiniLM (12 layers of 384, 250,002 pieces)")
_XLM_R = ("xlm_roberta", "XLM-R-base's shape (12 layers of 768, 250,002 pieces)")
_TRIAL = ("training.steps=60", "training.log_every=10", "training.evaluate_every=1000000", "training.keep=last")
TABLES = {
    "memory_multilingual": _of_a_hundred_languages(
        *_MULTILINGUAL, "peak_memory", "training.epochs=1", rows=3_000, steps=30
    ),
    "memory_xlm_roberta": _of_a_hundred_languages(*_XLM_R, "peak_memory", "training.epochs=1", rows=1_000, steps=10),
    "speed_multilingual": _of_a_hundred_languages(*_MULTILINGUAL, "tokens_per_second", *_TRIAL, rows=3_000, steps=30),
    "speed_box": Job(
        "finetuning mini-en on the built-in task by our defaults, without evaluations: real tokens/s",
        _beside_before("training.steps=400", "training.log_every=10", "training.evaluate_every=1000000"),
        "tokens_per_second",
    ),
}

# A machine that does other things, too: as people start the two, so that neither is told how many threads to have

_UNSET = {"OMP_NUM_THREADS": None, "OMP_WAIT_POLICY": None, "GOMP_SPINCOUNT": None}


def _beside(n_busy: int) -> tuple[Side, Side]:
    """Return ours and the peer beside as many busy processes."""
    beside = f", beside {n_busy} busy" if n_busy else ""
    settings = (*_QUIET, "seed={seed}", "training.steps={steps}", "run_dir={folder}/run", "task=intents")
    arguments = ("-m", "encoderlab", "finetune", *settings, "training.batch_size=32")
    mine = Side(f"{OURS}{beside}", arguments, logged, steps=100, busy=n_busy, environment=_UNSET)
    data = ("--model", "{minilm}", "--data", "intents", "--batch", "32", "--steps", "{steps}", "--seed", "{seed}")
    program = ("-m", "benchmarks.peers.trainer", *data)
    needs = ("accelerate", "minilm")
    peer = Side(f"trainer{beside}", program, printed, steps=60, needs=needs, busy=n_busy, environment=_UNSET)
    return mine, peer


_QUIET_SIDE, _QUIET_PEER = _beside(0)
LOADED = {
    "finetune_busy": Job(
        "finetuning mini-en on the built-in task, batch 32, and Trainer finetuning all-MiniLM-L6-v2: alone, and beside "
        "one and two processes that keep a core busy each; encoderlab / encoderlab beside them is what the load costs",
        (_QUIET_SIDE, *_beside(1), *_beside(2), _QUIET_PEER),
        metric="tokens_per_second",
    )
}

# Pretraining

_MINI = replace(SHAPES["mini"], vocabulary=OWN_PIECES, mlm_rate=0.15)
_MINI_PEER = ("--size", "mini", "--length", "128", "--batch", "64", "--articles", "300")
_MINI_OURS = ("task=wikipedia", "model=mini", "model.max_length=128", "dataset.limit=300")
PRETRAINING = {
    "pretrain_notebook": Job(
        "MLM and NSP, the BERT notebook's model, BERT's vocabulary, pairs of 64 tokens, batch 128, 300 articles",
        (
            ours("pretrain", "experiment=notebook_bert", "dataset.limit=300", steps=100, needs=("hub",)),
            _shared("trainer_bert", "--articles", "300", steps=6, small_steps=5),
            _shared("notebook_bert", "--articles", "300", steps=25, small_steps=5),
        ),
        shape=replace(SHAPES["notebook_bert"], vocabulary=BERT_PIECES, mlm_rate=0.15),
        tokens=128 * PAIR_LENGTH,
    ),
    "pretrain_mini": Job(
        "MLM and NSP, BERT-mini, up to 128 tokens, batch 64, 300 articles, our defaults",
        (
            ours("pretrain", *_MINI_OURS, steps=100, needs=("hub",)),
            _shared("trainer_bert", *_MINI_PEER, steps=5, small_steps=4, shape=replace(_MINI, vocabulary=BERT_PIECES)),
        ),
        metric="tokens_per_second",
        shape=_MINI,
        tokens=64 * MINI_LENGTH,
    ),
}

# Prediction: from the loaded model to the last prediction written; the peer uses the best of five batch sizes

_FEW = ("--limit", "200")
_COMMON = ("--input", "{work}/texts.txt", "--output", "{folder}", "--threads", "{threads}")
_POOLER = ("model.pooling=pooler", "model.max_length=128")  # BERT's own classifier, and the length of the texts
_TINY_RUN = ("train", "task=sst2", "model.positions=learned", "model.norm_position=post", *_POOLER, *_LITTLE)
_MINILM_RUN = ("finetune", "task=sst2", "dataset.limit=400", "init_from={minilm}", *_POOLER, *_LITTLE)
_EXPORT = ("-m", "encoderlab", "export", "run={work}/run")
_TEN_THOUSAND = ("-m", "benchmarks.synthetic", "--texts", "sst2_train", "--count", "10000", "{work}/texts.txt")
_OURS = ("-m", "benchmarks.ours", *_COMMON)
_PREDICT = (_OURS, "--command", "predict", "--run")
_THRICE = ("--repeats", "3")
_SENTENCES = ("-m", "benchmarks.peers.texts", "sentence_transformers", "--model", "{minilm}")


def _side(name: str, program: tuple[str, ...], *words: str, needs: tuple[str, ...] = ()) -> Side:
    return Side(name, (*program, *words), printed, small=_FEW, needs=needs)


def _predict(what: str, run: tuple[str, ...], texts: tuple[str, ...], *precision: str, sampled: int = 10_000) -> Job:
    needs = ("hub", "minilm") if run is _MINILM_RUN else ("hub",)
    setup = (("-m", "encoderlab", *run), (*_EXPORT, "format=huggingface", "path={work}/exported"), texts)
    pipeline = (
        "-m",
        "benchmarks.peers.texts",
        "pipeline",
        "--model",
        "{work}/exported",
        *_COMMON,
        "--sampled",
        str(sampled),
    )
    ours = _side(OURS, _OURS, "--command", "predict", "--run", "{work}/run", *precision, needs=needs)
    return Job(f"prediction, {what}", (ours, _side("pipeline", pipeline)), setup=setup)


PREDICTION = {
    "predict_sst2": _predict(
        "BERT-tiny, SST-2's validation split",
        _TINY_RUN,
        ("-m", "benchmarks.synthetic", "--texts", "sst2", "{work}/texts.txt"),
        *("--repeats", "5"),
        sampled=872,
    ),
    "predict_amazon": _predict(
        "BERT-tiny, 100,000 texts: Amazon's reviews, repeated",
        _TINY_RUN,
        ("-m", "benchmarks.synthetic", "--texts", "amazon", "--count", "100000", "{work}/texts.txt"),
    ),
    "predict_minilm": _predict(
        "all-MiniLM-L6-v2 with a classifier, 10,000 short texts of SST-2, fp32",
        _MINILM_RUN,
        _TEN_THOUSAND,
        *("--precision", "fp32"),
    ),
    "predict_int8": Job(
        "prediction, the same model exported with format=int8, 10,000 short texts, against the run in fp32",
        (
            _side(OURS, *_PREDICT, "{work}/int8", *_THRICE, needs=("hub", "minilm", "onnxruntime", "onnxscript")),
            _side("fp32", *_PREDICT, "{work}/run", "--precision", "fp32", *_THRICE),
        ),
        setup=(("-m", "encoderlab", *_MINILM_RUN), (*_EXPORT, "format=int8", "path={work}/int8"), _TEN_THOUSAND),
    ),
    "embed_minilm": Job(
        "vectors of 10,000 sentences, all-MiniLM-L6-v2, fp32",
        (
            _side(OURS, _OURS, "--command", "embed", "--run", "{minilm}", *_THRICE, needs=("hub", "minilm")),
            _side("sentence_transformers", _SENTENCES, *_COMMON, *_THRICE, needs=("sentence_transformers",)),
        ),
        setup=(_TEN_THOUSAND,),
    ),
}

# Starting: processor time of whole processes, with Python's bytecode cached

_SMOKE = (
    *("-m", "encoderlab", "train", "task=brackets", "training=smoke", "training.threads={threads}"),
    *(f"dataset.{split}_rows=64" for split in ("train", "validation", "test")),
)


def _start(what: str, *words: str, setup: tuple[tuple[str, ...], ...] = ()) -> Job:
    sides = (Side(OURS, words, processor_time), Side("import_torch", ("-c", "import torch"), processor_time))
    return Job(what, sides, metric="processor_seconds", setup=setup)


STARTING = {
    "start_predict": _start(
        "predicting one text",
        *("-m", "encoderlab", "predict", "run={work}/run", "text=()()", "threads={threads}"),
        setup=((*_SMOKE, "run_dir={work}/run"),),
    ),
    "start_train": _start("training on 64 rows of brackets, to the finished report", *_SMOKE, "run_dir={folder}/run"),
    "start_help": Job(
        "`encoderlab --help`, `list` and `--version`",
        tuple(
            Side(name, ("-m", "encoderlab", word), processor_time)
            for name, word in ((OURS, "--help"), ("list", "list"), ("version", "--version"))
        ),
        metric="processor_seconds",
    ),
}

# Reading a workbook of 100,000 rows and 20 columns, beside an earlier commit

_READ = Side(OURS, ("-m", "benchmarks.sheets", "read", "{work}/rows.xlsx"), printed, needs=("xlsxwriter",))
READING = {
    "read_xlsx": Job(
        "reading a workbook of 100,000 rows and 20 columns: processor time of reading, memory of the whole process",
        (_READ, replace(_READ, name="before", needs=("xlsxwriter", "before"), environment=_BEFORE)),
        metric="processor_seconds",
        setup=(("-m", "benchmarks.sheets", "write", "{work}/rows.xlsx"),),
    )
}

JOBS: Mapping[str, Job] = {
    **TRAINING,
    **FINETUNING,
    **FAMILIES,
    **TABLES,
    **LOADED,
    **PRETRAINING,
    **STARTING,
    **PREDICTION,
    **READING,
}
