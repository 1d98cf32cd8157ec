"""How a tokenizer splits texts: tokens per word, words that stay whole, and unknown tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from encoderlab.data.tokenizers import Tokenizer

_TEXTS_AT_A_TIME = 1000


@dataclass(frozen=True, slots=True)
class Cutting:
    """The counts for some texts. Words are separated by white space, and special tokens are not counted.

    `whole_words` is the share of words that are one token, and `unknown_pieces` the share of tokens that are unknown to
    the vocabulary. The last three fields give the number of tokens per text.
    """

    vocabulary_size: int
    pieces_per_word: float
    whole_words: float
    unknown_pieces: float
    pieces_median: float
    pieces_p95: float
    pieces_max: int


def first_words(texts: Iterable[str], most: int) -> list[str]:
    """Return the first texts that contain a word, until they have `most` words together."""
    chosen, words = [], 0
    for text in texts:
        if words >= most:
            break
        if found := len(text.split()):
            chosen.append(text)
            words += found
    return chosen


def cutting_of(tokenizer: Tokenizer, texts: Sequence[str]) -> Cutting:
    """Count how `tokenizer` splits `texts`, each of which contains a word."""
    words = Counter(word for text in texts for word in text.split())
    lengths, unknown = [], 0
    for ids in _encoded(tokenizer, texts):
        lengths.append(len(ids))
        unknown += ids.count(tokenizer.unk_id)
    n_words = words.total()
    return Cutting(
        vocabulary_size=tokenizer.vocabulary_size,
        pieces_per_word=sum(lengths) / n_words,
        whole_words=sum(words[word] for word in _whole(tokenizer, list(words))) / n_words,
        unknown_pieces=unknown / max(sum(lengths), 1),
        pieces_median=float(np.median(lengths)),
        pieces_p95=float(np.percentile(lengths, 95)),
        pieces_max=max(lengths),
    )


def _whole(tokenizer: Tokenizer, words: Sequence[str]) -> set[str]:
    """Return the words that are one known token at the start of a text or after a blank, which some vocabularies
    distinguish.
    """
    after_a_blank = _encoded(tokenizer, [f" {word}" for word in words])
    cuts = zip(words, _encoded(tokenizer, words), after_a_blank, strict=True)
    return {word for word, *ways in cuts if any(len(ids) == 1 and ids[0] != tokenizer.unk_id for ids in ways)}


def _encoded(tokenizer: Tokenizer, texts: Iterable[str]) -> Iterator[list[int]]:
    rest = iter(texts)
    while some := list(islice(rest, _TEXTS_AT_A_TIME)):
        yield from tokenizer.encode(some)
