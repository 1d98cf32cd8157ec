"""Every promise of RELIABILITY.md, tried a few times; scripts/faults tries it as often as its figures say."""

from pathlib import Path

import pytest

from faults.promise import Conditions, UnavailableError
from faults.promises import ALL

ROOT = Path(__file__).resolve().parents[2]
TRIED_HERE = [promise for promise in ALL if promise.quick]  # the others are tests themselves, or take minutes


@pytest.mark.slow
@pytest.mark.parametrize("promise", TRIED_HERE, ids=lambda promise: promise.name)
def test_a_promise_is_kept(promise, tmp_path):
    try:
        trials = list(promise.tried(Conditions(promise.quick, 0, tmp_path.resolve())))
    except UnavailableError as error:
        pytest.skip(str(error))
    assert [(trial.case, trial.failure) for trial in trials if trial.failure] == []
    assert trials


def test_every_promise_names_a_test_that_exists():
    for promise in ALL:
        assert bool(promise.quick) is not bool(promise.tests), promise.name
        for test in promise.tests:
            path, _, name = test.partition("::")
            assert name.rpartition("::")[2] in (ROOT / path).read_text(encoding="utf-8"), test
