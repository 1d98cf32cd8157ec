"""Fits a model: iterates over the loop's steps and decides what to log, score and keep, and when to stop."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from encoderlab.errors import DataError
from encoderlab.metrics.scores import is_lower_better
from encoderlab.runs.assembly import Assembly
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.journal import DIVERGED, Journal, Progress
from encoderlab.runs.trackers import Trackers
from encoderlab.system.signals import Interrupted, deferred, is_interrupted, stop_if_interrupted
from encoderlab.tasks.stream import StreamedRows
from encoderlab.training.batches import Rows
from encoderlab.training.checkpoint import (
    checkpoints,
    clear_unfinished,
    newest_verified,
    prune,
    read_state,
    read_weights,
    save_checkpoint,
    step_of,
)
from encoderlab.training.compilation import is_compiled
from encoderlab.training.config import Keep
from encoderlab.training.distribution import random_states, seed_dropout, set_random_states
from encoderlab.training.horizon import horizon_of
from encoderlab.training.loop import Learner
from encoderlab.training.micro_batches import MicroBatches, StepsWithinMemory
from encoderlab.training.optimizer import build_optimizer

CHECKPOINTS_KEPT = 2  # so that another is left if the newest is damaged


@dataclass(frozen=True, slots=True)
class Fitted:
    """How a fit ended: the step whose weights the model now has, why that one, and how fast it went."""

    checkpoint: dict[str, Any]
    throughput: dict[str, float]
    notes: list[str]


def fit(assembly: Assembly, rows: Mapping[str, Rows], folder: RunFolder, trackers: Trackers | None = None) -> Fitted:
    """Train the model in place on the rows of `train`, and leave the best checkpoint's weights in it.

    If `folder` holds checkpoints, training resumes from the newest intact one, as if it had never stopped. Otherwise
    one is written before the first step, so that a folder that cannot hold it is known at once. The rows of
    `validation`, if any, choose the best checkpoint and stop early; without them the last one is kept. Raises
    TrainingError if too many steps are not finite, DataError if all checkpoints are damaged, and Interrupted, after
    saving a checkpoint, if a signal has come.
    """
    fitting = _Fitting(assembly, rows, folder, trackers)
    with _present_objects_exempt_from_collection(), fitting.journal, deferred():
        try:
            fitting.run()
        except Interrupted:
            fitting.journal.pause()
            fitting.save()
            raise
    return fitting.finish()


class TrainState:
    """All that the next step of a run depends on, as a checkpoint keeps it: model, optimizer, random generators,
    progress.

    Whatever config and data reproduce is not part of it: batches and masks are functions of seed and position, the
    schedule of the step. For a stream, the place where its window begins is part of it. With several processes all must
    call the same methods in the same order.
    """

    def __init__(self, assembly: Assembly, train: Rows) -> None:
        training, self.processes = assembly.config.training, assembly.processes
        self.stream = train if isinstance(train, StreamedRows) else None
        if self.stream is not None:
            self.stream.share_with(self.processes)
        self.assembly, self.distributed, self.progress = assembly, assembly.distribute(), Progress()
        optimizer = build_optimizer(self.distributed.model, training)
        stepped, label_loss = self.distributed.stepped, assembly.label_loss
        self.learner = Learner(
            stepped, optimizer, training, assembly.compute, processes=self.processes, label_loss=label_loss
        )
        self.horizon, self.per_epoch = horizon_of(
            training, len(train), self.processes, compiled=is_compiled(assembly.compiled)
        )
        micro_batches = assembly.micro_batches or MicroBatches(training.accumulate or 1, "as set")
        self.steps = StepsWithinMemory(partial(assembly.training_batches, train), micro_batches, training.batch_size)

    def begin(self) -> None:
        """Start a new run: each process draws its own dropout, and the main process what a single process would."""
        if not self.processes.is_main:
            seed_dropout(self.assembly.config.seed, 0, self.processes)

    @property
    def computed_on(self) -> dict[str, Any]:
        """Return what determines rounding: a run that resumes on something else takes slightly different steps."""
        compute = self.assembly.compute
        return {
            "device": compute.device.type,
            "precision": str(compute.precision).removeprefix("torch."),
            "threads": compute.threads,
            "processes": self.processes.size,
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the state as plain values and tensors; complete on the main process. Raises as `NonFiniteGuard.read`
        does.
        """
        return {
            "step": self.progress.step,
            "optimizer": self.distributed.optimizer_state(self.learner.optimizer),
            "progress": self.progress.as_dict(),
            "budget_spent": self.horizon.spent(),
            "skipped": self.learner.guard.state(),
            "micro_batches": asdict(self.steps.micro_batches),
            "accumulate": self.assembly.config.training.accumulate,
            "tokenizer": self.assembly.tokenizer.fingerprint,
            "computed_on": self.computed_on,
            "random_states": random_states(self.assembly.compute.device, self.processes),
            **({} if self.stream is None else {"stream": self.stream.position(self.progress.step)}),
        }

    def load_state_dict(self, state: dict[str, Any], weights: dict[str, Tensor]) -> None:
        """Continue from a `state_dict`, the same on all processes, and the main process's `weights`.

        Raises KeyError, TypeError, ValueError, AttributeError or RuntimeError if they are not those of this run.
        """
        if state["tokenizer"] != self.assembly.tokenizer.fingerprint:
            raise ValueError("it belongs to another tokenizer")
        with self.processes.connection_watched():
            self.distributed.load(weights)
        self.distributed.load_optimizer_state(self.learner.optimizer, state["optimizer"])
        self.progress = Progress.from_dict(state["progress"])
        self.horizon.resume(state["budget_spent"])
        self.learner.guard.load(state["skipped"])
        if state["accumulate"] == self.assembly.config.training.accumulate:
            kept = MicroBatches(**state["micro_batches"])
            self.steps.micro_batches = replace(kept, open=kept.open and self.processes.size == 1)
        if self.stream is not None:
            self.stream.resume(state["stream"])
        seed, device = self.assembly.config.seed, self.assembly.compute.device
        set_random_states(state["random_states"], device, self.processes, seed, state["step"])

    def notes(self) -> list[str]:
        """Return notes for the report: on skipped steps, on memory that ran out, and on a rising loss."""
        diverged = self.progress.diverged_at and DIVERGED.format(self.progress.diverged_at)
        return [note for note in (self.learner.guard.note(), self.steps.note(), diverged) if note]


class _Fitting:
    """A run's steps, and what happens between them: logging, evaluation, checkpoints."""

    def __init__(
        self, assembly: Assembly, rows: Mapping[str, Rows], folder: RunFolder, trackers: Trackers | None
    ) -> None:
        self.state = TrainState(assembly, rows["train"])
        self.processes, self.validation = assembly.processes, rows.get("validation")
        self.assembly = replace(assembly, model=self.state.distributed.model)
        self.checkpoints, self.notes, self.saved_at = folder.checkpoints, [], None
        newest = self.processes.broadcast_from_main(self._newest_checkpoint)
        if newest is None:
            self.state.begin()
        else:
            self._resume(newest)
        self.progress, training = self.state.progress, assembly.config.training
        self.evaluate_every = training.evaluate_every or self.state.per_epoch
        self.save()
        metrics = folder.metrics if self.processes.is_main else Path(os.devnull)
        self.journal = Journal(metrics, training.log_every, self.state.per_epoch, self.progress, trackers)

    def _newest_checkpoint(self) -> Path | None:
        """Return the newest intact checkpoint, after deleting incomplete ones left by a killed process."""
        clear_unfinished(self.checkpoints)
        return newest_verified(self.checkpoints)

    def _resume(self, checkpoint: Path) -> None:
        """Restore everything to its state when `checkpoint` was written. Raises DataError if it is not one
        of this run.
        """
        state = self.processes.broadcast_from_main(lambda: read_state(checkpoint))
        try:
            self.state.load_state_dict(state, read_weights(checkpoint) if self.processes.is_main else {})
            self.notes = _rounding_notes(state["computed_on"], self.state.computed_on)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise DataError(f"The checkpoint {checkpoint} does not match the run's config: {reason}") from None
        self.saved_at = self.state.progress.step

    def run(self) -> None:
        """Take all remaining steps, with what belongs between them."""
        training, progress, state = self.assembly.config.training, self.progress, self.state
        if self._is_due(self.evaluate_every) and progress.judged != progress.step:  # stopped before the evaluation
            self._pause(evaluate=True)
        steps = state.steps.take(state.learner, state.horizon, progress.step, is_interrupted)
        for step in () if self.stopped_early else steps:
            self.journal.step(step)
            if step.totals.stop or self.processes.size == 1:
                stop_if_interrupted(self.processes)
            evaluate = self._is_due(self.evaluate_every)
            if evaluate or self._is_due(training.checkpoint_every):
                self._pause(evaluate=evaluate)
            if self.stopped_early:
                break
        if progress.judged != progress.step:
            self._pause(evaluate=True)

    @property
    def stopped_early(self) -> bool:
        """Return whether there have been as many evaluations without a better score as the settings allow."""
        patience = self.assembly.config.training.patience
        return patience is not None and self.progress.best.since >= patience

    def _is_due(self, every: int | None) -> bool:
        return every is not None and self.progress.step > 0 and self.progress.step % every == 0

    def _pause(self, *, evaluate: bool) -> None:
        """Stop the training clock to save a checkpoint and, before that, to `evaluate` on validation if
        there is any.
        """
        self.journal.pause()
        if evaluate and self.validation is not None:
            scores, main = self.assembly.evaluate(self.validation), self.assembly.task.score
            sign = -1.0 if is_lower_better(main) else 1.0
            self.progress.best.offer(self.progress.step, sign * scores.figures[main], scores.figures["loss"])
            self.journal.evaluation("validation", scores, main)
        if evaluate:
            self.progress.judged = self.progress.step
        self.save()
        self.journal.resume()

    def save(self) -> None:
        """Write a checkpoint, and delete those no longer needed.

        If this step has one already, written before it was evaluated, that stays: a resumed run evaluates again.
        """
        if self.saved_at == self.progress.step:
            return
        state, weights = self.state.state_dict(), self.state.distributed.weights()
        if self.processes.is_main:
            save_checkpoint(self.checkpoints, self.progress.step, weights, state)
            prune(self.checkpoints, newest=CHECKPOINTS_KEPT, keep={self.progress.best.step} - {0})
        self.saved_at = self.progress.step

    def finish(self) -> Fitted:
        """Put the best checkpoint's weights into the model, or leave the last ones, and say why."""
        training, best, last, notes = self.assembly.config.training, self.progress.best, self.progress.step, self.notes
        if self.stopped_early and last < self.progress.of:
            evaluations = f"{best.since} evaluations without a better score"
            notes.append(f"Stopped early at step {last:,} of {self.progress.of:,}: {evaluations}")
        checkpoint = {"step": last, "chosen_by": "last step", "chosen_on": None}
        if training.keep is Keep.best and best.step:
            if best.step == last or self._load(best.step):
                checkpoint = {"step": best.step, "chosen_by": self.assembly.task.score, "chosen_on": "validation"}
            else:
                notes.append(f"The best checkpoint, of step {best.step:,}, was damaged, so the last step is used")
                print(f"encoderlab: {notes[-1]}", file=sys.stderr)
        self.state.distributed.finish()
        return Fitted(checkpoint, self.journal.throughput(), [*notes, *self.state.notes()])

    def _load(self, step: int) -> bool:
        """Put the weights of that step's checkpoint into the model; return False if it is missing or damaged."""
        weights: dict[str, Tensor] | None = None
        if self.processes.is_main:
            try:
                weights = next(read_weights(path) for path in checkpoints(self.checkpoints) if step_of(path) == step)
            except (DataError, StopIteration):
                weights = None
        is_intact = self.processes.all_reduce_max(int(weights is not None)) > 0
        if is_intact:
            self.state.distributed.load(weights or {})
        return is_intact


def _rounding_notes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return a note, printed too, if a run resumes on something that rounds sums differently; otherwise none."""
    changed = [f"{name} {now[name]} instead of {before[name]}" for name in before if now[name] != before[name]]
    if not changed:
        return []
    note = f"Resumed with {', '.join(changed)}: from here on, rounding differs from a run that never stopped"
    print(f"encoderlab: {note}", file=sys.stderr)
    return [note]


@contextmanager
def _present_objects_exempt_from_collection() -> Iterator[None]:
    """Exempt all present objects from Python's garbage collection, which otherwise visits them again every
    few steps.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
