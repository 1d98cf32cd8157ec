"""An empty run folder."""

import pytest

from encoderlab.runs.folder import RunFolder


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path)
