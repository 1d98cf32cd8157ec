"""Contradictory column settings are refused, and held-out rows come only from training."""

import pyarrow as pa
import pytest

from encoderlab.data.files.files import FilesDataset
from encoderlab.data.sources.columns import Rows
from encoderlab.errors import SettingError


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"validation_fraction": 0.6, "test_fraction": 0.4}, "leave no training rows"),
        ({"text": "a", "label": "a"}, "'a' twice"),
        ({"text_pair": "text"}, "'text' twice"),
        ({"label_names": ["one"]}, "label_names"),
        ({"label_names": ["one", "one"]}, "label_names"),
    ],
)
def test_contradictory_column_settings_are_refused(settings, words):
    with pytest.raises(SettingError, match=words):
        FilesDataset(path="x.csv", **settings)


def splits_of(**settings):
    names = [f"text {row}" for row in range(40)]
    columns = {"text": pa.chunked_array([names]), "label": pa.chunked_array([["a", "b"] * 20])}
    return FilesDataset(path="x.csv", **settings).splits({"train": Rows(columns, str)}, {"source": "test"})


def test_held_out_rows_are_taken_from_training_once_and_depend_only_on_the_seed():
    found = splits_of(validation_fraction=0.25, test_fraction=0.25)
    texts = {name: [example.text for example in split] for name, split in found.by_name.items()}
    assert {name: len(some) for name, some in texts.items()} == {"train": 20, "validation": 10, "test": 10}
    assert sorted(sum(texts.values(), [])) == sorted(f"text {row}" for row in range(40))
    assert found.origin["taken_from_train"] == {"validation": 0.25, "test": 0.25}
    again, other = (splits_of(validation_fraction=0.25, split_seed=seed) for seed in (0, 1))
    assert list(again.by_name["validation"]) != list(other.by_name["validation"])
    assert list(again.by_name["validation"]) == list(splits_of(validation_fraction=0.25).by_name["validation"])


def test_without_a_label_column_rows_have_no_labels():
    found = splits_of(label=None)
    assert found.labels == []
    assert not found.by_name["train"].labelled
