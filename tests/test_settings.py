"""Settings: a range is declared once, enforced everywhere, and described as it is enforced."""

import math
import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.errors import SettingError
from encoderlab.settings import allowed_range, check_settings, setting


@dataclass
class Recipe:
    """One field of each kind."""

    eggs: int = setting(2, "Eggs.", minimum=1, maximum=12)
    heat: float = setting(0.5, "Share of full heat.", above=0, below=1)
    salt: float | None = setting(None, "Grams of salt; null: to taste.", minimum=0)
    offset: float = setting(0.0, "Any number.")
    notes: list[int] = setting([1, 2], "Numbers.")


# A run switches subnormal numbers off, in this process too where an earlier test has made one.
@given(
    eggs=st.integers(-3, 20),
    heat=st.floats(-1, 2, allow_subnormal=False),
    salt=st.none() | st.floats(-5, 5, allow_subnormal=False),
)
def test_exactly_the_values_in_their_ranges_pass(eggs, heat, salt):
    good = 1 <= eggs <= 12 and 0 < heat < 1 and (salt is None or salt >= 0)
    try:
        check_settings(Recipe(eggs=eggs, heat=heat, salt=salt), "recipe")
    except SettingError:
        assert not good
    else:
        assert good


@pytest.mark.parametrize("name", ["offset", "heat"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_refused_with_and_without_a_range(name, value):
    with pytest.raises(SettingError, match=f"recipe.{name}"):
        check_settings(Recipe(**{name: value}), "recipe")


def test_a_list_is_never_shared_between_two_settings():
    one, other = Recipe(), Recipe()
    one.notes.append(3)
    assert other.notes == Recipe().notes == [1, 2]


bounds = st.integers(0, 2**32) | st.integers(1, 9999).map(lambda number: number / 10_000)


@given(bound=bounds, key=st.sampled_from(["minimum", "above", "maximum", "below"]))
def test_the_range_in_words_is_the_range_enforced(bound, key):
    words = allowed_range({"minimum": None, key: bound})
    assert words.startswith(
        {"minimum": "at least", "above": "more than", "maximum": "at most", "below": "less than"}[key]
    )
    assert float(re.search(r"[-+.,e\d]+$", words).group().replace(",", "")) == bound
