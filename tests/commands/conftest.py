"""Settings of all tests of commands."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def _plots_not_laid_out(plots_not_laid_out) -> None:
    pass


@pytest.fixture(scope="session")
def names_run(tmp_path_factory, cache, run_in):
    """A run on names in BIO that has hardly begun to learn: word by word, it would predict invalid sequences."""
    from tests.commands.test_tagging import SIZE, TAGGING, write_sentences

    folder = tmp_path_factory.mktemp("hardly_learned")
    write_sentences(folder / "names.conll", 200)
    data = (*TAGGING, f"dataset.path={folder / 'names.conll'}", *SIZE, "tokenizer.vocabulary_size=100")
    run_in(cache, "train", *data, "training.steps=8", "training.threads=1", f"run_dir={folder / 'run'}")
    return folder / "run"
