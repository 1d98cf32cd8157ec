"""The small models of tests/model, for the tests of export formats."""

from tests.model.conftest import _one_thread, make_batch, make_config, make_model

__all__ = ["make_batch", "make_config", "make_model", "_one_thread"]
