"""The table of RELIABILITY.md: one row for each promise, and bounds that hold."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults import page
from faults.promise import Conditions, Promise, Trial
from faults.promises import ALL

ROOT = Path(__file__).resolve().parents[2]


def promise(name="one"):
    return Promise(name, "It holds | always.", lambda conditions: iter(()), quick=1)


def test_without_failures_the_upper_bound_has_95_percent_confidence():
    assert page.upper_bound(0, 59) == pytest.approx(1 - 0.05 ** (1 / 59))
    assert page.upper_bound(0, 1000) == pytest.approx(0.003, rel=0.01)
    assert page.upper_bound(5, 5) == 1


@given(st.integers(1, 400), st.data())
def test_with_failures_the_upper_bound_has_95_percent_confidence(trials, data):
    failures = data.draw(st.integers(0, trials - 1))
    share = page.upper_bound(failures, trials)
    assert failures / trials < share < 1
    chance = sum(
        math.comb(trials, count) * share**count * (1 - share) ** (trials - count) for count in range(failures + 1)
    )
    assert chance == pytest.approx(0.05, rel=1e-4)


def test_a_row_lists_what_was_found_and_what_was_not_tested():
    found = page.result(promise(), [Trial("a"), Trial("b", "it broke")], 3, 1.0, "scripts/faults run one")
    written = page.table([promise(), promise("two")], {"one": found})
    first, second = (line for line in written.splitlines() if "It holds" in line)
    assert "It holds \\| always." in first and "| 2 | 1 | 97.47% |" in first
    assert "not tried" in second
    assert "* one, b: it broke" in written
    assert f"commit {found['git']['commit']}" in written


def test_cases_are_spread_evenly():
    assert Conditions(3, 0, Path()).of(range(9)) == [0, 3, 6]
    assert Conditions(None, 0, Path()).of(range(4)) == [0, 1, 2, 3]
    assert Conditions(9, 0, Path()).of(range(2)) == [0, 1]


def test_the_page_has_a_row_for_every_current_promise():
    text = page.PAGE.read_text(encoding="utf-8")
    assert all(promise.sentence in text and promise.command in text for promise in ALL)
    assert len({promise.name for promise in ALL}) == len(ALL)
