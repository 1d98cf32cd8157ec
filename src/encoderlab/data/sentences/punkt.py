"""Punkt without most of NLTK's overhead: NLTK decides only about ambiguous breaks, and about each only once.

Most of its time goes into breaks that are not ambiguous, such as a full stop after a word that is not an abbreviation.
The model and the regular expressions are those of the installed NLTK; texts with unusual white space go to NLTK itself.
Tests hold the two equal, text for text. With NLTK alone, a first start on 13,354 articles takes 1.3 times as long on
two cores.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

_REMEMBERED = (
    2**15
)  # ambiguous breaks whose decisions are kept: the same abbreviations and numbers recur before the same words
_CLOSING = (")", "]", "}", '"')  # no word of Punkt's contains them, so a full stop after one is a word of its own
# Unprintable, but the same to all regular expressions: white space, and marks of width and direction.
_WHITE = "\t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
_KNOWN = str.maketrans(dict.fromkeys(_WHITE + "\xad\u200b\u200c\u200d\u200e\u200f\ufeff"))


class Punkt:
    """Splits as the NLTK `tokenizer` of a model does, character for character.

    NLTK itself decides about ambiguous breaks, each once, and splits texts with characters that its regular expressions
    may treat differently from Python's.
    """

    def __init__(self, tokenizer: PunktSentenceTokenizer) -> None:
        learned, language = tokenizer._params, tokenizer._lang_vars
        learned.ortho_context = cast("Any", _Contexts(learned.ortho_context))
        self._nltk = tokenizer
        self._ends = re.compile(language.period_context_re().pattern, re.VERBOSE)
        self._quotes = re.compile(language.re_boundary_realignment.pattern, re.MULTILINE)
        self._doubtful = {*learned.abbrev_types, *(first for first, _ in learned.collocations)}
        self._decided = lru_cache(_REMEMBERED)(self._nltk.text_contains_sentbreak)

    def __reduce__(self) -> tuple[Any, ...]:
        return Punkt, (self._nltk,)

    def tokenize(self, text: str) -> list[str]:
        """Return the sentences of a text, without most of the white space between them."""
        if text.isprintable():  # the blank is its only white space
            return self._split(text, " ")
        if text.translate(_KNOWN).isprintable():
            return self._split(text, string.whitespace)
        return self._nltk.tokenize(text)

    def _split(self, text: str, blanks: str) -> list[str]:
        begins, ends = [0], []
        for before, end in self._candidates(text, blanks):
            if self._breaks(before, end):
                ends.append(end.end())
                begins.append(end.end() if end["next_tok"] is None else end.start("next_tok"))
        ends.append(len(text.rstrip()))
        return self._with_quotes(text, begins, ends)

    def _candidates(self, text: str, blanks: str) -> Iterator[tuple[str, re.Match[str]]]:
        """Yield each character that may end a sentence, with the word before it; the last one if a word contains
        several.
        """
        begin = stop = 0
        last = None
        for match in self._ends.finditer(text):
            blank = max([text.rfind(blank, stop, match.start()) for blank in blanks])
            word = blank + 1 if blank > stop else begin
            if last is not None and stop <= word:
                yield text[begin:stop], last
            last, begin, stop = match, word, match.start()
        if last is not None:
            yield text[begin:stop], last

    def _breaks(self, before: str, end: re.Match[str]) -> bool:
        """Return whether a sentence ends at `end`, after the word `before`."""
        if end[0] != ".":
            return True  # ? and ! always end one
        if before.isalpha():
            if len(before) > 1 and before.lower() not in self._doubtful:  # not an abbreviation, initial or number
                return True
        elif before.endswith(_CLOSING):
            if "." not in self._doubtful:
                return True
        elif before.isascii() and before.isdecimal() and self._doubtful.isdisjoint(("0", before)):
            before = "0"  # all whole numbers are one word to Punkt
        return self._decided(f"{before}.{end['after_tok']}")

    def _with_quotes(self, text: str, begins: list[int], ends: list[int]) -> list[str]:
        """Return the sentences, with quotes and brackets moved to the sentence that they close."""
        sentences, begin = [], 0
        for end, next_begin, next_end in zip(ends, begins[1:], ends[1:], strict=False):
            if quotes := self._quotes.match(text, next_begin, next_end):
                sentences.append(text[begin : next_begin + len(quotes[0].rstrip())])
                begin = quotes.end()
                continue
            if begin < end:
                sentences.append(text[begin:end])
            begin = next_begin
        if begin < ends[-1]:
            sentences.append(text[begin : ends[-1]])
        return sentences


class _Contexts(dict[str, int]):
    """What is known about words. NLTK's own table grows with every unknown word that is looked up; this one does not."""

    def __missing__(self, word: str) -> int:
        return 0
