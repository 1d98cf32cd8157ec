"""YAML is read where it stays small, and refused before it grows."""

import pytest
import yaml

from encoderlab.system.bounded_yaml import MOST_CHARACTERS, MOST_DEPTH, load_yaml

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_plain_values_and_aliases_are_read():
    assert load_yaml("a: &b [1, two]\nc: *b\nd: null") == {"a": [1, "two"], "c": [1, "two"], "d": None}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LAUGHS, "values"),
        ("a: &a [*a]", "values"),
        ("[" * (MOST_DEPTH + 2) + "]" * (MOST_DEPTH + 2), "nested"),
        ("#" * (MOST_CHARACTERS + 1), "characters"),
    ],
    ids=["a billion laughs", "a list in itself", "deep", "long"],
)
def test_yaml_that_would_explode_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        load_yaml(text)


def test_no_value_runs_code():
    with pytest.raises(yaml.YAMLError):
        load_yaml("!!python/object/apply:os.getcwd []")
