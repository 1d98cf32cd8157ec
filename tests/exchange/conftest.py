"""The small models of tests/network, for tests of their other formats, and a folder of Transformers."""

import pytest
import transformers

from tests.exchange.bert_folders import saved, theirs_of
from tests.network.conftest import _one_thread, make_batch, make_config, make_model

__all__ = ["make_batch", "make_config", "make_model", "_one_thread"]


@pytest.fixture(autouse=True, scope="module")
def no_bars():
    transformers.utils.logging.disable_progress_bar()


@pytest.fixture
def bert(tmp_path):
    """Return the folder of a BERT with both pretraining heads."""
    return saved(theirs_of("BertForPreTraining"), tmp_path / "a bert")
