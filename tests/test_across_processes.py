"""Training and scoring across processes, started as users start them: the results equal those of one process."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from encoderlab.cli import main as cli
from encoderlab.training.checkpoint import checkpoints, read_state, verified
from faults.processes import ranks_of
from tests.run_files import journal_of, report_of

from .torchrun import command_of, environment, ours, torchrun

PADDED = ("padded_tokens",)  # several processes pad otherwise than one
pytestmark = pytest.mark.slow

TINY = (
    "model.n_layers=1",
    "model.d_model=16",
    "model.n_heads=2",
    "model.dropout=0",
    "model.attention_dropout=0",
    "training=smoke",
    "training.keep_state=true",
)
SHORT = (*TINY, "training.threads=1", "training.log_every=1", "training.evaluate_every=5", "baselines=false")
# with smaller weights the answers are so close that rounding alone ranks some of them
APART = "model.initializer_range=0.2"
BRACKETS = (
    *SHORT,
    APART,
    "task=brackets",
    "dataset.limit=61",
    "training.steps=15",
    "training.batch_size=6",
    "training.batching=random",
)
RANKED = {"average_precision": 0.01}  # of an untrained model's nearly equal answers: rounding lets two change places


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def alone(cache, tmp_path, monkeypatch):
    """Run a command in this process only."""
    monkeypatch.setenv("ENCODERLAB_CACHE", str(cache))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["encoderlab"])
    return lambda *arguments: cli.run([str(argument) for argument in arguments])


@pytest.fixture
def processes(cache, tmp_path):
    """Run a command in several processes; return exit code, standard output, and our own lines on standard error."""

    def run(size, *arguments):
        return torchrun(size, "-m", "encoderlab", *arguments, folder=tmp_path, ENCODERLAB_CACHE=str(cache))

    return run


@pytest.fixture(scope="module")
def one(cache, tmp_path_factory):
    """A run of one process."""
    folder = tmp_path_factory.mktemp("runs") / "one"
    os.environ["ENCODERLAB_CACHE"] = str(cache)
    cli.run(["train", *BRACKETS, f"run_dir={folder}"])
    return folder


def assert_alike(folder, other):
    """Check for the same steps of the same rows, and for losses, gradients and scores that differ only by rounding."""
    lines, others = journal_of(folder, without=PADDED), journal_of(other, without=PADDED)
    assert [(line["kind"], line["step"]) for line in lines] == [(line["kind"], line["step"]) for line in others]
    for line, like in zip(lines, others, strict=True):
        assert line == {
            key: pytest.approx(value, abs=RANKED.get(key, 1e-5)) if key != "split" else value
            for key, value in like.items()
        }
    for name, scores in report_of(folder)["splits"].items():
        assert scores["n"] == report_of(other)["splits"][name]["n"]
        assert scores["loss"] == pytest.approx(report_of(other)["splits"][name]["loss"], abs=1e-5)
    weights = load_file(Path(other, "model", "model.safetensors"))
    for name, weight in load_file(Path(folder, "model", "model.safetensors")).items():
        assert torch.allclose(weight, weights[name], atol=1e-3), name


def cut_back(folder, step):
    """Reduce a finished run to what a kill after `step` would have left."""
    for path in checkpoints(folder / "checkpoints"):
        if int(path.name.removeprefix("step-")) > step:
            shutil.rmtree(path)
    for path in (folder / "report.json", folder / "predictions.csv"):
        path.unlink(missing_ok=True)
    for path in (folder / "model", folder / "plots"):
        shutil.rmtree(path, ignore_errors=True)
    assert verified(folder / "checkpoints" / f"step-{step}")


def files(folder):
    return {str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file()}


def test_with_muon_two_processes_train_like_one(processes, alone, tmp_path):
    muon = (*BRACKETS, "training.optimizer=muon", "training.accumulate=2")
    alone("train", *muon, "run_dir=one")
    code, _, errors = processes(2, "train", *muon, "run_dir=two")
    assert code == 0, "\n".join(errors)
    assert_alike(tmp_path / "two", tmp_path / "one")


def test_two_processes_train_like_one_and_the_run_resumes_in_one(one, processes, alone, tmp_path):
    code, out, errors = processes(2, "train", *BRACKETS, "training.accumulate=2", "run_dir=two")
    assert code == 0, "\n".join(errors)
    assert_alike(tmp_path / "two", one)
    assert (out, errors.count("Next"), sum("Run folder two" in line for line in errors)) == ("", 1, 1)
    assert sum("step 15 of 15" in line for line in errors) == 1
    assert any("2 processes" in line for line in errors)
    assert [path.name for path in tmp_path.iterdir()] == ["two"]
    assert files(tmp_path / "two") == files(one)
    assert len(read_state(tmp_path / "two" / "checkpoints" / "step-15")["random_states"]) == 2
    cut_back(tmp_path / "two", 10)
    alone("train", "resume=two")
    assert_alike(tmp_path / "two", one)


def resumed_and_whole(processes, size, settings, folder, step):
    """Train, then train again from what a kill after `step` would have left; return the journals and weights of both."""
    for arguments in ((*settings, "run_dir=whole"), ("resume=again",)):
        if arguments == ("resume=again",):
            shutil.copytree(folder / "whole", folder / "again")
            cut_back(folder / "again", step)
        code, _, errors = processes(size, "train", *arguments)
        assert code == 0, "\n".join(errors)
    for run in ("again", "whole"):
        yield journal_of(folder / run, without=PADDED), load_file(folder / run / "model" / "model.safetensors")


def test_two_processes_resume_bit_for_bit_each_with_its_own_dropout(processes, tmp_path):
    settings = (*BRACKETS, "model.dropout=0.3", "model.attention_dropout=0.1")
    (journal, weights), (others, wanted) = resumed_and_whole(
        processes, 2, settings, tmp_path, 10
    )  # behind two evaluations
    assert journal == others
    assert all(torch.equal(weight, wanted[name]) for name, weight in weights.items())


def test_three_processes_resume_bit_for_bit_whatever_the_order_of_gradient_sums(processes, tmp_path):
    rows = (
        "task=reverse",
        "dataset.train_rows=120",
        "dataset.validation_rows=32",
        "dataset.test_rows=31",
        "training.batch_size=12",
    )
    steps = (
        "training.steps=8",
        "training.checkpoint_every=4",
        "training.evaluate_every=4",
        "model.n_layers=2",
        "model.d_ff=32",
    )
    (journal, weights), (others, wanted) = resumed_and_whole(processes, 3, (*SHORT, *rows, *steps), tmp_path, 4)
    assert journal == others
    assert all(torch.equal(weight, wanted[name]) for name, weight in weights.items())


def test_three_processes_finish_with_sharded_weights_what_one_began(one, processes, tmp_path):
    shutil.copytree(one, tmp_path / "run")
    cut_back(tmp_path / "run", 10)
    code, _, errors = processes(3, "train", "resume=run", "training.sharding=full")
    assert code == 0, "\n".join(errors)
    assert any("3 processes with a shard of the weights each" in line for line in errors)
    assert_alike(tmp_path / "run", one)


def test_muon_is_refused_where_matrices_are_sharded(processes):
    code, _, errors = processes(2, "train", *BRACKETS, "training.optimizer=muon", "training.sharding=full")
    assert code != 0
    assert any("training.sharding=none" in line for line in errors)


def test_sharded_pretraining_has_the_same_targets_as_one_process_and_resumes_in_one(processes, alone, tmp_path):
    sentences = [
        f"The {a} {b} looks at the {c} {b}."
        for a in ("old", "red")
        for b in ("cat", "dog", "king")
        for c in ("new", "big")
    ]
    documents = ["\n".join(" ".join(sentences[(n * k) % 12] for k in (1, 5, 7)) for _ in range(3)) for n in range(24)]
    (tmp_path / "texts.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    data = (
        "dataset=files",
        f"dataset.path={tmp_path / 'texts.txt'}",
        "tokenizer.vocabulary_size=100",
        "dataset.validation_fraction=0.2",
    )
    settings = (
        *SHORT,
        *data,
        "training.batch_size=5",
        "training.steps=6",
        "training.evaluate_every=3",
        "training.accumulate=2",
    )
    code, _, errors = processes(2, "pretrain", *settings, "training.sharding=full", "run_dir=two")
    assert code == 0, "\n".join(errors)
    alone("pretrain", *settings, "run_dir=one")
    assert_alike(tmp_path / "two", tmp_path / "one")
    assert read_state(tmp_path / "two/checkpoints/step-6")["optimizer"].keys() == {"state", "param_groups"}
    cut_back(tmp_path / "two", 3)
    alone("pretrain", "resume=two", "training.sharding=none")
    assert_alike(tmp_path / "two", tmp_path / "one")


@pytest.fixture
def finetuning(tmp_path):
    """Write texts whose words tell their label, as many as a linear model is fitted to; return a line that learns them
    with shards of the weights.
    """
    for name, rows in (("train", 60), ("validation", 60), ("test", 20)):
        lines = [f"{('a warm and witty film', 'a dull empty mess')[row % 2]} {row},{row % 2}" for row in range(rows)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")
    splits = [f"dataset.{name}={name}.csv" for name in ("train", "validation", "test")]
    size = ("model.max_length=16", "training.batch_size=2", "training.steps=100", "training.evaluate_every=50")
    setting = ("training.sharding=full", "training.threads=1", "baselines=false", "run_dir=two")
    return ("finetune", "task=classification", "dataset=files", *splits, *size, *setting)


def test_sharded_finetuning_compares_no_head_alone(processes, finetuning, tmp_path):
    code, _, errors = processes(2, *finetuning)
    assert code == 0, "\n".join(errors)
    checkpoint = report_of(tmp_path / "two")["checkpoint"]
    assert checkpoint["step"] > 0 and "head_alone" not in checkpoint


def test_a_head_alone_is_refused_for_sharded_weights(processes, finetuning, tmp_path):
    code, _, errors = processes(2, *finetuning, "training.freeze_layers=all")
    assert code != 0
    (line,) = (line for line in errors if line.startswith("encoderlab: training"))
    assert "training.freeze_layers=all" in line and line.endswith("Set training.sharding=none, or start one process.")
    assert not (tmp_path / "two").exists()


def write_shards(folder):
    """Write six shards of thirty documents each, all different."""
    folder.mkdir()
    words = [f"{syllable}{vowel}" for syllable in ("ba", "do", "ki", "lu", "me") for vowel in ("n", "r", "st", "la")]
    for shard in range(6):
        documents = []
        for number in range(30 * shard, 30 * shard + 30):
            drawn = [words[(number * 7 + place * place * (number % 5 + 1)) % len(words)] for place in range(48)]
            sentences = [" ".join(drawn[start : start + 6]).capitalize() + "." for start in range(0, 48, 6)]
            documents.append({"text": " ".join(sentences[:4]) + "\n" + " ".join(sentences[4:])})
        lines = "\n".join(map(json.dumps, documents))
        (folder / f"{shard}.jsonl").write_text(lines, encoding="utf-8")
    return folder


def test_two_processes_share_the_reading_of_a_stream_and_train_like_one(processes, alone, tmp_path):
    shards = write_shards(tmp_path / "shards")
    data = ("dataset=files", f"dataset.path={shards}/*.jsonl", "dataset.streaming=true", "dataset.window=2500")
    settings = (
        *SHORT,
        *data,
        "tokenizer.vocabulary_size=200",
        "training.batch_size=6",
        "training.steps=40",
        "training.evaluate_every=20",
    )
    code, _, errors = processes(2, "pretrain", *settings, "run_dir=two")
    assert code == 0, "\n".join(errors)
    alone("pretrain", *settings, "run_dir=one")
    assert_alike(tmp_path / "two", tmp_path / "one")
    streams = [read_state(tmp_path / run / "checkpoints" / "step-40")["stream"] for run in ("one", "two")]
    assert streams[0] == streams[1] and streams[0]["number"] > 1
    cut_back(tmp_path / "two", 20)
    alone("pretrain", "resume=two")
    assert_alike(tmp_path / "two", tmp_path / "one")


def test_scores_equal_those_of_one_process_bit_for_bit_even_if_some_have_no_rows(one, processes, alone, tmp_path):
    rows = (tmp_path / "rows.csv").resolve()
    rows.write_text("text,label\n()(),balanced\n((),unbalanced\n", encoding="utf-8")
    few = ("eval", f"run={one}", "dataset=files", f"dataset.path={rows}", "threads=1")
    many = ("eval", f"run={one}", "threads=1")
    for name, arguments, size in (("few", few, 3), ("many", many, 2)):
        code, _, errors = processes(size, *arguments, f"run_dir={name}-together")
        assert code == 0, "\n".join(errors)
        assert sum(f"{name}-together/report.json" in line for line in errors) == 1
        alone(*arguments, f"run_dir={name}-alone")
        assert report_of(f"{name}-together")["splits"] == report_of(f"{name}-alone")["splits"]
        assert (
            Path(f"{name}-together/predictions.csv").read_bytes() == Path(f"{name}-alone/predictions.csv").read_bytes()
        )


MISTAKES = {
    ("train", "model.n_layer=2"): "encoderlab: There is no setting model.n_layer. Did you mean model.n_layers?",
    ("train", *BRACKETS, "run_dir=."): "encoderlab: run_dir=. already holds files.",
    ("predict", "run=nowhere"): "encoderlab: torchrun starts 2 processes of one run",
}


@pytest.mark.parametrize("arguments", MISTAKES, ids=["a setting", "the folder", "the command"])
def test_a_mistake_is_reported_once(processes, tmp_path, arguments):
    (tmp_path / "precious").write_text("")
    code, out, errors = processes(2, *arguments)
    assert code != 0
    assert out == ""
    lines = [line for line in errors if line.startswith("encoderlab: ")]
    assert len(lines) == 1, errors
    assert lines[0].startswith(MISTAKES[arguments])
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def start(size, *arguments, folder, cache):
    """Start processes, and wait until the run has taken some steps."""
    line = [*command_of(size), "-m", "encoderlab", *arguments, "run_dir=run"]
    variables = environment(ENCODERLAB_CACHE=str(cache))
    with (folder / "errors.txt").open("w") as errors:
        started = subprocess.Popen(line, cwd=folder, env=variables, stdout=subprocess.DEVNULL, stderr=errors)
    for _ in range(1200):
        if (folder / "run" / "checkpoints" / "step-10").exists() or started.poll() is not None:
            break
        time.sleep(0.1)
    return started


LONG = (
    *BRACKETS[:-4],
    "dataset.limit=61",
    "training.batch_size=6",
    "training.steps=100000",
    "training.checkpoint_every=5",
)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds processes in Linux's /proc")
@pytest.mark.parametrize("killed", [0, 1])
def test_a_run_that_loses_a_process_ends_and_can_be_resumed(alone, cache, tmp_path, killed):
    started = start(2, "train", "task=brackets", *LONG, folder=tmp_path, cache=cache)
    os.kill(ranks_of(started.pid)[killed], signal.SIGKILL)
    assert started.wait(timeout=60) != 0
    errors = (tmp_path / "errors.txt").read_text()
    assert "-9" in errors  # torchrun says which process was killed
    assert killed == 0 or sum("lost its connection" in line for line in ours(errors)) == 1
    done = int(checkpoints(tmp_path / "run" / "checkpoints")[-1].name.removeprefix("step-"))
    alone("train", "resume=run", f"training.steps={done + 2}")
    assert journal_of("run", without=PADDED)[-1]["step"] == done + 2


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds processes in Linux's /proc")
def test_a_signal_to_any_process_stops_all_after_the_same_step(cache, tmp_path):
    started = start(2, "train", "task=brackets", *LONG, folder=tmp_path, cache=cache)
    os.kill(ranks_of(started.pid)[1], signal.SIGTERM)
    assert started.wait(timeout=60) != 0
    lines = ours((tmp_path / "errors.txt").read_text())
    assert sum("Resume with: encoderlab train resume=run" in line for line in lines) == 1, lines
    newest = checkpoints(tmp_path / "run" / "checkpoints")[-1]
    assert verified(newest)
    assert f"step-{journal_of(tmp_path / 'run', without=PADDED)[-1]['step']}" == newest.name  # no step was lost
