"""Fits a model: iterates over the loop's steps and decides what to log, score and keep."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from encoderlab.runs.assembly import Assembly, horizon_of
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.journal import Journal
from encoderlab.tasks.rows import Rows
from encoderlab.training.checkpoint import checkpoints, prune, read_weights, save_checkpoint, weights_of
from encoderlab.training.config import Keep
from encoderlab.training.loop import Step, optimize
from encoderlab.training.optimizer import build_optimizer

CHECKPOINTS_KEPT = 2  # so that a damaged newest one leaves another


@dataclass(frozen=True, slots=True)
class Fitted:
    """How a fit ended: the step whose weights the model now has, why that one, and how fast it went."""

    checkpoint: dict[str, Any]
    throughput: dict[str, float]
    notes: list[str]


@dataclass(slots=True)
class Best:
    """The best evaluation so far: `score` at `step`, and how many evaluations have come since."""

    score: float = -1.0
    step: int = 0
    since: int = 0

    def offer(self, step: int, score: float) -> None:
        """Take in the evaluation after `step`; of equal scores the earlier stays."""
        if score > self.score:
            self.score, self.step, self.since = score, step, 0
        else:
            self.since += 1


def fit(assembly: Assembly, train: Rows, validation: Rows | None, folder: RunFolder) -> Fitted:
    """Train the model in place and leave the chosen checkpoint's weights in it.

    `validation` chooses the best checkpoint and stops early; without it the last one is taken. Raises TrainingError where the loss
    is no longer finite.
    """
    training = assembly.config.training
    horizon, per_epoch = horizon_of(training, len(train))
    optimizer = build_optimizer(assembly.model, training)
    batches = assembly.training_batches(train)
    evaluate_every = training.evaluate_every or per_epoch
    best, judged = Best(), 0
    with _nothing_old_searched_for_garbage(), Journal(folder.metrics, training.log_every, per_epoch) as journal:
        for step in optimize(assembly.model, batches, optimizer, training, assembly.compute, horizon):
            journal.step(step)
            evaluated = step.number % evaluate_every == 0
            if evaluated or _due(step.number, training.checkpoint_every):
                _pause(assembly, validation if evaluated else None, journal, best, step)
                _save(folder.checkpoints, step, assembly, optimizer, best)
                judged = step.number if evaluated else judged
            if training.patience is not None and best.since >= training.patience:
                break
        if judged != step.number:
            _pause(assembly, validation, journal, best, step)
            _save(folder.checkpoints, step, assembly, optimizer, best)
    return _choose(assembly, folder, best, step, journal)


@contextmanager
def _nothing_old_searched_for_garbage() -> Iterator[None]:
    """Take all that is there now out of Python's search for garbage, which otherwise goes through it again every few steps."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _due(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0


def _pause(assembly: Assembly, validation: Rows | None, journal: Journal, best: Best, step: Step) -> None:
    """Stop the clock of training to score `validation`, if there is any to be scored."""
    journal.pause()
    if validation is not None:
        scores = assembly.evaluate(validation)
        best.offer(step.number, scores.figures[assembly.task.score])
        journal.evaluation(step, "validation", scores, assembly.task.score)
    journal.resume()


def _save(folder: Path, step: Step, assembly: Assembly, optimizer: torch.optim.Optimizer, best: Best) -> None:
    """Write a checkpoint with all that a continuation needs, and drop those no longer needed."""
    state = {
        "step": step.number,
        "optimizer": optimizer.state_dict(),
        "best": {"score": best.score, "step": best.step, "since": best.since},
        "random_state": torch.get_rng_state(),
        "cuda_random_states": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }
    save_checkpoint(folder, step.number, weights_of(assembly.model), state)
    prune(folder, newest=CHECKPOINTS_KEPT, keep={best.step})


def _choose(assembly: Assembly, folder: RunFolder, best: Best, last: Step, journal: Journal) -> Fitted:
    """Put the chosen checkpoint's weights into the model, and say why it was chosen."""
    training, notes = assembly.config.training, []
    if training.patience is not None and best.since >= training.patience and last.number < last.of:
        notes.append(f"Stopped early at step {last.number:,} of {last.of:,}: {best.since} evaluations without a better score")
    if training.keep is Keep.last or best.step == 0:
        return Fitted({"step": last.number, "chosen_by": "last step", "chosen_on": None}, journal.throughput(), notes)
    if best.step != last.number:
        chosen = next(path for path in checkpoints(folder.checkpoints) if path.name == f"step-{best.step}")
        assembly.model.load_state_dict(read_weights(chosen))
    checkpoint = {"step": best.step, "chosen_by": assembly.task.score, "chosen_on": "validation"}
    return Fitted(checkpoint, journal.throughput(), notes)
