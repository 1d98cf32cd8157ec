"""The rows of speeds: what is switched on and off in each, and that a run did what its row says."""

import subprocess

import pytest

from benchmarks.gpu import speeds
from benchmarks.gpu.budget import Budget, Rows
from benchmarks.gpu.runs import Runs
from benchmarks.gpu.speeds import SCALES, Roofs, Scale, speed_rows, what_was_compiled
from benchmarks.processes import ROOT, Finished, python
from encoderlab.training.compilation import COMPILED, WITH_GRAPHS

LINES = "Attention: FlashAttention, {}\nDevice cuda, precision bfloat16 (as set), 4 threads\nBatches in 1 micro-batch (as set)\n"
FIGURES = {"tokens_per_second": 3.2e5, "examples_per_second": 1e4, "padding": 0.1, "first_step_seconds": 3.0}


@pytest.mark.parametrize(
    "words", [COMPILED, WITH_GRAPHS, "not compiled (as set)", "not compiled (no working compiler: cannot find (a) gcc)"]
)
def test_what_a_run_prints_about_compilation_is_found(words):
    assert what_was_compiled(LINES.format(words)) == words
    assert what_was_compiled("Attention: FlashAttention\n") is None


class Pretended(Runs):
    """Runs that only print what was requested, unless compilation is `broken`."""

    def pretrain(self, name, *settings, seconds, packed=True):  # noqa: ARG002
        self.requests.append((name, packed, settings))
        (compiling,) = (setting.partition("=")[2] for setting in settings if setting.startswith("training.compile="))
        printed = {"never": "not compiled (as set)", "always": COMPILED, "cuda_graphs": WITH_GRAPHS}[compiling]
        broken = "not compiled (no working compiler: none)"
        return Finished("", 1.0, 0, 0.0, LINES.format(broken if self.broken and compiling != "never" else printed))


def measured(tmp_path, monkeypatch, *, broken=False):
    monkeypatch.setattr(Pretended, "requests", [], raising=False)
    monkeypatch.setattr(Pretended, "broken", broken, raising=False)
    monkeypatch.setattr(speeds, "journalled", lambda done, folder, compiled: dict(FIGURES))
    probed = []
    monkeypatch.setattr(
        speeds, "probe", lambda shape, tokens, device, **rest: probed.append(tokens) or {"bfloat16": 5e14}
    )
    runs, found = Pretended(tmp_path, "cuda", 1, 1, 30_522, 0.1), Rows()
    found.measure(speed_rows(runs, SCALES, Roofs(runs, small=False), 60, compiled=True), Budget(1000))
    return found, runs.requests, probed


def test_every_scale_is_measured_with_packing_compilation_and_graphs_on_and_off(tmp_path, monkeypatch):
    found, requests, probed = measured(tmp_path, monkeypatch)
    kinds = {(row["packed"], row["compile"]) for row in found.figures}
    assert kinds == {(True, "always"), (True, "never"), (False, "always"), (False, "never"), (False, "cuda_graphs")}
    assert len(found.figures) == len(kinds) * len(SCALES) == len(requests)
    assert [name for name, *_ in requests[:3]] == [
        "mini-128",
        "base-128",
        "base-512",
    ]  # as shipped, before anything is switched off
    assert all(
        f"training.compile={row['compile']}" in settings
        for row, (_, _, settings) in zip(found.figures, requests, strict=True)
    )
    assert probed == [1024 * 128, 256 * 128]  # base at 512 has the products of base at 128
    assert all(0 < row["mfu"] < 1 for row in found.figures)


def test_a_run_that_was_not_compiled_is_no_row_of_compiled_runs(tmp_path, monkeypatch):
    found, _, _ = measured(tmp_path, monkeypatch, broken=True)
    assert {row["compile"] for row in found.figures} == {"never"}
    assert len(found.failed) == 9
    assert found.failed[0]["reason"] == "It ran not compiled (no working compiler: none)."


def test_padding_is_left_in_on_request():
    code = (
        "import runpy, sys\nimport encoderlab.cli.main as cli\nfrom encoderlab.model import heads\n"
        "cli.main = lambda: print(sys.argv[0], heads.worth_packing(1, None, kernel=True))\n"
        "runpy.run_module('benchmarks.ours.padded', run_name='__main__')"
    )
    done = subprocess.run(python("-c", code), cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "encoderlab False\n"


def test_a_scale_is_named_by_its_model_and_length():
    assert {name: f"{scale.model}_{scale.length}" for name, scale in SCALES.items()} == {name: name for name in SCALES}
    assert Scale("tiny", 32, 8) not in SCALES.values()
