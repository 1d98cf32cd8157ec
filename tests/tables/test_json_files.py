"""JSON in the shapes that pandas, datasets and web services write: read as a table, or refused by the shape's name."""

import json

import datasets
import pandas as pd
import pytest

from encoderlab.data.files import FilesDataset
from encoderlab.errors import DataError

ROWS = 12
FRAME = pd.DataFrame(
    {
        "text": [f"the parcel of case {row} has come" for row in range(ROWS)],
        "label": ["good" if row % 2 else "bad" for row in range(ROWS)],
    }
)
PAIRS = list(FRAME.itertuples(index=False, name=None))
OBJECTS = FRAME.to_dict("records")


def train(path, tmp_path, target="label", **settings):
    data = FilesDataset(path=str(path), validation_fraction=0.0, **settings).load(tmp_path / "cache", target)
    return data, list(data.by_name["train"])


def pairs(path, tmp_path, **settings):
    data, rows = train(path, tmp_path, **settings)
    return [(row.text, data.labels[row.label]) for row in rows]


SHAPES = {
    "columns": FRAME.to_json(),
    "columns by other rows": FRAME.set_index(pd.Index([f"r{row}" for row in range(ROWS)])).to_json(),
    "index": FRAME.to_json(orient="index"),
    "split": FRAME.to_json(orient="split"),
    "table": FRAME.to_json(orient="table", index=False),
    "records": FRAME.to_json(orient="records"),
    "lines": FRAME.to_json(orient="records", lines=True),
    "indented lines": FRAME.to_json(orient="records", indent=2),
    "lists": json.dumps(datasets.Dataset.from_pandas(FRAME).to_dict()),
    "wrapped": json.dumps({"count": ROWS, "next": None, "results": OBJECTS}),
    "wrapped twice (Elasticsearch)": json.dumps({"took": 3, "hits": {"total": {"value": ROWS}, "hits": OBJECTS}}),
    "pretty objects": "\n".join(json.dumps(row, indent=2) for row in OBJECTS),
    "objects in one line": " ".join(map(json.dumps, OBJECTS)),
}
ARRAYS = ("records", "lines", "indented lines", "pretty objects", "objects in one line")  # also in a file named .jsonl


@pytest.mark.parametrize(
    ("shape", "ending"),
    [(shape, "json") for shape in SHAPES] + [(shape, "jsonl") for shape in ARRAYS],
)
def test_a_table_is_read_in_each_shape(shape, ending, tmp_path):
    (tmp_path / f"a.{ending}").write_text(SHAPES[shape])
    assert pairs(tmp_path / f"a.{ending}", tmp_path) == PAIRS


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (FRAME.to_json(orient="values"), r"array of arrays.*orient='records'"),
        (json.dumps([*FRAME["text"]]), "array of values"),
        (json.dumps({"train": OBJECTS, "test": OBJECTS}), r"several tables: train, test.*jq \.train"),
        (json.dumps({"train": [[*pair] for pair in PAIRS], "val": [["a", "b"]]}), "several tables: train, val"),
        (json.dumps({"text": ["a", "b"], "label": ["x"]}), r"different lengths: text \(2\), label \(1\)"),
        (SHAPES["indented lines"].removesuffix("]") + ",]", "a comma that nothing follows"),
        (SHAPES["records"].removesuffix("}]") + ",}]", "a comma that nothing follows"),
        (str(OBJECTS), "single quotes"),
        (SHAPES["records"][:100], "a.json"),
        ("[]", "no rows"),
        ("3", "single value"),
    ],
)
def test_what_is_no_table_is_refused_by_its_shape(content, named, tmp_path):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError, match=named):
        pairs(tmp_path / "a.json", tmp_path)


def test_a_field_of_an_object_is_a_column(tmp_path):
    rows = [{"id": row, "data": {"text": text, "meta": {"label": label}}} for row, (text, label) in enumerate(PAIRS)]
    rows.append({"id": 99, "data": {"text": "without a label", "meta": None}})
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    named = {"text": "data.text", "label": "data.meta.label"}
    assert pairs(tmp_path / "a.jsonl", tmp_path, **named) == PAIRS
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows[:-1])))
    assert pairs(tmp_path / "a.jsonl", tmp_path) == PAIRS  # guessed


def test_objects_are_labels_by_their_names_and_a_null_part_is_blank(tmp_path):
    names = [[], ["bug"], ["bug", "docs"]]
    rows = []
    for row, (text, _) in enumerate(PAIRS):
        labels = [{"id": f"L{name}", "name": name, "color": "red"} for name in names[row % 3]]
        rows.append(
            {"title": text, "body": None if row < 6 else "more", "labels": labels, "type": {"name": f"t{row % 2}"}}
        )
    (tmp_path / "a.json").write_text(json.dumps(rows))
    data, examples = train(tmp_path / "a.json", tmp_path, "label_set", text=["title", "body"], label="labels")
    assert [[data.labels[id_] for id_ in row.label] for row in examples] == [names[row % 3] for row in range(ROWS)]
    assert PAIRS[0][0] in examples[0].text and "more" in examples[7].text
    assert [label for _, label in pairs(tmp_path / "a.json", tmp_path, text="title", label="type")][:2] == ["t0", "t1"]


def test_a_column_that_the_first_row_lacks_is_read(tmp_path):
    rows = [{"text": "the first one"}, *OBJECTS]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert pairs(tmp_path / "a.jsonl", tmp_path) == PAIRS


@pytest.mark.parametrize("n_before", [150, 5000])
def test_a_column_may_begin_late(n_before, tmp_path):
    rows = [{"text": f"the parcel {n}"} for n in range(n_before)] + OBJECTS
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert pairs(tmp_path / "a.jsonl", tmp_path) == PAIRS


def test_a_column_that_is_left_out_is_named(tmp_path, capsys):
    rows = [OBJECTS[n % ROWS] for n in range(10_050)]
    rows[10_020] = rows[10_020] | {"remark": "late"}
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pairs(tmp_path / "a.jsonl", tmp_path)
    assert "line 10021" in (said := capsys.readouterr().err) and "'remark'" in said


def test_nan_is_no_label(tmp_path):
    rows = [{**row, "label": float("nan")} if n == 3 else row for n, row in enumerate(OBJECTS)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert pairs(tmp_path / "a.jsonl", tmp_path) == PAIRS[:3] + PAIRS[4:]


def test_marks_of_labels_are_the_labels_that_they_mark(tmp_path):
    rows = [{"text": text, "label": {"good": label == "good", "bad": label == "bad"}} for text, label in PAIRS]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert pairs(tmp_path / "a.jsonl", tmp_path) == PAIRS


def test_an_object_without_a_known_name_is_asked_for_by_its_fields(tmp_path):
    rows = [{"text": text, "label": {"id": 7, "title": label}} for text, label in PAIRS]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match="dataset.label=label.title"):
        pairs(tmp_path / "a.jsonl", tmp_path)
    assert pairs(tmp_path / "a.jsonl", tmp_path, label="label.title") == PAIRS


def test_whole_numbers_of_any_size_are_carried_along(tmp_path):
    rows = [{"id": 2**64 - 1 - row, "review": text, "stars": label} for row, (text, label) in enumerate(PAIRS)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data, read = train(tmp_path / "a.jsonl", tmp_path)
    assert [row.text for row in read] == [text for text, _ in PAIRS]
    assert data.by_name["train"].carried[0]["id"] == str(2**64 - 1)


def test_a_column_whose_name_is_no_valid_unicode_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": "b", "k\\udc00": 1}\n')
    with pytest.raises(DataError, match=r"row 1 .*udc00"):
        train(tmp_path / "a.jsonl", tmp_path)
