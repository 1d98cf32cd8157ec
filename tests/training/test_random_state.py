"""Dropout's random state continues after a checkpoint, separately in each process."""

import torch

from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.training.distribution import random_states, seed_dropout, set_random_states

CPU = torch.device("cpu")


def test_generators_continue_where_they_stopped():
    states = random_states(CPU, SINGLE_PROCESS)
    drawn = torch.rand(3)
    torch.rand(5)
    set_random_states(states, CPU, SINGLE_PROCESS, seed=0, step=7)
    assert torch.equal(torch.rand(3), drawn)


def test_each_process_continues_where_it_stopped():
    states = [{"cpu": torch.Generator().manual_seed(seed).get_state()} for seed in (1, 2)]
    for rank in (0, 1):
        set_random_states(states, CPU, Processes(rank, 2), seed=0, step=7)
        assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(rank + 1)))


def test_with_another_number_of_processes_dropout_is_reseeded_from_seed_step_and_process():
    def drawn(seed, step, rank, size=3):
        set_random_states([{"cpu": torch.get_rng_state()}], CPU, Processes(rank, size), seed, step)
        return tuple(torch.rand(4).tolist())

    assert drawn(0, 7, 1) == drawn(0, 7, 1)
    assert len({drawn(*place) for place in [(0, 7, 0), (0, 7, 1), (0, 8, 0), (1, 7, 0)]}) == 4
    seed_dropout(0, 7, Processes(1, 3))
    assert tuple(torch.rand(4).tolist()) == drawn(0, 7, 1)


def test_a_gpus_own_generator_continues_as_well(monkeypatch):
    restored = []
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: f"state of {device}")
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: restored.append((state, str(device))))
    gpu = torch.device("cuda:1")
    states = random_states(gpu, SINGLE_PROCESS)
    set_random_states(states, gpu, SINGLE_PROCESS, seed=0, step=7)
    set_random_states(states, CPU, SINGLE_PROCESS, seed=0, step=7)  # a run that resumes on a CPU has no use for it
    assert restored == [("state of cuda:1", "cuda:1")]
