"""Peak memory: whatever was allocated since the beginning counts, even if it was freed."""

import subprocess
import sys

import pytest
import torch

from encoderlab.system import peak_memory as measured
from encoderlab.system.peak_memory import peak_memory, reset_peak_memory

CPU = torch.device("cpu")
LET_GO = """
import numpy as np, torch
from encoderlab.system.peak_memory import peak_memory, reset_peak_memory

device = torch.device("cpu")
reset_peak_memory(device)
before = peak_memory(device)
np.ones(2**26, np.uint8).sum()
print(peak_memory(device) - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(peak_memory(CPU) is None, reason="only Linux tells the peak of a process")
def test_freed_memory_counts_towards_the_peak():
    # In a process of its own: one that has run other tests may give back more at the same time than is taken here.
    done = subprocess.run([sys.executable, "-c", LET_GO], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 2**25


def test_the_peak_is_unknown_if_the_system_does_not_report_it(tmp_path, monkeypatch):
    monkeypatch.setattr(measured, "PROCESS", tmp_path / "none")
    reset_peak_memory(CPU)
    assert peak_memory(CPU) is None
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "status").write_text("Name: x\n")
    assert peak_memory(CPU) is None


def test_on_a_gpu_it_is_pytorchs_own_count_of_that_gpu(monkeypatch):
    reset = []
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: reset.append(str(device)))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: {"cuda:1": 7}[str(device)])
    reset_peak_memory(torch.device("cuda:1"))
    assert reset == ["cuda:1"] and peak_memory(torch.device("cuda:1")) == 7
