"""Parquet and Arrow files as datasets, pandas and polars write them: class names, lists, categories, both containers."""

from decimal import Decimal

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from encoderlab.data.files import FilesDataset, read_unlabelled
from encoderlab.errors import DataError

ROWS = 24
TEXTS = [f"the soup of visit {row} was lovely" for row in range(ROWS)]
LABELS = ["pos" if row % 2 else "neg" for row in range(ROWS)]
TOPICS = [["sport", "weather"][: row % 3] for row in range(ROWS)]


def train(path, tmp_path, target="label", **settings):
    data = FilesDataset(path=str(path), validation_fraction=0.0, **settings).load(tmp_path / "cache", target)
    return data, list(data.by_name["train"])


def labels(path, tmp_path):
    data, rows = train(path, tmp_path)
    return [data.labels[row.label] for row in rows]


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_classes_of_datasets_have_their_names_and_minus_one_is_no_label(ending, tmp_path, capsys):
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["zeta", "alpha"])}
    )
    ids = [-1 if row < 4 else row % 2 for row in range(ROWS)]
    dataset = datasets.Dataset.from_dict({"text": TEXTS, "label": ids}, features=features)
    path = tmp_path / f"d.{ending}"
    if ending == "parquet":
        dataset.to_parquet(path)
    else:
        with pa.ipc.new_file(path, dataset.data.table.schema.with_metadata(features.arrow_schema.metadata)) as file:
            file.write_table(dataset.data.table)
    assert labels(path, tmp_path) == ["alpha" if row % 2 else "zeta" for row in range(4, ROWS)]
    assert "4 of 24 rows have no label" in capsys.readouterr().err


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
@pytest.mark.parametrize("container", ["stream", "file", "compressed file"])
def test_both_arrow_containers_are_read(container, kind, tmp_path):
    table = pa.table({"text": pa.array(TEXTS), "label": pa.array(LABELS).cast(kind)})
    options = pa.ipc.IpcWriteOptions(compression="zstd" if container.startswith("compressed") else None)
    new = pa.ipc.new_stream if container == "stream" else pa.ipc.new_file
    with new(tmp_path / "a.arrow", table.schema, options=options) as file:
        file.write_table(table)
    assert labels(tmp_path / "a.arrow", tmp_path) == LABELS


def test_feather_of_pandas_is_read(tmp_path):
    pd.DataFrame({"text": TEXTS, "label": pd.Categorical(LABELS)}).to_feather(tmp_path / "a.feather")
    assert labels(tmp_path / "a.feather", tmp_path) == LABELS


LISTS = {
    "list": pa.list_(pa.string()),
    "large_list": pa.large_list(pa.large_string()),
    "categories": pa.large_list(pa.dictionary(pa.uint8(), pa.string())),
    "views": pa.list_(pa.string_view()),
}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_lists_of_labels_are_sets_of_labels(ending, name, tmp_path):
    kind = LISTS[name]
    if name == "categories":
        offsets = pa.array(np.cumsum([0, *map(len, TOPICS)]), pa.int64())
        values = pa.array(sum(TOPICS, [])).dictionary_encode().cast(kind.value_type)
        column = pa.LargeListArray.from_arrays(offsets, values)
    else:
        column = pa.array(TOPICS, kind)
    table = pa.table({"text": TEXTS, "topics": column})
    if ending == "parquet":
        pq.write_table(table, tmp_path / "a.parquet")
    else:
        with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as file:
            file.write_table(table)
    data, rows = train(tmp_path / f"a.{ending}", tmp_path, "label_set", text="text", label="topics")
    assert [[data.labels[id_] for id_ in row.label] for row in rows] == TOPICS


def test_lists_of_words_and_tags_of_a_parquet_file_are_read(tmp_path):
    features = datasets.Features(
        {
            "tokens": datasets.List(datasets.Value("string")),
            "ner_tags": datasets.List(datasets.ClassLabel(names=["O", "B-PER"])),
        }
    )
    rows = {"tokens": [["Ann", "sleeps"]] * ROWS, "ner_tags": [[1, 0]] * ROWS}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "a.parquet")
    data, examples = train(tmp_path / "a.parquet", tmp_path, "label", text="tokens", label="ner_tags")
    assert [data.labels[id_] for id_ in examples[0].labels] == ["B-PER", "O"]


def test_ids_of_19_digits_and_decimals_are_exact(tmp_path):
    ids = [1794030472427835393 + row for row in range(ROWS)]
    table = pa.table({"text": TEXTS, "id": ids, "price": pa.array([Decimal("1.10")] * ROWS, pa.decimal128(9, 2))})
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as file:
        file.write_table(table)
    for name in ("a.parquet", "a.arrow"):
        split = read_unlabelled(tmp_path / name, text="text", text_pair=None, words=False)
        assert [row["id"] for row in split.carried] == ids
        assert {row["price"] for row in split.carried} == {Decimal("1.10")}


def test_an_arrow_file_cut_short_is_refused(tmp_path):
    pd.DataFrame({"text": TEXTS, "label": LABELS}).to_feather(tmp_path / "a.arrow")
    content = (tmp_path / "a.arrow").read_bytes()
    (tmp_path / "a.arrow").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"a\.arrow"):
        labels(tmp_path / "a.arrow", tmp_path)


@pytest.mark.parametrize("field", ["name", "label"])
def test_an_object_stands_for_a_label_by_its_name(field, tmp_path):
    texts = [f"the parcel of case {row}" for row in range(8)]
    labels = [{field: ("good", "bad")[row % 2], "id": row} for row in range(8)]
    topics = [[label] for label in labels]
    pq.write_table(pa.table({"text": texts, "label": labels, "topics": topics}), tmp_path / "a.parquet")
    for column, target in (("label", "label"), ("topics", "label_set")):
        given = {"path": str(tmp_path / "a.parquet"), "label": column, "validation_fraction": 0.0}
        data = FilesDataset(**given).load(tmp_path / "cache", target)
        first = next(iter(data.by_name["train"])).label
        assert data.labels == ["bad", "good"] and first in (1, (1,))


@pytest.mark.parametrize("container", ["parquet", "arrow"])
def test_a_text_within_an_object_is_found_and_read(container, tmp_path, capsys):
    objects = [{"text": text, "source": {"author": "ann", "lang": "en"}} for text in TEXTS]
    table = pa.table({"id": range(ROWS), "data": objects, "label": LABELS})
    path = tmp_path / f"a.{container}"
    if container == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    _, rows = train(path, tmp_path)
    assert [row.text for row in rows] == TEXTS and "data.text" in capsys.readouterr().err
    _, rows = train(path, tmp_path, text="data.text", slices=["id"])
    assert [row.text for row in rows] == TEXTS
    with pytest.raises(DataError, match=r"dataset\.text=data\.text"):
        train(path, tmp_path, text="data")
    new = read_unlabelled(path, text="data.text", text_pair=None, words=False)
    assert new.carried.column_names == ["id", "data", "label", "data.text"]
