"""Fits a model: iterates over the loop's steps and decides what to log, score and keep, and when to stop; then
scores it. A dry run takes some real steps of a run that is not started, and throws the weights away.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from encoderlab.errors import DataError, one_line
from encoderlab.metrics.calibration import DEFAULT, LEAST_ROWS, fit_temperature
from encoderlab.metrics.scores import PredictionScores, is_lower_better
from encoderlab.metrics.texts import ClassificationScores
from encoderlab.runs.assembly import Assembly
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.journal import Journal, Progress, in_words
from encoderlab.runs.task import build_task, resolve_thresholds
from encoderlab.system.processes import Interrupted, deferred, stop_if_interrupted
from encoderlab.tasks.config import ClassificationConfig, TaskConfig
from encoderlab.tasks.texts import threshold_rule
from encoderlab.training import checkpoint as checkpoints
from encoderlab.training.batches import MicroBatches, Rows, StepsWithinMemory
from encoderlab.training.config import Keep, horizon_of, seconds_of, steps_per_epoch, total_steps
from encoderlab.training.distribution import COMPILED, distribute, random_state, seed_dropout, set_random_states
from encoderlab.training.loop import Learner
from encoderlab.training.optimizer import build_optimizer

if TYPE_CHECKING:
    from encoderlab.tasks.stream import StreamedRows

CHECKPOINTS_KEPT = 2  # so that another is left if the newest is damaged


@dataclass(frozen=True, slots=True)
class Fitted:
    """How a fit ended: the step whose weights the model now has, why that one, and how fast it went."""

    checkpoint: dict[str, Any]
    throughput: dict[str, float]
    notes: list[str]


def fit(assembly: Assembly, rows: Mapping[str, Rows], folder: RunFolder) -> Fitted:
    """Train the model in place on the rows of `train`, and leave the best checkpoint's weights in it.

    If `folder` holds checkpoints, training resumes from the newest intact one, as if it had never stopped. Otherwise
    one is written before the first step, so that a folder that cannot hold it is known at once. The rows of
    `validation`, if any, choose the best checkpoint and stop early; without them the last one is kept. Raises
    TrainingError if a step is not finite, DataError if all checkpoints are damaged, and Interrupted, after
    saving a checkpoint, if a signal has come.
    """
    fitting = _Fitting(assembly, rows, folder)
    gc.collect()
    gc.freeze()  # or Python's garbage collection visits all these objects every few steps
    try:
        with fitting.journal, deferred():
            fitting.run()
    finally:
        gc.unfreeze()
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
        self.stream = cast("StreamedRows", train) if hasattr(train, "share_with") else None
        if self.stream is not None:
            self.stream.share_with(self.processes)
        self.assembly, self.progress = assembly, Progress()
        self.distributed = distribute(assembly.model, training, self.processes, assembly.compute.device)
        self.learner = Learner(
            self.distributed.stepped,
            build_optimizer(self.distributed.model, training),
            training,
            assembly.compute,
            processes=self.processes,
            label_weights=assembly.label_weights,
        )
        compiled = assembly.compiled == COMPILED
        self.horizon = horizon_of(training, len(train), self.processes, compiled=compiled)
        self.per_epoch = steps_per_epoch(training, len(train))
        micro_batches = assembly.micro_batches or MicroBatches(training.accumulate or 1, "as set")
        self.steps = StepsWithinMemory(partial(assembly.training_batches, train), micro_batches, training.batch_size)

    def state_dict(self) -> dict[str, Any]:
        """Return the state, complete on the main process, as plain values. Raises as `NonFiniteGuard.read` does."""
        self.learner.guard.read()
        return {
            "step": self.progress.step,
            "optimizer": self.distributed.optimizer_state(self.learner.optimizer),
            "progress": asdict(self.progress),
            "budget_spent": self.horizon.spent(),
            "micro_batches": asdict(self.steps.micro_batches),
            "accumulate": self.assembly.config.training.accumulate,
            "tokenizer": self.assembly.tokenizer.fingerprint,
            "random_states": self.processes.gather(random_state(self.assembly.compute.device)) or [],
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
        self.progress = Progress(**state["progress"])
        self.horizon.resume(state["budget_spent"])
        if state["accumulate"] == self.assembly.config.training.accumulate:
            kept = MicroBatches(**state["micro_batches"])
            self.steps.micro_batches = replace(kept, open=kept.open and self.processes.size == 1)
        if self.stream is not None:
            self.stream.resume(state["stream"])
        seed, device = self.assembly.config.seed, self.assembly.compute.device
        set_random_states(state["random_states"], device, self.processes, seed, state["step"])


class _Fitting:
    """A run's steps, and what happens between them: logging, evaluation, checkpoints."""

    def __init__(self, assembly: Assembly, rows: Mapping[str, Rows], folder: RunFolder) -> None:
        """Resume from the newest intact checkpoint, or write the first one, and open the journal.

        Raises DataError if the checkpoint is not one of this run.
        """
        config, self.processes, self.checkpoints = assembly.config, assembly.processes, folder.checkpoints
        self.training, self.validation, self.saved_at = config.training, rows.get("validation"), -1
        self.state = TrainState(assembly, rows["train"])
        self.assembly = replace(assembly, model=self.state.distributed.model)
        self.evaluate_every = self.training.evaluate_every or self.state.per_epoch
        if self.processes.is_main:
            checkpoints.clear_unfinished(self.checkpoints)
        checkpoint = self.processes.broadcast_from_main(lambda: checkpoints.newest_verified(self.checkpoints))
        if checkpoint is not None:
            state = self.processes.broadcast_from_main(lambda: checkpoints.read_state(checkpoint))
            try:
                weights = checkpoints.read_weights(checkpoint) if self.processes.is_main else {}
                self.state.load_state_dict(state, weights)
            except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
                reason = one_line(str(error))[:200]
                raise DataError(f"The checkpoint {checkpoint} does not match the run's config: {reason}") from None
            self.saved_at = self.state.progress.step
        elif not self.processes.is_main:  # the main process draws what a single one would
            seed_dropout(config.seed, 0, self.processes)
        self.progress = self.state.progress
        self.save()
        metrics = folder.metrics if self.processes.is_main else Path(os.devnull)
        events = folder.events if config.tensorboard and self.processes.is_main else None
        self.journal = Journal(metrics, self.training.log_every, self.state.per_epoch, self.progress, events)

    def run(self) -> None:
        """Take all remaining steps, with what belongs between them; if a signal has come, save a checkpoint."""
        progress, state = self.progress, self.state
        if self._is_due(self.evaluate_every) and progress.evaluated != progress.step:  # stopped before the evaluation
            self._evaluate_and_save(evaluate=True)
        steps = state.steps.take(state.learner, state.horizon, progress.step)
        try:
            for step in () if self.stopped_early else steps:
                progress.count(step)
                self.journal.step(step)
                stop_if_interrupted(self.processes)
                evaluate = self._is_due(self.evaluate_every)
                if evaluate or self._is_due(self.training.checkpoint_every):
                    self._evaluate_and_save(evaluate=evaluate)
                if self.stopped_early:
                    break
            if progress.evaluated != progress.step:
                self._evaluate_and_save(evaluate=True)
        except Interrupted:
            self.journal.pause()
            self.save()
            raise

    @property
    def stopped_early(self) -> bool:
        """Return whether there have been as many evaluations without a better score as the settings allow."""
        return self.training.patience is not None and self.progress.since >= self.training.patience

    def _is_due(self, every: int | None) -> bool:
        return every is not None and self.progress.step > 0 and self.progress.step % every == 0

    def _evaluate_and_save(self, *, evaluate: bool) -> None:
        """Stop the training clock to `evaluate` on validation, if there is any, and to save a checkpoint."""
        self.journal.pause()
        if evaluate and self.validation is not None:
            scores, main_score = self.assembly.evaluate(self.validation), self.assembly.task.main_score
            sign = -1.0 if is_lower_better(main_score) else 1.0
            self.progress.offer(sign * scores.values[main_score], scores.values["loss"])
            self.journal.evaluation("validation", scores, main_score)
        if evaluate:
            self.progress.evaluated = self.progress.step
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
            checkpoints.save_checkpoint(self.checkpoints, self.progress.step, weights, state)
            checkpoints.prune(self.checkpoints, newest=CHECKPOINTS_KEPT, keep={self.progress.best_step} - {0})
        self.saved_at = self.progress.step

    def finish(self) -> Fitted:
        """Put the best checkpoint's weights into the model, or leave the last ones, and say why."""
        best, last, notes = self.progress.best_step, self.progress.step, []
        if self.stopped_early and last < self.progress.of:
            evaluations = f"{self.progress.since} evaluations without a better score"
            notes.append(f"Stopped early at step {last:,} of {self.progress.of:,}: {evaluations}")
        checkpoint = {"step": last, "chosen_by": "last step", "chosen_on": None}
        if self.training.keep is Keep.best and best:
            if best == last or self._load(best):
                checkpoint = {"step": best, "chosen_by": self.assembly.task.main_score, "chosen_on": "validation"}
            else:
                notes.append(f"The best checkpoint, of step {best:,}, was damaged, so the last step is used")
                print(f"encoderlab: {notes[-1]}", file=sys.stderr)
        self.state.distributed.finish()
        return Fitted(checkpoint, self.journal.throughput(), notes)

    def _load(self, step: int) -> bool:
        """Put the weights of that step's checkpoint into the model; return False if it is missing or damaged."""
        weights: dict[str, Tensor] = {}
        if self.processes.is_main:
            with suppress(DataError):
                weights = checkpoints.read_weights(self.checkpoints / f"step-{step}")
        [is_intact] = self.processes.all_reduce_sum([bool(weights)])
        if is_intact:
            self.state.distributed.load(weights)
        return bool(is_intact)


def threshold_notes(task: TaskConfig, scores: Mapping[str, PredictionScores]) -> list[str]:
    """Return notes on the threshold that `task` asks for: how it was fitted, which precision it missed."""
    if not isinstance(task, ClassificationConfig) or not isinstance(task.threshold, str):
        return []
    held_out = scores.get("validation")
    if not isinstance(held_out, ClassificationScores) or held_out.threshold is None:
        return [f"There is no validation split to fit task.threshold={task.threshold} on, so it is {DEFAULT}"]
    label, rule = held_out.positive_label, threshold_rule(task)
    fitted = f"{held_out.threshold:.3f}, was fitted on validation (task.threshold={task.threshold})"
    notes, reached = [f"The threshold of {label!r}, {fitted}"], held_out.per_class[str(label)]["precision"]
    if rule is not None and rule.precision is not None and reached < rule.precision:
        missed = f"a precision of {rule.precision:g} on validation: the best has {reached:.3f}"
        notes.append(f"No threshold gives {label!r} {missed}")
    return notes


def score_splits(assembly: Assembly, rows: Mapping[str, Rows]) -> tuple[Assembly, dict[str, PredictionScores]]:
    """Return the scores of every split but `train`, and the assembly with what was fitted on validation: thresholds,
    and, for a classifier, the temperature, by which the head's weights are divided.

    They apply to the other splits and to the saved model. Without validation thresholds are 0.5; a task without
    thresholds stays as it is.
    """
    held_out = cast("PredictionScores", assembly.evaluate(rows["validation"])) if "validation" in rows else None
    temperature = _calibrate(assembly, held_out)
    if temperature is not None:
        held_out = cast("PredictionScores", assembly.evaluate(rows["validation"]))
    settings = resolve_thresholds(assembly.config.task, assembly.task.labels, held_out)
    task = build_task(settings, assembly.tokenizer, assembly.task.labels, assembly.task.max_length)
    assembly = replace(assembly, task=task, config=replace(assembly.config, task=settings))
    scores = {} if held_out is None else {"validation": held_out}
    for name in [name for name in rows if name not in ("train", "validation")]:
        scores[name] = cast("PredictionScores", assembly.evaluate(rows[name]))
    if temperature is not None:
        scores = {name: replace(one, temperature=temperature) for name, one in scores.items()}
    return assembly, scores


def _calibrate(assembly: Assembly, held_out: PredictionScores | None) -> float | None:
    """Divide the weights of a head for classes by the temperature that fits the `held_out` scores, and return it.

    The logits are divided by it too, so that probabilities are calibrated wherever the model is read, and no prediction
    without a threshold changes. None, and the weights stay, if there are no such scores, too few rows, or no
    temperature fits.
    """
    if not isinstance(held_out, ClassificationScores) or held_out.probabilities is None or held_out.n < LEAST_ROWS:
        return None
    temperature, head = fit_temperature(held_out.probabilities, held_out.labels), assembly.model.sequence_head
    if temperature is None or head is None:
        return None
    with torch.no_grad():
        for parameter in head.parameters():
            parameter /= temperature
    return temperature


WARM_UP = 3  # uncounted steps: they compile, allocate memory and fill caches
TIMED, TIMED_SECONDS = 30, 10.0  # most steps that are timed, within this many seconds
SCORING = 1 / 3  # of the time that training takes for a row: the forward pass, without the backward pass


def dry_run(assembly: Assembly, rows: Mapping[str, Rows], command: str) -> None:
    """Take the first steps of the run, and print what the whole run would take.

    `rows` are those of `train` and of the splits that are scored. The model's weights are changed. All processes of a
    run call it. Raises MemoryTooSmallError and TrainingError as a run does.
    """
    config, training, model = assembly.config, assembly.config.training, assembly.model
    per_step, n_rows = _seconds_per_step(assembly, rows["train"]), len(rows["train"])
    budget = None if training.budget is None else seconds_of(training.budget)
    steps = total_steps(training, n_rows) if budget is None else max(int(budget / per_step), 1)
    per_epoch = steps_per_epoch(training, n_rows)
    evaluations = -(-steps // (training.evaluate_every or per_epoch)) if "validation" in rows else 0
    scored = evaluations * len(rows.get("validation", ())) + sum(map(len, rows.values())) - n_rows
    scoring = SCORING * scored * per_step / min(training.batch_size, n_rows)
    total = steps * per_step + scoring if budget is None else budget
    frozen = sum(weight.numel() for weight in model.parameters() if not weight.requires_grad)
    parts = ", ".join(f"{part} {n:,}" for part, n in model.parameters_by_part().items())
    within = f" within training.budget={training.budget}" if budget else ""
    peak = 0
    if assembly.compute.device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(assembly.compute.device)
    elif sys.platform != "win32":
        import resource  # which Windows lacks

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    lines = {
        f"{command} {config.task.name}, seed {config.seed}": "dry run: only the cache is written",
        "Parameters": f"{model.n_parameters:,} ({parts}){f'; {frozen:,} frozen' if frozen else ''}",
        "Choices": "; ".join(assembly.choices),
        "Rows": ", ".join(f"{len(part):,} {name}" for name, part in rows.items()),
        "Steps": f"{'about ' if budget else ''}{steps:,}{within} of {training.batch_size} rows "
        f"({steps / per_epoch:,.2f} epochs of {per_epoch:,}), {evaluations:,} evaluation{'s' * (evaluations != 1)}",
        **({"Memory": f"{peak / 2**30:.1f} GiB at most so far"} if peak else {}),
        "Time": f"about {in_words(total)} at {in_words(per_step)} a step on this machine at its present load, besides "
        "reading and tokenising, baselines and the report",
    }
    print(*(f"{name}: {words}" for name, words in lines.items()), sep="\n")


def _seconds_per_step(assembly: Assembly, train: Rows) -> float:
    """Take the run's first steps; return the mean time of one."""
    state, times = TrainState(assembly, train), [time.perf_counter()]
    for step in state.steps.take(state.learner, state.horizon):
        step.numbers()  # waits for the device
        times.append(time.perf_counter())
        timed = times[WARM_UP:]
        enough = len(timed) > TIMED or (len(timed) > 1 and timed[-1] - timed[0] > TIMED_SECONDS)
        if assembly.processes.broadcast_from_main(lambda enough=enough: enough):
            break
    return float(np.diff(times)[min(WARM_UP, len(times) - 2) :].mean())
