"""Which scripts texts are written in and, with py3langid (Lui and Baldwin 2012, "langid.py"), in which languages.

A short text may be about equally likely in several languages, so a language counts only if it is likelier than all
others together: see benchmarks/results/languages.md.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

UNCLEAR = "und"  # ISO 639's code for undetermined
LEAST_PROBABILITY = 0.5
MOST_CHARACTERS = 500  # of a text that are read
NO_LANGUAGE = "zxx"  # py3langid's name for numbers, markup and the like
# The first words of Unicode's names of letters, where they are not the name of the script.
NAMES = {"CJK": "Han", "HIRAGANA": "Japanese", "KATAKANA": "Japanese"}


def languages(texts: Iterable[str]) -> dict[str, float] | None:
    """Return the share of texts in each language by its ISO 639 code, the largest first; None without py3langid."""
    if find_spec("py3langid") is None:
        return None
    identifier = _identifier()

    def language(text: str) -> str:
        name, probability = identifier.classify(text)
        return UNCLEAR if name == NO_LANGUAGE or probability < LEAST_PROBABILITY else name

    return _shares(language(text[:MOST_CHARACTERS]) for text in texts)


@cache
def _identifier() -> Any:
    """Return py3langid's model, which comes with it; its probabilities of all languages sum to 1."""
    langid = import_module("py3langid.langid")
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)


def scripts(texts: Iterable[str]) -> dict[str, float]:
    """Return the share of texts in each script, such as Latin, the largest first: that of most letters of a text."""
    return _shares(_script(text[:MOST_CHARACTERS]) for text in texts)


def _script(text: str) -> str:
    letters = filter(str.isalpha, unicodedata.normalize("NFKC", text))  # without mathematical and full-width variants
    firsts = (unicodedata.name(letter, "").partition(" ")[0] for letter in letters)
    counts = Counter(NAMES.get(first, first.capitalize()) for first in firsts if first)
    if not counts:
        return UNCLEAR
    if counts["Japanese"]:  # which is also written with Chinese characters
        counts["Japanese"] += counts.pop("Han", 0)
    return counts.most_common(1)[0][0]


def _shares(names: Iterable[str]) -> dict[str, float]:
    counts = Counter(names)
    return {name: n / counts.total() for name, n in counts.most_common()}
