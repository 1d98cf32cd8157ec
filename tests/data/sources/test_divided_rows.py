"""Dividing the training rows of any dataset: a fold as test split, a fraction of the rows; documents are not divided."""

import pytest

from encoderlab.data.built_in import ArticlesDataset
from encoderlab.data.generated import BracketsDataset
from encoderlab.errors import SettingError

SIZES = {"train_rows": 60, "validation_rows": 10, "test_rows": 12, "pairs": 6}


def texts_of(splits, name):
    return [example.text for example in splits.by_name[name]]


def test_the_folds_of_a_dataset_test_every_training_row_once_and_ignore_its_test_split(tmp_path):
    whole = BracketsDataset(**SIZES).load(tmp_path)
    folds = [BracketsDataset(**SIZES, fold=f"{number}/3").load(tmp_path) for number in (1, 2, 3)]
    assert sorted(text for fold in folds for text in texts_of(fold, "test")) == sorted(texts_of(whole, "train"))
    for number, fold in enumerate(folds, start=1):
        assert list(fold.by_name) == ["train", "validation", "test"] and texts_of(fold, "validation") == texts_of(
            whole, "validation"
        )
        assert sorted(texts_of(fold, "train") + texts_of(fold, "test")) == sorted(texts_of(whole, "train"))
        assert fold.origin["unused_test_rows"] == 12 and fold.origin["fold"] == f"{number}/3"
        places = [row for row, of in enumerate(fold.folded.folds) if of == number]
        assert [fold.folded.rows[row].text for row in places] == texts_of(fold, "test")


def test_a_limit_applies_before_rows_are_divided(tmp_path):
    fold = BracketsDataset(**SIZES, limit=30, fold="1/3").load(tmp_path)
    assert [len(fold.by_name[name]) for name in ("train", "test")] == [20, 10] and len(fold.folded.rows) == 30


def test_a_fraction_of_the_training_rows_leaves_the_other_splits_whole(tmp_path):
    whole, half, quarter = (BracketsDataset(**SIZES, train_share=share).load(tmp_path) for share in (1.0, 0.5, 0.25))
    assert set(texts_of(quarter, "train")) < set(texts_of(half, "train")) < set(texts_of(whole, "train"))
    assert len(quarter.by_name["train"]) == 15
    assert all(texts_of(half, name) == texts_of(whole, name) for name in ("validation", "test"))


@pytest.mark.parametrize("setting", [{"fold": "1/3"}, {"train_share": 0.5}])
def test_documents_are_not_divided(tmp_path, setting):
    with pytest.raises(
        SettingError,
        match=rf"dataset.{next(iter(setting))} divides labelled rows.*Remove dataset.{next(iter(setting))}",
    ):
        ArticlesDataset(**setting).documents(tmp_path)
