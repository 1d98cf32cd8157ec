"""Trials that are tests: each one that ran counts, a property by its examples, and one that fails is reported."""

import shutil
from pathlib import Path

import pytest

from faults.counted import by_tests
from faults.promise import Conditions, UnavailableError

TESTS = """
import pytest
from hypothesis import given, settings, strategies

@pytest.mark.parametrize("number", [1, 2, 3])
def test_three(number):
    assert number != 2, "it is two"

@pytest.mark.skip
def test_skipped():
    pass

@settings(max_examples=40, database=None)
@given(strategies.text(min_size=5))
def test_property(text):
    assert len(text) >= 5
"""


@pytest.mark.slow
def test_tests_and_examples_are_counted(tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    trials = list(by_tests(str(tmp_path / "test_some.py"))(Conditions(None, 0, tmp_path)))
    assert len(trials) == 3 + 40
    assert [trial.case for trial in trials if trial.failure] == ["test_three[2]"]


DRAWN = """
from hypothesis import given, strategies

@given(strategies.integers())
def test_property(number):
    with open("DRAWN", "a") as file:
        print(number, file=file)
"""


@pytest.mark.slow
@pytest.mark.parametrize("in_ci", [False, True])
def test_another_seed_tries_different_examples(tmp_path, monkeypatch, in_ci):
    """In CI too, where Hypothesis derives its examples from a test's source by default."""
    monkeypatch.setenv("CI", "true")
    if not in_ci:
        monkeypatch.delenv("CI")
    drawn = []
    for seed in (1, 2, 1):
        folder = tmp_path / f"{len(drawn)}"
        folder.mkdir()
        shutil.copy(Path(__file__).parents[1] / "conftest.py", folder)
        (folder / "test_drawn.py").write_text(DRAWN.replace("DRAWN", str(folder / "drawn.txt")))
        trials = list(by_tests(str(folder / "test_drawn.py"))(Conditions(None, seed, folder)))
        assert len(trials) == 100
        drawn.append((folder / "drawn.txt").read_text())
    assert drawn[0] == drawn[2] != drawn[1]


def test_a_missing_file_is_reported():
    with pytest.raises(UnavailableError, match="test_none.py is not there"):
        list(by_tests("tests/faults/test_none.py")(Conditions(None, 0, None)))
