"""Corpora as documents: each a list of paragraphs, read from disk on demand."""

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

TOKENIZER_CHARACTERS = 50_000_000  # the most a tokenizer is trained on: more text changes only rare tokens
PARAGRAPHS_VERSION = 1  # raise it whenever the same rows would give other paragraphs: it is part of every fingerprint


@dataclass(frozen=True, slots=True)
class DocumentSplit:
    """The documents of one split.

    `documents` reads the split again at each call: each document is the list of its paragraphs, none of them blank; a
    document
        without text is an empty list. `total` is the number of documents, None if only reading to the end would tell.
        `fingerprint` changes whenever the documents do.
    """

    documents: Callable[[], Iterator[list[str]]]
    total: int | None
    fingerprint: str

    def texts(self) -> Iterator[str]:
        """Yield the paragraphs of the first documents, as many as training a tokenizer needs."""
        characters = 0
        for document in self.documents():
            yield from document
            characters += sum(map(len, document))
            if characters > TOKENIZER_CHARACTERS:
                return


@dataclass(frozen=True, slots=True)
class Documents:
    """All splits of a corpus by name (train, perhaps validation and test); `origin` as in `Splits`.

    If a run is to read its documents during training, it reads them from `shards`.
    """

    by_name: dict[str, DocumentSplit]
    origin: dict[str, Any]
    shards: Shards | None = None


def as_documents(splits: Splits) -> Documents:
    """Return each row as a document."""
    return Documents({name: _rows_as_documents(split) for name, split in splits.by_name.items()}, splits.origin)


def streamed_documents(shards: Shards, origin: dict[str, Any]) -> Documents:
    """Return the documents of shards, for a run that reads them during training."""
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
    """Return the non-blank lines of a text, then those of its pair; a sequence of words is one paragraph."""
    if isinstance(example, WordsExample):
        return paragraphs(" ".join(example.words))
    return paragraphs(example.text) + paragraphs(example.text_pair or "")


def paragraphs(text: str) -> list[str]:
    """Return the non-blank lines of a text, stripped."""
    return [stripped for line in text.replace("\r", "\n").split("\n") if (stripped := line.strip())]


def fingerprint(made_from: bytes) -> str:
    """Return a fingerprint of documents, given bytes that distinguish them from others."""
    return hashlib.sha256(b"%d " % PARAGRAPHS_VERSION + made_from).hexdigest()[:16]


def refuse_lone_document(total: int) -> None:
    """Raise DataError if training has fewer than two documents: negative pairs need a second one."""
    if total < 2:
        raise DataError(
            f"The training split holds {total} document{'s' * (total != 1)}",
            allowed="at least 2, because sentences that do not follow are taken from another document",
            remedy="In .txt files a blank line ends a document, in tables each row is one. Check how many are held out "
            "(dataset.validation_fraction) and that dataset.limit is large enough",
        )
