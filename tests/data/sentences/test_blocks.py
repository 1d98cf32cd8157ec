"""Blocks of sentences: numbered within the block, without short paragraphs and empty sentences."""

import numpy as np
import pytest

from encoderlab.data.sentences import blocks as sentence_blocks
from encoderlab.data.sentences.blocks import Preparation, by_size
from encoderlab.data.sentences.splitter import SentenceSplitter
from encoderlab.data.tokenizers.config import SymbolsConfig, WordPieceConfig
from encoderlab.errors import DataError


class Lines:
    """Split at vertical bars."""

    def tokenize(self, paragraph):
        return paragraph.split("|")


SPLITTER = SentenceSplitter(Lines(), "bars", "bars 1")
TOKENIZER = SymbolsConfig(symbols="0123456789").build(list, None)


def test_sentences_of_long_paragraphs_are_numbered_by_document_and_paragraph():
    block = Preparation(SPLITTER, TOKENIZER, 5, 2)([["12|345", "1|2"], [], ["123456", "1|23|456"]])
    assert block.input_ids.tolist() == [
        id_ for digits in ("12", "345", "1", "23", "456") for id_ in TOKENIZER.encode([digits])[0]
    ]
    assert block.lengths.tolist() == [2, 3, 1, 2, 3]
    assert block.document.tolist() == [0, 0, 2, 2, 2]
    assert block.paragraph.tolist() == [0, 0, 1, 1, 1]
    assert (block.documents, block.paragraphs) == (3, 2)


def test_a_sentence_without_pieces_is_skipped_and_its_paragraph_still_counts(tmp_path):
    tokenizer = WordPieceConfig(vocabulary_size=100, min_frequency=1).build(lambda: ["one two three"], tmp_path)
    block = Preparation(SPLITTER, tokenizer, 1, 1)([["one|\u200b|two", "\u200b", "three"]])
    assert block.paragraph.tolist() == [0, 0, 2]
    assert block.lengths.sum() == len(block.input_ids) and (block.lengths > 0).all()
    assert block.paragraphs == 3


@pytest.mark.parametrize("documents", [[], [[]], [["123"]]])
def test_documents_without_sentences_are_counted(documents):
    block = Preparation(SPLITTER, TOKENIZER, 5, 2)(documents)
    assert [len(part) for part in (block.input_ids, block.lengths, block.document, block.paragraph)] == [0] * 4
    assert (block.documents, block.paragraphs) == (len(documents), 0)
    assert block.input_ids.dtype == np.uint16


def test_invalid_unicode_is_refused():
    with pytest.raises(DataError, match="is not valid Unicode"):
        Preparation(SPLITTER, TOKENIZER, 1, 1)([["12\udce9"]])


def test_documents_come_in_runs_of_about_the_same_size(monkeypatch):
    monkeypatch.setattr(sentence_blocks, "_CHARACTERS", 10)
    documents = [["1234"], ["12", "3456"], ["1"], [], ["x" * 30], ["1"]]
    assert list(by_size(documents)) == [documents[:2], documents[2:5], documents[5:]]
    assert list(by_size([])) == []
