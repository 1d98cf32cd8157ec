"""Documents: rows as lists of paragraphs, and streams that are read once a pass and resumed exactly."""

import gzip
import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.data.data import Data
from encoderlab.data.documents import DocumentStream, StreamReader, as_documents, paragraphs, stream_of_files
from encoderlab.data.examples import Split
from encoderlab.data.files import FilesDataset
from encoderlab.errors import DataError


def documents_of(**columns):
    return as_documents(Data({"train": Split(pa.table(columns))}, [])).by_name["train"]


@settings(deadline=None)
@given(st.text(st.sampled_from("ab \t\r\n\x85\u2028"), max_size=40))
def test_paragraphs_are_the_nonblank_lines_and_nothing_else_is_lost(text):
    found = paragraphs(text)
    assert all(paragraph == paragraph.strip() != "" and not set("\r\n") & set(paragraph) for paragraph in found)
    assert "".join("".join(found).split()) == "".join(text.split())


def test_a_row_is_a_document_whose_lines_are_paragraphs_followed_by_its_second_text():
    split = documents_of(text=["One.\n\n Two. ", ""], text_pair=["Three.\r\nFour.", "Five."])
    assert list(split.documents()) == list(split.documents()) == [["One.", "Two.", "Three.", "Four."], ["Five."]]
    assert split.total == 2
    assert list(documents_of(words=[["In", "Rome"], []]).documents()) == [["In Rome"], []]


def test_the_fingerprint_depends_on_the_texts_and_their_order():
    same = documents_of(text=["a", "b"])
    assert documents_of(text=["a", "b"], label=[0, 1]).fingerprint == same.fingerprint
    others = [{"text": ["b", "a"]}, {"text": ["a"]}, {"text": ["a", "b"], "text_pair": ["", ""]}]
    assert len({same.fingerprint, *(documents_of(**other).fingerprint for other in others)}) == 4


def read(name):
    """Yield 9 to 13 documents."""
    return ([f"document {name} {number}.", "its second paragraph."] for number in range(9 + int(name)))


NAMES = ["0", "1", "2", "3", "4"]
EVERY = Counter(tuple(document) for name in NAMES for document in read(name))


def stream(window=10**6, **fractions):
    return DocumentStream(stream_of_files(NAMES, read), dict.fromkeys(NAMES, "same"), window, **fractions)


def taken(reader, times):
    return [tuple(document) for _ in range(times) for document in reader.take()]


def test_the_readers_read_each_document_once_a_pass_in_an_order_drawn_anew(monkeypatch):
    monkeypatch.setattr("encoderlab.data.documents.READERS", 2)
    passes = []
    for seed in (0, 1):
        readers = [StreamReader(stream(), number, seed, None) for number in range(2)]
        passes += [[document for reader in readers for document in taken(reader, 1)] for _ in range(2)]
    assert all(Counter(some) == EVERY for some in passes) and len(set(map(tuple, passes))) == 4


@pytest.mark.parametrize("window", [60, 700, 10**6])
def test_a_reader_resumes_exactly_from_any_position_after_any_kill(window, monkeypatch):
    monkeypatch.setattr("encoderlab.data.documents.READERS", 2)
    reader, positions, windows = StreamReader(stream(window), 1, 3, None), [], []
    for _ in range(40):
        positions.append(json.loads(json.dumps(reader.position)))
        windows.append(reader.take())
    for start in (0, 1, 2, 7, 23, 38):
        resumed = StreamReader(stream(window), 1, 3, positions[start])
        assert [resumed.take() for _ in range(40 - start)] == windows[start:]


def test_held_out_documents_are_never_trained_on():
    documents = stream(validation=0.3, test=0.2).as_documents({})
    splits = {name: [tuple(one) for one in split.documents()] for name, split in documents.by_name.items()}
    assert Counter(one for split in splits.values() for one in split) == EVERY
    assert 4 < len(splits["validation"]) < 30 and 2 < len(splits["test"]) < 25
    assert Counter(taken(StreamReader(stream(validation=0.3, test=0.2), 0, 0, None), 1)) <= Counter(splits["train"])


TEXTS = [[f"document {shard} {number}.\nits second paragraph." for number in range(9)] for shard in range(3)]
TEXTS.append([f"document 3 {number}, of one line" for number in range(9)])


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a file in each format that can be streamed."""
    lines = ["".join(json.dumps({"text": text}) + "\n" for text in texts) for texts in TEXTS]
    (tmp_path / "0.jsonl").write_text(lines[0])
    (tmp_path / "1.txt.gz").write_bytes(gzip.compress("\n\n".join(TEXTS[1]).encode()))
    pq.write_table(pa.table({"text": TEXTS[2]}), tmp_path / "2.parquet")
    (tmp_path / "3.csv").write_text("text\n" + "".join(f'"{text}"\n' for text in TEXTS[3]))
    return tmp_path


def files(folder, **settings):
    settings = {"path": str(folder / "[0-9]*"), "streaming": True, "validation_fraction": 0.0} | settings
    return FilesDataset(**settings).documents(folder)


def test_files_of_every_format_are_read_document_by_document(folder):
    documents = files(folder)
    assert list(documents.by_name["train"].documents()) == [text.split("\n") for texts in TEXTS for text in texts]
    assert list(documents.stream.shards) == ["0.jsonl", "1.txt.gz", "2.parquet", "3.csv"]
    before = documents.by_name["train"].fingerprint
    assert files(folder).by_name["train"].fingerprint == before
    (folder / "0.jsonl").write_text((folder / "0.jsonl").read_text().replace("document 0 0", "document 0 X"))
    assert files(folder).by_name["train"].fingerprint != before


def test_a_damaged_file_is_named(folder):
    (folder / "1.txt.gz").write_bytes((folder / "1.txt.gz").read_bytes()[:40])
    with pytest.raises(DataError, match=r"1\.txt\.gz"):
        list(files(folder).by_name["train"].documents())


def test_the_built_in_articles_are_small_and_name_the_licence_of_each_source(tmp_path):
    from encoderlab.data.built_in import ARTICLES, ArticlesDataset

    licences = (ARTICLES.parent / "LICENSE.md").read_text(encoding="utf-8")
    sources = set(pq.read_table(ARTICLES, columns=["source"])["source"].to_pylist())
    assert sources and all(f"| {source} |" in licences for source in sources)
    assert ARTICLES.stat().st_size < 3_000_000
    splits = ArticlesDataset().documents(tmp_path).by_name
    assert {name: split.total for name, split in splits.items()} == {"train": 2234, "validation": 124, "test": 124}
    assert len(next(splits["train"].documents())) >= 1
