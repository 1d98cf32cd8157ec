"""N-grams of texts as the columns of a sparse matrix, counted and weighted as scikit-learn's TfidfVectorizer does.

Prediction needs neither scikit-learn, which takes as long to import as torch, nor a pickle: a fitted `TfIdf` is a list
of n-grams and a number for each.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array, hstack

Analyzer = Literal["word", "token", "char_wb"]
_PATTERNS = {
    "word": re.compile(r"\b\w\w+\b"),  # scikit-learn's token pattern: two word characters or more
    "token": re.compile(r"\w+|[^\w\s]"),  # words of any length, and each other mark by itself
}
_ITEMS = {"word": "words", "token": "words and marks", "char_wb": "characters"}
BESIDE = " "  # how the names of n-grams beside others begin; those of words and marks never do


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

    def counted(self, texts: Iterable[str]) -> tuple[csr_array, list[str]]:
        """Return how often each n-gram occurs in each text, [texts, n-grams], and the n-grams."""
        if self.beside is None:
            return self._counted(texts)
        texts = list(texts)
        counts, names = self._counted(texts)
        others, their_names = self.beside.counted(texts)
        return csr_array(hstack([counts, others], format="csr")), names + [BESIDE + name for name in their_names]

    def _counted(self, texts: Iterable[str]) -> tuple[csr_array, list[str]]:
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
        pieces, names = self._of_each_word(words)
        return csr_array(occurrences @ pieces), names

    def _word_ngrams(self, numbers: np.ndarray, ends: np.ndarray, words: list[str]) -> tuple[csr_array, list[str]]:
        """Count n-grams of words; of all texts' words, `numbers`, those of text i are from ends[i] to ends[i + 1]."""
        text_of = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        matrices = []
        all_names: list[str] = []
        starts, ids, names = np.arange(len(numbers)), numbers, words  # where n-grams start, which they are, their names
        for n in range(1, self.longest + 1):
            if n > 1:
                # An n-gram is a shorter one and the next word, unless that is another text's.
                has_next = starts + n - 1 < len(numbers)
                has_next[has_next] = text_of[starts[has_next]] == text_of[starts[has_next] + n - 1]
                starts, shorter = starts[has_next], ids[has_next]
                next_words = numbers[starts + n - 1]
                _, first, ids = np.unique(shorter * len(words) + next_words, return_index=True, return_inverse=True)
                names = [f"{names[shorter[at]]} {words[next_words[at]]}" for at in first]
            if n >= self.shortest:
                per_text = np.bincount(text_of[starts], minlength=len(ends) - 1)
                matrices.append(_counts(ids, np.append(0, np.cumsum(per_text)), len(names)))
                all_names += names
        return csr_array(hstack(matrices, format="csr")), all_names

    def _of_each_word(self, words: Sequence[str]) -> tuple[csr_array, list[str]]:
        """Return how often each character n-gram occurs in each word, [words, n-grams], and the n-grams."""
        number_of = defaultdict[str, int](count().__next__)
        numbers: list[int] = []
        ends = [0]
        for word in words:
            padded = f" {word} "
            for n in range(self.shortest, self.longest + 1):
                numbers += [number_of[padded[start : start + n]] for start in range(max(len(padded) - n, 0) + 1)]
                if n >= len(padded):  # a short word counts once
                    break
            ends.append(len(numbers))
        return _counts(np.array(numbers, np.int64), np.array(ends), len(number_of)), list(number_of)


def _counts(numbers: np.ndarray, ends: np.ndarray, n_columns: int) -> csr_array:
    """Return how often each number occurs in each row; row i holds those from ends[i] to ends[i + 1]."""
    shape = (len(ends) - 1, n_columns)
    matrix = csr_array((np.ones(len(numbers)), numbers, ends), shape, copy=True)  # it is sorted in place
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
        counts, names = ngrams.counted(texts)
        return cls.of_counts(ngrams, counts, names, most)

    @classmethod
    def of_counts(cls, ngrams: NGrams, counts: csr_array, names: Sequence[str], most: int) -> tuple[TfIdf, csr_array]:
        """Return the same of counted n-grams."""
        n_texts = len(counts.indptr) - 1
        n_holding = np.bincount(counts.indices, minlength=len(names))
        # Columns are in alphabetical order, and do not depend on which text comes first.
        most_frequent = sorted(range(len(names)), key=lambda column: (-n_holding[column], names[column]))[:most]
        columns = sorted(most_frequent, key=lambda column: names[column])
        vocabulary = {names[column]: number for number, column in enumerate(columns)}
        idf = (np.log((1 + n_texts) / (1 + n_holding[columns])) + 1).astype(np.float32)
        fitted = cls(ngrams, vocabulary, idf)
        return fitted, fitted._weighted(csr_array(counts[:, columns]))

    def features(self, texts: Iterable[str]) -> csr_array:
        """Return the features of texts, float32 [texts, n-grams]: rows of length 1, or 0 without a known n-gram; with
        n-grams beside others, each kind has the length of the root of 1/2.
        """
        counts, names = self.ngrams.counted(texts)
        columns = np.array([self.vocabulary.get(name, -1) for name in names], np.int64)
        known = csr_array(counts[:, np.flatnonzero(columns >= 0)])
        indices = columns[columns >= 0][known.indices]
        return self._weighted(csr_array((known.data, indices, known.indptr), (len(known.indptr) - 1, len(self.idf))))

    @cached_property
    def is_beside(self) -> np.ndarray:
        """Return which columns are of n-grams beside others: bool [n-grams]."""
        return np.array([name.startswith(BESIDE) for name in self.vocabulary], bool)

    def _weighted(self, counts: csr_array) -> csr_array:
        values = counts.data.astype(np.float32)
        if self.ngrams.sublinear:
            values = np.log(values) + 1
        values *= self.idf[counts.indices]
        n_held = np.diff(counts.indptr)
        if self.ngrams.beside is None:
            values /= _lengths(values, counts.indptr)
        else:
            is_beside = self.is_beside[counts.indices]
            own, beside = (_lengths(values * of_kind, counts.indptr) for of_kind in (~is_beside, is_beside))
            values /= np.where(is_beside, beside, own) * np.float32(2**0.5)
        # The solvers of scikit-learn read indices of 32 bits only.
        indices, indptr = counts.indices.astype(np.int32), counts.indptr.astype(np.int32)
        return csr_array((values, indices, indptr), (len(n_held), len(self.idf)))


def _lengths(values: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """Return for each of a sparse matrix's values the length of its row: [values]."""
    n_held = np.diff(indptr)
    lengths = np.sqrt(np.add.reduceat(np.append(values * values, 0), indptr[:-1]))
    return np.repeat(np.where(n_held > 0, lengths, 1), n_held)
