"""Fits a model: iterates over the loop's steps and decides what to log, score, keep, and when to stop."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from encoderlab.batch import Batch
from encoderlab.errors import DataError
from encoderlab.metrics.scores import is_lower_better
from encoderlab.runs.engine.compilation import is_compiled
from encoderlab.runs.engine.micro_batches import MicroBatches
from encoderlab.runs.engine.out_of_memory import StepsWithinMemory
from encoderlab.runs.engine.random_state import begin_dropout, random_states, set_random_states
from encoderlab.runs.fitting.journal import Journal
from encoderlab.runs.fitting.progress import Progress
from encoderlab.runs.folders.folder import RunFolder
from encoderlab.runs.models.assembly import Assembly
from encoderlab.runs.records.trackers import NO_TRACKERS, Trackers
from encoderlab.system.signals import Interrupted, deferred, is_interrupted, stop_if_interrupted
from encoderlab.tasks.rows import Rows
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
from encoderlab.training.config import Keep
from encoderlab.training.horizon import horizon_of
from encoderlab.training.loop import Step, optimize
from encoderlab.training.nonfinite_guard import NonFiniteGuard
from encoderlab.training.optimizer import build_optimizer

CHECKPOINTS_KEPT = 2  # so that a damaged newest one leaves another


@dataclass(frozen=True, slots=True)
class Fitted:
    """How a fit ended: the step whose weights the model now has, why that one, and how fast it went."""

    checkpoint: dict[str, Any]
    throughput: dict[str, float]
    notes: list[str]


def fit(assembly: Assembly, train: Rows, validation: Rows | None, folder: RunFolder, trackers: Trackers = NO_TRACKERS) -> Fitted:
    """Train the model in place and leave the chosen checkpoint's weights in it.

    Where `folder` holds checkpoints, training goes on from the newest that is whole, as if it had never stopped; else one is
    written before the first step, so that a folder that cannot hold it is known at once. `validation` chooses the best checkpoint
    and stops early; without it the last one is taken. Raises TrainingError where the loss is no longer finite, DataError where all
    checkpoints are damaged, and Interrupted, after a checkpoint, where a signal has come.
    """
    fitting = _Fitting(assembly, train, validation, folder, trackers)
    with _nothing_old_searched_for_garbage(), fitting.journal, deferred():
        try:
            fitting.run(train)
        except Interrupted:
            fitting.journal.pause()
            fitting.save()
            raise
    return fitting.choose()


class _Fitting:
    """What a fit works on, and how far it has come."""

    def __init__(self, assembly: Assembly, train: Rows, validation: Rows | None, folder: RunFolder, trackers: Trackers) -> None:
        self.distributed, self.processes = assembly.distribute(), assembly.processes
        self.assembly = replace(assembly, model=self.distributed.model)
        self.validation, self.checkpoints = validation, folder.checkpoints
        training = assembly.config.training
        self.optimizer = build_optimizer(self.distributed.model, training)
        found = self.processes.broadcast_from_main(self._newest)
        state = {} if found is None else self._restored(found)
        self.progress = self._begun() if found is None else state["progress"]
        self.notes = _rounded_otherwise(state.get("computed_on", {}), self._computed_on())
        self.saved = None if found is None else self.progress.step
        spent, compiled = state.get("budget_spent", 0.0), is_compiled(assembly.compiled)
        self.horizon, per_epoch = horizon_of(training, len(train), spent, self.processes, compiled=compiled)
        waits = assembly.compute.device.type != "cuda"
        self.finite = NonFiniteGuard(
            training.skip_nonfinite, waits=waits, before=state.get("skipped", ()), processes=self.processes
        )
        micro_batches = state.get("parts", assembly.micro_batches) or MicroBatches(training.accumulate or 1, "as set")
        self.steps = StepsWithinMemory(partial(self.assembly.training_batches, train), micro_batches, training.batch_size)
        self.evaluate_every = training.evaluate_every or per_epoch
        self.save()
        metrics = folder.metrics if self.processes.is_main else Path(os.devnull)
        self.journal = Journal(metrics, training.log_every, per_epoch, self.progress, trackers)

    def _newest(self) -> Path | None:
        """The newest whole checkpoint, what a kill has left half-made being removed."""
        clear_unfinished(self.checkpoints)
        return newest_verified(self.checkpoints)

    def _micro_batches(self, state: dict[str, Any]) -> MicroBatches:
        """In how many parts batches are computed: as they were when `state` was saved, unless another number was typed since."""
        set_now = self.assembly.config.training.accumulate
        if set_now != state["accumulate"]:
            return MicroBatches(set_now or 1, "as set")
        micro_batches = MicroBatches(**state["parts"])
        return replace(micro_batches, open=micro_batches.open and self.processes.size == 1)

    def _computed_on(self) -> dict[str, Any]:
        """What decides how sums are rounded."""
        compute = self.assembly.compute
        precision = str(compute.precision).removeprefix("torch.")
        return {"device": compute.device.type, "precision": precision, "threads": compute.threads, "processes": self.processes.size}

    def _begun(self) -> Progress:
        """Where a new run stands. Each process draws a dropout of its own; the first goes on as one alone would."""
        if not self.processes.is_main:
            begin_dropout(self.assembly.config.seed, 0, self.processes)
        return Progress()

    def _restored(self, checkpoint: Path) -> dict[str, Any]:
        """Put model, optimizer and generators back to where they were when `checkpoint` was written; the rest of its state."""
        state = self.processes.broadcast_from_main(lambda: read_state(checkpoint))
        try:
            with self.processes.watched("Run the same command again"):
                self.distributed.load(read_weights(checkpoint) if self.processes.is_main else {})
            self.distributed.load_optimizer_state(self.optimizer, state.pop("optimizer"))
            seed, device = self.assembly.config.seed, self.assembly.compute.device
            set_random_states(state.pop("random_states"), device, self.processes, seed, state["step"])
            if state["tokenizer"] != self.assembly.tokenizer.fingerprint:
                raise ValueError("its tokenizer is another one")
            return state | {"progress": Progress.from_dict(state["progress"]), "parts": self._micro_batches(state)}
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise DataError(f"The checkpoint {checkpoint} does not fit the run's config: {reason}") from None

    def run(self, train: Rows) -> None:
        """Take all steps that are left, with all that belongs between them."""
        training, progress = self.assembly.config.training, self.progress
        if self._is_due(self.evaluate_every) and progress.judged != progress.step:  # a signal came before the evaluation
            self._pause(evaluate=True)
        for step in () if self.stopped_early else self.steps.take(self._loop, self.optimizer, progress.step):
            self.journal.step(step)
            if step.stop or self.processes.size == 1:
                stop_if_interrupted(self.processes)
            evaluate = self._is_due(self.evaluate_every)
            if evaluate or self._is_due(training.checkpoint_every):
                self._pause(evaluate=evaluate)
            if self.stopped_early:
                break
        if progress.judged != progress.step:
            self._pause(evaluate=True)

    def _loop(self, batches: Iterator[list[Batch]], after: int) -> Iterator[Step]:
        """The steps on these batches, `after` so many."""
        return optimize(
            self.distributed.stepped,
            batches,
            self.optimizer,
            self.assembly.config.training,
            self.assembly.compute,
            self.horizon,
            after=after,
            finite=self.finite,
            processes=self.processes,
            stopping=is_interrupted,
        )

    @property
    def stopped_early(self) -> bool:
        """Whether there have been as many evaluations without a better score as the settings allow."""
        patience = self.assembly.config.training.patience
        return patience is not None and self.progress.best.since >= patience

    def _is_due(self, every: int | None) -> bool:
        return every is not None and self.progress.step > 0 and self.progress.step % every == 0

    def _pause(self, *, evaluate: bool) -> None:
        """Stop the clock of training to save, and to score `validation` before that, if there is any and it is its turn."""
        self.journal.pause()
        if evaluate and self.validation is not None:
            scores = self.assembly.evaluate(self.validation)
            figure = self.assembly.task.score
            sign = -1.0 if is_lower_better(figure) else 1.0
            self.progress.best.offer(self.progress.step, sign * scores.figures[figure], scores.figures["loss"])
            self.journal.evaluation("validation", scores, figure)
        if evaluate:
            self.progress.judged = self.progress.step
        self.save()
        self.journal.resume()

    def save(self) -> None:
        """Write a checkpoint with all that a continuation needs, and drop those no longer needed.

        Where this step has one already, written before it was evaluated, that stays: a continuation evaluates again.
        """
        if self.saved == self.progress.step:
            return
        state = {
            "step": self.progress.step,
            "optimizer": self.distributed.optimizer_state(self.optimizer),
            "progress": self.progress.as_dict(),
            "budget_spent": self.horizon.spent(),
            "skipped": self.finite.state(),
            "parts": self.steps.state(),
            "accumulate": self.assembly.config.training.accumulate,
            "tokenizer": self.assembly.tokenizer.fingerprint,
            "computed_on": self._computed_on(),
            "random_states": random_states(self.assembly.compute.device, self.processes),
        }
        weights = self.distributed.weights()
        if self.processes.is_main:
            save_checkpoint(self.checkpoints, self.progress.step, weights, state)
            prune(self.checkpoints, newest=CHECKPOINTS_KEPT, keep={self.progress.best.step} - {0})
        self.saved = self.progress.step

    def choose(self) -> Fitted:
        """Put the chosen checkpoint's weights into the model, and say why it was chosen."""
        training, best, last, notes = self.assembly.config.training, self.progress.best, self.progress.step, self.notes
        if self.stopped_early and last < self.progress.of:
            notes.append(f"Stopped early at step {last:,} of {self.progress.of:,}: {best.since} evaluations without a better score")
        chosen = {"step": last, "chosen_by": "last step", "chosen_on": None}
        if training.keep is Keep.best and best.step:
            lost = best.step != last and not self._take(best.step)
            if lost:
                notes.append(f"The best checkpoint, of step {best.step:,}, was damaged: the last step is taken")
                print(f"encoderlab: {notes[-1]}", file=sys.stderr)
            else:
                chosen = {"step": best.step, "chosen_by": self.assembly.task.score, "chosen_on": "validation"}
        self.distributed.finish()
        notes += [*filter(None, (self.finite.note(), self.steps.note())), *self.progress.watch.notes]
        return Fitted(chosen, self.journal.throughput(), notes)

    def _take(self, step: int) -> bool:
        """Put the weights of that step's checkpoint into the model; False where it is gone or damaged."""
        weights = self._kept_weights(step) if self.processes.is_main else None
        found = self.processes.all_reduce_max(int(weights is not None)) > 0
        if found:
            self.distributed.load(weights or {})
        return found

    def _kept_weights(self, step: int) -> dict[str, Tensor] | None:
        path = next((path for path in checkpoints(self.checkpoints) if step_of(path) == step), None)
        try:
            return None if path is None else read_weights(path)
        except DataError:
            return None


def _rounded_otherwise(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """A note, said on standard error too, where a run goes on with what rounds otherwise than what it was begun with."""
    changed = [f"{name} {now[name]} instead of {before[name]}" for name in before if now[name] != before[name]]
    if not changed:
        return []
    note = f"Went on with {', '.join(changed)}: the steps that follow are rounded otherwise than those of a run that never stopped"
    print(f"encoderlab: {note}", file=sys.stderr)
    return [note]


@contextmanager
def _nothing_old_searched_for_garbage() -> Iterator[None]:
    """Take all that is there now out of Python's search for garbage, which otherwise goes through it again every few steps."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
