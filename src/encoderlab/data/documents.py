"""Corpora as documents: the paragraphs of each, read anew from disk for whoever asks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from encoderlab.data.examples import Example, Split, Splits, WordsExample
from encoderlab.data.shards import Shards
from encoderlab.data.survey import hashed
from encoderlab.errors import DataError

TOKENIZER_CHARACTERS = 50_000_000  # what a tokenizer is trained on at most: more changes rare pieces only
PARAGRAPHS_VERSION = 1  # raise it whenever the same rows would give other paragraphs: it is part of every fingerprint


@dataclass(frozen=True, slots=True)
class DocumentSplit:
    """The documents of one split.

    `documents` reads the split anew: each document is the list of its paragraphs, none of them blank; one without text is an empty
    list. `total` is how many there are, None where only reading to the end would tell. `fingerprint` changes whenever the documents
    do.
    """

    documents: Callable[[], Iterator[list[str]]]
    total: int | None
    fingerprint: str

    def texts(self) -> Iterator[str]:
        """The paragraphs of the first documents, as many as a tokenizer needs to be trained."""
        characters = 0
        for document in self.documents():
            yield from document
            characters += sum(map(len, document))
            if characters > TOKENIZER_CHARACTERS:
                return


@dataclass(frozen=True, slots=True)
class Documents:
    """All splits of a corpus by name (train, perhaps validation and test); `origin` as in `Splits`.

    Where a run is to read its training documents while it trains, `shards` are what it reads.
    """

    by_name: dict[str, DocumentSplit]
    origin: dict[str, Any]
    shards: Shards | None = None


def as_documents(splits: Splits) -> Documents:
    """Each row as a document."""
    return Documents({name: _rows_as_documents(split) for name, split in splits.by_name.items()}, splits.origin)


def streamed_documents(shards: Shards, origin: dict[str, Any]) -> Documents:
    """The documents of shards, for a run that reads them while it trains."""
    made_from = repr((list(shards.fingerprints.items()), shards.fractions))
    by_name = {
        name: DocumentSplit(partial(shards.split, name), None, fingerprint(f"{made_from} {name}".encode()))
        for name in ("train", *shards.fractions.held_out())
    }
    return Documents(by_name, origin | {"streamed": len(shards.names)}, shards)


def _rows_as_documents(split: Split) -> DocumentSplit:
    def read() -> Iterator[list[str]]:
        return map(paragraphs_of, split)

    return DocumentSplit(read, len(split), fingerprint(hashed(split).texts.tobytes()))


def paragraphs_of(example: Example) -> list[str]:
    """The lines of a text, then those of its pair, without blank ones; a sequence of words is one paragraph."""
    if isinstance(example, WordsExample):
        return paragraphs(" ".join(example.words))
    return paragraphs(example.text) + paragraphs(example.text_pair or "")


def paragraphs(text: str) -> list[str]:
    """The lines of a text without the blanks around them and without blank ones."""
    return [stripped for line in text.replace("\r", "\n").split("\n") if (stripped := line.strip())]


def fingerprint(made_from: bytes) -> str:
    """A fingerprint of documents from what tells them apart from others."""
    return hashlib.sha256(b"%d " % PARAGRAPHS_VERSION + made_from).hexdigest()[:16]


def refuse_lone_document(total: int) -> None:
    """Raise DataError where training has fewer than two documents, from one of which the other's negatives come."""
    if total < 2:
        raise DataError(
            f"The training split holds {total} document{'s' * (total != 1)}",
            allowed="at least 2, for what does not follow a sentence is taken from another document",
            remedy="In .txt files a blank line ends a document, in tables each row is one; some are held out "
            "(dataset.validation_fraction), and dataset.limit leaves so many",
        )
