"""verify: a line for each part of a run, and an error that names the damaged ones."""

import shutil

import pytest

from encoderlab.errors import DataError


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


def test_a_damaged_part_is_named_and_the_command_fails(command, copy, capsys):
    path = copy / "model" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"1 of \d+ parts of .* are damaged or inconsistent: model"):
        command("verify", f"run={copy}")
    (bad,) = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("good")]
    assert bad.startswith("BAD ") and "model.safetensors: missing, or different" in bad


def test_a_damaged_checkpoint_is_named_with_its_effect_on_resuming(command, copy):
    (copy / "report.json").unlink()
    next((copy / "checkpoints").glob("step-*/state.pt")).unlink()
    with pytest.raises(
        DataError, match=r"checkpoints/step-\d+\. A damaged checkpoint is not used: resume= starts from the newest"
    ):
        command("verify", f"run={copy}")


def test_a_finished_run_does_without_its_checkpoints(command, copy, capsys):
    shutil.rmtree(copy / "checkpoints")
    command("verify", f"run={copy}")
    assert all(line.startswith("good") for line in capsys.readouterr().out.splitlines())
    command("eval", f"run={copy}", "split=test", "run_dir=again")


def test_other_kinds_of_runs_are_reported(command, brackets_run):
    command("eval", f"run={brackets_run}", "run_dir=scored")
    with pytest.raises(DataError, match="scored is not a training run. Allowed: a run of train, pretrain, finetune"):
        command("verify", "run=scored")


def test_a_missing_run_is_reported(command):
    with pytest.raises(DataError, match="nowhere is not a run folder"):
        command("verify", "run=nowhere")
