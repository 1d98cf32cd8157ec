"""Texts as ids: each text of a split is tokenised once, whole, and kept in a token store.

A store's rows are texts without special tokens, uncut. Its content depends on the texts and the tokenizer alone, so
another `model.max_length`, another way to read long texts or another task needs no new store: tasks make sequences of
it when a batch is gathered (`tasks.rows`).

| column | holds |
| --- | --- |
| first | the ids of the text, of the first text of a pair, or of all words of a sequence |
| second | the ids of the second text of a pair; only in a store of pairs |
| word_starts | where each word's first token is in `first`; only in a store of sequences of words |
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.data.examples import in_lists
from encoderlab.data.token_store import Block, Column, TokenStore, id_type, kept_store, memory_store, write_store
from encoderlab.system.progress import progress_bar

if TYPE_CHECKING:
    from encoderlab.data.examples import Example, Split, WordsExample
    from encoderlab.data.tokenizers import Tokenizer

STORE_VERSION = 4  # increase it when the columns of the store or their meaning change
TEXTS_AT_A_TIME = 1000


def tokenize_split(
    split: Split, fingerprint: str, tokenizer: Tokenizer, cache: Path, name: str = "a split"
) -> TokenStore:
    """Return the ids of every text of a split, from the store in `cache`, which is written if it is missing or damaged.

    `fingerprint` stands for the texts, and `name` is what the progress bar calls the split. Raises DataError for a text
    that is not valid Unicode.
    """
    key = hashlib.sha256(f"{STORE_VERSION} {fingerprint} {tokenizer.fingerprint}".encode()).hexdigest()[:24]

    def write(folder: Path) -> TokenStore:
        paired = split.paired
        words = split.holds_words
        with progress_bar(f"tokenising {name}", "rows", len(split), leave=False) as bar:

            def blocks() -> Iterator[Block]:
                for examples in in_lists(split, TEXTS_AT_A_TIME):
                    yield _block(examples, tokenizer, paired=paired, words=words)
                    bar.update(len(examples))

            return write_store(folder, _columns(tokenizer, paired=paired, words=words), blocks())

    return kept_store(cache / "tokens" / key, write)


def tokenize_examples(examples: Sequence[Example], tokenizer: Tokenizer) -> TokenStore:
    """Return the ids of some examples, all of one kind, in memory. Raises DataError as `tokenize_split` does."""
    first = examples[0] if examples else None
    words = hasattr(first, "words")
    paired = first is not None and first.paired
    starts = range(0, len(examples), TEXTS_AT_A_TIME)
    parts = (examples[start : start + TEXTS_AT_A_TIME] for start in starts)
    blocks = (_block(part, tokenizer, paired=paired, words=words) for part in parts)
    return memory_store(_columns(tokenizer, paired=paired, words=words), blocks)


def joined(parts: Sequence[TokenStore]) -> TokenStore:
    """Return the rows of all parts, one part after another, in memory; all have the same columns."""
    types = {name: column.values.dtype.str for name, column in parts[0].columns.items()}
    blocks: Iterable[Block] = [
        {name: (column.values, column.lengths()) for name, column in part.columns.items()} for part in parts
    ]
    return memory_store(types, blocks)


def repeated(store: TokenStore, times: int) -> TokenStore:
    """Return every row of a store `times` over, in memory, with ids that may be changed."""
    return joined([store] * times)


def _columns(tokenizer: Tokenizer, *, paired: bool, words: bool) -> dict[str, str]:
    """Return the store's columns and their NumPy dtypes."""
    columns = {"first": id_type(tokenizer.vocabulary_size)}
    if paired:
        columns["second"] = columns["first"]
    if words:
        columns["word_starts"] = "uint32"
    return columns


def _block(examples: Sequence[Any], tokenizer: Tokenizer, *, paired: bool, words: bool) -> Block:
    """Return the ids of examples of one kind: sequences of `words`, or texts, which may be `paired`."""
    if words:
        return _block_of_words(examples, tokenizer)
    block = {"first": tokenizer.encode_flat([example.text for example in examples])}
    if paired:
        block["second"] = tokenizer.encode_flat([example.text_pair or "" for example in examples])
    return block


def _block_of_words(examples: Sequence[WordsExample], tokenizer: Tokenizer) -> Block:
    """Return the ids of sequences of words, and the position of each word's first token: every word has one."""
    encoded = tokenizer.encode_words([example.words for example in examples])
    ids: list[int] = []
    starts: list[int] = []
    for of_row, word_of in encoded:
        ids += of_row
        for position, word in enumerate(word_of):
            is_first = position == 0 or word_of[position - 1] != word
            if is_first:
                starts.append(position)
    n_tokens = np.array([len(of_row) for of_row, _ in encoded], np.int64)
    n_words = np.array([len(example.words) for example in examples], np.int64)
    assert len(starts) == n_words.sum(), "every word has a token"
    id_dtype = id_type(tokenizer.vocabulary_size)
    return {"first": (np.array(ids, id_dtype), n_tokens), "word_starts": (np.array(starts, "uint32"), n_words)}


def lengths_of(store: TokenStore) -> tuple[np.ndarray, np.ndarray | None]:
    """Return how many tokens each row's text has, and its second text (None: single texts), without special ones."""
    second: Column | None = store.columns.get("second")
    return store["first"].lengths(), None if second is None else second.lengths()
