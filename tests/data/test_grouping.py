"""Grouping: every item once and in order, and each list ends as soon as it is large enough."""

import pytest

from encoderlab.data.grouping import grouped


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        pytest.param(
            None, [["aaa", "b"], ["", "cccccc"], ["d", "e"]], id="a list ends with the item that reaches the size"
        ),
        pytest.param(
            1, [["aaa"], ["b"], [""], ["cccccc"], ["d"], ["e"]], id="or with the last of as many items as allowed"
        ),
    ],
)
def test_a_list_ends_when_it_is_large_enough(most, expected):
    assert list(grouped(["aaa", "b", "", "cccccc", "d", "e"], len, 4, most)) == expected


def test_without_items_there_is_no_list():
    assert list(grouped([], len, 4)) == []
