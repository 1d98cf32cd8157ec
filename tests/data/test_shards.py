"""Shards of a corpus: read from any document on, by several readers, repeatedly; held-out documents; damage."""

import gzip
import json
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backports import zstd

from encoderlab.data.files.files import FilesDataset
from encoderlab.data.shards import Fractions, Place, ShardReader, UnreachableError
from encoderlab.errors import DataError, SettingError

TEXTS = [[f"document {shard} {number}.\nits second paragraph." for number in range(9)] for shard in range(5)]


def write_shards(folder, texts=TEXTS):
    """Write a file in each format that can be streamed."""
    for shard, documents in enumerate(texts):
        lines = "".join(json.dumps({"text": text}) + "\n" for text in documents)
        path = folder / f"{shard}"
        match shard % 5:
            case 0:
                path.with_suffix(".jsonl").write_text(lines)
            case 1:
                (folder / f"{shard}.jsonl.zst").write_bytes(zstd.compress(lines.encode()))
            case 2:
                (folder / f"{shard}.txt.gz").write_bytes(gzip.compress("\n\n".join(documents).encode()))
            case 3:
                pq.write_table(pa.table({"text": documents}), path.with_suffix(".parquet"))
            case 4:
                rows = "".join(f'"{text}"\n' for text in documents)
                path.with_suffix(".csv").write_text(f"text\n{rows}")


def documents_of(folder, pattern="*", **settings):
    dataset = FilesDataset(
        **{"path": str(folder / pattern), "streaming": True, "quoting": "double", "validation_fraction": 0.0} | settings
    )
    return dataset.documents(folder)


def shards_of(folder, **settings):
    return documents_of(folder, **settings).shards


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shards").mkdir()
    write_shards(tmp_path / "shards")
    return tmp_path / "shards"


def test_every_format_is_read_document_by_document(folder):
    documents = documents_of(folder)
    read = list(documents.by_name["train"].documents())
    assert read == [text.split("\n") for texts in TEXTS for text in texts]
    assert documents.shards.names == ["0.jsonl", "1.jsonl.zst", "2.txt.gz", "3.parquet", "4.csv"]
    assert documents.origin["streamed"] == 5


def taken(reader, times):
    return [[document[0] for document in reader.take()] for _ in range(times)]


def test_a_pass_of_all_readers_reads_each_document_once_in_a_new_random_order(folder):
    shards = shards_of(folder, window=10**6, shards_at_once=2)
    passes = []
    for seed, epoch in ((0, 0), (0, 1), (1, 0)):
        readers = [ShardReader(shards, number, seed, Place(epoch)) for number in range(2)]
        passes.append([document for reader in readers for document in taken(reader, 1)[0]])
        assert [reader.place for reader in readers] == [Place(epoch + 1)] * 2
    assert all(Counter(read) == Counter(text.split("\n")[0] for texts in TEXTS for text in texts) for read in passes)
    assert len({tuple(read) for read in passes}) == 3


def test_a_reader_resumes_from_any_place_without_opening_earlier_shards(folder):
    shards = shards_of(folder, window=120, shards_at_once=2)
    reader = ShardReader(shards, 1, 3, Place())
    places, read = [], []
    for _ in range(25):
        places.append(reader.place)
        read += taken(reader, 1)
    for start in (1, 4, 7, 12):
        assert taken(ShardReader(shards, 1, 3, places[start]), 25 - start) == read[start:]
    opened = []
    object.__setattr__(
        shards, "read", lambda shard, start, read=shards.read: opened.append((shard, start)) or read(shard, start)
    )
    late = next(place for place in places if place.turn == 1 and place.document > 2)
    taken(ShardReader(shards, 1, 3, late), 1)
    assert len(opened) == 1 and opened[0][1] == late.document


def test_documents_are_held_out_evenly_and_never_trained_on(tmp_path):
    write_shards(tmp_path, [[f"document {shard} {number}." for number in range(200)] for shard in range(5)])
    documents = documents_of(tmp_path, validation_fraction=0.1, test_fraction=0.05, window=10**7, shards_at_once=1)
    splits = {name: [document[0] for document in split.documents()] for name, split in documents.by_name.items()}
    assert len(splits["validation"]) == pytest.approx(100, abs=5) and len(splits["test"]) == pytest.approx(50, abs=5)
    assert sum(map(len, splits.values())) == 1000
    by_shard = Counter(text.split()[1] for text in splits["validation"])
    assert set(by_shard.values()) <= set(range(18, 23))
    assert sorted(taken(ShardReader(documents.shards, 0, 0, Place()), 1)[0]) == sorted(splits["train"])
    assert not set(splits["train"]) & set(splits["validation"] + splits["test"])


def test_some_documents_of_tiny_shards_are_held_out():
    splits = Counter(Fractions(0.1, 0.0).split_of(shard, 0) for shard in range(1000))
    assert 80 < splits["validation"] < 120


def test_validation_files_are_held_out_whole(folder, tmp_path):
    (tmp_path / "held_out.jsonl").write_text('{"text": "held out."}\n')
    dataset = FilesDataset(
        train=str(folder / "*"), validation=str(tmp_path / "held_out.jsonl"), streaming=True, quoting="double"
    )
    documents = dataset.documents(tmp_path)
    assert list(documents.by_name["validation"].documents()) == [["held out."]]
    assert len(list(documents.by_name["train"].documents())) == 45


DAMAGES = {
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-4]),
    "no zst": lambda path: path.write_bytes(b"text\n" * 9),
    "no JSON": lambda path: path.write_bytes(zstd.compress(b'{"text": "document 1 0."}\n{"te\n')),
    "missing": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_shard_is_named_or_skipped_from_the_damage_on(folder, damage):
    files = sorted(map(str, folder.glob("*")))
    DAMAGES[damage](folder / "1.jsonl.zst")
    with pytest.raises(
        DataError, match=r"^Shard 2 of 5 \(1\.jsonl\.zst\) is damaged: .*1\.jsonl\.zst.* Restore it, or set"
    ):
        list(documents_of(folder, path=files).by_name["train"].documents())
    shards = shards_of(folder, path=files, on_damaged="skip", window=10**6, shards_at_once=1)
    reader = ShardReader(shards, 0, 0, Place())
    read = {text for text in taken(reader, 1)[0] if not text.startswith("document 1")}
    assert len(read) == 36 and list(reader.damaged) == ["1.jsonl.zst"]


def test_an_unreachable_shard_is_never_skipped(folder):
    def unreachable(shard, start):
        raise UnreachableError("the hub does not answer")
        yield

    shards = replace(shards_of(folder, on_damaged="skip"), read=unreachable)
    with pytest.raises(UnreachableError, match="the hub does not answer"):
        ShardReader(shards, 0, 0, Place()).take()


def test_fingerprints_depend_on_the_list_of_shards_and_their_content(folder):
    def fingerprint():
        return documents_of(folder).by_name["train"].fingerprint

    before = fingerprint()
    assert fingerprint() == before
    content = (folder / "0.jsonl").read_text()
    (folder / "0.jsonl").write_text(content.replace("document 0 0", "document 0 X"))
    changed = fingerprint()
    (folder / "0.jsonl").unlink()
    assert len({before, changed, fingerprint()}) == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"limit": 3}, r"dataset\.limit=3 does not apply to .* Remove dataset\.limit and set training\.steps"),
        (
            {"path": "rows.xlsx"},
            r"rows\.xlsx can only be read as a whole, .* Allowed: txt, jsonl, csv, tsv or parquet\.",
        ),
    ],
)
def test_sources_that_cannot_be_streamed_are_refused(tmp_path, monkeypatch, settings, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.xlsx").write_bytes(b"")
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(SettingError, match=message):
        list(documents_of(tmp_path, **{"path": "rows.jsonl"} | settings).by_name["train"].documents())


def test_rows_with_labels_are_not_streamed(folder, tmp_path):
    with pytest.raises(DataError, match=r"^dataset\.streaming=true gives documents for pretraining, not rows\."):
        FilesDataset(path=str(folder / "0.jsonl"), streaming=True).load(tmp_path)
