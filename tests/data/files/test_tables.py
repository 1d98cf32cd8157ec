"""Jsonl, parquet and text files: read unchanged, or refused with their line."""

import json
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.data.examples import WordsExample
from encoderlab.data.files import tables
from encoderlab.data.files.files import read_unlabelled
from encoderlab.data.files.tables import RowsOfFile
from encoderlab.data.spool import Spool
from tests.data.files.written import FEW, ROWS, TEXTS, error_of, load, train_of, write


def test_jsonl_labels_can_be_strings_numbers_or_booleans(tmp_path):
    for one, other, names in [
        ("a", "b", ["a", "b"]),
        (10, 9, ["9", "10"]),
        (True, False, ["false", "true"]),
        (1.5, 0.5, ["0.5", "1.5"]),
    ]:
        lines = [json.dumps({"text": "x", "label": one}), "", json.dumps({"text": "y", "label": other})]
        assert load(write(tmp_path / "rows.jsonl", "\n".join(lines))).labels == names


def test_lists_of_words_in_jsonl_become_sentences(tmp_path):
    rows = [{"text": ["New", "York"], "label": ["B", "I"]}, {"text": [], "label": []}, {"text": ["is"], "label": ["O"]}]
    train = load(write(tmp_path / "rows.jsonl", "\n".join(map(json.dumps, rows)))).by_name["train"]
    assert list(train) == [WordsExample(("New", "York"), (0, 1)), WordsExample((), ()), WordsExample(("is",), (2,))]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "{",
            "rows.jsonl, line 2 is not JSON: Expecting property name enclosed in double quotes. Allowed: one object per line.",
        ),
        ('["x", "a"]', "rows.jsonl, line 2 is not a JSON object. Allowed: one object per line."),
        (
            '{"text": "x", "text": "y"}',
            "rows.jsonl, line 2 is not JSON: a name occurs twice in one object. Allowed: one object per line.",
        ),
        (
            '{"text": "x", "labels": "a"}',
            "rows.jsonl, line 2 has no column 'label'. Allowed: text, labels. Set dataset.label=labels.",
        ),
        (
            '{"text": null, "label": "a"}',
            "rows.jsonl, line 2 has null in column 'text'. Allowed: a text (\"\" if empty), or a list of words.",
        ),
        (
            '{"text": 5, "label": "a"}',
            "rows.jsonl, line 2 has 5 in column 'text'. Allowed: a text (\"\" if empty), or a list of words.",
        ),
        (
            '{"text": ["x", 5], "label": "a"}',
            'rows.jsonl, line 2 has ["x", 5] in column \'text\'. Allowed: a text ("" if empty), or a list of words.',
        ),
        (
            '{"text": "x", "label": {}}',
            "rows.jsonl, line 2 has {} in column 'label'. Allowed: a string, a number, true or false.",
        ),
        (
            '{"text": "x", "label": NaN}',
            "rows.jsonl, line 2 has NaN in column 'label'. Allowed: a string, a number, true or false.",
        ),
        (
            '{"text": "x", "label": null}',
            "rows.jsonl, line 2 has no label in column 'label'. Fill it in, or set dataset.on_missing=drop to drop such rows.",
        ),
        (
            '{"text": ["x"], "label": ["a"]}',
            "rows.jsonl, line 2 mixes lists and single values. Allowed: either everywhere.",
        ),
        (
            '{"text": "\\ud800", "label": "a"}',
            "rows.jsonl, line 2 holds half a character (a lone surrogate, \\ud800 to \\udfff).",
        ),
    ],
)
def test_a_jsonl_line_that_cannot_be_trusted_is_refused(tmp_path, line, message):
    assert error_of(write(tmp_path / "rows.jsonl", '{"text": "first", "label": "b"}\n' + line)) == message


def test_sentences_with_more_words_than_labels_are_refused(tmp_path):
    rows = [{"text": ["a", "b"], "label": ["X", "Y"]}, {"text": ["c", "d"], "label": ["X"]}]
    file = write(tmp_path / "rows.jsonl", "\n".join(map(json.dumps, rows)))
    assert error_of(file) == "rows.jsonl, line 2 has 2 words and 1 labels. Allowed: one label for each word."
    file = write(tmp_path / "rows.jsonl", '{"text": ["a"], "label": [null]}')
    assert (
        error_of(file)
        == "rows.jsonl, line 1 has no label in column 'label'. Fill it in, or set dataset.on_missing=drop to drop such rows."
    )


def test_lists_of_words_with_a_single_label_are_refused(tmp_path):
    pq.write_table(pa.table({"text": [["a"], ["b"]], "label": ["x", "y"]}), tmp_path / "rows.parquet")
    assert error_of(tmp_path / "rows.parquet") == (
        "The columns do not match: 'text' holds list<element: string>, 'label' holds string (rows.parquet, row 1). "
        "Allowed: texts with one label each, or lists of words with lists of as many labels."
    )


@pytest.mark.parametrize("labels", [["b", "a"], [1, 0], [True, False], [1.5, 0.5]])
def test_parquet_labels_can_have_any_simple_type(tmp_path, labels):
    table = pa.table({"text": pa.array(["x", "y"]).dictionary_encode(), "label": labels})
    pq.write_table(table, tmp_path / "rows.parquet")
    assert [text for text, _ in train_of(tmp_path / "rows.parquet")] == ["x", "y"]
    assert [example.label for example in load(tmp_path / "rows.parquet").by_name["train"]] == [1, 0]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"text": ["x", None], "label": ["a", "b"]},
            "rows.parquet, row 2 has no value in column 'text'. Write an empty text as \"\".",
        ),
        (
            {"text": [1, 2], "label": ["a", "b"]},
            "Column 'text' holds int64, not text (rows.parquet, row 1). Choose another with dataset.text=COLUMN.",
        ),
        (
            {"text": ["x"], "label": [b"a"]},
            "Column 'label' holds binary, not labels (rows.parquet, row 1). Allowed: strings, whole numbers, true and false.",
        ),
        (
            {"text": ["x", "y"], "label": [1.0, float("nan")]},
            "rows.parquet, row 2 has no label in column 'label'. Fill it in, or set dataset.on_missing=drop to drop such rows.",
        ),
        (
            {"text": [["x"], ["y", None]], "label": [["a"], ["b", "a"]]},
            "rows.parquet, row 2 has a missing word in column 'text'.",
        ),
        (
            {"texts": ["x"], "label": ["a"]},
            "rows.parquet has no column 'text'. Allowed: texts, label. Set dataset.text=texts.",
        ),
        (
            {"text": pa.array([], pa.string()), "label": pa.array([], pa.string())},
            "rows.parquet has no rows. Choose a file with rows.",
        ),
    ],
)
def test_a_parquet_file_that_cannot_be_trusted_is_refused(tmp_path, table, message):
    pq.write_table(pa.table(table), tmp_path / "rows.parquet")
    assert error_of(tmp_path / "rows.parquet") == message


def test_repeated_columns_and_files_that_are_not_parquet_are_refused(tmp_path):
    pq.write_table(pa.Table.from_arrays([pa.array(["x"])] * 2, names=["text", "text"]), tmp_path / "rows.parquet")
    assert error_of(tmp_path / "rows.parquet", label=None).startswith("rows.parquet has more than one column 'text'.")
    assert error_of(write(tmp_path / "no.parquet", "text,label\nx,a\n")).startswith(
        "no.parquet is not a readable parquet file: "
    )


@FEW
@given(rows=ROWS, ascii_only=st.booleans())
def test_jsonl_rows_come_back_as_written(tmp_path_factory, rows, ascii_only):
    rows = [*rows, ("zero", "0"), ("one", "1")]
    lines = [json.dumps({"label": label, "text": text}, ensure_ascii=ascii_only) for text, label in rows]
    assert train_of(write(tmp_path_factory.mktemp("rows") / "rows.jsonl", "\n".join(lines))) == rows


@FEW
@given(rows=ROWS)
def test_parquet_rows_come_back_as_written(tmp_path_factory, rows):
    rows = [*rows, ("zero", "0"), ("one", "1")]
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(
        pa.table({"text": [text for text, _ in rows], "label": [label for _, label in rows]}), path, row_group_size=2
    )
    assert train_of(path) == rows


@FEW
@given(texts=st.lists(TEXTS.filter(lambda text: not set(text) & set("\r\n")), min_size=1))
def test_lines_of_text_come_back_as_written(tmp_path_factory, texts):
    path = write(tmp_path_factory.mktemp("rows") / "texts.txt", "".join(f"{text}\n" for text in texts), "utf-8-sig")
    assert [example.text for example in read_unlabelled(path, text="ignored", text_pair=None, words=False)] == texts


def test_several_labels_for_one_text_are_refused_naming_task_multilabel(tmp_path):
    rows = {"text": ["x", "y"], "topics": [["a"], ["a", "b"]]}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    lines = [json.dumps({"text": text, "topics": topics}) for text, topics in zip(*rows.values(), strict=True)]
    for path, place in ((tmp_path / "rows.parquet", "row"), (write(tmp_path / "rows.jsonl", "\n".join(lines)), "line")):
        assert error_of(path, label="topics") == (
            f"Column 'topics' holds lists of labels ({path.name}, {place} 1). Allowed: one label for each text. Use task=multilabel."
        )


@pytest.mark.parametrize("rows_per_chunk", [1, 10])
def test_sets_of_labels_are_all_lists_or_all_texts_however_far_apart(tmp_path, monkeypatch, rows_per_chunk):
    monkeypatch.setattr(tables, "_ROWS_PER_CHUNK", rows_per_chunk)
    read = partial(load, target="label_set")
    mixed = write(tmp_path / "mixed.jsonl", '{"text": "x", "label": ["joy", "fear"]}\n{"text": "y", "label": "joy"}')
    assert (
        error_of(mixed, read=read) == "mixed.jsonl, line 2 mixes lists and single values. Allowed: either everywhere."
    )
    empty = write(tmp_path / "empty.jsonl", '{"text": "x", "label": ""}\n{"text": "y", "label": ["joy", "fear"]}')
    assert [example.label for example in read(empty).by_name["train"]] == [(), (1, 0)]


def test_long_texts_come_in_short_chunks_so_that_few_are_in_memory(tmp_path):
    rows = RowsOfFile(tmp_path / "rows.jsonl", Spool(None), ["text"], ["page"])
    texts = [f"{number}" + "x" * 4_000_000 for number in range(12)]
    for line, text in enumerate(texts):
        rows.add(line, [text, text])
    found = rows.finish()
    assert found.columns["text"].to_pylist() == found.carried["page"].to_pylist() == texts
    assert max(map(len, found.columns["text"].chunks)) < 4
