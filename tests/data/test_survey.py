"""The survey counts what a reader would count by hand; odd rows are found wherever they are and nowhere else."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.data.examples import Split
from encoderlab.data.survey import odd_rows, survey_of

TEXTS = st.text("ab \n", max_size=3)
ROWS = st.lists(st.tuples(TEXTS, st.none() | st.integers(0, 1)), max_size=30)


def split_of(rows, **columns):
    texts, labels = zip(*rows, strict=True) if rows else ((), ())
    kinds = {"text": pa.string(), "label": pa.int64(), **dict.fromkeys(columns, pa.string())}
    return Split(pa.table({"text": texts, "label": labels, **columns}, pa.schema(kinds)))


def surveyed(labels=("no", "yes"), **splits):
    return survey_of({name: one if isinstance(one, Split) else split_of(one) for name, one in splits.items()}, labels)


@settings(max_examples=60, deadline=None)
@given(train=ROWS, test=ROWS)
def test_counts_equal_a_plain_count(train, test):
    counted = surveyed(train=train, test=test)["test"]
    texts = [text for text, _ in test]
    seen = {text for text, _ in train}
    assert counted.rows == len(test)
    assert counted.labels == {"no": sum(label == 0 for _, label in test), "yes": sum(label == 1 for _, label in test)}
    assert counted.unlabelled == sum(label is None for _, label in test)
    assert counted.empty == sum(not text.split() for text in texts)
    assert counted.duplicates == len(texts) - len(set(texts))
    first = dict(reversed(test))
    assert counted.conflicting == sum(y not in (None, first[t]) for t, y in test)
    assert counted.shared_with_train == sum(text in seen for text in texts)
    assert counted.shared_with_other_label == sum(t in seen and (t, y) not in train and y is not None for t, y in test)


def test_sentences_count_labels_by_word_and_texts_by_sentence():
    train = Split(pa.table({"words": [["a", "b"], ["c"]], "labels": [[0, 1], [1]]}))
    test = Split(pa.table({"words": [["a", "b"], ["ab"], ["c"], []], "labels": [[0, 1], [0], [0], []]}))
    counted = surveyed(train=train, test=test)
    assert counted["train"].labels == {"no": 1, "yes": 2}
    assert (counted["test"].shared_with_train, counted["test"].shared_with_other_label) == (2, 1)
    assert (counted["test"].empty, counted["test"].unlabelled) == (1, 0)


def test_the_fingerprint_is_that_of_the_rows_in_their_order():
    rows = [("a", 0), ("b", 1), ("c", 0)]
    changed = [[rows[0], rows[2], rows[1]], [("a", 1), *rows[1:]], [("a ", 0), *rows[1:]], rows[:2]]
    fingerprints = [surveyed(x=one)["x"].fingerprint for one in (rows, *changed)]
    assert len(set(fingerprints)) == 5
    # Token stores and runs from earlier versions are found by it.
    assert fingerprints[0] == surveyed(x=split_of(rows).take([0, 1, 2]))["x"].fingerprint == "7d7ee956fd1b0021"


@settings(max_examples=40, deadline=None)
@given(one=st.text("a1:", max_size=3), other=st.text("a1:", max_size=3))
def test_fingerprints_of_different_rows_differ(one, other):
    """The rows are made of the same characters: joining them before hashing must not make them equal."""
    prefixed, both = f"{len(one)}:{one}", f"{len(one)}:{one}{other}"
    texts = [one + other, both, f"{prefixed}{len(other)}:{other}"]
    pairs = [(one, other), (one + other, ""), ("", one + other), (both, ""), (prefixed, other)]
    sentences = [[one, other], [one + other], [prefixed, other], [both], [one, other, ""]]
    tables = [pa.table({"text": [text]}) for text in dict.fromkeys(texts)]
    tables += [pa.table({"text": [text], "text_pair": [pair]}) for text, pair in dict.fromkeys(pairs)]
    tables += [pa.table({"words": [words]}) for words in dict.fromkeys(map(tuple, sentences))]
    assert len({surveyed((), x=Split(table))["x"].fingerprint for table in tables}) == len(tables)


def odd(texts, labels=None, **columns):
    rows = [*zip(texts, labels if labels is not None else [0] * len(texts), strict=True)]
    return {oddity.kind: oddity.rows.tolist() for oddity in odd_rows({"train": split_of(rows, **columns)})["train"]}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a<br />b", "markup"),
        ("&#65533;t", "markup"),
        (" \n", "nothing but white space"),
        ("w " * 70, "more than 10 times as many words as the median"),
    ],
)
def test_a_text_is_odd_in_one_way(text, kind):
    assert odd(["one", "two", text]) == {kind: [2]}


@pytest.mark.parametrize(
    "text", ["déjà vu", "São Paulo", "1 < 2 & 3 > 2", "line\nbreak\tand tab", "👩‍🚀 in space", "می‌خواهم", "數"]
)
def test_ordinary_writing_is_not_odd(text):
    assert odd(["one", "two", text]) == {}


def test_both_texts_of_a_pair_are_looked_at():
    assert odd(["a", "b"], text_pair=["c", "<b>d</b>"]) == {"markup": [1]}


def test_markup_is_counted():
    assert surveyed(train=[("a <b>b</b>", 0), ("c", 0), ("d", 1), ("1 < 2", 1)])["train"].markup == 0.25


def test_a_repeated_text_names_the_first_row_that_has_it():
    train = split_of([("a", 0), ("b", 1), ("a", 0), ("a", 1)])
    test = split_of([("b", 1), ("c", 1), ("a", 1), ("b", 0)])
    kinds = odd_rows({"train": train, "test": test})
    assert [(one.rows.tolist(), one.like.tolist()) for one in kinds["train"]] == [([2], [0]), ([3], [0])]
    shared = [(one.rows.tolist(), one.like.tolist()) for one in kinds["test"] if one.like_split == "train"]
    assert shared == [([0, 2], [1, 0]), ([3], [1])]


def test_a_selected_row_keeps_its_original_place():
    whole = Split(split_of([(text, 0) for text in "abcd"]).table, lambda row: f"file, line {row + 10}")
    assert whole.take([1, 3]).take([1]).where(0) == "file, line 13"
    assert split_of([("a", 0), ("b", 0)]).take([1]).where(0) == "row 2"
