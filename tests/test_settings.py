"""Settings: a range is declared once, enforced everywhere, and described correctly."""

import math
import re
from dataclasses import dataclass, fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.errors import SettingError
from encoderlab.settings import allowed_range, check_settings, setting


@dataclass
class Recipe:
    """One field of each kind."""

    eggs: int = setting(2, "Eggs.", least=1, most=12)
    heat: float = setting(0.5, "Share of full heat.", above=0, below=1)
    salt: float | None = setting(None, "Grams of salt; null: to taste.", least=0)
    offset: float = setting(0.0, "Any number.")
    sweet: bool = setting(False, "Sugar?", least=1)
    name: str = setting("cake", "Its name.")
    notes: list[int] = setting([1, 2], "Numbers.")


def refusal(group="recipe", **values):
    with pytest.raises(SettingError) as refused:
        check_settings(Recipe(**values), group)
    return str(refused.value)


# A run switches subnormal numbers off, in this process too where an earlier test has made one.
@given(
    eggs=st.integers(-3, 20),
    heat=st.floats(-1, 2, allow_subnormal=False),
    salt=st.one_of(st.none(), st.floats(-5, 5, allow_subnormal=False)),
)
def test_exactly_the_values_in_their_ranges_pass(eggs, heat, salt):
    good = 1 <= eggs <= 12 and 0 < heat < 1 and (salt is None or salt >= 0)
    try:
        check_settings(Recipe(eggs=eggs, heat=heat, salt=salt), "recipe")
    except SettingError:
        assert not good
    else:
        assert good


def test_an_error_names_setting_value_and_range():
    assert (
        refusal(eggs=13) == "recipe.eggs is 13. Allowed: at least 1, at most 12. Remove recipe.eggs to use its default."
    )
    assert (
        refusal(heat=1.0)
        == "recipe.heat is 1.0. Allowed: more than 0, less than 1. Remove recipe.heat to use its default."
    )


def test_the_default_is_named_where_no_config_of_a_group_can_set_another():
    assert refusal(group="", eggs=13) == "eggs is 13. Allowed: at least 1, at most 12. The default is eggs=2."
    assert refusal(group="", heat=1.0) == "heat is 1.0. Allowed: more than 0, less than 1. The default is heat=0.5."


def test_the_remedy_for_an_optional_setting_is_to_remove_it():
    assert refusal(salt=-1.0) == "recipe.salt is -1.0. Allowed: at least 0. Remove recipe.salt to use its default."


def test_a_top_level_setting_is_named_as_typed():
    assert refusal(group="", eggs=0).startswith("eggs is 0. Allowed:")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_refused_with_and_without_a_range(value):
    assert refusal(offset=value).startswith(f"recipe.offset is {value}. Allowed: a finite number.")
    assert refusal(heat=value).startswith(f"recipe.heat is {value}. Allowed: more than 0, less than 1.")


def test_only_numbers_have_a_range():
    check_settings(Recipe(sweet=False, name="", notes=[]), "recipe")


def test_a_list_is_never_shared_between_two_settings():
    one, other = Recipe(), Recipe()
    one.notes.append(3)
    assert other.notes == Recipe().notes == [1, 2]


def test_every_setting_has_its_line_of_help():
    assert [declared.metadata["help"] for declared in fields(Recipe)][:2] == ["Eggs.", "Share of full heat."]


bounds = st.one_of(st.integers(0, 2**32), st.integers(1, 9999).map(lambda number: number / 10_000))


@given(bound=bounds, key=st.sampled_from(["least", "above", "most", "below"]))
def test_the_range_in_words_is_the_range_enforced(bound, key):
    words = allowed_range({"least": None, key: bound})
    assert words.startswith({"least": "at least", "above": "more than", "most": "at most", "below": "less than"}[key])
    assert float(re.search(r"[-+.,e\d]+$", words).group().replace(",", "")) == bound


def test_a_setting_without_a_range_describes_none():
    assert allowed_range({}) == ""
    assert allowed_range({"least": None, "above": None, "most": None, "below": None}) == ""
