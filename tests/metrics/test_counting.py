"""Entities counted as conlleval counts them, sentence by sentence: correct only if first word, last word and type are."""

import numpy as np

from encoderlab.metrics.entities import ENTITY_SCORES, entity_counts, entity_labels, spans_of

LABELS = entity_labels(["O", "B-per", "I-per", "B-loc", "I-loc"])
OUT, B_PER, I_PER, B_LOC, I_LOC = range(5)


def figures_of(right, predicted):
    counts = entity_counts(LABELS, right, predicted).sum((0, 2))
    return {name: float(score(counts)) for name, score in ENTITY_SCORES.items()}


def test_an_entity_is_correct_only_if_its_ends_and_type_are():
    right = [np.array([B_PER, I_PER, OUT, B_LOC])]
    assert entity_counts(LABELS, right, right).tolist() == [[[1, 1], [1, 1], [1, 1]]]
    too_short = [np.array([B_PER, OUT, OUT, B_LOC])]
    assert figures_of(right, too_short) == {"entity_precision": 0.5, "entity_recall": 0.5, "entity_f1": 0.5}
    other_type = [np.array([B_LOC, I_LOC, OUT, B_LOC])]
    assert entity_counts(LABELS, right, other_type)[0, 0].tolist() == [1, 0], "types are sorted: loc, per"


def test_no_entity_extends_into_the_next_sentence():
    spans = spans_of(LABELS, np.array([B_PER, I_PER, I_PER, OUT]), np.array([2, 2]))
    assert spans.begins.tolist() == [True, False, True, False]
    assert spans.end[[0, 2]].tolist() == [2, 3]


def test_an_inside_label_with_nothing_to_continue_begins_an_entity():
    spans = spans_of(LABELS, np.array([OUT, I_PER, I_LOC, I_LOC]), np.array([4]))
    assert spans.begins.tolist() == [False, True, True, False]
    assert spans.end[[1, 2]].tolist() == [2, 4]
