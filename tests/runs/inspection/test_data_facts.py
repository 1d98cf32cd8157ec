"""Facts about a dataset before training: lengths, odd rows, and examples of each kind of label."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.data.examples import Split, Splits
from encoderlab.data.survey import PATTERNS, survey
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.inspection import data_facts
from encoderlab.runs.inspection.data_facts import MOST_CHARACTERS, document_facts, example_facts
from encoderlab.tasks.config import ClassificationConfig, MultilabelConfig, RegressionConfig, TaggingConfig
from tests.runs.small_assembly import TOKENIZER
from tests.runs.small_documents import documents_in, task_of

CLASSES = ClassificationConfig(name="test")
KINDS = {  # a task, the names of its labels, a column of labels, and these as they are shown
    "classes": (CLASSES, ["no", "yes"], [1, 0, None], ["yes", "no", None]),
    "label sets": (
        MultilabelConfig(name="test"),
        ["no", "yes"],
        [[0, 1], [], None],
        ["no, yes", "no label applies", None],
    ),
    "numbers": (
        RegressionConfig(name="test", mean=0.0, deviation=1.0),
        [],
        [0.5, -2.0, 1.5e6],
        ["0.5", "-2", "1.5e+06"],
    ),
}


def facts_of(tmp_path, task=CLASSES, names=("no", "yes"), examples=3, max_length=12, **columns):
    splits = Splits({"train": Split(pa.table(columns))}, list(names))
    corpus = Corpus(splits, survey(splits), tmp_path)
    return example_facts(corpus, task, TOKENIZER, max_length, examples)


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_is_shown_with_its_label_and_tokens(tmp_path, kind):
    task, names, labels, shown = KINDS[kind]
    found = facts_of(tmp_path, task, names, text=["012", "34", "5x"], label=labels)["splits"]["train"]["examples"]
    assert [row["label"] for row in found] == shown
    assert [row["text"] for row in found] == ["012", "34", "5x"]
    assert found[2]["pieces"] == ["[CLS]", "5", "[UNK]", "[SEP]"] and found[2]["tokens"] == 4


def test_words_are_shown_with_their_labels_and_pairs_side_by_side(tmp_path):
    (of_words,) = facts_of(tmp_path, TaggingConfig(name="test"), words=[["0", "1"]], labels=[[1, 0]])["splits"][
        "train"
    ]["examples"]
    assert (of_words["text"], of_words["label"]) == ("0 1", "yes no")
    (pair,) = facts_of(tmp_path, text=["01"], text_pair=["2"], label=[1])["splits"]["train"]["examples"]
    assert pair["text"] == "01 | 2" and pair["pieces"] == ["[CLS]", "0", "1", "[SEP]", "2", "[SEP]"]


def test_truncated_rows_are_counted_by_the_tokens_they_would_need(tmp_path):
    found = facts_of(tmp_path, max_length=6, text=["0" * n for n in (1, 4, 5, 30)], label=[0, 1, 0, 1])
    tokens = found["splits"]["train"]["tokens"]
    assert (tokens["counted"], tokens["min"], tokens["max"], tokens["truncated"]) == (4, 3, 32, 0.5)


def test_evenly_spaced_rows_of_a_long_split_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(data_facts, "COUNTED_ROWS", 3)
    found = facts_of(tmp_path, text=["0" * n for n in range(1, 10)], label=[0, 1, 0] * 3)["splits"]["train"]
    assert (found["rows"], found["tokens"]["counted"]) == (9, 3)
    assert (found["tokens"]["min"], found["tokens"]["median"], found["tokens"]["max"]) == (3, 7, 11)


def test_an_odd_row_is_shown_around_its_oddity(tmp_path):
    long = "0" * (2 * MOST_CHARACTERS)
    (odd,) = facts_of(tmp_path, text=["01", f"{long}<br>{long}"], label=[0, 1])["splits"]["train"]["odd_rows"]
    assert (odd["kind"], odd["count"]) == ("markup", 1)
    shown = odd["first"][0]["text"]
    assert "<br>" in shown and shown.startswith("...") and shown.endswith("...") and len(shown) <= MOST_CHARACTERS + 3


@given(st.sampled_from(sorted(PATTERNS)), st.text("ab ", max_size=400), st.text("ab ", max_size=400))
def test_the_oddity_is_always_in_the_part_shown(kind, before, after):
    odd = {"control characters": "\x07", "characters that could not be decoded (U+FFFD)": "\ufffd"}
    odd |= {"characters of a wrong encoding": "\u00c3\xa9", "invisible characters": "\u200b", "markup": "&amp;"}
    assert odd[kind] in data_facts._around(before + odd[kind] + after, kind)


@given(st.integers(0, 10**7), st.integers(0, 200))
def test_rows_are_spread_from_the_first_to_the_last(total, wanted):
    rows = data_facts._spread(total, wanted)
    assert len(rows) == len(set(rows)) == min(total, wanted) and rows == sorted(rows)
    assert all(0 <= row < total for row in rows)
    assert len(rows) < 2 or (rows[0], rows[-1]) == (0, total - 1)


@given(st.lists(st.integers(1, 600), max_size=30), st.integers(1, 512))
def test_quantiles_rise_and_the_truncated_share_is_of_longer_rows(lengths, max_length):
    found = data_facts._lengths(np.array(lengths, np.int64), max_length)
    assert found["counted"] == len(lengths)
    assert found["truncated"] == pytest.approx(sum(n > max_length for n in lengths) / max(len(lengths), 1))
    if lengths:
        rising = [found[name] for name in ("min", "median", "p90", "p95", "p99", "max")]
        assert rising == sorted(rising) and (rising[0], rising[-1]) == (min(lengths), max(lengths))


def test_documents_have_the_lengths_of_their_rows_and_the_tokens_of_both_texts(tmp_path):
    corpus = documents_in(tmp_path)
    task = task_of(corpus, max_length=12)
    rows = {"train": corpus.rows("train", task)}
    found = document_facts(corpus, task, rows, examples=2)
    train = found["splits"]["train"]
    assert (train["documents"], train["pairs"], train["tokens_of_a_row"]["counted"]) == (3, 12, 12)
    assert train["tokens_of_a_row"]["truncated"] == train["truncated"] and found["max_length"] == 12
    assert [len(row["pieces"]) for row in train["examples"]] == [2, 2]
    assert found["pieces"]["vocabulary_size"] == task.tokenizer.vocabulary_size
