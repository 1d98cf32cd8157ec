"""torchrun's variables tell a process its rank; an error in them is one line."""

import pytest

from encoderlab.errors import SettingError
from encoderlab.system.distributed import SINGLE_PROCESS
from encoderlab.system.torchrun import join, placed

VARIABLES = {"WORLD_SIZE": "4", "RANK": "3", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1", "MASTER_PORT": "29500"}


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
