"""The corpus: what is trained and scored on, and token stores that are built once and only for what they fit."""

import numpy as np
import pyarrow as pa
import pytest

from encoderlab.data.examples import Split, Splits
from encoderlab.data.survey import survey
from encoderlab.data.tokenizers import SymbolsConfig
from encoderlab.errors import DataError
from encoderlab.runs import corpus as module
from encoderlab.runs.corpus import Corpus
from encoderlab.tasks.config import ClassificationConfig
from encoderlab.tasks.texts import Classification


def texts(*labels, pairs=False):
    """Return a row with a distinct text for each label."""
    columns = {"text": [f"({row})" for row in range(len(labels))], "label": list(labels)}
    return columns | ({"text_pair": [f"[{row}]" for row in range(len(labels))]} if pairs else {})


def words(*labels):
    """Return a row of words for each row of labels, and two words for unknown labels."""
    return {
        "words": [[f"{row}", "1"][: 2 if of_row is None else len(of_row)] for row, of_row in enumerate(labels)],
        "labels": list(labels),
    }


@pytest.fixture
def corpus_of(tmp_path):
    def make(names=("no", "yes"), **splits):
        made = Splits({name: Split(pa.table(columns)) for name, columns in splits.items()}, list(names))
        return Corpus(made, survey(made), tmp_path)

    return make


class Counting:
    """A task that counts the rows it encodes."""

    def __init__(self, task):
        self.task, self.encoded = task, 0

    def __getattr__(self, name):
        return getattr(self.task, name)

    def encode(self, examples):
        self.encoded += len(examples)
        return self.task.encode(examples)


def task_of(max_length=16, symbols="0123456789()[]"):
    tokenizer = SymbolsConfig(symbols=symbols).build(lambda: [], None)
    return Counting(Classification(ClassificationConfig(name="test"), tokenizer, ["no", "yes"], max_length))


def rows_of(rows, column):
    store = rows.store
    return [store[column].gather(np.array([row]))[0].tolist() for row in range(len(store))]


def test_validation_and_test_are_scored_if_they_have_labels(corpus_of):
    assert corpus_of(train=texts(0, 1), test=texts(0), validation=texts(1)).scored_splits() == ["validation", "test"]
    assert corpus_of(train=texts(0, 1), validation=texts(1), test=texts(None, None)).scored_splits() == ["validation"]
    assert corpus_of(train=words([0, 1]), test=words([1], [])).scored_splits() == ["test"]


def test_a_split_with_only_some_labels_is_refused(corpus_of):
    message = r"^1 of 3 rows of the split {} have no label\. Allowed: a label in every row, or in none\."
    with pytest.raises(DataError, match=message.format("test")):
        corpus_of(train=texts(0, 1), test=texts(0, None, 1)).scored_splits()
    with pytest.raises(DataError, match=message.format("train")):
        corpus_of(train=words([0, 1], None, [1])).check_training_labels()


def test_training_requires_two_labels(corpus_of):
    corpus_of(train=texts(0, 1)).check_training_labels()
    corpus_of(train=words([0], [1])).check_training_labels()
    with pytest.raises(DataError, match=r"^The training split has no labels\. Set dataset.label"):
        corpus_of(train=texts(None, None)).check_training_labels()
    with pytest.raises(
        DataError, match=r"^All training rows have the label 'yes'\. Allowed: at least two labels or numbers\."
    ):
        corpus_of(train=texts(1, 1), test=texts(0, 1)).check_training_labels()


@pytest.mark.parametrize(
    ("lengths", "most", "needed"),
    [
        ([3] * 50, 512, 32),  # never less: nothing is saved, and new texts may be longer
        ([40] * 50, 512, 42),  # with [CLS] and [SEP]
        ([40] * 199 + [400], 512, 42),  # a hundredth may be longer
        ([40] * 50 + [400] * 50, 512, 402),
        ([40] * 50 + [400] * 50, 128, 128),  # as far as the encoder reads
        ([10] * 50, 20, 20),
        (list(range(100, 200)) * 30, 512, 201),  # of 3,000 rows, 2,000 are looked at
    ],
)
def test_the_required_length_fits_nearly_all_training_rows(corpus_of, monkeypatch, lengths, most, needed):
    monkeypatch.setattr(module, "ROWS_LOOKED_AT", 2000)
    rows = {"text": ["1" * length for length in lengths], "label": [row % 2 for row in range(len(lengths))]}
    task = Classification(
        ClassificationConfig(name="digits"), SymbolsConfig(symbols="01").build(list, None), ["a", "b"], most
    )
    assert corpus_of(train=rows, test=texts(0, 1)).needed_length(task) == needed


def test_a_store_is_built_once(corpus_of):
    corpus, first, again = corpus_of(train=texts(0, 1, 0, pairs=True)), task_of(), task_of()
    made, reopened = corpus.rows("train", first), corpus.rows("train", again)
    assert (first.encoded, again.encoded) == (3, 0)
    assert [
        rows_of(made, column) == rows_of(reopened, column) for column in ("input_ids", "first_length", "label")
    ] == [True] * 3
    assert rows_of(reopened, "label") == [[0], [1], [0]]


def test_changed_rows_get_a_new_store(corpus_of):
    task = task_of()
    stores = [corpus_of(train=train).rows("train", task) for train in (texts(0, 1), texts(1, 0), texts(0, 1, 1))]
    assert [np.concatenate(rows_of(store, "label")).tolist() for store in stores] == [[0, 1], [1, 0], [0, 1, 1]]
    assert task.encoded == 7
