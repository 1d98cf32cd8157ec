"""A run that skips steps with a loss that is not finite reports that while it runs, in metrics.jsonl, and in its
report.
"""

import json

import pytest

from encoderlab.errors import TrainingError
from encoderlab.training import loop

LITTLE = (
    "task=brackets",
    "model.n_layers=1",
    "model.d_model=16",
    "model.n_heads=2",
    "training=smoke",
    "training.threads=1",
)


@pytest.fixture
def broken_third_step(monkeypatch):
    """Make the third loss of the run NaN."""
    losses, calls = loop.losses, []

    def broken(*given):
        calls.append(given)
        found = losses(*given)
        return {name: loss * float("nan") for name, loss in found.items()} if len(calls) == 3 else found

    monkeypatch.setattr(loop, "losses", broken)


def test_a_skipped_step_is_reported_everywhere(command, broken_third_step, tmp_path, capsys):
    command("train", *LITTLE, "dataset.limit=200", "training.skip_nonfinite=1", "run_dir=run")
    assert (
        "encoderlab: Step 3 was skipped because it was not finite: sequence loss nan, gradient norm nan"
        in capsys.readouterr().err
    )
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "skipped"] == [3]
    assert [line["skipped"] for line in lines if line["kind"] == "step"] == [0, *[1] * 6]
    report = json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf-8"))
    assert "1 step was skipped because the loss or the gradient was not finite: 3" in report["notes"]


def test_without_the_setting_the_run_stops_there(command, broken_third_step):
    with pytest.raises(
        TrainingError, match=r"step 3 is not finite \(sequence loss nan.*training.skip_nonfinite=10 skips such steps"
    ):
        command("train", *LITTLE, "dataset.limit=200", "run_dir=run")


@pytest.mark.slow
def test_a_resumed_run_counts_the_steps_skipped_before(command, broken_third_step, stopped, tmp_path):
    stopped(*LITTLE, "dataset.limit=200", "training.skip_nonfinite=1", "run_dir=run", step=5)
    command("train", "resume=run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "skipped"] == [3]
    report = json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf-8"))
    assert "1 step was skipped because the loss or the gradient was not finite: 3" in report["notes"]
