"""Token stores and rows from a few lists of ids."""

import numpy as np

from encoderlab.data.token_store import memory_store
from encoderlab.tasks.rows import ExampleRows
from encoderlab.tasks.sequences import SequenceFormat
from encoderlab.tasks.task import class_targets, part_targets

CLS = 2
SEP = 3
SENTENCES = {"input_ids": "uint16", "document": "uint32", "paragraph": "uint32"}


def block_of(rows, columns):
    """Return rows, each a dict of a list of numbers for each column, as one block of a store."""
    block = {}
    for name, dtype in columns.items():
        lengths = np.array([len(row[name]) for row in rows], np.int64)
        numbers = np.array([number for row in rows for number in row[name]], dtype)
        block[name] = (numbers, lengths)
    return block


def store_of(first, second=None, word_starts=None):
    """Return a store of texts, of pairs of them, or of words with the places of their first tokens."""
    columns = {"first": "uint16"}
    rows = [{"first": ids} for ids in first]
    for name, dtype, of_rows in (("second", "uint16", second), ("word_starts", "uint32", word_starts)):
        if of_rows is not None:
            columns[name] = dtype
            rows = [row | {name: numbers} for row, numbers in zip(rows, of_rows, strict=True)]
    return memory_store(columns, [block_of(rows, columns)])


def format_of(max_length, windows=None):
    return SequenceFormat((CLS,), (SEP,), (SEP,), max_length, windows)


def text_rows(first, second=None, labels=None, max_length=512, windows=None):
    """Return texts, or pairs, as rows of at most `max_length` tokens, with a class or None for each."""
    targets = None if labels is None else class_targets(labels)
    return ExampleRows(store_of(first, second), format_of(max_length, windows), targets)


def word_rows(ids, word_starts, labels=None, max_length=512):
    """Return sequences of words as rows, with a list of classes or None for each."""
    targets = None if labels is None else part_targets(labels)
    return ExampleRows(store_of(ids, word_starts=word_starts), format_of(max_length), targets, of_words=True)


def sentence_store(sentences):
    """Return a store of sentences: of each its ids, its document and its paragraph."""
    rows = [{"input_ids": ids, "document": [document], "paragraph": [p]} for ids, document, p in sentences]
    return memory_store(SENTENCES, [block_of(rows, SENTENCES)])
