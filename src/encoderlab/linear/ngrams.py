"""N-grams of texts as the columns of a sparse matrix, counted and weighted as scikit-learn's TfidfVectorizer does.

Prediction needs neither scikit-learn, which takes as long to import as torch, nor a pickle: a fitted `TfIdf` is a list
of n-grams and a number for each.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, Literal, cast

import numpy as np
from scipy.sparse import csr_array, hstack

from encoderlab.linear.characters import ColumnOfNumber, NGramsOfWords, character_ngrams, numbers_of

Analyzer = Literal["word", "token", "char_wb"]
_PATTERNS = {
    "word": re.compile(r"\b\w\w+\b"),  # scikit-learn's token pattern: two word characters or more
    "token": re.compile(r"\w+|[^\w\s]"),  # words of any length, and each other mark by itself
}
_ITEMS = {"word": "words", "token": "words and marks", "char_wb": "characters"}
BESIDE = " "  # how the names of n-grams beside others begin; those of words and marks never do
AT_ONCE = 100_000  # characters whose n-grams are looked up at once


@dataclass(frozen=True, slots=True)
class NGrams:
    """Which n-grams of a text are counted, of `shortest` to `longest` items.

    The items of the `analyzer` "word" are words of two characters or more, those of "token" all words and punctuation
    marks, and those of "char_wb" the characters of what stands between spaces, with a space on both sides. Texts are in
    lower case. If `sublinear`, an n-gram that occurs n times counts 1 + log(n). Those `beside` words are other n-grams
    of the same texts; each kind then has half of the length of a text's features.
    """

    analyzer: Analyzer
    shortest: int
    longest: int
    sublinear: bool = True
    beside: NGrams | None = None

    def __str__(self) -> str:
        length = f"{self.shortest}" if self.shortest == self.longest else f"{self.shortest} to {self.longest}"
        beside = "" if self.beside is None else f" and {self.beside}"
        return f"{_ITEMS[self.analyzer]} {length}{'' if self.sublinear else ', raw counts'}{beside}"

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> NGrams:
        """Return the n-grams of which `dataclasses.asdict` made this. Raises TypeError or ValueError for others."""
        beside = description.get("beside")
        if beside is None:
            return cls(**description)
        if beside.get("beside") is not None:
            raise ValueError("more than two kinds of n-grams")
        return cls(**{**description, "beside": cls(**beside)})

    def counted(self, texts: Iterable[str]) -> Counts:
        """Return how often each n-gram occurs in each text."""
        if self.beside is None:
            return self._counted(texts)
        texts = list(texts)
        return self._counted(texts).with_beside(self.beside.counted(texts))

    def _counted(self, texts: Iterable[str]) -> Counts:
        split = str.split if self.analyzer == "char_wb" else _PATTERNS[self.analyzer].findall
        number_of = defaultdict[str, int](count().__next__)
        numbers: list[int] = []
        ends = [0]
        for text in texts:
            numbers += [number_of[word] for word in split(text.lower())]
            ends.append(len(numbers))
        words = list(number_of)
        if self.analyzer != "char_wb":
            return self._word_ngrams(np.array(numbers, np.int64), np.array(ends), words)
        # A character n-gram lies within a word, so each different word is taken apart once.
        occurrences = _counts(np.array(numbers, np.int64), np.array(ends), len(words))
        found = NGramsOfWords.of(words, self.shortest, self.longest)
        ones = np.ones(len(found.ids), np.float32)
        places = (found.words.astype(np.int32), found.ids.astype(np.int32))
        pieces = csr_array((ones, places), (len(words), len(found.begins)))
        return Counts(csr_array(occurrences @ pieces), found.names)

    def _word_ngrams(self, numbers: np.ndarray, ends: np.ndarray, words: list[str]) -> Counts:
        """Count n-grams of words; of all texts' words, `numbers`, those of text i are from ends[i] to ends[i + 1]."""
        text_of = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        matrices = []
        firsts, lengths = [], []  # where each n-gram occurs first, and of how many words it is
        starts, ids = np.arange(len(numbers)), np.zeros(len(numbers), np.int64)  # where n-grams start, which they are
        for n in range(1, self.longest + 1):
            # An n-gram is a shorter one and the next word, unless that is another text's.
            has_next = starts + n - 1 < len(numbers)
            has_next[has_next] = text_of[starts[has_next]] == text_of[starts[has_next] + n - 1]
            starts, shorter = starts[has_next], ids[has_next]
            keys = shorter * len(words) + numbers[starts + n - 1]
            _, first, ids = np.unique(keys, return_index=True, return_inverse=True)
            if n >= self.shortest:
                per_text = np.bincount(text_of[starts], minlength=len(ends) - 1)
                matrices.append(_counts(ids, np.append(0, np.cumsum(per_text)), len(first)))
                firsts.append(starts[first])
                lengths.append(np.full(len(first), n))
        begins = np.concatenate(firsts)
        stops = begins + np.concatenate(lengths)

        def names(columns: np.ndarray) -> list[str]:
            places = zip(begins[columns].tolist(), stops[columns].tolist(), strict=True)
            return [" ".join([words[number] for number in numbers[begin:stop]]) for begin, stop in places]

        return Counts(csr_array(hstack(matrices, format="csr")), names)

    def _of_words(self, words: Sequence[str]) -> Iterator[str]:
        """Yield the n-grams of the words of a text."""
        for n in range(self.shortest, self.longest + 1):
            yield from words if n == 1 else map(" ".join, zip(*(words[start:] for start in range(n)), strict=False))


@dataclass(frozen=True, slots=True)
class Counts:
    """How often each n-gram occurs in each text, `matrix` [texts, n-grams]; `names` makes the n-grams of some columns,
    as most are not asked for.
    """

    matrix: csr_array
    names: Callable[[np.ndarray], list[str]]

    def with_beside(self, others: Counts) -> Counts:
        """Return these and other n-grams of the same texts, in this order."""
        n_own = _width(self.matrix)
        own_names, other_names = self.names, others.names  # without the matrices, which are copied into one

        def names(columns: np.ndarray) -> list[str]:
            is_own = columns < n_own
            all_names = np.empty(len(columns), object)
            all_names[is_own] = own_names(columns[is_own])
            all_names[~is_own] = [BESIDE + name for name in other_names(columns[~is_own] - n_own)]
            return all_names.tolist()

        return Counts(csr_array(hstack([self.matrix, others.matrix], format="csr")), names)


def _width(matrix: csr_array) -> int:
    _, width = cast("tuple[int, int]", matrix.shape)
    return width


def _counts(numbers: np.ndarray, ends: np.ndarray, n_columns: int) -> csr_array:
    """Return how often each number occurs in each row; row i holds those from ends[i] to ends[i + 1].

    All parts have 32 bits, because the counts of long texts are most of the memory that a fit takes.
    """
    parts = (np.ones(len(numbers), np.float32), numbers.astype(np.int32), ends.astype(np.int32))
    matrix = csr_array(parts, (len(ends) - 1, n_columns))
    matrix.sum_duplicates()
    return matrix


@dataclass(frozen=True)
class TfIdf:
    """The n-grams of a training set, each with its column, and the weight of each column.

    `idf`, float32 [n-grams], is the logarithm of the inverse share of training texts that hold the n-gram, plus 1.
    """

    ngrams: NGrams
    vocabulary: Mapping[str, int]
    idf: np.ndarray

    @classmethod
    def fitted(cls, ngrams: NGrams, texts: Iterable[str], most: int) -> tuple[TfIdf, csr_array]:
        """Return the n-grams that occur in the most texts, at most `most`, and the features of the texts."""
        return cls.of_counts(ngrams, ngrams.counted(texts), most)

    @classmethod
    def of_counts(cls, ngrams: NGrams, counts: Counts, most: int) -> tuple[TfIdf, csr_array]:
        """Return the same of counted n-grams."""
        n_texts, n_columns = cast("tuple[int, int]", counts.matrix.shape)
        n_holding = np.bincount(counts.matrix.indices, minlength=n_columns)
        columns = np.arange(n_columns)
        if n_columns > most:
            # Of those as frequent as the last one that is kept, the first in the alphabet are kept.
            least = np.partition(n_holding, -most)[-most]
            columns = np.flatnonzero(n_holding > least)
            ties = np.flatnonzero(n_holding == least)
            names = counts.names(ties)
            kept = sorted(range(len(ties)), key=names.__getitem__)[: most - len(columns)]
            columns = np.concatenate([columns, ties[kept]])
        # Columns are in alphabetical order, and do not depend on which text comes first.
        names = counts.names(columns)
        order = sorted(range(len(names)), key=names.__getitem__)
        vocabulary = {names[place]: number for number, place in enumerate(order)}
        columns = columns[order]
        idf = (np.log((1 + n_texts) / (1 + n_holding[columns])) + 1).astype(np.float32)
        fitted = cls(ngrams, vocabulary, idf)

        new_column = np.full(n_columns, -1, np.int32)
        new_column[columns] = np.arange(len(columns))
        indices = new_column[counts.matrix.indices]
        is_kept = indices >= 0
        n_kept = np.zeros(len(is_kept) + 1, np.int32)  # of the values before each one
        np.cumsum(is_kept, out=n_kept[1:])
        indptr = n_kept[counts.matrix.indptr]
        del n_kept
        return fitted, fitted._weighted(counts.matrix.data[is_kept], indices[is_kept], indptr)

    def features(self, texts: Iterable[str]) -> csr_array:
        """Return the features of texts, float32 [texts, n-grams]: rows of length 1, or 0 without a known n-gram; with
        n-grams beside others, each kind has the length of the root of 1/2.
        """
        width = len(self.idf)
        counts, indices, n_held = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(1, np.int64)]
        for some in _blocks(texts):
            found = [self._found(some, self.ngrams)]
            if self.ngrams.beside is not None:
                found.append(self._found(some, self.ngrams.beside, BESIDE))
            # Equal columns of a text stand side by side once they are sorted.
            keys = np.concatenate([rows * width + columns for columns, rows in found])
            keys.sort()
            is_first = np.ones(len(keys), bool)
            np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
            starts = np.append(np.flatnonzero(is_first), len(keys))
            counts.append(starts[1:] - starts[:-1])
            rows, columns = np.divmod(keys[is_first], max(width, 1))
            indices.append(columns)
            n_held.append(np.bincount(rows, minlength=len(some)))
        indptr = np.cumsum(np.concatenate(n_held))
        return self._weighted(np.concatenate(counts), np.concatenate(indices), indptr)

    def _found(self, texts: Sequence[str], ngrams: NGrams, before: str = "") -> tuple[np.ndarray, np.ndarray]:
        """Return the column of each known n-gram of one kind, as often as it occurs, and the text that it is in.

        The names of the n-grams have something `before` them.
        """
        if ngrams.analyzer == "char_wb":
            numbers, rows = character_ngrams(texts, ngrams.shortest, ngrams.longest)
            columns = self._column_of_number.find(numbers)
            is_known = columns >= 0
            return columns[is_known], rows[is_known]
        column_of = self.vocabulary.get
        all_known: list[int] = []
        n_known = []
        for text in texts:
            names = ngrams._of_words(_PATTERNS[ngrams.analyzer].findall(text))
            known = [column for name in names if (column := column_of(before + name)) is not None]
            all_known += known
            n_known.append(len(known))
        return np.array(all_known, np.int64), np.repeat(np.arange(len(texts)), n_known)

    @cached_property
    def _column_of_number(self) -> ColumnOfNumber:
        """Return the columns of the n-grams of characters."""
        names = list(self.vocabulary)
        columns = np.arange(len(names))
        if self.ngrams.beside is not None:
            columns = np.flatnonzero(self.is_beside)
            names = [names[column][len(BESIDE) :] for column in columns]
        return ColumnOfNumber(numbers_of(names), columns)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle holds: nothing that is computed from it."""
        return {"ngrams": self.ngrams, "vocabulary": self.vocabulary, "idf": self.idf}

    @cached_property
    def is_beside(self) -> np.ndarray:
        """Return which columns are of n-grams beside others: bool [n-grams]."""
        return np.array([name[:1] == BESIDE for name in self.vocabulary], bool)

    def _weighted(self, counts: np.ndarray, indices: np.ndarray, indptr: np.ndarray) -> csr_array:
        """Return the features of counts; their columns and where each text begins are as in a sparse matrix."""
        values = counts.astype(np.float32)
        if self.ngrams.sublinear:
            values = np.log(values) + 1
        values *= self.idf[indices]
        # The values of a text have one length together, or those of each of its two kinds of n-grams.
        texts = np.arange(len(indptr) - 1, dtype=np.int32)
        part = np.repeat(texts, indptr[1:] - indptr[:-1])
        length = np.float32(1)
        if self.ngrams.beside is not None:
            part = 2 * part + self.is_beside[indices]
            length = np.float32(0.5**0.5)
        squares = np.maximum(np.bincount(part, values * values), np.finfo(np.float32).tiny)  # 0 without an n-gram
        values *= (length / np.sqrt(squares)).astype(np.float32)[part]
        # The solvers of scikit-learn read indices of 32 bits only.
        shape = (len(indptr) - 1, len(self.idf))
        return csr_array((values, indices.astype(np.int32), indptr.astype(np.int32)), shape)


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield texts in lower case, some at a time: about AT_ONCE characters."""
    some: list[str] = []
    n_characters = 0
    for text in texts:
        some.append(text.lower())
        n_characters += len(some[-1])
        if n_characters >= AT_ONCE:
            yield some
            some, n_characters = [], 0
    if some:
        yield some
