"""scripts/make_corpus keeps what its licence allows, splits long documents between paragraphs, and writes the same file
each time.
"""

import gzip
import json
import sys
from collections import Counter
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "make_corpus"


@pytest.fixture
def script(monkeypatch):
    loader = SourceFileLoader("make_corpus", str(SCRIPT))
    module = module_from_spec(spec_from_loader("make_corpus", loader))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader.exec_module(module)
    monkeypatch.setattr(module, "wikipedia_documents", lambda: iter([{"text": "An article.", "source": "Wikipedia"}]))
    return module


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    documents = [
        ("a novel", "novels"),
        ("a talk", "talks"),
        ("a textbook", "textbooks"),
        ("a speech", "presidential speeches"),
    ]
    with gzip.open(tmp_path / "general-00.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text, "source": source}) + "\n" for text, source in documents)
    monkeypatch.setenv("CORPUS", str(tmp_path))


def run(script, path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["make_corpus", str(path)])
    script.main()
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_sources_that_may_not_be_used_are_skipped_and_counted(script, corpus, tmp_path, monkeypatch, capsys):
    found = run(script, tmp_path / "out.jsonl.gz", monkeypatch)
    assert sorted(document["text"] for document in found) == ["An article.", "a novel", "a speech"]
    printed = capsys.readouterr().out
    assert "| novels | 2 | 1 | public domain |" in printed
    assert printed.splitlines()[-1] == "Left out for their licence: talks (1), textbooks (1)."


def test_the_file_is_the_same_each_time(script, corpus, tmp_path, monkeypatch):
    for name in ("a", "b"):
        run(script, tmp_path / name, monkeypatch)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_long_documents_are_split_between_paragraphs(script):
    assert list(script.pieces_of("a b\nc\n\nd e f\ng h i j k", longest=4)) == ["a b\nc", "d e f", "g h i j k"]
    assert list(script.collect(iter([{"text": "", "source": "novels"}]), Counter())) == []


def test_every_named_licence_is_free(script):
    free = ("public domain", "CC0", "CC BY 4.0", "CC BY-SA 3.0", "CC BY-SA 4.0")
    assert all(part in free for licence in script.LICENCES.values() for part in licence.split(", "))


def test_a_missing_corpus_is_reported_in_one_line(script, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["make_corpus", str(tmp_path / "out")])
    monkeypatch.delenv("CORPUS", raising=False)
    with pytest.raises(SystemExit, match="set CORPUS to the folder"):
        script.main()
    monkeypatch.setenv("CORPUS", str(tmp_path))
    with pytest.raises(SystemExit, match=r"no general-\*\.jsonl\.gz in "):
        script.main()
