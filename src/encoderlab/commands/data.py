"""encoderlab data: what a dataset contains, how long its texts are, how they are tokenized, and which rows are odd."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from encoderlab.config.commands import DataConfig, TableFormat
from encoderlab.data.examples import Example, Split, WordsExample, in_lists, text_of
from encoderlab.data.survey import Oddity, odd_rows
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import SettingError
from encoderlab.reports.blocks import json_safe
from encoderlab.reports.facts import show_rows
from encoderlab.runs.assembly import resolve_length
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.task import build_task, resolve_task
from encoderlab.tasks.config import DocumentTaskConfig
from encoderlab.tasks.task import Task

COUNTED_ROWS = 100_000  # per split, spread evenly, to count tokens of: more would not change the numbers shown
COUNTED_WORDS = 200_000
ODD_SHOWN = 3  # of each kind
MOST_CHARACTERS = 300  # of each text shown
MOST_PIECES = 60
WHOLE = sys.maxsize  # a length that truncates nothing
_AT_A_TIME = 1000
_QUANTILES = {"min": 0, "median": 50, "p90": 90, "p95": 95, "p99": 99, "max": 100}


def data(config: DataConfig) -> None:
    """Print the facts of the dataset. Raises DataError if it cannot be read as the task needs, SettingError."""
    if isinstance(config.task, DocumentTaskConfig):
        remedy = "Run encoderlab pretrain dry_run=true, which prints the facts of documents"
        raise SettingError(f"task={config.task.name} has no labelled rows", remedy=remedy)
    facts = _facts(config)
    if config.format is TableFormat.json:
        print(json.dumps(json_safe(facts), indent=2, ensure_ascii=False))
    else:
        show_rows(facts, sys.stdout)


def _facts(config: DataConfig) -> dict[str, Any]:
    """Return the facts of labelled rows by split: counts, lengths in tokens, odd rows, examples."""
    corpus = Corpus.load(config.dataset, config.cache, config.task.target)
    tokenizer = config.tokenizer.build(corpus.training_texts, corpus.cache)
    settled = resolve_task(config.task, corpus)
    reach = resolve_length(config.model.resolve(None), settled, tokenizer, corpus).reach
    task = build_task(settled, tokenizer, corpus.labels, reach)
    whole = build_task(settled, tokenizer, corpus.labels, WHOLE)
    by_name, odd = corpus.splits.by_name, odd_rows(corpus.splits.by_name)
    splits = {
        name: {
            **counted,
            "tokens": _lengths(by_name[name], whole, reach),
            "odd_rows": [_odd(oddity, by_name, name) for oddity in odd[name]],
            "examples": [_example(by_name[name], row, task) for row in _spread(len(by_name[name]), config.examples)],
        }
        for name, counted in corpus.description()["splits"].items()
    }
    shared = {"task": settled.name, "origin": corpus.splits.origin, "labels": corpus.labels, "max_length": reach}
    return {**shared, "pieces": _pieces(tokenizer, corpus), "splits": splits}


def _pieces(tokenizer: Tokenizer, corpus: Corpus) -> dict[str, Any] | None:
    """Return how the first training words are tokenized, and the share of unknown tokens; None without words."""
    words = pieces = unknown = 0
    train = corpus.split("train")  # of sequences of words, each is tokenized on its own
    of_words = (word for example in train.of_words() for word in example.words)
    for texts in in_lists(of_words if train.holds_words else corpus.training_texts(), _AT_A_TIME):
        if words >= COUNTED_WORDS:
            break
        words += sum(len(text.split()) for text in texts)
        ids, _ = tokenizer.encode_flat(texts)
        pieces, unknown = pieces + len(ids), unknown + int((ids == tokenizer.unk_id).sum())
    if not words:
        return None
    shares = {"pieces_per_word": pieces / words, "unknown_pieces": unknown / max(pieces, 1)}
    return {"vocabulary_size": tokenizer.vocabulary_size, **shares}


def _lengths(split: Split, task: Task, max_length: int) -> dict[str, Any]:
    """Return quantiles of the lengths in tokens, with special ones and before truncation, and the share above
    `max_length`; `counted` are at most COUNTED_ROWS rows, spread evenly.
    """
    counted = split.evenly(COUNTED_ROWS)
    lengths = np.array([len(one.input_ids) for some in in_lists(counted, _AT_A_TIME) for one in task.encode(some)], int)
    if not len(lengths):
        return {"counted": 0, "truncated": 0.0}
    quantiles = {name: float(np.percentile(lengths, percent)) for name, percent in _QUANTILES.items()}
    truncated = float((lengths > max_length).mean())
    return {"counted": len(lengths), **quantiles, "mean": float(lengths.mean()), "truncated": truncated}


def _odd(oddity: Oddity, by_name: Mapping[str, Split], name: str) -> dict[str, Any]:
    split, other = by_name[name], by_name[oddity.like_split or name]
    shown = []
    for place, row in enumerate(oddity.rows[:ODD_SHOWN].tolist()):
        facts = {"where": split.where(row), "text": _shortened(text_of(split[row]))}
        shown.append(facts if oddity.like is None else facts | {"like": other.where(int(oddity.like[place]))})
    return {"kind": oddity.kind, "count": len(oddity.rows), "first": shown}


def _spread(total: int, count: int) -> list[int]:
    """Return `count` of the rows 0 to `total`, spread evenly; all if there are no more."""
    return np.linspace(0, total - 1, count).round().astype(int).tolist() if count < total else list(range(total))


def _example(split: Split, row: int, task: Task) -> dict[str, Any]:
    example = split[row]
    ids = task.encode([example])[0].input_ids
    return {
        "where": split.where(row),
        "label": _label_of(example, task.labels),
        "text": _shortened(text_of(example)),
        "pieces": task.tokenizer.pieces(ids[:MOST_PIECES]),
        "tokens": len(ids),
    }


def _label_of(example: Example, labels: Sequence[str]) -> str | None:
    if isinstance(example, WordsExample):
        return None if example.labels is None else _shortened(" ".join(labels[one] for one in example.labels))
    if isinstance(example.label, tuple):
        return _shortened(", ".join(labels[one] for one in example.label) or "no label applies")
    if isinstance(example.label, float):
        return f"{example.label:.6g}"
    return None if example.label is None else labels[example.label]


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."
