"""Documents from a user's own files: txt split at blank lines, tables row by row, folders file by file."""

import gzip
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.data.files import document_files
from encoderlab.data.files.document_files import read_document_files
from encoderlab.data.files.files import FilesDataset
from encoderlab.data.spool import Spool
from tests.data.files import written


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def documents(path, **given):
    """Return the documents of each split; nothing is held out unless asked for."""
    found = FilesDataset(path=str(path), **{"validation_fraction": 0} | given).documents(path.parent / "cache")
    return {name: list(split.documents()) for name, split in found.by_name.items()}


error_of = partial(written.error_of, read=documents)


THREE = "\n\nOne.\nTwo.\n  \n\nThree.\n\t\n Four. \n\n"
READ = [["One.", "Two."], ["Three."], ["Four."]]


def test_in_txt_a_line_is_a_paragraph_and_blank_lines_separate_documents(tmp_path):
    assert documents(write(tmp_path / "a.txt", THREE)) == {"train": READ}
    assert documents(write(tmp_path / "b.txt", THREE.replace("\n", "\r\n"))) == {"train": READ}
    with gzip.open(tmp_path / "c.txt.gz", "wt") as file:
        file.write(THREE)
    assert documents(tmp_path / "c.txt.gz") == {"train": READ}


DOCUMENT = st.lists(st.text("abc .", min_size=1).map(str.strip).filter(bool), min_size=1, max_size=4)


@settings(deadline=None, max_examples=50)
@given(
    written=st.lists(DOCUMENT, min_size=2, max_size=12),
    blank=st.sampled_from(["\n", "\n \n\t\n"]),
    batch=st.integers(1, 20),
)
def test_documents_are_read_as_written_whatever_batches_they_were_stored_in(tmp_path_factory, written, blank, batch):
    folder = tmp_path_factory.mktemp("written")
    file = write(folder / "a.txt", blank.join("\n".join(document) + "\n" for document in written))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document_files, "_CHARACTERS_PER_BATCH", batch)
        assert documents(file)["train"] == written


def test_documents_know_the_lines_they_begin_on(tmp_path):
    file = write(tmp_path / "a.txt", THREE)
    rows = read_document_files(file, [file], Spool(tmp_path))
    assert rows.columns["text"].to_pylist() == ["One.\nTwo.", "Three.", "Four."]
    assert [rows.where(row) for row in range(3)] == [f"{file}, line {line}" for line in (3, 7, 9)]


def test_a_folder_is_read_file_by_file_at_any_depth(tmp_path):
    folder = tmp_path / "corpus"
    write(folder / "b.txt", "B one.\nB two.\n\nB three.")
    write(folder / "a" / "z.txt", "Z.")
    write(folder / "c.txt", "\n")
    write(folder / ".hidden", "x")
    assert documents(folder) == {"train": [["Z."], ["B one.", "B two."], ["B three."]]}


def test_a_folder_can_contain_a_folder_for_each_split(tmp_path):
    folder = tmp_path / "corpus"
    for split in ("train", "validation", "test"):
        write(folder / split / "a.txt", f"{split} one.\n\n{split} two.")
    assert documents(folder) == {
        split: [[f"{split} one."], [f"{split} two."]] for split in ("train", "validation", "test")
    }
    stray = write(folder / "notes.txt", "x")
    assert (
        error_of(folder)
        == "corpus/notes.txt is next to the training split. Allowed: train, validation, test. Move it elsewhere."
    )
    stray.unlink()
    write(folder / "train" / "picture.png", "")
    assert error_of(folder).startswith("corpus/train/picture.png is not a .txt file.")


def test_each_split_can_have_its_own_file(tmp_path):
    files = {
        name: str(write(tmp_path / f"{name}.txt", f"{name} one.\n\n{name} two."))
        for name in ("train", "validation", "test")
    }
    found = FilesDataset(**files).documents(tmp_path).by_name
    assert {name: list(split.documents()) for name, split in found.items()} == {
        name: [[f"{name} one."], [f"{name} two."]] for name in files
    }


def test_a_table_row_is_a_document_and_its_label_is_not_read(tmp_path):
    rows = {"text": ["One.\nTwo.", "Three."], "label": [1.5, None]}
    write(tmp_path / "a.jsonl", '{"text": "One.\\nTwo."}\n{"text": "Three."}\n')
    write(tmp_path / "a.csv", 'text,label\n"One.\nTwo.",\nThree.,\n')
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.csv", "a.parquet"):
        assert documents(tmp_path / name) == {"train": [["One.", "Two."], ["Three."]]}, name


def test_the_second_text_of_a_table_is_another_paragraph(tmp_path):
    write(tmp_path / "a.jsonl", '{"title": "A", "body": "One.\\nTwo."}\n{"title": "", "body": "Three."}\n')
    assert documents(tmp_path / "a.jsonl", text="title", text_pair="body") == {
        "train": [["A", "One.", "Two."], ["Three."]]
    }


def test_sentences_of_words_are_documents_of_one_paragraph(tmp_path):
    assert documents(write(tmp_path / "a.conll", "In O\nRome LOC\n\nNo O\n")) == {"train": [["In Rome"], ["No"]]}


def test_documents_are_held_out_with_their_duplicates_and_limited_afterwards(tmp_path):
    file = write(tmp_path / "a.txt", "\n\n".join(f"Text {n // 2}." for n in range(200)))
    parts = documents(file, validation_fraction=0.2, test_fraction=0.1)
    assert {name: len(part) for name, part in parts.items()} == {"train": 140, "validation": 40, "test": 20}
    texts = [{document[0] for document in part} for part in parts.values()]
    assert not (texts[0] & texts[1] or texts[0] & texts[2] or texts[1] & texts[2])
    few = documents(file, validation_fraction=0.2, test_fraction=0.1, limit=30)
    assert {name: len(part) for name, part in few.items()} == {"train": 30, "validation": 30, "test": 20}
    assert few["train"][0] == parts["train"][0] and few["train"][-1] == parts["train"][-1]


def test_the_fingerprint_depends_on_content_limit_and_held_out_documents(tmp_path):
    file = write(tmp_path / "a.txt", "\n\n".join(f"Text {n}." for n in range(50)))

    def fingerprint(**given):
        return FilesDataset(path=str(file), **given).documents(tmp_path).by_name["train"].fingerprint

    before = fingerprint()
    assert before == fingerprint()
    changed = [fingerprint(limit=20), fingerprint(split_seed=1), fingerprint(validation_fraction=0.3)]
    write(file, file.read_text().replace("Text 7.", "Text seven."))
    assert len({before, fingerprint(), *changed}) == 5


def test_a_single_document_is_refused(tmp_path):
    for fraction in (0, 0.1):
        message = error_of(write(tmp_path / "a.txt", "One.\nTwo.\n"), validation_fraction=fraction)
        assert message.startswith("The training split holds 1 document. Allowed: at least 2") and "\n" not in message


def test_files_that_cannot_be_documents_are_refused(tmp_path):
    assert error_of(write(tmp_path / "a.txt", "\n \n")).startswith("a.txt has no documents.")
    pair = error_of(write(tmp_path / "b.txt", THREE), text_pair="title")
    assert pair == "b.txt holds documents, which have no column dataset.text_pair=title. Set dataset.text_pair=null."
    (tmp_path / "empty").mkdir()
    assert error_of(tmp_path / "empty").startswith("empty has no .txt files.")
    (tmp_path / "c.txt").write_bytes(b"One.\n\nTw\x81.\n")
    assert error_of(tmp_path / "c.txt").startswith("c.txt, line 3 is neither UTF-8 nor Windows-1252.")
