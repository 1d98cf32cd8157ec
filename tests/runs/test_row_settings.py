"""Model settings that the training rows decide."""

import pytest

from encoderlab.config.schemas import AsPretrained
from encoderlab.data.generated import BracketsDataset
from encoderlab.data.tokenizers import SymbolsConfig, WordPieceConfig
from encoderlab.errors import SettingError
from encoderlab.model.config import ModelConfig, Pairs
from encoderlab.runs.assembly import check_pairs, with_case, with_pairs
from encoderlab.runs.corpus import Corpus
from encoderlab.tasks.config import ClassificationConfig, TaggingConfig

SEPARATE = [ModelConfig(pairs=Pairs.separate), AsPretrained(pairs=Pairs.separate)]


@pytest.fixture(scope="module")
def single_texts(tmp_path_factory):
    return Corpus.load(
        BracketsDataset(train_rows=4, validation_rows=2, test_rows=2, pairs=8), tmp_path_factory.mktemp("cache")
    )


@pytest.mark.parametrize("model", SEPARATE, ids=["in full", "as pretrained"])
def test_separate_pairs_are_refused_for_single_texts(model, single_texts):
    with pytest.raises(
        SettingError, match=r"^model.pairs=separate is set, but the rows are single texts. Remove model.pairs.$"
    ):
        check_pairs(model, single_texts)


def test_a_model_of_single_texts_separates_no_pairs(single_texts):
    """For example one finetuned from an encoder that reads pairs separately: its head is as wide as the encoder."""
    assert with_pairs(ModelConfig(pairs=Pairs.separate), single_texts).pairs is Pairs.joint


def test_a_trained_vocabulary_keeps_capitals_for_labelled_words_by_default():
    tagging, classification = TaggingConfig(name="names"), ClassificationConfig(name="topics")
    assert with_case(WordPieceConfig(), tagging).lowercase is False
    assert with_case(WordPieceConfig(), classification).lowercase is True
    assert with_case(WordPieceConfig(lowercase=True), tagging).lowercase is True
    assert with_case(SymbolsConfig(), tagging) == SymbolsConfig()
