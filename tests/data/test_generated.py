"""Generated data: labels checked independently, and no row twice."""

import tempfile
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.data.built_in import BracketsDataset, ReverseDataset, uniform_balanced
from encoderlab.data.examples import WordsExample
from encoderlab.errors import SettingError

NO_CACHE = Path(tempfile.gettempdir())  # must be writable; nothing stays in it


def balanced(text):
    """Decide it independently of the code under test: remove matching neighbours until nothing changes."""
    before = None
    while text != before:
        before = text
        for pair in ("()", "[]", "{}", "<>"):
            text = text.replace(pair, "")
    return not text


def texts(split):
    return ["".join(example.words) if isinstance(example, WordsExample) else example.text for example in split]


def swaps(text):
    for one, other in combinations(range(len(text)), 2):
        characters = list(text)
        characters[one], characters[other] = characters[other], characters[one]
        yield "".join(characters)


brackets = st.builds(
    BracketsDataset,
    train_rows=st.integers(1, 150),
    validation_rows=st.integers(1, 30),
    test_rows=st.integers(1, 30),
    pairs=st.integers(7, 12),
    kinds=st.integers(1, 4),
    hard_negatives=st.sampled_from([0.0, 0.3, 1.0]),
    data_seed=st.integers(0, 1000),
)
reverse = st.builds(
    ReverseDataset,
    train_rows=st.integers(1, 90),
    validation_rows=st.integers(1, 20),
    test_rows=st.integers(1, 18),
    length=st.integers(7, 9),
    digits=st.integers(2, 10),
    data_seed=st.integers(0, 1000),
)


@settings(max_examples=40, deadline=None)
@given(st.one_of(brackets, reverse))
def test_every_split_has_the_requested_rows_and_no_row_occurs_twice(dataset):
    splits = dataset.load(NO_CACHE).by_name
    assert {name: len(split) for name, split in splits.items()} == {
        "train": dataset.train_rows,
        "validation": dataset.validation_rows,
        "test": dataset.test_rows,
    }
    everything = [text for split in splits.values() for text in texts(split)]
    assert len(set(everything)) == len(everything)


@settings(max_examples=40, deadline=None)
@given(brackets)
def test_brackets_are_labelled_as_by_an_independent_checker_and_half_are_balanced(dataset):
    splits = dataset.load(NO_CACHE)
    for split in splits.by_name.values():
        assert all(balanced(example.text) == (splits.labels[example.label] == "balanced") for example in split)
        assert {len(text) for text in texts(split)} == {2 * dataset.pairs}
        assert sum(example.label for example in split) == len(split) // 2


@settings(max_examples=15, deadline=None)
@given(brackets.filter(lambda dataset: dataset.hard_negatives == 1))
def test_hard_negatives_are_one_swap_away_from_balanced(dataset):
    negatives = [
        example.text for split in dataset.load(NO_CACHE).by_name.values() for example in split if not example.label
    ]
    assert all(any(balanced(swapped) for swapped in swaps(text)) for text in negatives[:30])


@settings(max_examples=30, deadline=None)
@given(reverse)
def test_every_digit_is_labelled_with_its_mirror_image(dataset):
    splits = dataset.load(NO_CACHE)
    assert splits.labels == [str(digit) for digit in range(dataset.digits)]
    for example in splits.by_name["train"]:
        assert [splits.labels[label] for label in example.labels] == list(reversed(example.words))


@pytest.mark.parametrize(
    ("pairs", "kinds", "catalan"),
    [(4, 1, 14), (3, 2, 5 * 2**3), (1, 4, 4)],
    ids=["4 pairs", "3 pairs, 2 kinds", "1 pair, 4 kinds"],
)
def test_balanced_strings_are_drawn_uniformly_from_all_possible_ones(pairs, kinds, catalan):
    drawn = uniform_balanced(1000 * catalan, pairs, kinds, np.random.default_rng(0))
    counts = Counter(row.tobytes() for row in drawn)
    assert len(counts) == catalan
    chi_squared = sum((count - 1000) ** 2 / 1000 for count in counts.values())
    assert chi_squared < catalan + 5 * (2 * catalan) ** 0.5


@pytest.mark.parametrize("dataset", [BracketsDataset, ReverseDataset])
def test_more_training_rows_or_a_limit_leave_the_other_splits_unchanged(dataset):
    few, many = (dataset(train_rows=rows, validation_rows=50, test_rows=50).load(NO_CACHE) for rows in (10, 5000))
    for split in ("validation", "test"):
        assert texts(few.by_name[split]) == texts(many.by_name[split])
    limited = dataset(train_rows=10, validation_rows=50, test_rows=50, limit=7).load(NO_CACHE)
    assert limited.origin == few.origin
    assert {len(split) for split in limited.by_name.values()} == {7}


@pytest.mark.parametrize("dataset", [BracketsDataset, ReverseDataset])
def test_the_same_seed_draws_the_same_rows_and_another_seed_different_ones(dataset):
    first, again, other = (texts(dataset(data_seed=seed).load(NO_CACHE).by_name["test"]) for seed in (3, 3, 4))
    assert first == again
    assert len(set(first) & set(other)) < len(first) / 2


@pytest.mark.parametrize(
    ("dataset", "named"),
    [
        (BracketsDataset(train_rows=60_000), "train_rows=60000: it needs 30,000. Allowed: at most 12,796"),
        (BracketsDataset(pairs=2, train_rows=2, validation_rows=2, test_rows=40), "at most 2 besides"),
        (ReverseDataset(length=3), "dataset.length"),
    ],
)
def test_more_rows_than_exist_are_refused_with_the_number_that_exist(dataset, named):
    with pytest.raises(SettingError, match=named):
        dataset.load(NO_CACHE)
