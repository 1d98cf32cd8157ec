"""Checkpoints: whole or not there, and never read when damaged."""

import json

import pytest
import torch
from torch import nn

from encoderlab.errors import DataError
from encoderlab.training.checkpoint import checkpoints, prune, read_weights, save_checkpoint, verified, weights_of


def save(folder, step=1, **weights):
    return save_checkpoint(folder, step, weights or {"a": torch.arange(6.0).reshape(2, 3)}, {"step": step})


def test_what_is_read_back_is_what_was_written(tmp_path):
    model = nn.Linear(3, 2)
    path = save_checkpoint(tmp_path, 7, weights_of(model), {"step": 7, "random_state": torch.get_rng_state()})
    assert path == tmp_path / "step-7"
    assert all(torch.equal(read_weights(path)[name], weight) for name, weight in model.state_dict().items())
    assert torch.load(path / "state.pt", weights_only=True)["step"] == 7
    assert sorted(file.name for file in path.iterdir()) == ["manifest.json", "model.safetensors", "state.pt"]


@pytest.mark.parametrize("name", ["model.safetensors", "state.pt"])
def test_a_flipped_bit_is_noticed(tmp_path, name):
    path = save(tmp_path)
    content = bytearray((path / name).read_bytes())
    content[len(content) // 2] ^= 1
    (path / name).write_bytes(content)
    assert not verified(path)
    with pytest.raises(DataError, match="is damaged.*Use another checkpoint"):
        read_weights(path)


@pytest.mark.parametrize("damage", ["missing file", "no manifest", "empty manifest", "other files listed"])
def test_a_checkpoint_that_is_not_whole_is_not_verified(tmp_path, damage):
    path = save(tmp_path)
    if damage == "missing file":
        (path / "state.pt").unlink()
    elif damage == "no manifest":
        (path / "manifest.json").unlink()
    elif damage == "empty manifest":
        (path / "manifest.json").write_text("")
    else:
        (path / "manifest.json").write_text(json.dumps({"step": 1, "sha256": {}}))
    assert not verified(path)


def test_a_save_that_fails_leaves_the_older_checkpoint_and_nothing_else(tmp_path):
    save(tmp_path, step=1)
    with pytest.raises(AttributeError):  # a function of a function cannot be stored
        save_checkpoint(tmp_path, 2, {"a": torch.zeros(1)}, {"broken": lambda: None})
    assert [path.name for path in tmp_path.iterdir()] == ["step-1"]
    assert verified(tmp_path / "step-1")


def test_checkpoints_are_listed_by_step_and_half_written_ones_are_not(tmp_path):
    for step in (10, 9, 100):
        save(tmp_path, step)
    (tmp_path / ".tmp-1234").mkdir()
    (tmp_path / "step-x").mkdir()
    assert [path.name for path in checkpoints(tmp_path)] == ["step-9", "step-10", "step-100"]


def test_pruning_keeps_the_newest_and_the_best(tmp_path):
    for step in range(1, 6):
        save(tmp_path, step)
    prune(tmp_path, newest=2, keep={2})
    assert [path.name for path in checkpoints(tmp_path)] == ["step-2", "step-4", "step-5"]
