"""Shared by the tests of files: writing files, reading rows back, and the one-line error."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from encoderlab.data.files.files import FilesDataset
from encoderlab.errors import DataError

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
NASTY = st.text(st.sampled_from('ab",\n\r\t 01\u2028\x85\ufeff'), max_size=8)
ROWS = st.lists(st.tuples(TEXTS | NASTY, st.sampled_from("01")), min_size=1, max_size=6)
FEW = settings(max_examples=60, deadline=None)


def write(path, content, encoding="utf-8"):
    path.write_bytes(content.encode(encoding))
    return path


def load(path, target="label", **given):
    given = {"validation_fraction": 0, **given}
    return FilesDataset(path=str(path), **given).load(path.parent, target)


def train_of(path, **given):
    """Return the training rows as (text, label name)."""
    splits = load(path, **given)
    return [(example.text, splits.labels[example.label]) for example in splits.by_name["train"]]


def error_of(path, *contents, kind=DataError, read=load, **given):
    """Return the one line with which `read` refuses the path, without the folder around it."""
    with pytest.raises(kind) as caught:
        read(path, *contents, **given)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{path.parent}/", "")
