"""What finetuning does beyond training: it starts from a pretrained encoder.

A few labelled rows are learned from together with the names of their labels and texts that nobody has labelled
(`further_texts`). The head may start at a linear model on the encoder's vectors. A head that is fitted alone is kept in
place of the finetuned model, or averaged with it, if that is better (`head_alone`).
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import cast

from encoderlab.baselines.supervised import MOST_FROZEN_ROWS
from encoderlab.config.commands import FinetuneConfig
from encoderlab.data.corpus import Corpus
from encoderlab.models.frozen import set_linear_head
from encoderlab.models.model import Model
from encoderlab.network.heads import OF_ALL_TOKENS
from encoderlab.recipes.further_texts import FurtherTexts, further_texts
from encoderlab.recipes.head_alone import HeadAlone, keep_better, keep_head_alone, prepare_head_alone
from encoderlab.runs.fit import Result, fit
from encoderlab.runs.fit_branch import OutOfFold
from encoderlab.runs.prepared import PreparedRun
from encoderlab.runs.recipe import Recipe, StartingWeights
from encoderlab.runs.run import Run
from encoderlab.runs.settle import has_few_rows
from encoderlab.tasks.rows import example_rows
from encoderlab.training.config import MANY_LABELS
from encoderlab.training.distribution import is_sharded

LINEAR_HEAD = "The head was initialised with a logistic regression on the vectors of the encoder"


class Finetuning(Recipe):
    """The recipe of `encoderlab finetune`."""

    # Found before the first step, and used by `fit`:
    head_alone: HeadAlone | None = None  # to be compared with the finetuned model, or in its place; None: neither
    out_of_fold: OutOfFold | None = None  # what the better of both predicts, if they were compared on folds

    def extend_rows(self, prepared: PreparedRun, start: StartingWeights) -> None:
        """Let few labelled rows be followed by the names of their labels, and by texts that nobody has labelled."""
        assert start.encoder is not None, "finetuning starts from an encoder"
        model = prepared.model
        further = _further_texts(model, start.encoder, prepared.data)

        # They follow the labelled rows, and are recorded with the run.
        training = prepared.training
        training.rows = further.after(training.rows, model)
        prepared.notes += further.notes
        prepared.fingerprints |= further.fingerprints()

    def before_first_step(self, prepared: PreparedRun) -> None:
        """Fit the head alone, to compare it with the finetuned model; and start the head at a linear model."""
        # The head alone, which may be better than a finetuned model.
        data = prepared.data
        continues = prepared.requested.continues_from_checkpoint
        wants_linear = wants_linear_head(prepared.model, data)
        self.head_alone, self.out_of_fold, notes = prepare_head_alone(
            prepared.training, data, prepared.rows["train"], starts_linear=wants_linear, continues=continues
        )
        prepared.notes += notes

        # The head that the steps start from.
        if wants_linear:
            start_at_linear_head(prepared)

    def fit(self, prepared: PreparedRun, run: Run) -> Result:
        """Train the model, and keep the better of it and the head alone, or the average of both."""
        training = prepared.training

        # A head that was asked for, or that folds have favoured, is the model without any step.
        if self.head_alone is not None and self.head_alone.chosen is not None:
            result = keep_head_alone(training.model, self.head_alone, self.head_alone.chosen)
        else:
            # Otherwise the steps are taken, and validation decides between the two where both may be best.
            result = fit(training, run)
            if self.head_alone is not None:
                result = keep_better(training, self.head_alone, result)
                self.head_alone = None  # it has the memory of an encoder
        return replace(result, out_of_fold=self.out_of_fold)


def _further_texts(model: Model, encoder: Model, data: Corpus) -> FurtherTexts:
    """Return the texts to learn from besides the labelled rows, as the main process chooses them, and say why."""
    config = cast("FinetuneConfig", model.config)
    processes = model.processes

    # The main process chooses for all, because every process must train on the same rows.
    with processes.main_process_first():  # the others wait for as long as it takes
        chosen = further_texts(config, encoder, data, model.compute) if processes.is_main else None
    further = processes.broadcast_from_main(lambda: chosen)
    assert further is not None, "the main process has chosen"
    for note in further.notes:
        print(note, file=sys.stderr)
    return further


def wants_linear_head(model: Model, data: Corpus) -> bool:
    """Return whether the head of a run on these training rows starts at a linear model: of pairs that are read
    separately, unless there are very many, and of many classes with few rows.

    With 8 rows for each of 150 classes (CLINC150, validation), accuracy was 0.893 instead of 0.843 from a fresh head.
    With two or three classes of single texts it was 8 points lower instead. For pairs see `optimizer.PEAK_OF_PAIRS`.
    """
    config = model.config
    # Of a model that is to be sharded only the main process has weights, so the others cannot compute its vectors.
    if not config.task.one_class_per_text or is_sharded(config.training, model.processes):
        return False

    # Pairs that are read separately: as long as a linear model on their vectors takes little time.
    if model.network.separates_pairs:
        return len(data.split("train")) <= MOST_FROZEN_ROWS

    # Single texts: many classes with few rows, and a head that reads vectors which already stand for sentences.
    reads_sentence_vectors = model.shape.pooling in OF_ALL_TOKENS or model.first_token_is_trained
    if len(model.labels) < MANY_LABELS or not reads_sentence_vectors:
        return False
    return has_few_rows(config.training, config.task, data.n_undivided, len(model.labels))


def start_at_linear_head(prepared: PreparedRun) -> None:
    """Start the head at a linear model on frozen vectors, and say so; a run that continues has a head already."""
    training = prepared.training
    if not prepared.requested.continues_from_checkpoint:
        set_linear_head(training.model, example_rows(training.rows), training.label_weights)
        print(LINEAR_HEAD, file=sys.stderr)
    prepared.notes.append(LINEAR_HEAD)
