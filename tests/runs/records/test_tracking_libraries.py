"""What each tracking library gets: Weights & Biases as its user configured it, and TensorBoard one run after a resume."""

import sys
from unittest.mock import MagicMock

import pytest

from encoderlab.runs.records.trackers import tracked
from encoderlab.system.processes import SINGLE_PROCESS
from encoderlab.system.signals import Interrupted
from tests.runs.records.tracked_runs import REPORT, STEP, config


@pytest.mark.parametrize(
    ("variables", "netrc", "mode"),
    [
        ({}, "", "offline"),
        ({"WANDB_API_KEY": "k"}, "", "online"),
        ({"WANDB_API_KEY": "k", "WANDB_MODE": "disabled"}, "", "disabled"),
        ({}, "machine api.wandb.ai login user password k\n", "online"),
        ({"WANDB_BASE_URL": "https://here"}, "machine api.wandb.ai login user password k\n", "offline"),
    ],
)
def test_wandb_is_offline_without_a_key_and_never_asks_for_one(folder, monkeypatch, variables, netrc, mode):
    wandb = MagicMock(Settings=dict)
    run = wandb.init.return_value
    run.id = "w1"
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    path = folder.root / "netrc"
    path.write_text(netrc)
    path.chmod(0o600)
    monkeypatch.setenv("NETRC", str(path))
    folder.trackers.write_text('{"wandb": "w1"}')
    with tracked(config("wandb"), "train", folder, SINGLE_PROCESS) as trackers:
        trackers.log(STEP)
        trackers.report(REPORT)
    opened = wandb.init.call_args.kwargs
    assert (opened["mode"], opened["project"], opened["id"], opened["resume"]) == (mode, "encoderlab", "w1", "allow")
    assert opened["dir"] == str(folder.root) and opened["settings"]["console"] == "off"
    assert [name for name, *_ in run.method_calls] == ["define_metric", "log", "summary.update", "finish"]
    run.log.assert_called_once_with({"step": 3, "train/loss": 0.25, "train/tokens": 12})
    run.finish.assert_called_once_with(exit_code=0)


def scalars(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_tensorboard_shows_a_resumed_run_as_one(folder):
    pytest.importorskip("tensorboard", reason="pip install 'encoderlab[tensorboard]'")
    with pytest.raises(Interrupted), tracked(config("tensorboard"), "train", folder, SINGLE_PROCESS) as trackers:
        for step in (1, 2, 3):
            trackers.log(STEP | {"step": step, "loss": float(step)})
        raise Interrupted(15)
    with tracked(config("tensorboard"), "train", folder, SINGLE_PROCESS) as trackers:
        for step in (3, 4):
            trackers.log(STEP | {"step": step, "loss": 10.0 * step})
        trackers.report(REPORT)
    found = scalars(folder.root)
    assert found["train/loss"] == [(1, 1.0), (2, 2.0), (3, 30.0), (4, 40.0)]
    assert found["report/test/accuracy"] == [(4, 0.5)]
