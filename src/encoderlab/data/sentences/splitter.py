"""Splits paragraphs into sentences: NLTK's Punkt, with the model of the language or, if there is none, one trained on
the corpus.

Source: Kiss and Strunk, Unsupervised multilingual sentence boundary detection, Computational Linguistics 32(4), 2006.
"""

from __future__ import annotations

import hashlib
import io
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from encoderlab.data.sentences.punkt import Punkt
from encoderlab.errors import SettingError, closest

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktParameters, PunktTokenizer

LANGUAGES = (  # of punkt_tab
    "czech",
    "danish",
    "dutch",
    "english",
    "estonian",
    "finnish",
    "french",
    "german",
    "greek",
    "italian",
    "malayalam",
    "norwegian",
    "polish",
    "portuguese",
    "russian",
    "slovene",
    "spanish",
    "swedish",
    "turkish",
)
TRAINING_CHARACTERS = 5_000_000  # enough for all but rare abbreviations, in about 8 seconds
_FETCHING_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class SentenceSplitter:
    """Splits paragraphs into sentences.

    `name` describes the model; `key` is its fingerprint, for the cache keys of its sentences.
    """

    tokenizer: Punkt
    name: str
    key: str

    def split(self, paragraph: str) -> list[str]:
        """Return the sentences in order, stripped and without empty ones; nothing but white space is lost."""
        return [stripped for sentence in self.tokenizer.tokenize(paragraph) if (stripped := sentence.strip())]


def splitter_for(texts: Callable[[], Iterator[str]], language: str) -> SentenceSplitter:
    """Return the splitter of a language: its punkt_tab, downloaded if it is not installed.

    If the download fails within 10 seconds, Punkt is trained on the first 5 million characters of `texts`, with a line
    on standard error. Raises SettingError for a language that punkt_tab lacks.
    """
    if language not in LANGUAGES:
        near = closest(language, LANGUAGES)
        remedy = f"Set task.language={near}" if near else ""
        raise SettingError(f"task.language is {language!r}", allowed=", ".join(LANGUAGES), remedy=remedy)
    tokenizer = _installed(language)
    if tokenizer is None:
        _fetch()
        tokenizer = _installed(language)
    if tokenizer is not None:
        return SentenceSplitter(Punkt(tokenizer), f"punkt_tab ({language})", _key(tokenizer._params))
    return _trained(texts(), language)


def _installed(language: str) -> PunktTokenizer | None:
    """Return the tokenizer from NLTK's own data folders (including NLTK_DATA), from tables of text and never from
    pickles.
    """
    from nltk.tokenize.punkt import PunktTokenizer

    try:
        return PunktTokenizer(language)
    except (LookupError, OSError, ValueError):  # missing, half installed, or not readable
        return None


def _fetch() -> None:
    """Let NLTK download punkt_tab to its own folder, if that takes no longer than 10 seconds.

    It runs in a daemon thread, because NLTK waits two minutes for a server that does not answer.
    """
    thread = threading.Thread(target=_download, daemon=True)
    thread.start()
    thread.join(_FETCHING_SECONDS)


def _download() -> None:
    from nltk.downloader import Downloader

    try:
        Downloader().download("punkt_tab", quiet=True, print_error_to=io.StringIO())
    except Exception:  # whatever goes wrong, Punkt can be trained on the corpus instead
        return


def _trained(texts: Iterator[str], language: str) -> SentenceSplitter:
    from nltk.tokenize.punkt import PunktSentenceTokenizer, PunktTrainer

    name = "Punkt trained on this corpus"
    print(
        f"NLTK's punkt_tab ({language}) is not installed and cannot be downloaded. Sentences are split with {name}",
        file=sys.stderr,
    )
    trainer, characters = PunktTrainer(), 0
    for text in texts:
        text = text[: TRAINING_CHARACTERS - characters]
        trainer.train(text, finalize=False)
        characters += len(text)
        if characters >= TRAINING_CHARACTERS:
            break
    parameters = trainer.get_params()
    return SentenceSplitter(Punkt(PunktSentenceTokenizer(parameters)), name, _key(parameters))


def _key(parameters: PunktParameters) -> str:
    learned = (
        parameters.abbrev_types,
        parameters.collocations,
        parameters.sent_starters,
        parameters.ortho_context.items(),
    )
    return hashlib.sha256(repr([sorted(part) for part in learned]).encode()).hexdigest()[:16]
