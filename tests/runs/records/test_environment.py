"""What a run ran on: enough to explain later why two figures differ."""

import sys

import torch

from encoderlab.runs.records import environment as module
from encoderlab.runs.records.environment import environment
from encoderlab.system.device import Compute

CPU = Compute(torch.device("cpu"), torch.bfloat16, 3, "test")


def test_versions_hardware_and_command_line_are_recorded(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["script.py", "a"])
    found = environment("train", CPU, None)
    assert (found["command"], found["argv"], found["overrides"], found["dataset"]) == (
        "train",
        ["script.py", "a"],
        None,
        None,
    )
    assert found["versions"]["torch"] == torch.__version__
    hardware = found["hardware"]
    assert (hardware["device"], hardware["precision"], hardware["threads"], hardware["deterministic"]) == (
        "cpu",
        "bfloat16",
        3,
        False,
    )
    assert hardware["cores"] >= 1 and hardware["cpu_capability"]


def test_outside_a_git_checkout_and_without_a_package_there_is_nothing_to_record(monkeypatch):
    monkeypatch.setattr(module, "PACKAGES", ("no-such-package",))
    monkeypatch.setenv("PATH", "")
    found = environment("train", CPU, None)
    assert (found["git_commit"], found["versions"]["no-such-package"]) == (None, None)
