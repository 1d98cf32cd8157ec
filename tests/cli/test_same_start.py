"""What processes compare before a command begins."""

import pytest

from encoderlab.cli import same_start
from encoderlab.config.commands import EvalConfig
from encoderlab.system.processes import SINGLE_PROCESS, Processes


@pytest.fixture
def compared(monkeypatch):
    """Record the facts that would be compared."""
    facts = {}
    monkeypatch.setattr(same_start, "check_agreement", lambda processes, found, remedy: facts.update(found))
    return facts


def test_versions_and_settings_are_compared_except_those_that_may_differ_between_machines(compared):
    same_start.check_same_start(
        EvalConfig(run="outputs/mine", run_dir="outputs/new", cache_dir="/fast/cache"), Processes(0, 2)
    )
    assert {"encoderlab", "PyTorch", "split", "threads", "precision"} <= compared.keys()
    assert not {"run", "run_dir", "cache_dir"} & compared.keys()


def test_one_process_compares_nothing(compared):
    same_start.check_same_start(EvalConfig(run="outputs/mine"), SINGLE_PROCESS)
    assert compared == {}
