"""What counts as agreement between two devices, and as an exactly resumed run."""

import json
import math

import pytest

from benchmarks.gpu import correctness
from benchmarks.gpu.budget import Budget, Rows
from benchmarks.gpu.correctness import HALF, STEPS, agreement_rows, compared, reference_row, resume_rows
from benchmarks.gpu.runs import Runs
from benchmarks.processes import Finished


def steps(*losses, norm=2.0):
    return [{"kind": "step", "step": n, "loss": loss, "gradient_norm": norm} for n, loss in enumerate(losses, start=1)]


def test_the_largest_differences_of_two_runs():
    found = compared(steps(3.0, 2.0, 1.0), steps(3.0625, 1.5, 1.0, norm=2.5))
    assert found == {"steps": 3, "first_loss": 0.0625, "loss": 0.5, "gradient_norm": 0.25}


@pytest.mark.parametrize("other", [steps(3.0), steps(3.0, None), [], steps(3.0, 2.0, 1.0)])
def test_a_loss_that_is_not_finite_or_missing_agrees_with_none(other):
    assert compared(steps(3.0, 2.0), other)["loss"] == math.inf


class Written(Runs):
    """Runs that are written instead of trained; `moved` by that much on the tested device, or after resuming."""

    def pretrain(self, name, *settings, seconds, packed=True):  # noqa: ARG002
        self.started.append((name, settings))
        moved = 0.0 if "training.device=cpu" in settings else self.moved
        self.write(name, [loss + moved for loss in range(STEPS)], b"weights")
        for step in (0, HALF, STEPS):
            (self.folder / name / "run" / "checkpoints" / f"step-{step}").mkdir(parents=True)
        return Finished("", 1.0, 0)

    def resume(self, name, *, seconds):  # noqa: ARG002
        run = self.folder / name / "run"
        assert [path.name for path in sorted((run / "checkpoints").iterdir())] == ["step-0", f"step-{HALF}"]
        assert not (run / "report.json").exists() and not (run / "model").exists()
        self.write(
            name,
            [loss + self.moved * (loss >= HALF) for loss in range(STEPS)],
            b"weights" if not self.moved else b"others",
        )
        return Finished("", 1.0, 0)

    def write(self, name, losses, weights):
        run = self.folder / name / "run"
        (run / "model").mkdir(parents=True, exist_ok=True)
        (run / "metrics.jsonl").write_text(
            "".join(json.dumps(step) + "\n" for step in steps(*losses)), encoding="utf-8"
        )
        (run / "report.json").write_text("{}", encoding="utf-8")
        (run / "model" / "model.safetensors").write_bytes(weights)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    made = Written(tmp_path, "cuda", 1, 1, 1, 0.1)
    monkeypatch.setattr(Written, "started", [], raising=False)
    return made


@pytest.mark.parametrize(("moved", "passed"), [(0.0, [True] * 3), (1e-3, [False, True, True]), (3e-3, [False] * 3)])
def test_runs_agree_within_what_rounding_explains_in_their_precision(runs, monkeypatch, moved, passed):
    monkeypatch.setattr(Written, "moved", moved, raising=False)
    found = Rows()
    found.measure([reference_row(runs, 32), *agreement_rows(runs, 32, compiled=True)], Budget(1000))
    assert [row["passed"] for row in found.figures[1:]] == passed
    assert [row["name"] for row in found.figures] == ["reference", "fp32", "bf16", "bf16, compiled"]
    settings = dict(runs.started)
    assert "training.precision=fp32" in settings["reference"] and "training.device=cpu" in settings["reference"]
    assert all("training.device=cuda" in settings[name] for name in ("fp32", "bf16", "bf16-compiled"))
    assert {"training.compile=always", "model.dropout=0"} < set(settings["bf16-compiled"])


@pytest.mark.parametrize("moved", [0.0, 1e-12])
def test_a_resumed_run_is_exact_or_it_is_not(runs, monkeypatch, moved):
    monkeypatch.setattr(Written, "moved", moved, raising=False)
    monkeypatch.setattr(correctness, "SAME_RUN", ())
    found = Rows()
    found.measure(resume_rows(runs, 32, compiled=True), Budget(1000))
    assert found.failed == [] and [row["name"] for row in found.figures] == ["resumed", "resumed, compiled"]
    assert [row["passed"] for row in found.figures] == [moved == 0.0] * 2
    assert all({"training.deterministic=true", "model.dropout=0.1"} <= set(settings) for _, settings in runs.started)
    assert list(runs.folder.iterdir()) == []  # nothing is left on the disk
