"""Punkt without most of NLTK's overhead: NLTK is asked about the breaks that are in doubt, and about each once.

Most of its time goes into breaks that cannot be in doubt, such as a full stop behind a word that is no abbreviation. The model and
the regular expressions are those of the installed NLTK; texts with unusual white space go to NLTK itself. Tests hold the two equal,
text for text. A library would be our first choice; with it alone, a first start on 13,354 articles takes 1.3 times as long on two
cores.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

_REMEMBERED = 2**15  # doubtful breaks whose answers are kept: the same abbreviations and numbers meet the same words again
_CLOSING = (")", "]", "}", '"')  # no word of Punkt's holds any of them, so that a full stop behind one stands alone
# Unprintable, but alike to all regular expressions: white space, and marks of width and direction.
_WHITE = "\t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
_KNOWN = str.maketrans(dict.fromkeys(_WHITE + "\xad\u200b\u200c\u200d\u200e\u200f\ufeff"))


class Punkt:
    """Splits as the NLTK `tokenizer` of a model does, character for character.

    What is left to NLTK itself are breaks in doubt, each once, and texts with characters that its regular expressions may see
    otherwise than Python's.
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
        """The sentences of a text, most white space between them left out."""
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
        """Each character that may end a sentence, with the word before it; of several in one word the last."""
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
        """Whether a sentence ends at `end`, behind the word `before`."""
        if end[0] != ".":
            return True  # ? and ! always end one
        if before.isalpha():
            if len(before) > 1 and before.lower() not in self._doubtful:  # no abbreviation, no initial, no number
                return True
        elif before.endswith(_CLOSING):
            if "." not in self._doubtful:
                return True
        elif before.isascii() and before.isdecimal() and self._doubtful.isdisjoint(("0", before)):
            before = "0"  # all whole numbers are one word to Punkt
        return self._decided(f"{before}.{end['after_tok']}")

    def _with_quotes(self, text: str, begins: list[int], ends: list[int]) -> list[str]:
        """The sentences, quotes and brackets that a sentence begins with given to the one that they close."""
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
    """What is known of words, nothing of all others: NLTK's own table grows with every unknown word it is asked for."""

    def __missing__(self, word: str) -> int:
        return 0
