"""The texts that tokenizers are trained and compared on: those that training would use."""

import pytest

from encoderlab.data import documents
from encoderlab.data.documents import Documents, DocumentSplit
from encoderlab.data.files.files import FilesDataset
from encoderlab.data.sources.generated import ReverseDataset
from encoderlab.data.sources.wikipedia import WikipediaDataset
from encoderlab.errors import DataError
from encoderlab.runs.corpora.corpus import Corpus
from encoderlab.runs.corpora.vocabularies import open_tokenizer, texts_by_split


def write(path, header, rows):
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return str(path)


def test_texts_are_those_that_training_on_the_same_rows_uses(tmp_path):
    path = write(tmp_path / "rows.csv", "text,body,label", [f"text {n},body {n},{'ab'[n % 3 == 0]}" for n in range(60)])
    for dataset in (FilesDataset(path=path, text_pair="body"), ReverseDataset(limit=7)):
        texts = texts_by_split(dataset, tmp_path / "cache")
        assert {"train", "validation"} <= set(texts)
        expected = list(Corpus.load(dataset, tmp_path / "cache").training_texts())
        assert list(texts["train"]()) == expected
        assert list(texts["train"]()) == expected, "the second reading gives the same texts"


def test_rows_with_unreadable_labels_still_have_texts(tmp_path):
    table = write(tmp_path / "rows.csv", "text,stars", [f"text {n},{n}" for n in range(20)])
    lines = write(tmp_path / "rows.txt", "text 0", [f"text {n}" for n in range(1, 20)])
    for path in (table, lines):
        texts = texts_by_split(FilesDataset(path=path), tmp_path / "cache")
        assert sorted([*texts["train"](), *texts["validation"]()]) == sorted(f"text {n}" for n in range(20))


def test_rows_that_cannot_be_read_even_without_labels_are_refused(tmp_path):
    path = write(tmp_path / "rows.csv", "title,stars", ["a,1"])
    with pytest.raises(DataError, match="has no column 'text'"):
        texts_by_split(FilesDataset(path=path), tmp_path / "cache")


def test_articles_give_as_many_paragraphs_as_training_reads(tmp_path, monkeypatch):
    articles = [["one", "two"], [], ["three"], ["never reached"]]
    split = DocumentSplit(lambda: iter(articles), None, "fingerprint")
    monkeypatch.setattr(WikipediaDataset, "documents", lambda *_: Documents({"train": split}, {}))
    monkeypatch.setattr(documents, "TOKENIZER_CHARACTERS", 8)
    texts = texts_by_split(WikipediaDataset(), tmp_path)
    assert list(texts["train"]()) == ["one", "two", "three"]


def test_a_missing_tokenizer_is_refused_naming_its_setting(tmp_path):
    with pytest.raises(DataError) as refused:
        open_tokenizer(str(tmp_path))
    assert str(refused.value).startswith(f"compare={tmp_path} has no tokenizer that can be read (")
    assert "Allowed: run folders, folders with a tokenizer.json, or names on the hub." in str(refused.value)
