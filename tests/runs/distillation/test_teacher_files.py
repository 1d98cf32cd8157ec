"""The files of a distillation are recognised by their contents."""

import pytest

from encoderlab.errors import DataError
from encoderlab.runs.distillation.teacher_files import unlabelled_file


def test_a_missing_file_is_named(tmp_path):
    path = tmp_path / "texts.txt"
    with pytest.raises(DataError, match="texts.txt"):
        unlabelled_file(str(path))
    path.write_text("a text\n")
    assert unlabelled_file(str(path)) == path
