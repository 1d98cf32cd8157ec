"""Documents to blocks of tokenised sentences: all of their preparation, as one unit of work for any process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from encoderlab.data.grouping import grouped
from encoderlab.data.sentences.splitter import SentenceSplitter
from encoderlab.data.tokenizers.tokenizer import Tokenizer

_CHARACTERS = 1_000_000  # per block, roughly: a tenth of a second of work

Document = list[str]  # a list of paragraphs


@dataclass(frozen=True, slots=True)
class SentenceBlock:
    """The sentences of some documents.

    `input_ids` holds their ids one sentence after the other, `lengths` [sentences] the number of ids of each;
    `document` and `paragraph` [sentences] number the document and paragraph of each, from the first of the block.
    `documents` and `paragraphs` count them.
    """

    input_ids: np.ndarray
    lengths: np.ndarray
    document: np.ndarray
    paragraph: np.ndarray
    documents: int
    paragraphs: int


@dataclass(frozen=True, slots=True)
class Preparation:
    """How documents become tokenised sentences: called with some documents, it returns their block.

    Paragraphs shorter than `min_characters` or with fewer than `min_sentences` are skipped, and so are sentences
    without ids.
    """

    splitter: SentenceSplitter
    tokenizer: Tokenizer
    min_characters: int
    min_sentences: int

    def __call__(self, documents: list[Document]) -> SentenceBlock:
        """Return the block of some documents. Raises DataError if a text is not valid Unicode."""
        paragraphs = [
            (number, sentences)
            for number, document in enumerate(documents)
            for paragraph in document
            if len(paragraph) >= self.min_characters
            and len(sentences := self.splitter.split(paragraph)) >= self.min_sentences
        ]
        ids, lengths = self.tokenizer.encode_flat([sentence for _, sentences in paragraphs for sentence in sentences])
        counts = [len(sentences) for _, sentences in paragraphs]
        document = np.repeat(np.array([number for number, _ in paragraphs], np.int64), counts)
        paragraph = np.repeat(np.arange(len(paragraphs)), counts)
        kept = lengths > 0
        return SentenceBlock(ids, lengths[kept], document[kept], paragraph[kept], len(documents), len(paragraphs))


def by_size(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Group the documents into lists of about a million characters each."""
    return grouped(documents, lambda document: sum(map(len, document)), _CHARACTERS)
