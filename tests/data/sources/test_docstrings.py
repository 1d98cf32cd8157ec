"""The built-in corpus: only prose, no duplicates, no module in two splits, and the same rows everywhere."""

import importlib.metadata
import io
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from encoderlab.data.sources import docstrings
from encoderlab.data.sources.docstrings import DocsDataset, Library, installed_libraries, read_corpus
from encoderlab.errors import DataError
from tests.data.sources.python_trees import module, sentence, write_tree


@pytest.fixture
def tree(tmp_path):
    """Write two libraries of forty modules each: one as standard library, one as an installed package."""
    alpha = {f"alpha/part{n}.py": module("Title.", sentence(n), sentence(n + 100)) for n in range(40)}
    beta = {f"beta/deep/part{n}.py": module(sentence(n + 500)) for n in range(40)}
    others = {
        "alpha/tests/test_part.py": module(sentence(900)),
        "beta/__init__.py": module(sentence(901)),
        "beta/site-packages/stranger.py": module(sentence(902)),
        "beta/broken.py": b'"""' + sentence(903).encode() + b'"""\nprint "no longer Python"\n',
        "beta/zeros.py": b'"""' + sentence(904).encode() + b'"""\n\0',
    }
    files = list({**alpha, **beta, **others}.items())
    random.Random(0).shuffle(files)
    write_tree(tmp_path, dict(files))
    return [Library("alpha", "alpha", "1.0", tmp_path / "alpha"), Library("beta", "", "2.0", tmp_path / "beta")]


@pytest.fixture
def installed(tree, monkeypatch):
    monkeypatch.setattr(docstrings, "installed_libraries", lambda: tree)
    return tree


def test_no_module_is_in_two_splits_and_every_split_has_both_labels(installed, tmp_path):
    splits = DocsDataset().load(tmp_path / "cache")
    sides = {}
    for split, examples in splits.by_name.items():
        assert {splits.labels[example.label] for example in examples} == {"alpha", "beta"}
        for example in examples:
            sides.setdefault(example.text, set()).add(split)
    paragraphs = read_corpus(installed)
    of_module = {}
    for paragraph in paragraphs:
        of_module.setdefault(paragraph.module, set()).update(sides[paragraph.text])
    assert all(len(splits_of_module) == 1 for splits_of_module in of_module.values())
    assert sum(map(len, splits.by_name.values())) == len(paragraphs) == len(sides)


READ = """
import json, sys
from pathlib import Path
from encoderlab.data.sources.docstrings import Library, read_corpus
folder = Path(sys.argv[1])
libraries = [Library("alpha", "alpha", "1.0", folder / "alpha"), Library("beta", "", "2.0", folder / "beta")]
print(json.dumps([[p.text, p.library, p.module, p.split] for p in read_corpus(libraries)]))
"""


def test_rows_and_order_do_not_depend_on_the_process_or_the_file_system(tree, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    for library in reversed(tree):
        for path in sorted(library.root.rglob("*.py"), reverse=True):
            write_tree(elsewhere, {path.relative_to(tmp_path): path.read_bytes()})
    answers = [
        subprocess.run(
            [sys.executable, "-c", READ, str(folder)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        for folder, seed in ((tmp_path, "1"), (elsewhere, "2"))
    ]
    assert answers[0].stdout == answers[1].stdout
    assert len(json.loads(answers[0].stdout)) == 3 * 40 + 1
    assert answers[0].stderr == "Reading the docstrings of 2 libraries: first use, about half a minute\n"


def test_a_terminal_shows_a_progress_bar_instead_of_the_line(tree, monkeypatch):
    monkeypatch.setattr(sys, "stderr", screen := io.StringIO())
    screen.isatty = lambda: True
    read_corpus(tree)
    assert "Reading docstrings (first use): " in screen.getvalue()
    assert "about half a minute" not in screen.getvalue()


def test_the_second_time_rows_come_from_the_cache_and_a_new_version_is_read_again(installed, tmp_path, monkeypatch):
    first = DocsDataset().load(tmp_path / "cache")
    (installed[0].root / "part0.py").write_bytes(module(sentence(999)))
    again = DocsDataset().load(tmp_path / "cache")
    assert [list(split) for split in again.by_name.values()] == [list(split) for split in first.by_name.values()]
    newer = [Library("alpha", "alpha", "1.1", installed[0].root), installed[1]]
    monkeypatch.setattr(docstrings, "installed_libraries", lambda: newer)
    anew = DocsDataset().load(tmp_path / "cache")
    assert sentence(999) in [example.text for split in anew.by_name.values() for example in split]
    assert len(list((tmp_path / "cache" / "docs").iterdir())) == 2


def test_an_interrupted_write_leaves_nothing_behind(installed, tmp_path, monkeypatch):
    def interrupted(table, path):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr(pyarrow.parquet, "write_table", interrupted)
        with pytest.raises(KeyboardInterrupt):
            DocsDataset().load(tmp_path / "cache")
    assert list((tmp_path / "cache" / "docs").iterdir()) == []
    assert len(DocsDataset().load(tmp_path / "cache").by_name["train"]) > 50


def test_the_origin_states_versions_and_counts(installed, tmp_path):
    splits = DocsDataset(limit=3).load(tmp_path / "cache")
    assert {len(split) for split in splits.by_name.values()} == {3}
    assert splits.origin["versions"] == {"alpha": "1.0", "beta": "2.0"}
    assert sum(splits.origin["paragraphs"]["alpha"].values()) == 80
    assert splits.origin["words"] > 121 * 20


def test_a_single_library_is_refused(installed, tmp_path):
    installed.pop()
    with pytest.raises(DataError) as refused:
        DocsDataset().load(tmp_path / "cache")
    assert "dataset=docs found the documentation of 1 libraries: alpha. Allowed: at least 2 libraries" in str(
        refused.value
    )
    assert "Run pip install matplotlib" in str(refused.value)


def test_installed_libraries_are_found_without_importing_them_and_missing_ones_skipped(monkeypatch):
    monkeypatch.setitem(docstrings.PACKAGES, "never-installed", "never_installed")
    found = {library.label: library for library in installed_libraries()}
    assert list(found) == sorted(found)
    assert "never-installed" not in found
    assert {"python", "torch", "scikit-learn", "transformers"} <= set(found)
    assert found["scikit-learn"].version == importlib.metadata.version("scikit-learn")
    assert (found["python"].root / "json" / "decoder.py").is_file()
    code = "import sys; from encoderlab.data.sources.docstrings import installed_libraries as i; i(); print({'torch', 'pandas'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_real_documentation_is_read():
    networkx = next(library for library in installed_libraries() if library.label == "networkx")
    paragraphs = read_corpus([networkx])
    assert len(paragraphs) > 500
    assert {paragraph.module.split(".")[0] for paragraph in paragraphs} == {"networkx"}
    assert not [paragraph for paragraph in paragraphs if ">>>" in paragraph.text]
    assert Path(networkx.root).name == "networkx"


def test_a_module_is_a_document_and_stays_in_its_split(installed, tmp_path):
    splits = DocsDataset().load(tmp_path).by_name
    corpus = DocsDataset().documents(tmp_path)
    read = {name: list(split.documents()) for name, split in corpus.by_name.items()}
    assert {name: len(part) for name, part in read.items()} == {
        name: split.total for name, split in corpus.by_name.items()
    }
    assert sum(map(len, read.values())) == 81  # and beta itself
    for name, part in read.items():
        assert [paragraph for document in part for paragraph in document] == [example.text for example in splits[name]]
        assert {len(document) for document in part} == {1, 2}  # a module of beta has one paragraph, of alpha two


def test_limiting_documents_changes_their_fingerprint(installed, tmp_path):
    whole, few = (DocsDataset(limit=limit).documents(tmp_path).by_name["train"] for limit in (None, 4))
    documents = list(whole.documents())
    step = (len(documents) - 1) / 3
    assert list(few.documents()) == [documents[round(place * step)] for place in range(4)]
    assert whole.fingerprint == DocsDataset().documents(tmp_path).by_name["train"].fingerprint != few.fingerprint
