"""A run is prepared in one pass: the rows are read once, each text is tokenised once, and a second run tokenises none."""

import json
from collections import Counter

import pytest

from encoderlab.data import survey, token_store
from encoderlab.data.examples import text_of
from encoderlab.data.files import FilesDataset
from encoderlab.runs import finish

WORDS = ["warm", "witty", "dull", "empty", "film", "plot", "cast", "slow"]
SMALL = ("model=tiny", "training=smoke", "training.steps=2", "training.device=cpu", "baselines=false")


@pytest.fixture
def files(tmp_path):
    """Write a file of films for each split, every text of its own, and return the settings that name them."""
    settings = ["task=classification", "dataset=files", "tokenizer.vocabulary_size=120", *SMALL]
    first = 0
    for name, n_rows in (("train", 60), ("validation", 20), ("test", 12)):
        lines = ["text,label"]
        for row in range(first, first + n_rows):
            words = [WORDS[(row // 8**place) % 8] for place in range(3)]
            lines.append(f"{' '.join(words)} number {row},{('good', 'bad')[row % 2]}")
        first += n_rows
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        settings.append(f"dataset.{name}={path}")
    return settings


@pytest.fixture
def seen(monkeypatch):
    """Return how often the dataset was loaded, each split was surveyed and each text was tokenised.

    The few texts that the page explains are not counted: their words are hidden one by one.
    """
    seen = {"loaded": 0, "surveyed": Counter(), "tokenised": Counter()}
    explained = finish.word_importance
    load = FilesDataset.load
    hashed = survey.hashed
    block = token_store._block

    def counted_load(self, *arguments, **settings):
        seen["loaded"] += 1
        return load(self, *arguments, **settings)

    def counted_hashes(split):
        seen["surveyed"][len(split)] += 1
        return hashed(split)

    def counted_block(examples, *arguments, **settings):
        seen["tokenised"].update(map(text_of, examples))
        return block(examples, *arguments, **settings)

    def uncounted_importance(*arguments, **settings):
        before = seen["tokenised"].copy()
        importance = explained(*arguments, **settings)
        seen["tokenised"] = before
        return importance

    monkeypatch.setattr(finish, "word_importance", uncounted_importance)
    monkeypatch.setattr(FilesDataset, "load", counted_load)
    monkeypatch.setattr(survey, "hashed", counted_hashes)
    monkeypatch.setattr(token_store, "_block", counted_block)
    return seen


def test_a_new_run_reads_each_split_once_and_tokenises_each_text_once(command, files, seen, tmp_path):
    cache = f"cache_dir={tmp_path / 'cache'}"
    command("train", *files, cache, f"run_dir={tmp_path / 'first'}")
    assert seen["loaded"] == 1
    assert seen["surveyed"] == {60: 1, 20: 1, 12: 1}
    assert len(seen["tokenised"]) == 60 + 20 + 12
    assert set(seen["tokenised"].values()) == {1}

    # Another run on the same texts tokenises none of them, whatever it reads of them.
    changed = ["model.max_length=8", "task.windows=mean", "seed=7"]
    command("train", *files, cache, *changed, f"run_dir={tmp_path / 'second'}")
    assert set(seen["tokenised"].values()) == {1}
    assert len(list((tmp_path / "cache" / "tokens").iterdir())) == 3


def test_rows_without_validation_are_put_back_without_reading_them_again(command, files, seen, tmp_path):
    """Too few rows to choose a checkpoint by: none is held out, and the file is read once all the same."""
    without = [setting for setting in files if not setting.startswith("dataset.validation=")]
    arguments = [*without, "training.min_validation_rows=50", f"cache_dir={tmp_path / 'cache'}"]
    command("train", *arguments, f"run_dir={tmp_path / 'run'}")
    assert seen["loaded"] == 1
    assert seen["surveyed"] == {60: 1, 12: 1}
    assert set(seen["tokenised"].values()) == {1}
    environment = json.loads((tmp_path / "run" / "environment.json").read_text(encoding="utf-8"))
    assert environment["dataset"]["splits"]["train"]["rows"] == 60
