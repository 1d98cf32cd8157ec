"""Precision and threads that are timed before the first step: nothing else changes, and what was chosen is kept."""

import json
from itertools import cycle
from pathlib import Path

import pytest
import safetensors.torch
import torch

from tests.run_files import journal_of

pytestmark = pytest.mark.usefixtures("same_threads")
SIZES = ("model=tiny", "model.n_layers=1", "model.d_model=128", "model.n_heads=2")
SHORT = ("training=smoke", "training.steps=6", "training.log_every=1", "dataset.limit=60", "baselines=false")
LINE = ("task=brackets", *SIZES, *SHORT)
# What a clock shows before and after a step in bf16, and before and after one in fp32.
BF16_FASTER = (0.0, 0.1, 0.0, 0.2)
FP32_FASTER = (0.0, 0.2, 0.0, 0.1)


@pytest.fixture
def timed(monkeypatch):
    """Let short runs time steps, in the two precisions of a processor that pretends to have AMX, by a clock like this."""
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    monkeypatch.setattr("encoderlab.runs.speed.LEAST_STEPS", 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def by(*moments):
        clock = cycle(moments)
        monkeypatch.setattr("encoderlab.runs.speed.perf_counter", lambda: next(clock))

    return by


def hardware(folder):
    return json.loads(Path(folder, "environment.json").read_text(encoding="utf-8"))["hardware"]


def weights(folder):
    return safetensors.torch.load_file(f"{folder}/model/model.safetensors")


def assert_same_weights(folder, other):
    assert all(torch.equal(weight, weights(other)[name]) for name, weight in weights(folder).items())


def test_timing_steps_changes_nothing_but_the_choice(command, timed, capsys):
    timed(*FP32_FASTER)
    command("train", *LINE, "run_dir=timed")
    assert hardware("timed")["precision"] == "float32"
    assert hardware("timed")["speeds"] == {"bf16, 1 thread": 1.0, "fp32, 1 thread": 2.0}
    assert "precision float32 (the fastest of 2 choices" in capsys.readouterr().err
    command("train", *LINE, "training.precision=fp32", "run_dir=set")
    assert_same_weights("timed", "set")
    assert [line.get("loss") for line in journal_of("timed")] == [line.get("loss") for line in journal_of("set")]


def test_the_line_that_repeats_a_run_sets_what_was_timed(command, timed):
    timed(*FP32_FASTER)
    command("train", *LINE, "run_dir=timed")
    assert "training.precision=fp32 training.threads=1" in Path("timed/report.html").read_text(encoding="utf-8")


def test_a_resumed_run_keeps_its_choice(command, timed, stopped):
    timed(*FP32_FASTER)
    command("train", *LINE, "run_dir=whole")
    stopped(*LINE, "run_dir=run", step=3)
    timed(*BF16_FASTER)
    command("train", "resume=run")
    assert_same_weights("run", "whole")


@pytest.mark.parametrize(
    "setting", ["training.precision=bf16", "training.deterministic=true", "training.measure=false", "folds=2"]
)
def test_what_is_set_or_compared_is_not_timed(command, timed, setting):
    timed(*FP32_FASTER)
    command("train", *LINE, setting, "run_dir=run")
    folder = "run/fold-1" if setting == "folds=2" else "run"
    assert hardware(folder)["precision"] == "bfloat16"
    assert hardware(folder)["speeds"] is None


def test_all_jobs_of_a_sweep_have_one_precision_whatever_their_width(command, timed):
    timed(*FP32_FASTER)
    command("train", "-m", *LINE, "model.d_model=64,128", "sweep_dir=sweep")
    found = [hardware(path.parent)["precision"] for path in Path("sweep").glob("*/report.json")]
    assert found == ["bfloat16", "bfloat16"]


def test_compare_names_the_precision_of_runs_that_chose_differently(command, timed):
    for name, clock in (("one", FP32_FASTER), ("two", BF16_FASTER)):
        timed(*clock)
        command("train", *LINE, f"run_dir={name}")
    command("compare", "one", "two", "output=compared")
    found = json.loads(Path("compared/compare.json").read_text(encoding="utf-8"))
    assert sorted(found["not_typed"]["precision"]) == ["bfloat16", "float32"]
