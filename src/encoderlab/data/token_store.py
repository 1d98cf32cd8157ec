"""The token store: named columns of numbers, flat on disk and memory-mapped, so that a batch is a vectorised gather.

A ragged column keeps the numbers of all rows in one flat file and where each row begins in a second one. Nothing is
read until a batch needs it, and memory does not grow with the corpus. A store carries the hashes of its files: one that
is damaged, or of another version, is rebuilt.

Its rows are texts, each tokenised once: whole, uncut and without special tokens. Its content depends on the texts and
the tokenizer alone, so another `model.max_length`, another way to read long texts or another task needs no new store:
tasks make sequences of it when a batch is gathered (`tasks.rows`).

| column | holds |
| --- | --- |
| first | the ids of the text, of the first text of a pair, or of all words of a sequence |
| second | the ids of the second text of a pair; only in a store of pairs |
| word_starts | where each word's first token is in `first`; only in a store of sequences of words |

A store of sentences has columns of its own (`data.sentences`).
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.errors import DataError
from encoderlab.system.files import MANIFEST, atomic_write, differing_files, write_manifest
from encoderlab.system.messages import progress_bar
from encoderlab.tables.batches import in_lists

if TYPE_CHECKING:
    from encoderlab.data.examples import Example, Split, WordsExample
    from encoderlab.data.tokenizers import Tokenizer

SHAPE = "store.json"
STORE_VERSION = 4  # increase it when the columns of the store or their meaning change
TEXTS_AT_A_TIME = 1000


@dataclass(frozen=True, slots=True)
class Column:
    """A ragged column: row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: np.ndarray
    offsets: np.ndarray

    def lengths(self) -> np.ndarray:
        """Return how many numbers each row has."""
        return np.diff(self.offsets)

    def gather(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of `rows`, one row after the other, and how many each has; integers come as int64."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        return self.stretches(starts, lengths), lengths

    def stretches(self, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return `lengths` numbers from each of `starts`, one stretch after the other; integers come as int64."""
        numbers = self.values[indices_of(starts, lengths)]
        return numbers if numbers.dtype.kind == "f" else numbers.astype(np.int64)


def indices_of(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return starts[0], starts[0] + 1, ... (lengths[0] numbers), then the numbers from starts[1], and so on."""
    begins = np.cumsum(lengths) - lengths  # where each stretch begins in the result
    return np.arange(lengths.sum()) + np.repeat(starts - begins, lengths)


class TokenStore:
    """The columns of some examples: see `write_store` and `memory_store`."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())).offsets) - 1

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns


Block = Mapping[str, tuple[np.ndarray, np.ndarray]]  # some rows: each column's numbers, flat, and how many each row has


def id_type(vocabulary_size: int) -> str:
    """Return the smallest NumPy dtype that holds every id."""
    return "uint16" if vocabulary_size <= 2**16 else "uint32"


def memory_store(columns: Mapping[str, str], blocks: Iterable[Block]) -> TokenStore:
    """Return a store in memory of rows that come in blocks; `columns` as for `write_store`."""
    parts = list(blocks)
    held = {}
    for name, dtype in columns.items():
        values = [numbers for numbers, _ in (part[name] for part in parts)]
        lengths = [counts for _, counts in (part[name] for part in parts)]
        offsets = np.concatenate([np.zeros(1, np.int64), *lengths]).cumsum()
        held[name] = Column(np.concatenate([np.empty(0, dtype), *values]), offsets)
    return TokenStore(held)


def write_store(folder: Path, columns: Mapping[str, str], blocks: Iterable[Block]) -> TokenStore:
    """Write rows that come in blocks to `folder`, one block in memory at once, and open it.

    `columns` names each column and its NumPy dtype, the smallest its numbers fit in (uint16 for up to 65,536 ids). The
    folder appears whole or not at all, with a manifest of its files' hashes.
    """
    try:
        with atomic_write(folder) as temporary:
            temporary.mkdir(parents=True)
            _write_columns(temporary, columns, blocks)
            (temporary / SHAPE).write_text(json.dumps({"columns": dict(columns)}), encoding="utf-8")
            write_manifest(temporary, [SHAPE, *_file_names(columns)])
    except OSError:
        if not (folder / MANIFEST).exists():  # otherwise another process has already written the same
            raise
    return open_store(folder)


def _write_columns(folder: Path, columns: Mapping[str, str], blocks: Iterable[Block]) -> None:
    """Append each block's numbers, and where its rows end, to the two files of each column."""
    with ExitStack() as stack:
        values = {}
        offsets = {}
        for name in columns:
            values_path, offsets_path = _files_of(folder, name)
            values[name] = stack.enter_context(values_path.open("wb"))
            offsets[name] = stack.enter_context(offsets_path.open("wb"))
            offsets[name].write(np.zeros(1, np.int64).tobytes())
        ends = dict.fromkeys(columns, 0)
        for block in blocks:
            for name, (numbers, lengths) in block.items():
                assert numbers.dtype == columns[name], f"{numbers.dtype} written as {columns[name]}"
                values[name].write(numbers.tobytes())
                offsets[name].write((np.cumsum(lengths, dtype=np.int64) + ends[name]).tobytes())
                ends[name] += len(numbers)


def open_store(folder: Path) -> TokenStore:
    """Open the store in `folder`, memory-mapped. Raises DataError if a file is missing or differs from its hash."""
    damaged = DataError(f"The cache folder {folder} is damaged", remedy="Delete it; it will be rebuilt")
    try:
        columns = json.loads((folder / SHAPE).read_text(encoding="utf-8"))["columns"]
        expected = [SHAPE, *_file_names(columns)]
    except (OSError, ValueError, KeyError, TypeError):
        raise damaged from None
    if differing_files(folder, expected):
        raise damaged
    opened = {}
    for name, dtype in columns.items():
        values, offsets = _files_of(folder, name)
        is_empty = values.stat().st_size == 0
        numbers = np.empty(0, dtype) if is_empty else np.memmap(values, dtype, "r")  # an empty file cannot be mapped
        opened[name] = Column(numbers, np.memmap(offsets, np.int64, "r"))
    return TokenStore(opened)


def kept_store(folder: Path, make: Callable[[Path], TokenStore]) -> TokenStore:
    """Return the store in `folder`; if there is none, or it is damaged, the one that `make` writes there."""
    if folder.exists():
        try:
            return open_store(folder)
        except DataError:
            print(f"The token store {folder} is damaged and is being rebuilt.", file=sys.stderr)
            shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    return make(folder)


def _files_of(folder: Path, name: str) -> tuple[Path, Path]:
    """Return the paths of a column's numbers, and of where its rows begin."""
    return folder / f"{name}.bin", folder / f"{name}.offsets.bin"


def _file_names(columns: Iterable[str]) -> list[str]:
    return [path.name for name in columns for path in _files_of(Path(), name)]


# Texts as rows of a store.


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

            return write_store(folder, _columns_of_texts(tokenizer, paired=paired, words=words), blocks())

    return kept_store(cache / "tokens" / key, write)


def tokenize_examples(examples: Sequence[Example], tokenizer: Tokenizer) -> TokenStore:
    """Return the ids of some examples, all of one kind, in memory. Raises DataError as `tokenize_split` does."""
    first = examples[0] if examples else None
    words = first is not None and first.of_words
    paired = first is not None and first.paired
    starts = range(0, len(examples), TEXTS_AT_A_TIME)
    parts = (examples[start : start + TEXTS_AT_A_TIME] for start in starts)
    blocks = (_block(part, tokenizer, paired=paired, words=words) for part in parts)
    return memory_store(_columns_of_texts(tokenizer, paired=paired, words=words), blocks)


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


def _columns_of_texts(tokenizer: Tokenizer, *, paired: bool, words: bool) -> dict[str, str]:
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
    for row_ids, word_of in encoded:
        ids += row_ids
        for position, word in enumerate(word_of):
            is_first = position == 0 or word_of[position - 1] != word
            if is_first:
                starts.append(position)
    n_tokens = np.array([len(row_ids) for row_ids, _ in encoded], np.int64)
    n_words = np.array([len(example.words) for example in examples], np.int64)
    assert len(starts) == n_words.sum(), "every word has a token"
    id_dtype = id_type(tokenizer.vocabulary_size)
    return {"first": (np.array(ids, id_dtype), n_tokens), "word_starts": (np.array(starts, "uint32"), n_words)}


def lengths_of(store: TokenStore) -> tuple[np.ndarray, np.ndarray | None]:
    """Return how many tokens each row's text has, and its second text (None: single texts), without special ones."""
    second = store.columns.get("second")
    return store["first"].lengths(), None if second is None else second.lengths()
