"""Settings of all tests of commands."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def _plots_not_laid_out(plots_not_laid_out) -> None:
    pass
