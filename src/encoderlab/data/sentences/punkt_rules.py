"""What Punkt knows of a language, and how it tells a full stop that ends a sentence from one that belongs to its word."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

_SENTENCE_ENDS = frozenset(".?!")
_PUNCTUATION = frozenset(";:,.!?")  # no sentence begins with one
_NUMBER = "##number##"  # the word that every number is
_NUMERIC = re.compile(r"-?[.,]?\d[\d,.-]*")
# How a word was met in training, as NLTK writes it: a bit for each place (a sentence's beginning, inside, unknown) and case.
_UPPER_INSIDE = 1 << 2
_UPPER = 1 << 1 | _UPPER_INSIDE | 1 << 3
_LOWER_BEGINNING = 1 << 4
_LOWER = _LOWER_BEGINNING | 1 << 5 | 1 << 6


@dataclass(frozen=True, slots=True)
class PunktModel:
    """What Punkt has learned, and the regular expressions of the installed NLTK, none of which needs NLTK to be used or pickled.

    `abbreviations` and the first words of `collocations` are without their full stops; `starters` are words that often begin a
    sentence; `contexts` says how words were met. `ends` finds what may end a sentence, `words` the words, `quotes` what closes a
    sentence behind its end.
    """

    abbreviations: frozenset[str]
    collocations: frozenset[tuple[str, str]]
    starters: frozenset[str]
    contexts: dict[str, int]
    ends: str
    words: str
    quotes: str

    @classmethod
    def of(cls, tokenizer: PunktSentenceTokenizer) -> PunktModel:
        """The model of an NLTK tokenizer."""
        learned, language = tokenizer._params, tokenizer._lang_vars
        return cls(
            frozenset(learned.abbrev_types),
            frozenset(learned.collocations),
            frozenset(learned.sent_starters),
            dict(learned.ortho_context),
            language.period_context_re().pattern,
            language._word_tokenizer_re().pattern,
            language.re_boundary_realignment.pattern,
        )

    def nltk_tokenizer(self) -> PunktSentenceTokenizer:
        """NLTK's tokenizer of this model."""
        from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

        learned = PunktParameters()
        learned.abbrev_types, learned.collocations = set(self.abbreviations), set(self.collocations)
        learned.sent_starters, learned.ortho_context = set(self.starters), cast("Any", _Contexts(self.contexts))
        return PunktSentenceTokenizer(learned)


class _Contexts(dict[str, int]):
    """What is known of words, nothing of all others: NLTK's own table grows with every unknown word it is asked for."""

    def __missing__(self, word: str) -> int:
        return 0


class PunktRules:
    """The classification of Kiss and Strunk (2006), section 4, in the form that NLTK gave it."""

    def __init__(self, model: PunktModel) -> None:
        self._model = model

    def ends_sentence(self, word: str, following: str) -> bool:
        """Whether a sentence ends behind `word`, which has its punctuation at its end."""
        if not word.endswith("."):
            return word in _SENTENCE_ENDS
        bare, next_type = _without_stop(_type(word)), self._type_at_beginning(following)
        if (bare, next_type) in self._model.collocations:
            return False
        initial = len(word) == 2 and (word[0].isalpha() or word[0] == "_")
        begins = self._begins_sentence(following, next_type)
        starts = begins or (following[0].isupper() and next_type in self._model.starters)
        if (self._is_abbreviation(word) or _is_ellipsis(word)) and not initial and starts:
            return True
        if initial or bare == _NUMBER:
            never_lower = following[0].isupper() and not self._model.contexts.get(next_type, 0) & _LOWER
            if begins is False or (begins is None and initial and never_lower):
                return False
        return self._first_guess(word)

    def _first_guess(self, word: str) -> bool:
        """What the word alone tells: a full stop ends a sentence unless it is an abbreviation's or one of several."""
        return word in _SENTENCE_ENDS or (word.endswith(".") and not word.endswith("..") and not self._is_abbreviation(word))

    def _is_abbreviation(self, word: str) -> bool:
        if word in _SENTENCE_ENDS or word.endswith(".."):
            return False
        bare = word[:-1].lower()
        return bare in self._model.abbreviations or bare.rpartition("-")[2] in self._model.abbreviations

    def _type_at_beginning(self, word: str) -> str:
        """The word's type, without its full stop where that seems to end a sentence."""
        return _without_stop(_type(word)) if self._first_guess(word) else _type(word)

    def _begins_sentence(self, word: str, type_: str) -> bool | None:
        """Whether the word's case tells that a sentence begins with it; None where it does not tell (section 4.1.1)."""
        if word in _PUNCTUATION:
            return False
        met = self._model.contexts.get(type_, 0)
        if word[0].isupper() and met & _LOWER and not met & _UPPER_INSIDE:
            return True
        if word[0].islower() and (met & _UPPER or not met & _LOWER_BEGINNING):
            return False
        return None


def _type(word: str) -> str:
    """The word in lower case; all numbers are one type."""
    return _NUMBER if _NUMERIC.fullmatch(word) else word.lower()


def _without_stop(type_: str) -> str:
    return type_[:-1] if len(type_) > 1 and type_.endswith(".") else type_


def _is_ellipsis(word: str) -> bool:
    return len(word) > 1 and not word.strip(".")
