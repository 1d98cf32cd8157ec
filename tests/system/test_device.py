"""The device: the best available one is chosen, an unavailable one is refused, and the choice is reported."""

import platform
import subprocess
import sys

import pytest
import torch

from encoderlab.errors import SettingError
from encoderlab.system.device import set_up_compute
from encoderlab.system.processes import Processes

pytestmark = pytest.mark.usefixtures("same_threads")


@pytest.fixture
def machine(monkeypatch):
    """A machine with the given accelerators."""

    def has(*accelerators, bf16=True, amx=False, avx512_bf16=False, amd=False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in accelerators)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2 if "cuda" in accelerators else 0)
        monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
        monkeypatch.setattr(
            torch.cuda, "is_bf16_supported", lambda including_emulation=True: bf16 or including_emulation
        )
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in accelerators)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512_bf16)
        monkeypatch.setattr("encoderlab.system.device.processor_name", lambda: "AMD EPYC" if amd else "Intel Xeon")

    return has


@pytest.mark.parametrize(
    ("accelerators", "picked"), [(["cuda", "mps"], "cuda"), (["cuda"], "cuda"), (["mps"], "mps"), ([], "cpu")]
)
def test_the_best_available_device_is_picked(machine, accelerators, picked):
    machine(*accelerators)
    assert set_up_compute(threads=1).device.type == picked


def test_an_explicit_device_is_used_even_if_there_is_a_better_one(machine):
    machine("cuda", "mps")
    assert set_up_compute("cpu", threads=1).device == torch.device("cpu")
    assert set_up_compute("mps", threads=1).device == torch.device("mps")
    assert set_up_compute("cuda:1", threads=1).device == torch.device("cuda:1")


@pytest.mark.parametrize("device", ["gpu", "", "cuda:x", "cuda:-1", "CPU"])
def test_an_unknown_device_is_refused_with_those_available(machine, device):
    machine("mps")
    with pytest.raises(SettingError, match=rf"^training.device={device} is not a device.*auto, mps, cpu"):
        set_up_compute(device, threads=1)


@pytest.mark.parametrize(
    ("accelerators", "units", "precision", "reason"),
    [
        (["cuda"], {"bf16": True}, torch.bfloat16, "the GPU has bf16 units"),
        (["cuda"], {"bf16": False}, torch.float32, "the GPU has no bf16 units"),
        ([], {"amx": True}, torch.bfloat16, "the processor has AMX"),
        ([], {"avx512_bf16": True, "amd": True}, torch.bfloat16, "the processor has AVX-512 bf16"),
        (
            [],
            {"avx512_bf16": True},
            torch.float32,
            "only on processors with AMX, and on AMD's",
        ),
        ([], {"amx": True, "avx512_bf16": True}, torch.bfloat16, "the processor has AMX"),
        ([], {}, torch.float32, "only on processors with AMX"),
        (["mps"], {"amx": True}, torch.float32, "only on CUDA GPUs and some processors"),
    ],
)
def test_bf16_is_used_where_it_pays_and_the_reason_is_given(machine, accelerators, units, precision, reason):
    machine(*accelerators, **units)
    compute = set_up_compute(threads=1)
    assert compute.precision is precision
    assert reason in compute.reason


FREED_MEMORY = """
import resource, torch
from encoderlab.system.device import set_up_compute
set_up_compute("cpu", threads=1)

def step():
    return [torch.empty(millions * 1_000_000).fill_(1.0) for millions in (12, 9, 3)]

for _ in range(3):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's malloc can be told to keep what is freed")
def test_memory_freed_by_a_step_is_reused_by_the_next_one():
    faults = subprocess.run([sys.executable, "-c", FREED_MEMORY], capture_output=True, text=True, check=True).stdout
    assert int(faults) < 100  # 96 MB would be 23,000 pages


def test_the_processes_of_a_machine_share_its_cores_and_take_a_gpu_each(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("encoderlab.system.device.available_cores", lambda: 8)
    monkeypatch.setattr("encoderlab.system.device.busy_cores", lambda: 0)
    monkeypatch.setattr(torch, "set_num_threads", lambda n: chosen.append(n))
    chosen: list[int] = []
    for size in (1, 3, 16):
        set_up_compute("cpu", processes=Processes(0, size, 0, size))
    assert chosen == [8, 2, 1]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: chosen.append(device.index))
    for wanted in ("auto", "cuda"):
        assert set_up_compute(wanted, "fp32", processes=Processes(5, 6, 1, 2)).device == torch.device("cuda:1")
    assert chosen[-1] == 1
    with pytest.raises(SettingError, match="training.device=cuda:0"):
        set_up_compute("cuda:0", "fp32", processes=Processes(0, 2, 0, 2))
    with pytest.raises(SettingError, match="4 processes on this machine"):
        set_up_compute("auto", "fp32", processes=Processes(2, 4, 2, 4))
    assert torch.get_num_threads() == before
