"""Checkpoints: complete or absent, and never read if damaged."""

import json

import pytest
import torch
from torch import nn

from encoderlab.errors import DataError
from encoderlab.system.files import differing_files
from encoderlab.training.checkpoint import (
    checkpoints,
    keep_only_weights,
    newest_verified,
    prune,
    read_weights,
    save_checkpoint,
    step_of,
    verified,
    weights_of,
)


def save(folder, step=1, **weights):
    return save_checkpoint(folder, step, weights or {"a": torch.arange(6.0).reshape(2, 3)}, {"step": step})


def test_a_checkpoint_is_read_back_as_it_was_written(tmp_path):
    model = nn.Linear(3, 2)
    path = save_checkpoint(tmp_path, 7, weights_of(model), {"step": 7, "random_state": torch.get_rng_state()})
    assert path == tmp_path / "step-7"
    assert all(torch.equal(read_weights(path)[name], weight) for name, weight in model.state_dict().items())
    assert torch.load(path / "state.pt", weights_only=True)["step"] == 7
    assert sorted(file.name for file in path.iterdir()) == ["manifest.json", "model.safetensors", "state.pt"]


@pytest.mark.parametrize("name", ["model.safetensors", "state.pt"])
def test_a_flipped_bit_is_detected(tmp_path, name):
    path = save(tmp_path)
    content = bytearray((path / name).read_bytes())
    content[len(content) // 2] ^= 1
    (path / name).write_bytes(content)
    assert not verified(path)
    with pytest.raises(DataError, match="is damaged.*Use another checkpoint"):
        read_weights(path)


@pytest.mark.parametrize("damage", ["missing file", "no manifest", "empty manifest", "other files listed"])
def test_an_incomplete_checkpoint_does_not_verify(tmp_path, damage):
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


def test_a_failed_save_leaves_only_the_older_checkpoint(tmp_path):
    save(tmp_path, step=1)
    with pytest.raises(AttributeError):  # a function of a function cannot be stored
        save_checkpoint(tmp_path, 2, {"a": torch.zeros(1)}, {"broken": lambda: None})
    assert [path.name for path in tmp_path.iterdir()] == ["step-1"]
    assert verified(tmp_path / "step-1")


def test_pruning_keeps_the_newest_and_the_best(tmp_path):
    for step in range(1, 6):
        save(tmp_path, step)
    prune(tmp_path, newest=2, keep={2})
    assert [path.name for path in checkpoints(tmp_path)] == ["step-2", "step-4", "step-5"]


def test_a_finished_run_keeps_the_newest_and_the_best_weights_and_no_state(tmp_path):
    for step in range(1, 5):
        save(tmp_path, step)
    keep_only_weights(tmp_path, {2})
    keep_only_weights(tmp_path, {2})  # again, as after a kill in between
    assert [path.name for path in checkpoints(tmp_path)] == ["step-2", "step-4"]
    for path in checkpoints(tmp_path):
        assert sorted(file.name for file in path.iterdir()) == ["manifest.json", "model.safetensors"]
        assert differing_files(path, ["model.safetensors"], step=step_of(path)) == []


def test_the_newest_intact_checkpoint_is_found_and_damaged_ones_are_set_aside_with_a_line_each(tmp_path, capsys):
    assert newest_verified(tmp_path) is None
    for step in (1, 2, 3):
        save(tmp_path, step)
    for step in (2, 3):
        (tmp_path / f"step-{step}" / "state.pt").write_bytes(b"")
    assert newest_verified(tmp_path) == tmp_path / "step-1"
    lines = capsys.readouterr().err.splitlines()
    assert [line.endswith("is damaged and has been set aside") for line in lines] == [True, True]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corrupt-step-2", "corrupt-step-3", "step-1"]
    assert save(tmp_path, 2).name == "step-2"  # its name is free again


def test_if_every_checkpoint_is_damaged_loading_fails_instead_of_starting_over(tmp_path):
    (save(tmp_path) / "manifest.json").unlink()
    with pytest.raises(DataError, match="Every checkpoint in .* is damaged"):
        newest_verified(tmp_path)
    with pytest.raises(DataError, match="Every checkpoint in .* is damaged"):  # also when it has been set aside
        newest_verified(tmp_path)
