"""Every promise of RELIABILITY.md, tried a few times; scripts/faults tries it as often as its figures say."""

import pytest

from faults.promise import Conditions, UnavailableError
from faults.promises import ALL


@pytest.mark.parametrize("promise", ALL, ids=lambda promise: promise.name)
def test_a_promise_is_kept(promise, tmp_path):
    try:
        trials = list(promise.tried(Conditions(promise.quick, 0, tmp_path.resolve())))
    except UnavailableError as error:
        pytest.skip(str(error))
    assert [(trial.case, trial.failure) for trial in trials if trial.failure] == []
    assert trials
