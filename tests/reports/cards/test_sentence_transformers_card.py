"""The section about sentence-transformers: a program for each kind of prediction, and for vectors."""

import pytest

from encoderlab.batch import HeadSizes
from encoderlab.reports.cards.sentence_transformers_card import READ, sentence_transformers_card
from tests.reports.cards.python_in_cards import programs_in, unknown_names


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("target", READ)
def test_its_program_is_valid_and_explains_what_encode_returns(target, paired):
    card = sentence_transformers_card(
        HeadSizes(sequence_classes=2, sequence_target=target), answers=True, paired=paired
    )
    (program,) = programs_in(card)
    assert unknown_names(program) == set() and READ[target][0] in card
    assert ('("A text.", "And another.")' in card) == paired


def test_without_a_head_it_returns_vectors():
    card = sentence_transformers_card(HeadSizes(sequence_classes=2), answers=False, paired=False)
    assert "`encode` returns a vector for each text." in card and "logit" not in card
    assert unknown_names(*programs_in(card)) == set()
