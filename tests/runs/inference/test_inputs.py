"""The texts given to a finished run: read completely and in order, with no more in memory than needed."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from encoderlab.batch import HeadSizes
from encoderlab.data.documents import Documents, DocumentSplit
from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.data.formats import Dialect
from encoderlab.data.generated import BracketsDataset
from encoderlab.data.tokenizers import SymbolsConfig
from encoderlab.errors import DataError
from encoderlab.runs.inference import inputs
from encoderlab.tasks.config import ClassificationConfig, PretrainingConfig
from encoderlab.tasks.texts import Classification


class Articles:
    """A dataset that contains documents instead of rows."""

    def documents(self, cache):
        documents = [["first paragraph", "second"], [], ["third"]]
        return Documents({"validation": DocumentSplit(lambda: iter(documents), 3, "fingerprint")}, {})


def assembly_of(dataset=None, task=None, heads=None):
    config = SimpleNamespace(dataset=dataset, task=task or ClassificationConfig(name="test"))
    return SimpleNamespace(config=config, task=SimpleNamespace(heads=heads or HeadSizes(sequence_classes=2)))


def test_a_split_of_a_pretraining_run_is_its_held_out_documents_by_paragraph(tmp_path):
    run = assembly_of(Articles(), PretrainingConfig(name="test"))
    examples, total = inputs.split_examples(run, "validation", str(tmp_path))
    assert list(examples) == [TextExample("first paragraph"), TextExample("second"), TextExample("third")]
    assert total is None
    with pytest.raises(DataError, match="split=test is not in this dataset. Allowed: validation"):
        inputs.split_examples(run, "test", str(tmp_path))


def test_a_split_of_another_run_is_complete_even_if_the_run_was_limited(tmp_path):
    _, total = inputs.split_examples(assembly_of(BracketsDataset(limit=3)), "test", str(tmp_path))
    assert total == 4000


def test_a_file_of_lines_is_read_as_it_is_needed(tmp_path, monkeypatch):
    path = tmp_path / "texts.txt"
    path.write_text("one\n\n three \r\nlast", encoding="utf-8")
    monkeypatch.setattr(inputs, "read_unlabelled", lambda *_, **__: pytest.fail("all of it is held"))
    examples, total = inputs.file_examples(assembly_of(), path, "text", None, Dialect(), str(tmp_path))
    assert (total, next(examples)) == (4, TextExample("one"))
    assert [example.text for example in examples] == ["", " three ", "last"]
    words, _ = inputs.file_examples(
        assembly_of(heads=HeadSizes(token_classes=2)), path, "text", None, Dialect(), str(tmp_path)
    )
    assert list(words) == [WordsExample(("one",)), WordsExample(()), WordsExample(("three",)), WordsExample(("last",))]


def test_a_masked_language_model_reads_texts():
    assert not inputs.reads_words(assembly_of(heads=HeadSizes(vocabulary=True)))


def test_chunks_contain_all_examples_in_order(monkeypatch):
    monkeypatch.setattr(inputs, "ROWS_AT_A_TIME", 3)
    examples = [TextExample(str(n)) for n in range(8)]
    chunks = list(inputs.in_chunks(iter(examples), None, "reading"))
    assert [len(chunk) for chunk in chunks] == [3, 3, 2]
    assert [example for chunk in chunks for example in chunk] == examples


@pytest.mark.parametrize(
    "make", [lambda text: TextExample(text), lambda text: TextExample("", text), lambda text: WordsExample((text, ""))]
)
def test_a_chunk_contains_fewer_long_texts_to_bound_memory(monkeypatch, make):
    monkeypatch.setattr(inputs, "CHARACTERS_AT_A_TIME", 10)
    examples = [make("x" * length) for length in (4, 4, 4, 30, 9, 1, 0)]
    chunks = list(inputs.in_chunks(iter(examples), None, "reading"))
    assert [len(chunk) for chunk in chunks] == [3, 1, 2, 1]
    assert [example for chunk in chunks for example in chunk] == examples


def test_a_chunk_is_returned_before_more_is_read(monkeypatch):
    monkeypatch.setattr(inputs, "ROWS_AT_A_TIME", 2)
    lines = iter("abcd")
    chunks = inputs.in_chunks((TextExample(line) for line in lines), None, "reading")
    assert len(next(chunks)) == 2
    assert next(lines) == "c"


def test_examples_are_encoded_in_parts_and_keep_their_order(monkeypatch):
    monkeypatch.setattr(inputs, "ENCODED_AT_A_TIME", 3)
    task = Classification(ClassificationConfig(name="test"), SymbolsConfig().build(lambda: [], Path()), ["a", "b"], 16)
    examples = [TextExample(str(row), "1" * (row % 4) if row % 2 else None) for row in range(8)]
    rows = inputs.encoded_rows(SimpleNamespace(task=task), examples)
    assert rows.lengths.tolist() == [len(one.input_ids) for one in task.encode(examples)]
    batch = rows.gather(np.arange(8), task.tokenizer.pad_id)
    for one, ids in zip(task.encode(examples), batch.input_ids.tolist(), strict=True):
        assert ids[: len(one.input_ids)] == one.input_ids
