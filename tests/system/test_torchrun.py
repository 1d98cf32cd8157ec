"""torchrun's variables tell a process its rank; an error in them is one line."""

import pytest
import torch
import torch.distributed

from encoderlab.errors import SettingError
from encoderlab.system.processes import SINGLE_PROCESS, join, placed

VARIABLES = {
    "WORLD_SIZE": "4",
    "RANK": "3",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "MASTER_PORT": "29500",
}


@pytest.fixture
def variables(monkeypatch):
    def given(**changes):
        for name, value in (VARIABLES | changes).items():
            monkeypatch.delenv(name, raising=False)
            if value is not None:
                monkeypatch.setenv(name, value)

    return given


def test_a_process_knows_its_global_and_local_rank(variables):
    variables()
    place = placed()
    assert (place.rank, place.size, place.local_rank, place.local_size, place.machine) == (3, 4, 1, 2, 1)
    assert not place.is_main


@pytest.mark.parametrize("size", [None, "1"])
def test_without_torchrun_there_is_a_single_process(variables, size):
    variables(WORLD_SIZE=size)
    assert placed() is SINGLE_PROCESS
    assert join(SINGLE_PROCESS) is SINGLE_PROCESS


@pytest.mark.parametrize(
    ("gpus", "nccl", "backend"), [(True, True, "cpu:gloo,cuda:nccl"), (True, False, "gloo"), (False, True, "gloo")]
)
def test_hosts_talk_through_gloo_and_gpus_through_nccl(variables, monkeypatch, gpus, nccl, backend):
    variables(MASTER_ADDR="127.0.0.1")
    begun = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: nccl)
    monkeypatch.setattr(
        torch.distributed, "rendezvous", lambda *given, **named: iter([(torch.distributed.HashStore(), 3, 4)])
    )
    monkeypatch.setattr(
        torch.distributed, "init_process_group", lambda backend, **named: begun.append((backend, named["rank"]))
    )
    monkeypatch.setattr("encoderlab.system.processes._with_heartbeat", lambda place, *rest: place)
    join(placed())
    assert begun == [(backend, 3)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RANK", None),
        ("RANK", "4"),
        ("RANK", "-1"),
        ("WORLD_SIZE", "0"),
        ("WORLD_SIZE", "²"),
        ("LOCAL_WORLD_SIZE", "5"),
        ("MASTER_PORT", "x"),
    ],
)
def test_an_invalid_variable_is_named(variables, name, value):
    variables(**{name: value})
    with pytest.raises(SettingError, match=rf"{name}.*torchrun"):
        placed()
