"""Documents as tokenised sentences: split by NLTK's Punkt, tokenised, and put into blocks by several processes.

Source: Kiss and Strunk, Unsupervised multilingual sentence boundary detection, Computational Linguistics 32(4), 2006.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import re
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from encoderlab.data.token_store import Block, id_type
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import SettingError
from encoderlab.system.messages import say
from encoderlab.tables.batches import grouped

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer


_PUNKT_TAB = (
    "cs czech, da danish, nl dutch, en english, et estonian, fi finnish, fr french, de german, el greek, it italian, "
    "ml malayalam, no norwegian, pl polish, pt portuguese, ru russian, sl slovene, es spanish, sv swedish, tr turkish"
)
LANGUAGES: dict[str, str] = dict(re.findall(r"(\w+) (\w+)", _PUNKT_TAB))  # those of punkt_tab, by their codes
_TRAINING_CHARACTERS = 5_000_000  # enough for all but rare abbreviations, in about 8 seconds


@dataclass(frozen=True, slots=True)
class SentenceSplitter:
    """Splits paragraphs into sentences."""

    tokenizer: PunktSentenceTokenizer
    name: str  # describes the model
    key: str  # its fingerprint, for the cache keys of its sentences

    def split(self, paragraph: str) -> list[str]:
        """Return the sentences in order, stripped and without empty ones; nothing but white space is lost."""
        sentences = map(str.strip, self.tokenizer.tokenize(paragraph))
        return [sentence for sentence in sentences if sentence]


def splitter_for(texts: Callable[[], Iterator[str]], language: str) -> SentenceSplitter:
    """Return the splitter of a language: its punkt_tab, if NLTK finds it.

    Otherwise Punkt is trained on the first 5 million characters of `texts`, with a line on standard error. Raises
    SettingError for a language that punkt_tab lacks.
    """
    from nltk.tokenize.punkt import PunktSentenceTokenizer, PunktTokenizer, PunktTrainer

    if language not in LANGUAGES.values():
        raise SettingError(f"task.language is {language!r}", allowed=", ".join(LANGUAGES.values()))
    try:
        tokenizer = PunktTokenizer(language)
        return SentenceSplitter(tokenizer, f"punkt_tab ({language})", _key(tokenizer._params))
    except (LookupError, OSError, ValueError):  # missing, half installed, or not readable
        name = "Punkt trained on this corpus"
    lacking = "NLTK's punkt_tab is not installed (python -m nltk.downloader punkt_tab)"
    say(f"{lacking}, so sentences are split with {name}")
    trainer = PunktTrainer()
    characters = 0
    for text in texts():
        text = text[: _TRAINING_CHARACTERS - characters]
        trainer.train(text, finalize=False)
        characters += len(text)
        if characters >= _TRAINING_CHARACTERS:
            break
    parameters = trainer.get_params()
    return SentenceSplitter(PunktSentenceTokenizer(parameters), name, _key(parameters))


def _key(parameters: PunktParameters) -> str:
    learned = (parameters.abbrev_types, parameters.collocations, parameters.sent_starters)
    parts = (*learned, parameters.ortho_context.items())
    return hashlib.sha256(repr([sorted(part) for part in parts]).encode()).hexdigest()[:16]


_CHARACTERS = 1_000_000  # per block, roughly: a tenth of a second of work
_FEW = 5  # blocks: one process finishes them before others could start
_MOST_WORKERS = 8  # one process cannot read fast enough for more
_IDLE_SECONDS = 5  # until an idle worker ends, because the process that sent it work was killed

Document = list[str]  # a list of paragraphs


@dataclass(frozen=True, slots=True)
class SentenceBlock:
    """The sentences of some documents; document and paragraph are numbered from the first of the block."""

    input_ids: np.ndarray  # of one sentence after the other
    lengths: np.ndarray  # [sentences], number of ids
    document: np.ndarray  # [sentences]
    paragraph: np.ndarray  # [sentences]
    documents: int  # how many there are
    paragraphs: int


Prepare = Callable[[list[Document]], SentenceBlock]  # `block_of` with all but the documents


def block_of(
    splitter: SentenceSplitter, tokenizer: Tokenizer, min_characters: int, min_sentences: int, documents: list[Document]
) -> SentenceBlock:
    """Return the sentences of some documents. Raises DataError if a text is not valid Unicode.

    Paragraphs shorter than `min_characters` or with fewer than `min_sentences` are skipped, and so are sentences
    without ids.
    """
    paragraphs = []
    for number, document in enumerate(documents):
        for paragraph in document:
            if len(paragraph) < min_characters:
                continue
            sentences = splitter.split(paragraph)
            if len(sentences) >= min_sentences:
                paragraphs.append((number, sentences))
    ids, lengths = tokenizer.encode_flat([sentence for _, sentences in paragraphs for sentence in sentences])
    counts = [len(sentences) for _, sentences in paragraphs]
    document = np.repeat(np.array([number for number, _ in paragraphs], np.int64), counts)
    paragraph = np.repeat(np.arange(len(paragraphs)), counts)
    kept = lengths > 0
    return SentenceBlock(ids, lengths[kept], document[kept], paragraph[kept], len(documents), len(paragraphs))


def by_size(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Group the documents into lists of about a million characters each."""
    return grouped(documents, lambda document: sum(map(len, document)), _CHARACTERS)


def in_columns(blocks: Iterable[SentenceBlock], vocabulary_size: int) -> tuple[dict[str, str], Iterator[Block]]:
    """Return the columns of a store of sentences (name: dtype) and their numbers: the ids of each sentence, and which
    document and paragraph it is from, counted through all blocks.
    """
    types = {"input_ids": id_type(vocabulary_size), "document": "uint32", "paragraph": "uint32"}

    def numbered() -> Iterator[Block]:
        documents = paragraphs = 0
        for block in blocks:
            ones = np.ones(len(block.lengths), np.int64)
            yield {
                "input_ids": (block.input_ids.astype(types["input_ids"], copy=False), block.lengths),
                "document": ((block.document + documents).astype(types["document"]), ones),
                "paragraph": ((block.paragraph + paragraphs).astype(types["paragraph"]), ones),
            }
            documents = documents + block.documents
            paragraphs = paragraphs + block.paragraphs

    return types, numbered()


def prepared(documents: Iterable[Document], prepare: Prepare) -> Iterator[SentenceBlock]:
    """Yield the blocks of the documents in order, made by several processes if there are many.

    They are the same for any number of processes, and only a few are in memory at once.
    """
    from encoderlab.system.device import available_cores  # PyTorch, which workers do without

    groups = by_size(documents)
    first = list(islice(groups, _FEW))
    workers = min(available_cores(), _MOST_WORKERS)
    if len(first) < _FEW or workers == 1 or multiprocessing.parent_process():  # workers of a sweep share the cores
        yield from map(prepare, chain(first, groups))
        return
    from joblib.externals.loky import get_reusable_executor

    own = {"PYTHONSAFEPATH": "1", "TOKENIZERS_PARALLELISM": "false"}  # they import nothing from the current folder
    pool = get_reusable_executor(workers, timeout=_IDLE_SECONDS, initializer=_start, initargs=(prepare,), env=own)
    waiting = deque()
    try:
        for group in chain(first, groups):
            waiting.append(pool.submit(_prepare, group))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(kill_workers=bool(waiting))


_worker: list[Prepare] = []  # of a worker process


def _start(prepare: Prepare) -> None:
    """Set a worker up. Signals are left to the process that distributes the work."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    _worker[:] = [prepare]


def _prepare(documents: list[Document]) -> SentenceBlock:
    return _worker[0](documents)
