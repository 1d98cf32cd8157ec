"""What every task shares: where windows begin, which classes are shown first, and how answers read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.tasks.sequences import Windowing
from encoderlab.tasks.task import Answer, likeliest


@given(room=st.integers(1, 60), beyond=st.integers(1, 500), overlap=st.floats(0, 0.9), most=st.integers(2, 9))
def test_windows_cover_a_text_from_end_to_end_up_to_their_limit(room, beyond, overlap, most):
    n_tokens = room + beyond
    starts = Windowing("mean", overlap, most).starts(n_tokens, room)
    assert (starts[0], starts[-1]) == (0, n_tokens - room)
    assert len(starts) <= most
    steps = np.diff(starts)
    assert (steps > 0).all() and steps.max() - steps.min() <= 2
    if len(starts) < most:
        assert steps.max() <= room, "no token is left out"


def test_the_most_probable_classes_come_first_and_ties_in_the_order_of_the_classes():
    names, probabilities = ["a", "b", "c", "d"], [0.2, 0.3, 0.2, 0.3]
    assert likeliest(names, probabilities, None) == [("b", 0.3), ("d", 0.3), ("a", 0.2), ("c", 0.2)]
    assert likeliest(names, np.array(probabilities), 1) == [("b", 0.3)]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(("a", "c"), (0.9, 0.2, 0.8)), "a, c"),
        (Answer((), (0.1, 0.2, 0.3)), "no label"),
        (Answer((), number=2 / 3), "0.666667"),
    ],
)
def test_a_prediction_is_printed_as_its_labels_or_its_number(answer, words):
    assert answer.in_words() == words


def test_a_machine_readable_prediction_has_all_probabilities_or_the_top_ones():
    answer, names = Answer(("a",), (0.7, 0.1, 0.2)), ["a", "b", "c"]
    assert answer.as_dict(names, "label") == {"predicted": "a", "probabilities": {"a": 0.7, "b": 0.1, "c": 0.2}}
    top = [{"label": "a", "probability": 0.7}, {"label": "c", "probability": 0.2}]
    assert answer.as_dict(names, "label", top_k=2) == {"predicted": "a", "top": top}
    assert Answer((), number=3.0).as_dict([], "number") == {"predicted": 3.0}
