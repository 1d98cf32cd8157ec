"""Character n-grams within words as numbers of 64 bits, of many texts at once, and where those of a vocabulary stand.

The number of an n-gram is a polynomial of its characters (Karp and Rabin 1987, "Efficient randomized pattern-matching
algorithms"), so one pass over the texts makes all n-grams of n + 1 characters from those of n. Numbers of different
n-grams are equal with a probability of 2 ** -64: among a million n-grams and a vocabulary of 100,000, of 5e-9.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, and its bits look random
_SPACE = ord(" ")


def character_ngrams(texts: Sequence[str], shortest: int, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each n-gram that lies within a word with a space on both sides, uint64 [n-grams], and which
    text it is of, [n-grams]. A word shorter than the shortest n-gram counts once.
    """
    padded = ["".join([f" {word} " for word in text.split()]) for text in texts]
    characters = _characters("".join(padded))
    is_space = characters == _SPACE
    text_of = np.repeat(np.arange(len(texts)), [len(text) for text in padded])

    numbers, rows = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
    number = np.ones(len(characters), np.uint64)
    reaches = np.ones(len(characters), bool)  # whether the n-gram that begins here is within a word
    for n in range(1, longest + 1):
        if n > len(characters):
            break
        last = len(characters) - n + 1
        number = number[:last] * _BASE + characters[n - 1 :]
        if n > 2:  # a space that is not the first or the last character divides two words
            reaches = reaches[:last] & ~is_space[n - 2 : n - 2 + last]
        begins = reaches[:last]
        if n < shortest:  # these are whole words
            begins = begins & is_space[:last] & is_space[n - 1 :] if n > 2 else begins & False
        numbers.append(number[begins])
        rows.append(text_of[:last][begins])
    return np.concatenate(numbers), np.concatenate(rows)


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
        bits = max(int(2 * len(numbers)).bit_length(), 1)
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
