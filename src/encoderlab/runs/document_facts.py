"""Facts about rows of documents, and what guessing scores on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from encoderlab.data.documents import Documents
from encoderlab.tasks.sentence_rows import SentenceRows
from encoderlab.tasks.stream import StreamedRows, sample_of
from encoderlab.training.batches import EVALUATION_SEED

_AT_A_TIME = 10_000_000  # tokens


def pair_facts(rows: SentenceRows | StreamedRows, data: Documents) -> dict[str, Any]:
    """Return how many documents, sentences and so on `rows` have, and statistics of their pairs; for a stream, of its
    first window, with the number of `shards`.
    """
    streamed = isinstance(rows, StreamedRows)
    rows = sample_of(rows)
    drawn = rows.epoch(EVALUATION_SEED, 0)
    facts: dict[str, Any] = {
        "documents": _distinct(rows.sentences.document),
        "paragraphs": _distinct(rows.sentences.paragraph),
        "sentences": len(rows.store),
        "tokens": int(rows.sentences.offsets[-1]),
        "pairs": len(rows),
        "mean_length": float(drawn.lengths.mean()),
        "truncated": rows.truncated_share(),
        "sentence_splitter": data.sentence_reader.splitter.name,
    }
    if rows.paired:
        facts["labels"] = {name: int((drawn.pairs.labels == id_).sum()) for id_, name in enumerate(rows.task.labels)}
    if streamed and data.stream is not None:
        facts["shards"] = len(data.stream.shards)
    return facts


def guessed_pairs(train: SentenceRows, scored: SentenceRows) -> dict[str, dict[str, float]]:
    """Return the accuracy of always predicting the more frequent label of training; {} without pairs."""
    if not train.paired:
        return {}
    labels, target_labels = (rows.epoch(EVALUATION_SEED, 0).pairs.labels for rows in (train, scored))
    return {"majority": {"nsp_accuracy": float((np.bincount(labels).argmax() == target_labels).mean())}}


def guessed_tokens(train: SentenceRows, target_labels: np.ndarray) -> dict[str, dict[str, Any]]:
    """Return the scores of predicting by training's token counts alone; `target_labels` [targets] are the true ids.

    `most_frequent_token` always predicts the same id; `unigram` gives every id its share of the training tokens, after
    adding one to each count (Laplace) so that none is impossible. Its `mlm_loss` is in nats per token.
    """
    tokenizer = train.task.tokenizer
    counts = np.zeros(tokenizer.vocabulary_size, dtype=np.int64)
    ids = train.store["input_ids"].values
    for start in range(0, len(ids), _AT_A_TIME):
        counts += np.bincount(ids[start : start + _AT_A_TIME], minlength=len(counts))
    counts[list(tokenizer.special_ids)] = 0
    most_frequent = int(counts.argmax())
    loss = float(-np.log((counts + 1) / (counts.sum() + len(counts)))[target_labels].mean())
    return {
        "most_frequent_token": {
            "mlm_accuracy": float((target_labels == most_frequent).mean()),
            "token_id": most_frequent,
            "token": tokenizer.pieces([most_frequent])[0],
        },
        "unigram": {"mlm_loss": loss, "mlm_perplexity": float(np.exp(loss))},
    }


def _distinct(rising: np.ndarray) -> int:
    """Return how many different numbers there are in an ascending column."""
    return int((np.diff(rising) != 0).sum()) + 1 if len(rising) else 0
