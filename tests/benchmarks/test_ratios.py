"""Ratios within rounds, their spread, and whether a target is met."""

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.jobs import Target
from benchmarks.ratios import Spread, over_rounds, ratio, reached


def rounds_of(figure, *pairs):
    return [{"encoderlab": {figure: ours}, "peer": {figure: peer}} for ours, peer in pairs]


def test_a_ratio_is_taken_within_each_round():
    rounds = rounds_of("examples_per_second", (600, 100), (300, 60), (1200, 150))
    assert ratio(rounds, "examples_per_second", "peer") == Spread(median=6, lowest=5, highest=8)


def test_fewer_seconds_are_better():
    assert ratio(rounds_of("seconds", (2, 16), (4, 16)), "seconds", "peer") == Spread(6, 4, 8)


def test_a_round_without_a_figure_gives_no_ratio_and_misses_the_target():
    rounds = rounds_of("seconds_to_target", (2, 16), (None, 16), (4, 16))
    assert ratio(rounds, "seconds_to_target", "peer") == Spread(6, 4, 8)
    assert reached(rounds, Target("seconds_to_target", "peer", at_least=5)) == (Spread(6, 4, 8), False)


def test_a_skipped_peer_gives_no_ratio():
    rounds = [{"encoderlab": {"examples_per_second": 5}}]
    assert ratio(rounds, "examples_per_second", "peer") is None
    assert reached(rounds, Target("examples_per_second", "peer", at_least=5)) == (None, False)


def test_a_target_is_met_by_the_median():
    rounds = rounds_of("examples_per_second", (500, 100), (600, 100), (900, 100))
    assert reached(rounds, Target("examples_per_second", "peer", at_least=6))[1]
    assert not reached(rounds, Target("examples_per_second", "peer", at_least=6.1))[1]


def test_a_target_may_be_a_figure_of_our_own():
    rounds = rounds_of("mfu", (0.3, None), (0.4, None), (0.5, None))
    assert reached(rounds, Target("mfu", at_least=0.35)) == (Spread(0.4, 0.3, 0.5), True)
    assert not reached(rounds, Target("mfu", at_most=0.35))[1]


speeds = st.floats(0.01, 1e6)


@given(st.lists(st.tuples(speeds, speeds), min_size=1, max_size=9))
def test_the_median_lies_within_the_spread_and_the_machine_s_own_speed_does_not_matter(pairs):
    found = ratio(rounds_of("tokens_per_second", *pairs), "tokens_per_second", "peer")
    assert found.lowest <= found.median <= found.highest
    twice = ratio(rounds_of("tokens_per_second", *[(2 * a, 2 * b) for a, b in pairs]), "tokens_per_second", "peer")
    assert twice == found


def test_a_figure_missing_from_every_round_is_missing():
    assert over_rounds(rounds_of("mfu", (None, 1)), "encoderlab", "mfu") is None
