"""The command line of the faults."""

import subprocess
import sys
from pathlib import Path

import pytest

from faults.promises import ALL

ROOT = Path(__file__).resolve().parents[2]


def typed(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "faults", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_every_promise_is_listed():
    found = typed("list").stdout
    assert all(promise.name in found for promise in ALL)


def test_a_wrong_name_gets_one_line_with_the_valid_ones():
    found = typed("run", "small_disc")
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert "There is no promise small_disc" in found.stderr and "Did you mean small_disk?" in found.stderr


@pytest.mark.slow
def test_a_quick_run_keeps_nothing():
    kept = {path: path.stat().st_mtime_ns for path in (ROOT / "faults" / "results").glob("*.json")}
    found = typed("run", "--quick", "--trials", "2", "damage_noticed")
    assert "damage_noticed: 2 trials, 0 failures, below 77.64%" in found.stdout
    assert {path: path.stat().st_mtime_ns for path in (ROOT / "faults" / "results").glob("*.json")} == kept
