"""How an 8-bit graph differs from its model: both predict the same rows, a few batches in turn, before the graph is
written.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import cast

import numpy as np
import torch

from encoderlab.batch import Batch, Prediction
from encoderlab.data.examples import Example
from encoderlab.errors import DataError, UserError
from encoderlab.metrics import AnswerScores
from encoderlab.metrics.scores import is_lower_better
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.runs.assembly import Assembly, own_dataset
from encoderlab.runs.corpora.corpus import Corpus
from encoderlab.runs.inference.inputs import encoded_rows, example_of, reads_words
from encoderlab.runs.models.compact_model import SENTENCES
from encoderlab.runs.models.graph_model import GraphModel
from encoderlab.system.signals import stop_if_interrupted
from encoderlab.tasks.task import Answer
from encoderlab.training.evaluation import predict_batches

MOST_ROWS = 5000  # of a split, evenly spaced: half a point of accuracy is 25 of them
LARGEST_LOSS = 0.01  # in the main score, in addition to chance
CHANCE = 2.0  # standard errors
IN_TURN = 32  # batches that one side predicts before the other does


@dataclass(frozen=True, slots=True)
class Int8Check:
    """The result on `rows` of `split`; if that is "", on a few sentences without labels, for the reason in `unscored`.

    `agreement` is the share of equal predictions, of texts or of words (None for numbers); `change` is the largest
    change of a probability or a number. `before` and `after` are the main `score` (None: not scored);
    `texts_per_second` is the speed of the 32-bit model and of the graph, on `threads`.
    """

    rows: int
    split: str
    unscored: str
    agreement: float | None
    change: float
    score: str
    before: float | None
    after: float | None
    texts_per_second: tuple[float, float]
    threads: int


def check_int8(assembly: Assembly, graph: Path, cache: Path) -> Int8Check:
    """Compare both on the split that the run's report scores. Raises DataError if the score falls by more than
    LARGEST_LOSS.
    """
    examples, split, unscored = _rows_to_compare(assembly, cache)
    quantized = replace(assembly, model=cast("EncoderWithHeads", GraphModel(graph, assembly.model)))
    sides = (_Side(assembly, bool(split)), _Side(quantized, bool(split)))
    batches = assembly.scoring_batches(encoded_rows(assembly, examples))
    while some := list(islice(batches, IN_TURN)):
        stop_if_interrupted()
        for side in sides:
            side.add(some)
    check = _compared(*sides, len(examples), split, unscored)
    _refuse_loss(check, sides[0])
    return check


class _Side:
    """One of the two models, with its predictions so far."""

    def __init__(self, assembly: Assembly, scored: bool) -> None:
        self.assembly, self.scored, self.seconds = assembly, scored, 0.0
        self.metrics, self.answers = assembly.task.metrics(), {}

    def predict(self, batch: Batch) -> Prediction:
        with torch.inference_mode():
            return self.assembly.model(batch)

    def add(self, batches: Sequence[Batch]) -> None:
        if not self.answers:
            self._all(batches[:2])  # a warm-up, which is not timed
        started = time.perf_counter()
        found = self._all(batches)
        self.seconds += time.perf_counter() - started
        for batch, prediction in found:
            if self.scored:
                self.metrics.add(prediction, batch)
            self.answers.update(zip(batch.rows.tolist(), self.assembly.task.answers(prediction, batch), strict=True))

    def _all(self, batches: Sequence[Batch]) -> list[tuple[Batch, Prediction]]:
        return list(predict_batches(batches, self.predict, self.assembly.compute))

    def score(self) -> tuple[str, float | None]:
        """Return name and value of the main metric."""
        if not self.scored:
            return "", None
        scores = self.metrics.scores()
        assert isinstance(scores, AnswerScores)
        return scores.main, scores.figures[scores.main]


def _compared(before: _Side, after: _Side, rows: int, split: str, unscored: str) -> Int8Check:
    """Return the comparison. Raises DataError if a prediction is not finite."""
    pairs = [(before.answers[row], after.answers[row]) for row in before.answers]
    if before.assembly.task.heads.sequence_target == "label_set":  # a prediction is the whole set
        same = [one.labels == other.labels for one, other in pairs]
    else:
        same = [mine == its for one, other in pairs for mine, its in zip(one.labels, other.labels, strict=True)]
    change = float(np.max([_change(*pair) for pair in pairs], initial=0.0))  # unlike max(), keeps NaN
    if not math.isfinite(change):
        raise DataError(
            "The predictions of the 8-bit graph are not finite", remedy="Use precision=fp32; nothing was written"
        )
    (name, was), (_, has) = before.score(), after.score()
    speeds = (rows / before.seconds, rows / after.seconds)
    agreement = float(np.mean(same)) if same else None
    threads = before.assembly.compute.threads
    return Int8Check(rows, split, unscored, agreement, change, name, was, has, speeds, threads)


def _change(one: Answer, other: Answer) -> float:
    """Return the largest change of a probability, or the change of the number."""
    values = [_values(answer) for answer in (one, other)]
    return float(np.abs(values[0] - values[1]).max(initial=0.0))


def _values(answer: Answer) -> np.ndarray:
    if answer.number is not None:
        return np.array([answer.number])
    return np.asarray(answer.probabilities if answer.word_probabilities is None else answer.word_probabilities)


def _rows_to_compare(assembly: Assembly, cache: Path) -> tuple[Sequence[Example], str, str]:
    """Return labelled rows and the name of their split; or some sentences, "" and the reason."""
    try:
        corpus = Corpus.load(own_dataset(assembly), cache, assembly.config.task.target)
        name = corpus.scored_splits()[-1]
        if corpus.fingerprints()[name] != assembly.opened.fingerprints.get(name):
            raise DataError(f"The split {name} has changed since this model was trained")
    except UserError as error:
        paired, words = bool(assembly.opened.paired), reads_words(assembly)
        others = SENTENCES[1:] + SENTENCES[:1]
        pairs = zip(SENTENCES, others, strict=True)
        return [example_of(text, other if paired else None, words) for text, other in pairs], "", str(error)
    split = corpus.split(name)
    places = np.unique(np.linspace(0, len(split) - 1, min(len(split), MOST_ROWS)).round().astype(np.int64))
    return list(split.take(places.tolist())), name, ""


def _refuse_loss(check: Int8Check, before: _Side) -> None:
    """Raise DataError if the score falls by more than 8 bits should cost."""
    if check.before is None or check.after is None:
        return
    counted = sum(max(len(answer.labels), 1) for answer in before.answers.values())
    chance = 0.0 if check.agreement is None else CHANCE * math.sqrt((1 - check.agreement) / max(counted, 1))
    loss = (check.before - check.after) * (-1 if is_lower_better(check.score) else 1)
    if loss > LARGEST_LOSS + chance:
        raise DataError(
            f"In 8 bits, {check.score} on {check.split} changes from {check.before:.4f} to {check.after:.4f}",
            allowed=f"a loss of at most {LARGEST_LOSS + chance:.4f}",
            remedy="Use precision=fp32; nothing was written",
        )
