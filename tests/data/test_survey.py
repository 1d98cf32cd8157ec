"""The survey counts what a reader would count by hand."""

import json

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.data.examples import Split, Splits
from encoderlab.data.survey import survey

WORDS = st.text("a1:", max_size=3)
TEXTS = st.text("ab \n", max_size=3)
ROWS = st.lists(st.tuples(TEXTS, st.none() | st.integers(0, 1)), max_size=30)


def split_of(rows):
    schema = pa.schema({"text": pa.string(), "label": pa.int64()})
    return Split(pa.table({"text": [r[0] for r in rows], "label": [r[1] for r in rows]}, schema))


@settings(max_examples=60, deadline=None)
@given(train=ROWS, test=ROWS)
def test_counts_equal_a_plain_count(train, test):
    found = survey(Splits({"train": split_of(train), "test": split_of(test)}, ["no", "yes"])).splits["test"]
    texts = [text for text, _ in test]
    seen = {text for text, _ in train}
    assert found.rows == len(test)
    assert found.labels == {"no": sum(label == 0 for _, label in test), "yes": sum(label == 1 for _, label in test)}
    assert found.unlabelled == sum(label is None for _, label in test)
    assert found.empty == sum(not text.split() for text in texts)
    assert found.duplicates == len(texts) - len(set(texts))
    assert found.shared_with_train == sum(text in seen for text in texts)
    assert found.shared_with_other_label == sum(t in seen and (t, y) not in train and y is not None for t, y in test)


def test_lengths_are_in_words():
    rows = [("one", 0), ("one two", 1), ("", 1), ("a b c d", 0)]
    found = survey(Splits({"train": split_of(rows)}, ["no", "yes"])).splits["train"]
    assert (found.words_min, found.words_median, found.words_max) == (0, 1.5, 4)
    assert 2 < found.words_p95 <= 4


def test_a_pair_is_one_text_and_its_words_are_counted_together():
    pairs = pa.table({"text": ["a b", "a", "a b"], "text_pair": ["c", "b c", "c"], "label": [0, 1, 0]})
    found = survey(Splits({"train": Split(pairs)}, ["no", "yes"])).splits["train"]
    assert (found.words_min, found.words_max, found.duplicates) == (3, 3, 1)


def test_sentences_count_labels_by_word_and_texts_by_sentence():
    train = pa.table({"words": [["a", "b"], ["c"]], "labels": [[0, 1], [1]]})
    test = pa.table({"words": [["a", "b"], ["ab"], ["c"], []], "labels": [[0, 1], [0], [0], []]})
    found = survey(Splits({"train": Split(train), "test": Split(test)}, ["X", "Y"])).splits
    assert found["train"].labels == {"X": 1, "Y": 2}
    assert (found["test"].shared_with_train, found["test"].shared_with_other_label) == (2, 1)
    assert (found["test"].words_max, found["test"].empty, found["test"].unlabelled) == (2, 1, 0)


def test_sentences_without_labels_are_counted_as_such():
    table = pa.table({"words": [["a"]], "labels": [None]})
    found = survey(Splits({"test": Split(table)}, ["X", "Y"])).splits["test"]
    assert (found.unlabelled, found.labels) == (1, {"X": 0, "Y": 0})


def test_the_fingerprint_changes_with_any_row_any_label_and_their_order():
    rows = [("a", 0), ("b", 1), ("c", 0)]
    changed = [
        [("a", 0), ("c", 0), ("b", 1)],
        [("a", 1), ("b", 1), ("c", 0)],
        [("a ", 0), ("b", 1), ("c", 0)],
        rows[:2],
    ]
    fingerprints = [
        survey(Splits({"x": split_of(one)}, ["no", "yes"])).splits["x"].fingerprint for one in [rows, *changed]
    ]
    assert len(set(fingerprints)) == 5
    again = survey(Splits({"x": split_of(rows).take([0, 1, 2])}, ["no", "yes"])).splits["x"].fingerprint
    assert again == fingerprints[0] and len(again) == 16


def fingerprint_of(rows):
    """Return the fingerprint of texts (str), pairs (tuple) or sentences (list), all without labels."""
    kinds = {str: ["text"], tuple: ["text", "text_pair"], list: ["words"]}
    names = kinds[type(rows[0])]
    columns = list(zip(*rows, strict=True)) if len(names) == 2 else [rows]
    table = pa.table({name: list(column) for name, column in zip(names, columns, strict=True)})
    return survey(Splits({"x": Split(table)}, [])).splits["x"].fingerprint


@settings(max_examples=60, deadline=None)
@given(data=st.data(), one=WORDS, other=WORDS)
def test_fingerprints_of_different_rows_differ(data, one, other):
    """Rows are drawn from a few made of the same characters: joining them before hashing must not make them equal."""
    prefixed, both = f"{len(one)}:{one}", f"{len(one)}:{one}{other}"
    texts = [one + other, both, f"{prefixed}{len(other)}:{other}"]
    pairs = [(one, other), (one + other, ""), ("", one + other), (both, ""), (prefixed, other)]
    sentences = [[one, other], [one + other], [prefixed, other], [both], [one, other, ""]]
    lists = [
        data.draw(st.lists(st.sampled_from(kind), min_size=1, max_size=3))
        for kind in (texts, pairs, sentences)
        for _ in "12"
    ]
    lists += [[row] for kind in (texts, pairs, sentences) for row in kind]
    different = {repr(rows) for rows in lists}
    assert len({fingerprint_of(rows) for rows in lists}) == len(different)


def test_the_survey_can_be_saved_as_json():
    kept = json.loads(json.dumps(survey(Splits({"train": split_of([("a", 0)])}, ["no", "yes"])).as_dict()))
    assert kept["train"]["labels"] == {"no": 1, "yes": 0}
