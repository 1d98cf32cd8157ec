"""Character n-grams within words as numbers of 64 bits, of many texts at once, and where those of a vocabulary stand.

The number of an n-gram is a polynomial of its characters (Karp and Rabin 1987, "Efficient randomized pattern-matching
algorithms"), so one pass over the texts makes all n-grams of n + 1 characters from those of n. Numbers of different
n-grams are equal with a probability of 2 ** -64: among a million n-grams and a vocabulary of 100,000, of 5e-9.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, and its bits look random
_SPACE = ord(" ")


def character_ngrams(texts: Sequence[str], shortest: int, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each n-gram that lies within a word with a space on both sides, uint64 [n-grams], and which
    text it is of, [n-grams]. A word shorter than the shortest n-gram counts once.
    """
    padded, text_of = _padded(texts)
    numbers, rows = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
    for _, some, places in _by_length(padded, shortest, longest):
        numbers.append(some)
        rows.append(text_of[places])
    return np.concatenate(numbers), np.concatenate(rows)


@dataclass(frozen=True, slots=True)
class NGramsOfWords:
    """Which character n-grams are in words: of each occurrence the `words` it is in and the n-gram's `ids`, [n]."""

    words: np.ndarray
    ids: np.ndarray
    text: str  # that all n-grams are in
    begins: np.ndarray  # where that of each id begins in it, [ids]
    ends: np.ndarray

    @classmethod
    def of(cls, words: Sequence[str], shortest: int, longest: int) -> NGramsOfWords:
        """Return the n-grams of words, as `character_ngrams` finds them."""
        from pandas import factorize

        padded, word_of = _padded(words)
        found = list(_by_length(padded, shortest, longest))
        ids, _ = factorize(np.concatenate([np.zeros(0, np.uint64), *(numbers for _, numbers, _ in found)]))
        places = np.concatenate([np.zeros(0, np.int64), *(places for *_, places in found)])
        lengths = np.concatenate([np.zeros(0, np.int64), *(np.full(len(some), n) for n, some, _ in found)])
        # Ids are numbered in the order in which they occur first.
        _, first = np.unique(ids, return_index=True)
        return cls(word_of[places], ids, padded, places[first], places[first] + lengths[first])

    def names(self, ids: np.ndarray) -> list[str]:
        """Return the n-grams of these ids."""
        begins, ends = self.begins[ids].tolist(), self.ends[ids].tolist()
        return [self.text[begin:end] for begin, end in zip(begins, ends, strict=True)]


def _padded(texts: Sequence[str]) -> tuple[str, np.ndarray]:
    """Return all words with a space on both sides, and the text of each character."""
    padded = ["".join([f" {word} " for word in text.split()]) for text in texts]
    return "".join(padded), np.repeat(np.arange(len(texts)), [len(text) for text in padded])


def _by_length(padded: str, shortest: int, longest: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield for each length the numbers of the n-grams and where they begin."""
    characters = _characters(padded)
    is_space = characters == _SPACE
    number = np.ones(len(characters), np.uint64)
    reaches = np.ones(len(characters), bool)  # whether the n-gram that begins here is within a word
    for n in range(1, min(longest, len(characters)) + 1):
        last = len(characters) - n + 1
        number = number[:last] * _BASE + characters[n - 1 :]
        if n > 2:  # a space that is not the first or the last character divides two words
            reaches = reaches[:last] & ~is_space[n - 2 : n - 2 + last]
        if n == 2:  # nor is the end of a word and the beginning of the next an n-gram
            reaches = reaches[:last] & ~(is_space[:last] & is_space[1:])
        begins = reaches[:last]
        if n < shortest:  # these are whole words
            begins = begins & is_space[:last] & is_space[n - 1 :] if n > 2 else begins & False
        places = np.flatnonzero(begins)
        yield n, number[places], places


def numbers_of(ngrams: Sequence[str]) -> np.ndarray:
    """Return the number of each n-gram: uint64 [n-grams]."""
    lengths = np.fromiter(map(len, ngrams), np.int64, len(ngrams))
    begins = np.cumsum(lengths) - lengths
    characters = _characters("".join(ngrams))
    numbers = np.ones(len(ngrams), np.uint64)
    for n in range(int(lengths.max(initial=0))):
        is_longer = np.flatnonzero(lengths > n)
        numbers[is_longer] = numbers[is_longer] * _BASE + characters[begins[is_longer] + n]
    return numbers


def _characters(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)


class ColumnOfNumber:
    """A hash table with open addressing from the numbers of n-grams to their columns, which reads arrays."""

    def __init__(self, numbers: np.ndarray, columns: np.ndarray) -> None:
        bits = max(int(4 * len(numbers)).bit_length(), 1)  # most places are free, so few are tried
        self._shift = np.uint64(64 - bits)
        self._numbers = np.zeros(1 << bits, np.uint64)  # 0: free
        self._columns = np.full(1 << bits, -1, np.int32)
        places = self._first_places(numbers)
        todo = np.arange(len(numbers))
        while len(todo):
            free = todo[self._numbers[places[todo]] == 0]
            self._numbers[places[free]] = numbers[free]
            # Of several that want a place, one has got it.
            got = free[self._numbers[places[free]] == numbers[free]]
            self._columns[places[got]] = columns[got]
            todo = todo[self._numbers[places[todo]] != numbers[todo]]
            places[todo] = self._next(places[todo])

    def find(self, numbers: np.ndarray) -> np.ndarray:
        """Return the column of each number, -1 if there is none: int32 [numbers]."""
        places = self._first_places(numbers)
        there = self._numbers[places]
        columns = self._columns[places]
        todo = np.flatnonzero(there != numbers)
        columns[todo] = -1
        todo = todo[there[todo] != 0]
        places = places[todo]
        while len(todo):
            places = self._next(places)
            there = self._numbers[places]
            is_found = there == numbers[todo]
            columns[todo[is_found]] = self._columns[places[is_found]]
            others = ~is_found & (there != 0)
            todo, places = todo[others], places[others]
        return columns

    def _first_places(self, numbers: np.ndarray) -> np.ndarray:
        return ((numbers * _BASE) >> self._shift).astype(np.int64)

    def _next(self, places: np.ndarray) -> np.ndarray:
        return (places + 1) & (len(self._numbers) - 1)
