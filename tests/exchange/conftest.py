"""The small models of tests/model, for tests of their other formats."""

from tests.model.conftest import make_batch, make_config, make_model, one_thread

__all__ = ["make_batch", "make_config", "make_model", "one_thread"]
