"""Micro-batches: as few as fit, from an estimate close to what a training step really keeps."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.batch import Batch, HeadSizes
from encoderlab.model.config import Activation, ModelConfig, NormPosition
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.system.device import Compute
from encoderlab.system.processes import Processes
from encoderlab.training.loss import losses
from encoderlab.training.micro_batches import (
    StepMemory,
    choose_micro_batches,
    free_host_memory,
    free_memory,
    micro_batches_for,
    sharded_bytes,
    step_memory,
)

CPU = torch.device("cpu")
FP32, BF16 = (Compute(CPU, precision, 1, "") for precision in (torch.float32, torch.bfloat16))
PRETRAINING, CLASSIFYING = HeadSizes(sequence_classes=2, vocabulary=True), HeadSizes(sequence_classes=2)


@given(st.integers(1, 300), st.integers(0, 10**6), st.integers(1, 10**5), st.integers(0, 10**7))
def test_there_are_as_few_micro_batches_as_fit_and_at_most_one_per_row(batch_size, fixed, row, usable):
    memory = StepMemory(fixed, row)
    micro_batches = micro_batches_for(batch_size, memory, usable)
    assert 1 <= micro_batches <= batch_size
    assert memory.of(-(-batch_size // micro_batches)) <= usable or micro_batches == batch_size
    if micro_batches > 1:
        assert memory.of(-(-batch_size // (micro_batches - 1))) > usable


def kept_bytes(config, compute, heads, n, length, vocabulary):
    """Return the bytes autograd keeps from forward to backward pass, without parameters and their rounded copies."""
    model = EncoderWithHeads(config, vocabulary, 0, heads).train()
    ids = torch.randint(1, vocabulary, (n, length))
    positions = (
        torch.randperm(n * length)[: round(0.15 * n * length)].sort().values
        if heads.vocabulary
        else torch.empty(0).long()
    )
    batch = Batch(
        ids,
        ids * 0,
        None,
        torch.arange(n),
        positions,
        ids[:, 0] * 0,
        ids.flatten()[positions] if heads.vocabulary else None,
        n * length,
    )
    shapes = {tuple(weight.shape) for weight in model.parameters()}
    kept = {}

    def keep(tensor):
        if tuple(tensor.shape) not in shapes and tuple(tensor.T.shape if tensor.ndim == 2 else ()) not in shapes:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        with compute.autocast():
            prediction = model(batch)
        sum(losses(prediction, batch).values())
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@pytest.mark.parametrize("compute", [FP32, BF16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("heads", [PRETRAINING, CLASSIFYING], ids=["pretraining", "classifying"])
@pytest.mark.parametrize(
    "shape",
    [{}, {"dropout": 0.0}, {"activation": Activation.geglu}, {"norm_position": NormPosition.pre}, {"d_ff": 128}],
    ids=["bert", "no_dropout", "geglu", "pre_norm", "narrow"],
)
def test_the_estimate_is_close_to_what_a_training_step_keeps(compute, heads, shape):
    config = ModelConfig(d_model=64, n_heads=2, n_layers=8, max_length=96, **shape)
    estimate = step_memory(config, 0, heads, 3000, 0.15, 96, compute).of(8)
    assert 0.9 < estimate / kept_bytes(config, compute, heads, 8, 96, 3000) < 1.6


def test_weights_cost_gradients_averages_and_any_rounded_copies():
    config = ModelConfig()
    fixed = [step_memory(config, 1000, CLASSIFYING, 100, 0.0, 16, compute).fixed for compute in (FP32, BF16)]
    assert fixed == [12_000, 14_000]


def test_sharded_weights_cost_their_part_the_gathered_ones_and_all_rounded_copies():
    assert sharded_bytes(1000, 300, 4, FP32) == 250 * 16 + 300 * 8
    assert sharded_bytes(1000, 300, 4, BF16) == 250 * 16 + 300 * 8 + 2000


def test_longer_rows_and_larger_vocabularies_take_more_and_an_unused_head_nothing():
    def row(heads=PRETRAINING, vocabulary=8000, length=64):
        return step_memory(ModelConfig(), 0, heads, vocabulary, 0.15, length, FP32).row

    assert row(length=128) > 1.9 * row()
    assert row(vocabulary=16000) > row()
    assert row(heads=CLASSIFYING, vocabulary=16000) == row(heads=CLASSIFYING) < row()


def test_a_gpu_keeps_no_attention_weights():
    gpu = Compute(torch.device("cuda"), torch.bfloat16, 1, "")
    short, long = (step_memory(ModelConfig(), 0, CLASSIFYING, 100, 0.0, length, gpu).row for length in (64, 128))
    assert long == 2 * short


def test_an_ordinary_batch_is_computed_whole_and_its_memory_reported():
    memory = step_memory(ModelConfig(n_layers=4, d_model=256), 10**7, PRETRAINING, 8000, 0.15, 128, FP32)
    micro_batches = choose_micro_batches(32, memory, CPU)
    assert micro_batches.number == 1
    assert str(micro_batches).startswith("batches in 1 micro-batch (a step takes about 0.")


def test_a_batch_that_does_not_fit_is_split_and_the_reason_given(monkeypatch):
    monkeypatch.setattr("encoderlab.training.micro_batches.free_memory", lambda device: 10 * 2**30)
    micro_batches = choose_micro_batches(100, StepMemory(0, 2**28), CPU)
    assert (
        str(micro_batches)
        == "batches in 4 micro-batches (a step takes about 6.2 GiB of 10.0 GiB free, in one piece it would take 25.0 GiB)"
    )


def test_if_free_memory_is_unknown_nothing_is_split():
    huge = StepMemory(2**60, 2**60)
    assert choose_micro_batches(32, huge, torch.device("mps")).number == 1
    assert choose_micro_batches(8, huge, CPU).number in (1, 8)  # 1 beside Linux


def test_memory_pytorch_reserves_on_a_gpu_counts_as_free(monkeypatch):
    for name, value in {"mem_get_info": (5, 100), "memory_reserved": 30, "memory_allocated": 10}.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)
    assert free_memory(torch.device("cuda")) == 25


def system(root, available, groups, files=()):
    """Return a Linux system with this many kB available, these lines in /proc/self/cgroup, and these control group
    files.
    """
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 99999 kB\nMemAvailable:   {available} kB\n")
    (root / "proc/self/cgroup").write_text(groups)
    for path, text in dict(files).items():
        (root / "sys/fs/cgroup" / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "sys/fs/cgroup" / path).write_text(text)
    return root


def version_2(folder, most, used, cached):
    return {
        f"{folder}memory.max": most,
        f"{folder}memory.current": used,
        f"{folder}memory.stat": f"anon 5\ninactive_file {cached}\n",
    }


def test_without_a_limit_free_memory_is_what_the_machine_has_available(tmp_path):
    files = version_2("job/", "max\n", "7\n", "0")
    assert free_host_memory(system(tmp_path, 100, "0::/job\n", files)) == 102_400


def test_the_tightest_limit_of_the_parent_groups_counts_and_cached_files_do_not(tmp_path):
    files = version_2("job/step/", "max\n", "600\n", "0") | version_2("job/", "1000\n", "700\n", "200")
    assert free_host_memory(system(tmp_path, 100, "0::/job/step\n", files)) == 500


def test_a_container_that_cannot_see_its_groups_name_still_sees_its_limit(tmp_path):
    files = {
        "memory/memory.limit_in_bytes": "900\n",
        "memory/memory.usage_in_bytes": "500\n",
        "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 100\n",
    }
    groups = "7:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/\n"
    assert free_host_memory(system(tmp_path, 100, groups, files)) == 500


def test_other_systems_do_not_report_free_memory(tmp_path):
    assert free_host_memory(tmp_path) is None


def test_processes_of_a_machine_share_its_memory_and_agree_on_the_most_micro_batches(monkeypatch):
    monkeypatch.setattr("encoderlab.training.micro_batches.free_memory", lambda device: 1000)
    agreed = []
    monkeypatch.setattr(Processes, "all_reduce_max", lambda processes, number: agreed.append(number) or number + 1)
    memory = StepMemory(fixed=0, row=100)
    assert (
        choose_micro_batches(8, memory, torch.device("cpu"), Processes(0, 2, 0, 2)).number == 3
    )  # 4 rows of 8 fit into 80% of a half
    assert (
        choose_micro_batches(8, memory, torch.device("cuda"), Processes(0, 2, 0, 2)).number == 2
    )  # a card is nobody else's
    assert agreed == [2, 1]
