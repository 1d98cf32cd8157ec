"""verify: a line for each part of a run, and exit code 3 if a part is damaged."""

import shutil

import pytest
import safetensors.torch
import torch

from encoderlab.errors import DataError
from encoderlab.runs.models.saved_model import HASHED
from encoderlab.training.checkpoint import save_checkpoint, write_manifest


@pytest.fixture
def copy(brackets_run, tmp_path):
    """A copy of a finished run, to be damaged."""
    return shutil.copytree(brackets_run, tmp_path / "run")


def test_an_untouched_run_verifies_in_every_part(command, brackets_run, capsys):
    for run in (brackets_run, brackets_run / "model"):
        command("verify", f"run={run}")
        lines = capsys.readouterr().out.splitlines()
        assert all(line.startswith("good") for line in lines)
        assert [line.split()[1] for line in lines][:3] == ["config.yaml", "data", "model"]
        assert sum("checkpoints/step-" in line for line in lines) >= 2


def test_an_unfinished_run_is_checked_against_its_future_model(command, copy, capsys):
    shutil.rmtree(copy / "model")
    (copy / "report.json").unlink()
    command("verify", f"run={copy}")
    assert "hashes, numbers and shapes are good" in capsys.readouterr().out


def damage_weights(copy):
    path = copy / "model" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def make_infinite(copy):
    path = copy / "model" / "model.safetensors"
    weights = safetensors.torch.load_file(path)
    next(iter(weights.values()))[0] = torch.nan
    safetensors.torch.save_file(weights, path, metadata={"format": "pt"})
    write_manifest(copy / "model", HASHED)


def take_the_state(copy):
    next((copy / "checkpoints").glob("step-*/state.pt")).unlink()


def change_the_rows(copy):
    config = copy / "config.yaml"
    config.write_text(config.read_text().replace("limit: 300", "limit: 299"))


def of_another_shape(copy):
    save_checkpoint(copy / "checkpoints", 999, {"encoder.weight": torch.zeros(2)}, {"step": 999})


DAMAGE = {
    damage_weights: "model",
    make_infinite: "model",
    take_the_state: "checkpoints/step-",
    change_the_rows: "data",
    of_another_shape: "checkpoints/step-999",
}


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_damaged_parts_are_named(command, copy, capsys, damage):
    damage(copy)
    with pytest.raises(DataError, match=r"1 of \d+ parts of .* are damaged or inconsistent: " + DAMAGE[damage]):
        command("verify", f"run={copy}")
    bad = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("good")]
    assert len(bad) == 1
    assert DAMAGE[damage] in bad[0]


def test_an_emptied_run_does_not_verify(command, copy, capsys):
    shutil.rmtree(copy / "model")
    with pytest.raises(DataError, match="damaged or inconsistent: model"):
        command("verify", f"run={copy}")
    (copy / "report.json").unlink()
    for checkpoint in (copy / "checkpoints").iterdir():
        checkpoint.rename(checkpoint.with_name(f"corrupt-{checkpoint.name}"))
    with pytest.raises(DataError, match="damaged or inconsistent: checkpoints/corrupt-step-"):
        command("verify", f"run={copy}")


def test_other_kinds_of_runs_are_reported(command, brackets_run):
    command("eval", f"run={brackets_run}", "run_dir=scored")
    with pytest.raises(DataError, match="scored is not a training run. Allowed: a run of train, pretrain, finetune"):
        command("verify", "run=scored")


def test_a_missing_run_is_reported(command):
    with pytest.raises(DataError, match="nowhere is not a run folder"):
        command("verify", "run=nowhere")
