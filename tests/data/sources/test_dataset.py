"""What all sources share: limits on rows, documents or a refusal, and a writable cache."""

import json
import os
from pathlib import Path

import pytest

from encoderlab.data.sources.generated import ReverseDataset
from encoderlab.errors import DataError

FEW = {"train_rows": 20, "validation_rows": 5, "test_rows": 5}


def test_a_limit_takes_rows_spread_evenly_over_each_split(tmp_path):
    whole, cut = (ReverseDataset(**FEW, limit=limit).load(tmp_path).by_name for limit in (None, 5))
    assert list(cut["train"]) == [whole["train"][row] for row in (0, 5, 10, 14, 19)]
    assert list(cut["test"]) == list(whole["test"])


def test_a_source_without_documents_says_which_have_some(tmp_path):
    with pytest.raises(DataError) as caught:
        ReverseDataset(**FEW).documents(tmp_path)
    assert str(caught.value) == (
        "dataset=reverse holds no documents. Allowed: articles, wikipedia, hub, files. Set dataset=articles, which needs no download."
    )


def test_a_source_is_recorded_in_a_run_as_plain_values(tmp_path):
    json.dumps(ReverseDataset(**FEW).load(tmp_path).origin)


def test_the_cache_folder_is_created_and_left_empty(tmp_path):
    ReverseDataset(**FEW).load(tmp_path / "new" / "cache")
    assert list((tmp_path / "new" / "cache").iterdir()) == []


def test_a_cache_that_cannot_be_written_to_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    refused = {tmp_path / "file": "File exists", tmp_path / "file" / "cache": "Not a directory"}
    if Path("/proc").is_dir():  # no user, not even root, makes files there
        refused[Path("/proc")] = refused[Path("/proc/cache")] = os.strerror(2)
    for folder, reason in refused.items():
        with pytest.raises(DataError) as caught:
            ReverseDataset(**FEW).load(folder)
        assert str(caught.value) == (
            f"cache_dir={folder} is not a writable folder ({reason}). Set cache_dir or ENCODERLAB_CACHE to a writable folder."
        )
