"""Scores of a fitted model, with what its task fits on held-out rows; and what is counted and guessed about a
pretraining run's rows without a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from encoderlab.baselines.pretraining import PairFeatures, pair_baselines, pair_features, token_baselines
from encoderlab.metrics import PredictionScores, Scores
from encoderlab.metrics.thresholds import DEFAULT
from encoderlab.runs.assembly import Assembly
from encoderlab.runs.document_corpus import DocumentCorpus
from encoderlab.runs.task import build_task, with_thresholds
from encoderlab.tasks.config import ClassificationConfig, TaskConfig
from encoderlab.tasks.sentence_rows import SentenceRows
from encoderlab.tasks.stream import StreamedRows, sample_of
from encoderlab.tasks.texts import threshold_rule
from encoderlab.training.batches import EVALUATION_SEED, Rows

SAMPLE = 20_000  # most pairs to fit and to score the baselines on
_AT_A_TIME = 10_000_000


def scores_of(assembly: Assembly, rows: Rows) -> PredictionScores:
    """Return the scores of a model that predicts labels or numbers, on all of `rows`."""
    scores = assembly.evaluate(rows)
    assert isinstance(scores, PredictionScores)
    return scores


def threshold_notes(task: TaskConfig, scores: Mapping[str, PredictionScores]) -> list[str]:
    """Return notes on a threshold that the settings of `task` request: how it was fitted, and which precision it
    missed.
    """
    if not isinstance(task, ClassificationConfig) or not isinstance(task.threshold, str):
        return []
    held_out = scores.get("validation")
    if not isinstance(held_out, Scores) or held_out.threshold is None:
        return [f"There is no validation split to fit task.threshold={task.threshold} on, so it is {DEFAULT}"]
    label, rule = held_out.positive_label, threshold_rule(task)
    requested = rule and rule.precision
    reached = held_out.per_class[str(label)]["precision"]
    notes = [
        f"The threshold of {label!r}, {held_out.threshold:.3f}, was fitted on validation "
        f"(task.threshold={task.threshold})"
    ]
    if requested is not None and reached < requested:
        notes.append(
            f"No threshold gives {label!r} a precision of {requested:g} on validation: the best has {reached:.3f}"
        )
    return notes


def score_splits(assembly: Assembly, rows: Mapping[str, Rows]) -> tuple[Assembly, dict[str, PredictionScores]]:
    """Return the scores of every split but `train`, and the assembly with the thresholds that were fitted on
    validation.

    They apply to the other splits and to the saved model. Without validation they are 0.5; a task without thresholds
    stays as it is.
    """
    held_out = scores_of(assembly, rows["validation"]) if "validation" in rows else None
    settings = with_thresholds(assembly.config.task, assembly.task.labels, held_out)
    task = build_task(settings, assembly.tokenizer, assembly.task.labels, assembly.task.max_length)
    assembly = replace(assembly, task=task, config=replace(assembly.config, task=settings))
    others = {name: scores_of(assembly, part) for name, part in rows.items() if name not in ("train", "validation")}
    return assembly, ({} if held_out is None else {"validation": held_out}) | others


def pair_facts(rows: SentenceRows, corpus: DocumentCorpus) -> dict[str, Any]:
    """Return how many documents, paragraphs, sentences and tokens training reads, and statistics of an epoch of its
    pairs.
    """
    drawn = rows.epoch(EVALUATION_SEED, 0)
    facts = {
        "documents": _distinct(rows.sentences.document),
        "paragraphs": _distinct(rows.sentences.paragraph),
        "sentences": len(rows.store),
        "tokens": int(rows.sentences.offsets[-1]),
        "pairs": len(rows),
        "mean_length": float(drawn.lengths.mean()),
        "truncated": rows.truncated_share(),
        "sentence_splitter": corpus.splitter.name,
    }
    if rows.paired:
        facts["labels"] = {name: int((drawn.pairs.labels == id_).sum()) for id_, name in enumerate(rows.task.labels)}
    return facts


def training_facts(rows: SentenceRows | StreamedRows, corpus: DocumentCorpus) -> dict[str, Any]:
    """Return what `pair_facts` counts in training rows; for a stream, in its first window, with the number
    of `shards`.
    """
    return pair_facts(sample_of(rows), corpus) | ({"shards": len(corpus.shards)} if corpus.shards else {})


def guessed_pairs(train: SentenceRows, scored: SentenceRows) -> dict[str, dict[str, float]]:
    """Return the accuracy of baselines that use only the labels' shares, common words, or lengths; {} without pairs."""
    return pair_baselines(_features(train), _features(scored)) if train.paired else {}


def guessed_tokens(train: SentenceRows, answers: np.ndarray) -> dict[str, dict[str, Any]]:
    """Return the scores of predicting by training's token frequencies alone; `answers` [targets] are the true ids."""
    tokenizer = train.task.tokenizer
    counts = np.zeros(tokenizer.vocabulary_size, dtype=np.int64)
    ids = train.store["input_ids"].values
    for start in range(0, len(ids), _AT_A_TIME):
        counts += np.bincount(ids[start : start + _AT_A_TIME], minlength=len(counts))
    counts[list(tokenizer.special_ids)] = 0
    found = token_baselines(counts, answers)
    found["most_frequent_token"]["token"] = tokenizer.pieces([found["most_frequent_token"]["token_id"]])[0]
    return found


def _features(rows: SentenceRows) -> PairFeatures:
    drawn = rows.epoch(EVALUATION_SEED, 0)
    sample = np.random.default_rng(0).permutation(len(rows))[:SAMPLE]
    first, second = zip(*drawn.texts(sample), strict=True)
    return pair_features(first, second, drawn.pairs.labels[sample])


def _distinct(rising: np.ndarray) -> int:
    """Return how many different numbers there are in an ascending column."""
    return int((np.diff(rising) != 0).sum()) + 1 if len(rising) else 0
