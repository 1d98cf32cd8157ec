"""label_errors.csv: where a label is, what it is, and what it probably should be, for every kind of label."""

import numpy as np
import pandas as pd
import pyarrow as pa

from encoderlab.data.examples import Split
from encoderlab.reports.folds.labels_to_check import check_labels

NAMES = ["bad", "good"]


def split(**columns):
    return Split(pa.table(columns))


def test_classes_are_listed_with_both_probabilities_and_the_margin():
    labels = [1, 0, 0, 0]
    of_good = np.array([0.4, 0.4, 0.9, 0.4])
    table = pd.DataFrame({"fold": [1, 2, 1, 2], "line": [2, 3, 4, 5], "text": list("abcd")})
    table = table.assign(
        label=[NAMES[id_] for id_ in labels], predicted="", probability_bad=1 - of_good, probability_good=of_good
    )
    checked = check_labels(split(text=list("abcd"), label=labels), table, NAMES, iter([]))
    assert checked.of == 4 and checked.table.iloc[0].to_dict() == {
        **{"line": 4, "fold": 1, "text": "c", "label": "bad", "predicted": "good"},
        **{"probability": 0.9, "probability_of_label": 0.1, "margin": -0.8},
    }


def test_a_label_of_a_set_is_suggested_to_be_added_or_removed():
    given = [[0, 1], [0], [1], []]
    rows = split(text=list("abcd"), label=pa.array(given, pa.list_(pa.int64())))
    table = pd.DataFrame({"line": [2, 3, 4, 5], "text": list("abcd"), "label": ["bad|good", "bad", "good", ""]})
    table = table.assign(probability_bad=[0.9, 0.9, 0.1, 0.95], probability_good=[0.02, 0.1, 0.8, 0.2])
    checked = check_labels(rows, table, NAMES, iter([]))
    assert checked.of == 8
    found = checked.table[
        ["line", "label", "predicted", "change", "probability", "probability_of_label"]
    ].values.tolist()
    assert found == [[2, "bad|good", "bad", "remove good", 0.98, 0.02], [5, "", "bad", "add bad", 0.95, 0.05]]


def test_words_are_named_with_sentence_and_position_and_truncated_ones_skipped():
    sentences = [["Ada", "ran"], ["we", "met", "Bob", "again"]]
    rows = split(words=sentences, labels=[[1, 0], [0, 0, 0, 1]])
    table = pd.DataFrame(
        {"file": ["a.conll", "b.conll"], "line": [1, 1], "text": list(map(" ".join, sentences)), "label": "x"}
    )
    of_name = [np.array([0.9, 0.1]), np.array([0.1, 0.1, 0.95])]  # the last word is beyond the model's reach
    checked = check_labels(rows, table, ["O", "name"], (np.stack([1 - one, one], axis=1) for one in of_name))
    assert checked.of == 5 and len(checked.table) == 1
    assert checked.table.iloc[0].to_dict() == {
        **{
            "file": "b.conll",
            "line": 1,
            "sentence": 1,
            "word_number": 3,
            "word": "Bob",
            "text": "we met Bob again",
            "label": "O",
        },
        **{"predicted": "name", "probability": 0.95, "probability_of_label": 0.05, "margin": -0.9},
    }


def test_a_number_is_listed_with_its_distance_from_the_prediction():
    numbers = [1.0, 2.0, 3.0, 40.0, 5.0]
    table = pd.DataFrame(
        {"line": range(5), "text": list("abcde"), "label": numbers, "predicted": [1.1, 1.9, 3.2, 4.0, 5.0]}
    )
    checked = check_labels(split(text=list("abcde"), label=numbers), table, [], iter([]))
    only = checked.table.iloc[0]
    assert (
        len(checked.table) == 1
        and (only["line"], only["label"], only["predicted"]) == (3, 40.0, 4.0)
        and only["deviations"] > 100
    )
