"""The peak of memory: what was taken after the beginning counts, whether it is still held or not."""

import numpy as np
import pytest
import torch

from encoderlab.runs import peak_memory as measured
from encoderlab.runs.peak_memory import peak_memory, reset_peak_memory

CPU = torch.device("cpu")


@pytest.mark.skipif(peak_memory(CPU) is None, reason="only Linux tells the peak of a process")
def test_memory_that_was_let_go_again_is_in_the_peak():
    reset_peak_memory(CPU)
    before = peak_memory(CPU)
    np.ones(2**26, np.uint8).sum()
    assert peak_memory(CPU) - before > 2**25


def test_where_the_system_does_not_tell_the_peak_is_not_known(tmp_path, monkeypatch):
    monkeypatch.setattr(measured, "PROCESS", tmp_path / "none")
    reset_peak_memory(CPU)
    assert peak_memory(CPU) is None
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "status").write_text("Name: x\n")
    assert peak_memory(CPU) is None
