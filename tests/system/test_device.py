"""The device: the best available one is chosen, an unavailable one is refused, and the choice is reported."""

import os
import platform
import subprocess
import sys

import pytest
import torch

from encoderlab.errors import SettingError
from encoderlab.system.device import choose_compute, processor_vendor
from encoderlab.system.processes import Processes

pytestmark = pytest.mark.usefixtures("same_threads")


@pytest.fixture
def machine(monkeypatch):
    """A machine with the given accelerators."""

    def has(*accelerators, bf16=True, amx=False, avx512_bf16=False, vendor=None):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in accelerators)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2 if "cuda" in accelerators else 0)
        monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
        monkeypatch.setattr(
            torch.cuda, "is_bf16_supported", lambda including_emulation=True: bf16 or including_emulation
        )
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in accelerators)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512_bf16)
        monkeypatch.setattr("encoderlab.system.device.processor_vendor", lambda: vendor)

    return has


@pytest.mark.parametrize(
    ("accelerators", "picked"), [(["cuda", "mps"], "cuda"), (["cuda"], "cuda"), (["mps"], "mps"), ([], "cpu")]
)
def test_the_best_available_device_is_picked(machine, accelerators, picked):
    machine(*accelerators)
    assert choose_compute(threads=1).device.type == picked


def test_an_explicit_device_is_used_even_if_there_is_a_better_one(machine):
    machine("cuda", "mps")
    assert choose_compute("cpu", threads=1).device == torch.device("cpu")
    assert choose_compute("mps", threads=1).device == torch.device("mps")
    assert choose_compute("cuda:1", threads=1).device == torch.device("cuda:1")


@pytest.mark.parametrize("device", ["gpu", "", "cuda:x", "cuda:-1", "CPU"])
def test_an_unknown_device_is_refused_with_those_available(machine, device):
    machine("mps")
    with pytest.raises(
        SettingError, match=rf"^training.device={device} is not a device.*auto, mps, cpu.*Remove training.device"
    ):
        choose_compute(device, threads=1)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "xpu", "meta"])
def test_a_device_the_machine_lacks_is_refused(machine, device):
    machine()
    with pytest.raises(SettingError, match=rf"^training.device={device} is not available on this machine.*auto, cpu"):
        choose_compute(device, threads=1)


def test_a_gpu_index_out_of_range_is_refused(machine):
    machine("cuda")
    with pytest.raises(
        SettingError, match=r"^training.device=cuda:2 is not available on this machine.*auto, cuda, cpu"
    ):
        choose_compute("cuda:2", threads=1)


@pytest.mark.parametrize(
    ("accelerators", "units", "precision", "reason"),
    [
        (["cuda"], {"bf16": True}, torch.bfloat16, "the GPU has bf16 units"),
        (["cuda"], {"bf16": False}, torch.float32, "the GPU has no bf16 units"),
        ([], {"amx": True}, torch.bfloat16, "the processor has AMX"),
        ([], {"avx512_bf16": True, "vendor": "AuthenticAMD"}, torch.bfloat16, "the processor has AVX-512 bf16"),
        (
            [],
            {"avx512_bf16": True, "vendor": "GenuineIntel"},
            torch.float32,
            "is faster only on AMD processors, and this is one by GenuineIntel",
        ),
        ([], {"avx512_bf16": True, "vendor": None}, torch.float32, "and this is of unknown make"),
        ([], {"amx": True, "avx512_bf16": True, "vendor": "GenuineIntel"}, torch.bfloat16, "the processor has AMX"),
        ([], {}, torch.float32, "neither AMX nor AVX-512 bf16"),
        (["mps"], {"amx": True}, torch.float32, "only on CUDA GPUs and some processors"),
    ],
)
def test_bf16_is_used_where_it_pays_and_the_reason_is_given(machine, accelerators, units, precision, reason):
    machine(*accelerators, **units)
    compute = choose_compute(threads=1)
    assert compute.precision is precision
    assert reason in compute.reason


def test_a_narrow_model_computes_in_fp32_and_a_wider_one_in_bf16(machine):
    machine(amx=True)
    assert choose_compute("cpu", threads=1, width=127).precision is torch.float32
    assert "bf16 is faster only from model.d_model=128" in choose_compute("cpu", threads=1, width=64).reason
    assert choose_compute("cpu", threads=1, width=128).precision is torch.bfloat16


def test_an_explicit_precision_is_used(machine):
    machine(amx=True)
    assert choose_compute("cpu", "fp32", 1).precision is torch.float32
    machine(amx=False)
    assert choose_compute("cpu", "bf16", 1).precision is torch.bfloat16


@pytest.mark.parametrize(
    ("cpuinfo", "vendor"),
    [
        (
            "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t: 207\n\nprocessor\t: 1\nvendor_id\t: GenuineIntel\n",
            "GenuineIntel",
        ),
        ("vendor_id : AuthenticAMD\n", "AuthenticAMD"),
        ("processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\n", None),  # ARM names no vendor_id
        (None, None),  # macOS and Windows have no such file
    ],
)
def test_the_processors_vendor_is_read_if_the_system_reports_it(tmp_path, cpuinfo, vendor):
    if cpuinfo is not None:
        (tmp_path / "cpuinfo").write_text(cpuinfo)
    assert processor_vendor(tmp_path / "cpuinfo") == vendor


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_precision_applies_to_matrix_products_and_not_to_weights(precision, dtype):
    linear = torch.nn.Linear(4, 3)
    with choose_compute("cpu", precision, 1).autocast():
        assert linear(torch.ones(2, 4)).dtype is dtype
    assert linear.weight.dtype is torch.float32
    assert linear(torch.ones(2, 4)).dtype is torch.float32


def test_an_explicit_number_of_threads_is_used_otherwise_one_for_each_available_core(monkeypatch):
    assert choose_compute("cpu", threads=2).threads == torch.get_num_threads() == 2
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 4}, raising=False)
    assert choose_compute("cpu").threads == torch.get_num_threads() == 3


def test_denormal_numbers_no_longer_slow_the_processor_down():
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush denormal numbers")
    torch.set_flush_denormal(False)
    choose_compute("cpu", threads=1)
    assert (torch.full((3,), 1e-40) * 1.0).eq(0).all()


FREED_MEMORY = """
import resource, torch
from encoderlab.system.device import choose_compute
choose_compute("cpu", threads=1)

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


@pytest.mark.parametrize("theirs", [None, "7"])
def test_prepared_products_are_cached_once_unless_the_user_sets_otherwise(theirs, monkeypatch):
    monkeypatch.setenv("LRU_CACHE_CAPACITY", theirs or "")
    if theirs is None:
        monkeypatch.delenv("LRU_CACHE_CAPACITY")
    choose_compute("cpu", "bf16", 1)
    assert os.environ["LRU_CACHE_CAPACITY"] == (theirs or "1")


def test_the_choice_is_printed_in_one_line():
    assert str(choose_compute("cpu", "bf16", 1)) == "device cpu, precision bfloat16 (as set), 1 thread"


def test_the_processes_of_a_machine_share_its_cores_and_take_a_gpu_each(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setattr("encoderlab.system.device.available_cores", lambda: 8)
    monkeypatch.setattr(torch, "set_num_threads", lambda n: chosen.append(n))
    chosen: list[int] = []
    for size in (1, 3, 16):
        choose_compute("cpu", processes=Processes(0, size, 0, size))
    assert chosen == [8, 2, 1]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: chosen.append(device.index))
    for wanted in ("auto", "cuda"):
        assert choose_compute(wanted, "fp32", processes=Processes(5, 6, 1, 2)).device == torch.device("cuda:1")
    assert chosen[-1] == 1
    with pytest.raises(
        SettingError, match="cuda:0 is one GPU for 2 processes. Allowed: auto, cuda, cpu. Set training.device=cpu"
    ):
        choose_compute("cuda:0", "fp32", processes=Processes(0, 2, 0, 2))
    with pytest.raises(SettingError, match="4 processes on this machine need a GPU each, and it has 2"):
        choose_compute("auto", "fp32", processes=Processes(2, 4, 2, 4))
    assert torch.get_num_threads() == before


def test_apple_gpus_serve_one_process(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_compute("auto", processes=Processes(0, 2, 0, 2)).device == torch.device("cpu")
    with pytest.raises(SettingError, match="training.device=mps needs a single process, and there are 2"):
        choose_compute("mps", processes=Processes(0, 2, 0, 2))


def test_cudnn_attention_is_disabled_because_it_plans_for_each_shape(machine, monkeypatch):
    switches = []
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", switches.append)
    machine()
    choose_compute(threads=1)
    assert switches == []
    machine("cuda")
    choose_compute(threads=1)
    assert switches == [False]


@pytest.mark.parametrize(("wanted", "current"), [("cuda:1", [1]), ("cuda:0", [0]), ("cuda", []), ("cpu", [])])
def test_the_named_gpu_becomes_the_current_one(machine, monkeypatch, wanted, current):
    made_current = []
    machine("cuda")
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: made_current.append(device.index))
    choose_compute(wanted, threads=1)
    assert made_current == current


def test_fp32_on_a_gpu_is_fp32_and_not_tf32(machine):
    machine("cuda")
    assert choose_compute("cuda", "fp32", 1).precision is torch.float32
    assert not torch.backends.cuda.matmul.allow_tf32


def test_slurm_may_show_each_process_only_its_own_gpu(machine, monkeypatch):
    machine("cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(SettingError, match="2 processes on this machine need a GPU each, and it has 1"):
        choose_compute("cuda", "fp32", threads=1, processes=Processes(1, 2, 1, 2))
    monkeypatch.setenv("SLURM_GPUS_PER_TASK", "1")
    assert choose_compute("cuda", "fp32", threads=1, processes=Processes(1, 2, 1, 2)).device == torch.device("cuda:0")
