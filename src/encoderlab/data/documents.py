"""Corpora as documents, each a list of paragraphs: read from disk on demand, or streamed while a run trains.

A stream is a `datasets.IterableDataset`, and its `state_dict` is what a checkpoint keeps of it. Its shuffle buffer
would not resume exactly, so shards are drawn in random order instead, several are read at once, and the sentences of a
window are shuffled (`tasks.stream`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.data.corpus import Corpus
from encoderlab.data.data import Data
from encoderlab.data.examples import texts_of
from encoderlab.data.sentences import (
    Prepare,
    SentenceBlock,
    SentenceSplitter,
    block_of,
    in_columns,
    prepared,
    splitter_for,
)
from encoderlab.data.survey import hashed
from encoderlab.data.token_store import TokenStore, kept_store, write_store
from encoderlab.errors import DataError
from encoderlab.settings import setting
from encoderlab.system.messages import progress_bar, say

if TYPE_CHECKING:
    from datasets import IterableDataset

    from encoderlab.data.tokenizers import Tokenizer

TOKENIZER_CHARACTERS = 50_000_000  # the most a tokenizer is trained on: more text changes only rare tokens
READERS = 8  # shards of a stream that are read at the same time
HELD_OUT_DOCUMENTS = 1000  # of a stream, at most, in each scored split; they are among the first READ_TO_HOLD_OUT
READ_TO_HOLD_OUT = 100_000
SENTENCES_VERSION = 2  # increase it when the columns of the store of sentences or their meaning change
PARAGRAPHS_VERSION = 1  # raise it whenever the same rows would give other paragraphs: it is part of every fingerprint


@dataclass(frozen=True, slots=True)
class DocumentSplit:
    """The documents of one split, each the list of its paragraphs, none of them blank; without text it is empty."""

    documents: Callable[[], Iterator[list[str]]]  # reads the split again at each call
    total: int | None  # number of documents, None if only reading to the end would tell
    fingerprint: str  # changes whenever the documents do

    def texts(self) -> Iterator[str]:
        """Yield the paragraphs of the first documents, as many as training a tokenizer needs."""
        characters = 0
        for document in self.documents():
            yield from document
            characters += sum(map(len, document))
            if characters > TOKENIZER_CHARACTERS:
                return


@dataclass(frozen=True, slots=True)
class SentenceReader:
    """How documents become sentences: split by `splitter`, without paragraphs that are shorter than the settings of the
    task allow.
    """

    splitter: SentenceSplitter
    min_characters: int
    min_sentences: int

    def prepare(self, tokenizer: Tokenizer) -> Prepare:
        """Return what turns documents into a block of their sentences' ids."""
        return partial(block_of, self.splitter, tokenizer, self.min_characters, self.min_sentences)


@dataclass(eq=False)
class Documents(Corpus):
    """Documents, which have no labels. `reader` says how they are read (see `read_by`)."""

    by_name: dict[str, DocumentSplit]
    stream: DocumentStream | None = None  # the documents to read during training; None: all are stored
    reader: SentenceReader | None = None

    def read_by(self, language: str, min_characters: int, min_sentences: int) -> Documents:
        """Return the documents with a splitter for their sentences. Raises SettingError for an unknown language."""
        train = self.by_name["train"]
        splitter = splitter_for(lambda: chain.from_iterable(train.documents()), language)
        reader = SentenceReader(splitter, min_characters, min_sentences)
        return replace(self, reader=reader)

    @property
    def sentence_reader(self) -> SentenceReader:
        """Return how the documents become sentences."""
        assert self.reader is not None, "call `read_by` first"
        return self.reader

    def fingerprints(self) -> dict[str, str]:
        return {name: split.fingerprint for name, split in self.by_name.items()}

    def scored_splits(self) -> list[str]:
        scored = [name for name in ("validation", "test") if name in self.by_name]
        if not scored:
            raise DataError("No documents are held out to score on", remedy="Set dataset.validation_fraction=0.05")
        return scored

    def training_texts(self) -> Iterator[str]:
        return self.by_name["train"].texts()

    def description(self) -> dict[str, Any]:
        splits = {}
        for name, split in self.by_name.items():
            splits[name] = {"documents": split.total, "fingerprint": split.fingerprint}
        shards = {} if self.stream is None else {"shards": self.stream.shards}
        splitter = self.sentence_reader.splitter.name
        return {"origin": self.origin, "sentence_splitter": splitter, "splits": splits, **shards}

    def tokenize(self, name: str, tokenizer: Tokenizer, cache: Path) -> TokenStore:
        split = self.by_name[name]
        reader = self.sentence_reader
        made_from = (
            SENTENCES_VERSION,
            split.fingerprint,
            reader.splitter.key,
            tokenizer.fingerprint,
            reader.min_characters,
            reader.min_sentences,
        )
        key = hashlib.sha256(repr(made_from).encode()).hexdigest()[:24]

        def write(folder: Path) -> TokenStore:
            with progress_bar(f"tokenising {name}", "documents", split.total, leave=False) as bar:

                def counted() -> Iterator[SentenceBlock]:
                    for block in prepared(split.documents(), reader.prepare(tokenizer)):
                        yield block
                        bar.update(block.documents)

                return write_store(folder, *in_columns(counted(), tokenizer.vocabulary_size))

        return kept_store(cache / "sentences" / key, write)


def as_documents(splits: Data) -> Documents:
    """Return each row as a document: the non-blank lines of its text, then of its second; words are one paragraph.

    Equal rows are said, since the random next sentence of one may be its true one; if all are equal, they are one.
    """

    by_name = {}
    for name, split in splits.by_name.items():
        hashes = hashed(split).texts
        n_rows = len(hashes)
        n_equal = n_rows - len(np.unique(hashes))
        if n_equal and n_equal == n_rows - 1:
            split = split.take(np.arange(1))
            hashes = hashes[:1]
        if n_equal:
            equal = f"{n_equal:,} of {n_rows:,} documents of {name} equal earlier ones"
            say(f"{equal}; remove them for next-sentence prediction")
        documents = lambda split=split: (paragraphs("\n".join(texts_of(example))) for example in split)  # noqa: E731
        by_name[name] = DocumentSplit(documents, len(split), fingerprint(hashes.tobytes()))
    return Documents(by_name, origin=splits.origin)


def paragraphs(text: str) -> list[str]:
    """Return the non-blank lines of a text, stripped."""
    lines = map(str.strip, text.replace("\r", "\n").split("\n"))
    return [line for line in lines if line]


def fingerprint(made_from: bytes) -> str:
    """Return a fingerprint of documents, given bytes that distinguish them from others."""
    return hashlib.sha256(b"%d " % PARAGRAPHS_VERSION + made_from).hexdigest()[:16]


@dataclass
class StreamSettings:
    """How documents are read during training."""

    streaming: bool = setting(
        False,
        "For pretraining: read the documents during training and store nothing, for corpora larger than disk or "
        "memory.",
    )
    window: int = setting(
        16_000_000, "With streaming: characters held in memory at once; sentences are shuffled among them.", minimum=100
    )


@dataclass(frozen=True, slots=True)
class DocumentStream:
    """Documents that a run reads while it trains: the column `text` of `dataset`, a paragraph a line.

    Shares of the documents, which their text and `seed` select, are held out.
    """

    dataset: IterableDataset
    shards: dict[str, str]  # a fingerprint of each of the dataset's shards, its files, by name
    window: int  # characters that its readers hold; a few shards are read at the same time
    validation: float = 0.0
    test: float = 0.0
    seed: int = 0
    explained: Callable[[], AbstractContextManager[Any]] = nullcontext  # turns errors of the source into DataError

    @property
    def readers(self) -> int:
        """Return how many shards are read at the same time."""
        return min(READERS, self.dataset.num_shards)

    def split_of(self, text: str) -> str:
        """Return the split of a document: train, validation or test."""
        digest = hashlib.blake2b(f"{self.seed} {text}".encode(errors="replace"), digest_size=8).digest()
        place = int.from_bytes(digest, "big") / 2**64
        if place < self.validation:
            return "validation"
        return "test" if place < self.validation + self.test else "train"

    def documents(self, name: str) -> Iterator[list[str]]:
        """Yield the documents of a split in the order of the shards; held-out splits are short (HELD_OUT_DOCUMENTS)."""
        rows = iter(self.dataset if name == "train" else self.dataset.take(READ_TO_HOLD_OUT))

        def texts() -> Iterator[str]:
            while True:
                with self.explained():
                    read = [row["text"] for row in islice(rows, 100)]
                if not read:
                    return
                yield from (text for text in read if self.split_of(text) == name)

        yield from map(paragraphs, texts() if name == "train" else islice(texts(), HELD_OUT_DOCUMENTS))

    def as_documents(self, origin: dict[str, Any]) -> Documents:
        """Return the splits of the stream."""
        made_from = repr((list(self.shards.items()), self.validation, self.test, self.seed))
        names = ("train", *(name for name in ("validation", "test") if getattr(self, name)))
        by_name = {
            name: DocumentSplit(partial(self.documents, name), None, fingerprint(f"{made_from} {name}".encode()))
            for name in names
        }
        return Documents(by_name, origin=origin | {"streamed": len(self.shards)}, stream=self)


def stream_of_files(paths: Sequence[Path], read: Callable[[Path], Iterator[list[str]]]) -> IterableDataset:
    """Return the documents that `read` yields for each file, each as the list of its paragraphs; a file is a shard."""
    from datasets import Features, IterableDataset, Value

    features = Features({"text": Value("large_string")})  # if unknown, every file would be opened to infer them

    def rows(paths: Sequence[Path]) -> Iterator[dict[str, str]]:
        return ({"text": "\n".join(document)} for path in paths for document in read(path))

    return IterableDataset.from_generator(rows, features, gen_kwargs={"paths": list(paths)})


class StreamReader:
    """One of the readers of a stream: goes through its share of the training documents, pass after pass.

    Each pass draws the order of all shards from `seed` and deals them out to the readers in turn. `position`, of plain
    values, is where a reader resumes; None: at the beginning.
    """

    def __init__(self, stream: DocumentStream, number: int, seed: int, position: Mapping[str, Any] | None) -> None:
        self.stream = stream
        self.number = number
        self.seed = seed
        self._open(*((0, None) if position is None else (position["passes"], position["state"])))

    @property
    def position(self) -> dict[str, Any]:
        """Return how many passes are complete, and where this one is, as `datasets` states it."""
        return {"passes": self.passes, "state": self._rows.state_dict() if self._begun else None}

    def take(self) -> list[list[str]]:
        """Return the next documents: its share of a window, or what is left of its pass."""
        documents = []
        characters = 0
        with self.stream.explained():
            for row in self._iterator:
                self._begun = True
                if self.stream.split_of(row["text"]) != "train":
                    continue
                documents.append(paragraphs(row["text"]))
                characters += len(row["text"])
                if characters * self.stream.readers >= self.stream.window:
                    return documents
        self._open(self.passes + 1, None)  # a window holds no document twice
        return documents

    def _open(self, passes: int, state: dict[str, Any] | None) -> None:
        from datasets import concatenate_datasets

        total = self.stream.dataset.num_shards
        order = np.random.default_rng([self.seed, passes]).permutation(total)[self.number :: self.stream.readers]
        shards = [self.stream.dataset.shard(total, index, contiguous=False) for index in order.tolist()]
        self.passes = passes
        self._rows = concatenate_datasets(shards)
        self._begun = state is not None
        if state is not None:
            self._rows.load_state_dict(state)
        self._iterator = iter(self._rows)
