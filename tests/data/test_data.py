"""The labelled examples of a run: which splits are scored, what is refused, and that each row is read once."""

import pyarrow as pa
import pytest

from encoderlab.data.data import Data
from encoderlab.data.examples import Split
from encoderlab.errors import DataError


def texts(*labels):
    """Return a row with a distinct text for each label."""
    return {"text": [f"({row})" for row in range(len(labels))], "label": list(labels)}


def words(*labels):
    """Return a row of words for each row of labels, and two words for unknown labels."""
    return {
        "words": [[f"{row}", "1"][: 2 if of_row is None else len(of_row)] for row, of_row in enumerate(labels)],
        "labels": list(labels),
    }


def data_of(**splits):
    return Data({name: Split(pa.table(columns)) for name, columns in splits.items()}, ["no", "yes"])


def test_validation_and_test_are_scored_if_they_have_labels():
    assert data_of(train=texts(0, 1), test=texts(0), validation=texts(1)).scored_splits() == ["validation", "test"]
    assert data_of(train=texts(0, 1), validation=texts(1), test=texts(None, None)).scored_splits() == ["validation"]
    assert data_of(train=words([0, 1]), test=words([1], [])).scored_splits() == ["test"]


def test_a_split_with_only_some_labels_is_refused():
    message = r"^1 of 3 rows of the split {} have no label\. Allowed: a label in every row, or in none\."
    with pytest.raises(DataError, match=message.format("test")):
        data_of(train=texts(0, 1), test=texts(0, None, 1)).scored_splits()
    with pytest.raises(DataError, match=message.format("train")):
        data_of(train=words([0, 1], None, [1])).check_training_labels()


def test_training_requires_two_labels():
    data_of(train=texts(0, 1)).check_training_labels()
    data_of(train=words([0], [1])).check_training_labels()
    with pytest.raises(DataError, match=r"^The training split has no labels\. Set dataset.label"):
        data_of(train=texts(None, None)).check_training_labels()
    with pytest.raises(
        DataError, match=r"^All training rows have the label 'yes'\. Allowed: at least two labels or numbers\."
    ):
        data_of(train=texts(1, 1), test=texts(0, 1)).check_training_labels()
