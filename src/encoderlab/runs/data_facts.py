"""Facts about a dataset before training: counts, lengths in tokens, tokens per word, odd rows, examples."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from encoderlab.data.examples import Example, Split, WordsExample, in_lists
from encoderlab.data.survey import PATTERNS, Oddity, odd_rows
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.document_corpus import DocumentCorpus
from encoderlab.runs.score import pair_facts, training_facts
from encoderlab.runs.task import build_task
from encoderlab.tasks.config import TaskConfig
from encoderlab.tasks.sentence_rows import DocumentTask, SentenceEpoch, SentenceRows
from encoderlab.tasks.task import Task
from encoderlab.training.batches import EVALUATION_SEED

COUNTED_ROWS = 100_000  # per split, spread evenly, to count tokens of: more would not change the figures shown
COUNTED_WORDS = 200_000
ODD_SHOWN = 3  # of each kind
MOST_CHARACTERS = 300  # of each text shown
MOST_PIECES = 60
CHARACTERS_BEFORE = 30  # shown before what is odd in a text
WHOLE = sys.maxsize  # a length that truncates nothing
_AT_A_TIME = 1000
_QUANTILES = {"min": 0, "median": 50, "p90": 90, "p95": 95, "p99": 99, "max": 100}


def example_facts(
    corpus: Corpus, config: TaskConfig, tokenizer: Tokenizer, max_length: int, examples: int
) -> dict[str, Any]:
    """Return the facts of labelled rows, by split, with this many `examples` of each.

    For each split: what `Survey.as_dict()` counts; `tokens` from `_lengths`; `odd_rows`, a count and the first places
    of each kind; `examples`. Raises DataError if the rows are not of the task's kind, SettingError if `max_length` has
    no room for a token.
    """
    task = build_task(config, tokenizer, corpus.labels, max_length)
    whole = build_task(config, tokenizer, corpus.labels, WHOLE)
    by_name, odd = corpus.splits.by_name, odd_rows(corpus.splits.by_name)
    splits = {
        name: {
            **counted,
            "tokens": _lengths(_token_lengths(by_name[name], whole), max_length),
            "odd_rows": [_odd(oddity, by_name, name) for oddity in odd[name]],
            "examples": [_example(by_name[name], row, task) for row in _spread(len(by_name[name]), examples)],
        }
        for name, counted in corpus.survey.as_dict().items()
    }
    shared = {"task": config.name, "origin": corpus.splits.origin, "labels": corpus.labels, "max_length": max_length}
    return {**shared, "pieces": _pieces(tokenizer, corpus), "splits": splits}


def document_facts(
    corpus: DocumentCorpus, task: DocumentTask, rows: Mapping[str, SentenceRows], examples: int
) -> dict[str, Any]:
    """Return the facts of documents, by split: what `pair_facts` counts, the lengths of an epoch's rows in tokens, and
    examples.
    """
    splits = {}
    for name, part in rows.items():
        drawn = part.epoch(EVALUATION_SEED, 0)
        first, second = drawn.tokens(slice(None))
        lengths = first + second + (task.max_length - part.room)
        shown = [_pair(drawn, row) for row in _spread(len(part), examples)]
        counted = training_facts(part, corpus) if name == "train" else pair_facts(part, corpus)
        splits[name] = {**counted, "tokens_of_a_row": _lengths(lengths, task.max_length), "examples": shown}
    shared = {"task": task.config.name, "origin": corpus.documents.origin, "max_length": task.max_length}
    return {**shared, "pieces": _pieces(task.tokenizer, corpus), "splits": splits}


def _pieces(tokenizer: Tokenizer, corpus: Corpus | DocumentCorpus) -> dict[str, Any] | None:
    """Return how the first training words are tokenized; None if there are none.

    `whole_words` is the share of words that are one known token, at the start of a text or after a blank, and
    `unknown_pieces` the share of tokens that the vocabulary does not know.
    """
    counts: Counter[str] = Counter()
    pieces = unknown = 0
    for texts in in_lists(_counted_texts(corpus), _AT_A_TIME):
        if counts.total() >= COUNTED_WORDS:
            break
        counts.update(word for text in texts for word in text.split())
        for ids in tokenizer.encode(texts):
            pieces += len(ids)
            unknown += ids.count(tokenizer.unk_id)
    words = list(counts)
    spellings = zip(words, tokenizer.encode(words), tokenizer.encode([f" {word}" for word in words]), strict=True)
    whole = {word for word, *ways in spellings if any(len(ids) == 1 and ids[0] != tokenizer.unk_id for ids in ways)}
    if not words:
        return None
    return {
        "vocabulary_size": tokenizer.vocabulary_size,
        "pieces_per_word": pieces / counts.total(),
        "whole_words": sum(counts[word] for word in whole) / counts.total(),
        "unknown_pieces": unknown / max(pieces, 1),
    }


def _counted_texts(corpus: Corpus | DocumentCorpus) -> Iterator[str]:
    """Yield the training texts; for sequences of words, each word, because each is tokenized on its own."""
    if isinstance(corpus, Corpus) and isinstance(next(iter(corpus.split("train")), None), WordsExample):
        return (word for example in corpus.split("train").of_words() for word in example.words)
    return corpus.training_texts()


def _token_lengths(split: Split, task: Task) -> np.ndarray:
    """Return the number of tokens of each row, with special ones, as `task` encodes it; for at most COUNTED_ROWS,
    spread evenly.
    """
    counted = split if len(split) <= COUNTED_ROWS else split.take(_spread(len(split), COUNTED_ROWS))
    examples, lengths = list(counted), []
    for start in range(0, len(examples), _AT_A_TIME):
        lengths += [len(one.input_ids) for one in task.encode(examples[start : start + _AT_A_TIME])]
    return np.array(lengths, np.int64)


def _lengths(lengths: np.ndarray, max_length: int) -> dict[str, Any]:
    """Return quantiles of lengths in tokens before truncation, the share above `max_length`, and how many rows were
    `counted`.
    """
    if not len(lengths):
        return {"counted": 0, "truncated": 0.0}
    quantiles = {name: float(np.percentile(lengths, percent)) for name, percent in _QUANTILES.items()}
    truncated = float((lengths > max_length).mean())
    return {"counted": len(lengths), **quantiles, "mean": float(lengths.mean()), "truncated": truncated}


def _spread(total: int, wanted: int) -> list[int]:
    """Return `wanted` of the rows 0 to `total`, spread evenly; all if there are no more."""
    return np.linspace(0, total - 1, wanted).round().astype(int).tolist() if wanted < total else list(range(total))


def _odd(oddity: Oddity, by_name: Mapping[str, Split], name: str) -> dict[str, Any]:
    split, other = by_name[name], by_name[oddity.like_split or name]
    shown = []
    for place, row in enumerate(oddity.rows[:ODD_SHOWN].tolist()):
        found = {"where": split.where(row), "text": _around(_text_of(split[row]), oddity.kind)}
        shown.append(found if oddity.like is None else found | {"like": other.where(int(oddity.like[place]))})
    return {"kind": oddity.kind, "count": len(oddity.rows), "first": shown}


def _example(split: Split, row: int, task: Task) -> dict[str, Any]:
    example = split[row]
    ids = task.encode([example])[0].input_ids
    return {
        "where": split.where(row),
        "label": _label_of(example, task.labels),
        "text": _shortened(_text_of(example)),
        "pieces": task.tokenizer.pieces(ids[:MOST_PIECES]),
        "tokens": len(ids),
    }


def _pair(drawn: SentenceEpoch, row: int) -> dict[str, Any]:
    """Return a pretraining row before masking: the tokens of its texts, and the label of the pair."""
    tokenizer, labels = drawn.rows.task.tokenizer, drawn.rows.task.labels
    texts = drawn.texts(np.array([row]))[0]
    pieces = [tokenizer.pieces(ids[:MOST_PIECES]) for ids in (texts if drawn.paired else texts[:1])]
    return {"label": labels[int(drawn.pairs.labels[row])] if drawn.paired else None, "pieces": pieces}


def _text_of(example: Example) -> str:
    if isinstance(example, WordsExample):
        return " ".join(example.words)
    return example.text if example.text_pair is None else f"{example.text} | {example.text_pair}"


def _label_of(example: Example, labels: Sequence[str]) -> str | None:
    if isinstance(example, WordsExample):
        return None if example.labels is None else _shortened(" ".join(labels[one] for one in example.labels))
    if isinstance(example.label, tuple):
        return _shortened(", ".join(labels[one] for one in example.label) or "no label applies")
    if isinstance(example.label, float):
        return f"{example.label:.6g}"
    return None if example.label is None else labels[example.label]


def _around(text: str, kind: str) -> str:
    """Return the part of a text with its odd characters, if that is what is odd; otherwise its beginning."""
    found = re.search(PATTERNS[kind], text) if kind in PATTERNS else None
    before = max(found.start() - CHARACTERS_BEFORE, 0) if found else 0
    return _shortened(f"...{text[before:]}" if before else text)


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."
