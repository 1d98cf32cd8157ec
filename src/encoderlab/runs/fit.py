"""Fits a model: iterates over the loop's steps and decides what to log, score and keep, and when to stop."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from encoderlab.errors import DataError, one_line
from encoderlab.metrics.scores import SplitScores, is_lower_better
from encoderlab.models.model import Model
from encoderlab.runs.fit_branch import OutOfFold
from encoderlab.runs.journal import Journal, Progress, note_on_gap
from encoderlab.runs.run import Run
from encoderlab.runs.training import Training
from encoderlab.system.device import ThreadsByLoad, return_freed_memory
from encoderlab.system.messages import print_lines
from encoderlab.system.processes import Interrupted, deferred, stop_if_interrupted
from encoderlab.training import checkpoint as checkpoints
from encoderlab.training.batches import MicroBatchCount, RowStream, TrainingBatches
from encoderlab.training.config import Keep, length_in_words, steps_per_epoch
from encoderlab.training.distribution import distribute
from encoderlab.training.loop import Learner, Step, StepsWithinMemory, horizon_of
from encoderlab.training.loss import LabelWeights
from encoderlab.training.occurring_rows import adapt_moments, decay_recorder, trained_ids
from encoderlab.training.optimizer import build_optimizer

CHECKPOINTS_KEPT = 2  # so that another is left if the newest is damaged
FALLEN = 0.95  # of the loss of the frequencies: below this share, something has been learned


@dataclass(frozen=True, slots=True)
class Result:
    """How a fit ended: the step whose weights the model now has, why that one, how fast it went, and notes on it."""

    checkpoint: dict[str, Any]
    throughput: Mapping[str, float | None]
    notes: list[str]
    not_logged: list[tuple[int, int]] = field(default_factory=list)  # first and last step of gaps in metrics.jsonl
    out_of_fold: OutOfFold | None = None  # predictions of training rows, if folds of them were predicted


def fit(training: Training, run: Run) -> Result:
    """Train the model in place, and leave the best checkpoint's weights in it.

    If the run has checkpoints, training resumes from the newest intact one, as if it had never stopped. Otherwise
    one is written before the first step, so that a folder that cannot hold it is known at once. The validation rows, if
    any, choose the best checkpoint and stop early; without them the last one is kept. Raises TrainingError if a step is
    not finite, DataError if all checkpoints are damaged, and Interrupted, after saving a checkpoint, if a signal has
    come.
    """
    model = training.model
    settings = model.config.training
    unit = "window" if model.config.dataset is not None and model.config.dataset.is_stream else "epoch"
    is_evaluated = training.validation is not None
    print_lines(length_in_words(settings, len(training.rows), evaluated=is_evaluated, epoch=unit))

    # The steps, and all that the next one depends on.
    state = TrainState(training)
    journal = _take_steps(training, run, state)

    # No step follows, so the memory of gradients and moments is free for what does.
    state.learner.free()
    gc.collect()
    return_freed_memory()

    # The weights that the run is for.
    checkpoint, notes = _keep_weights(model, run, state)
    state.distributed.finish()
    gaps = journal.missing_steps()
    return Result(checkpoint, journal.throughput(), [*notes, *map(note_on_gap, gaps)], gaps)


def _take_steps(training: Training, run: Run, state: TrainState) -> Journal:
    """Take the steps that are left, with evaluations and checkpoints between them; return their journal."""
    model = training.model
    settings = model.config.training
    processes = model.processes

    # The state is that of the newest checkpoint, or as it is before the first step.
    saved = _SavedSteps(run, state)
    saved.resume()
    saved.save()  # unless this step has been saved, as when a run is resumed
    progress = state.progress
    shard = replace(model, network=state.distributed.network)  # of several processes, perhaps a part of the weights
    trained = replace(training, model=shard)
    evaluate_every = settings.evaluate_every or state.per_epoch
    threads = ThreadsByLoad(model.compute)

    with _journal(model, run, state) as journal, deferred(), _objects_frozen():

        def evaluate_and_save() -> None:
            with journal.paused():
                if training.validation is not None:
                    _score_and_record(trained, progress, journal)
                progress.evaluated = progress.step
                saved.save()

        try:
            # A run that was stopped between a step and its evaluation is evaluated now.
            if progress.is_due(evaluate_every) and progress.evaluated != progress.step:
                evaluate_and_save()

            for step in state.remaining_steps():
                # One optimizer step has been taken. What happens between two of them, happens here.
                progress.count(step)
                journal.step(step)
                threads.adapt()
                stop_if_interrupted(processes)
                if progress.is_due(evaluate_every):
                    evaluate_and_save()
                elif progress.is_due(settings.checkpoint_every):
                    with journal.paused():
                        saved.save()
                if progress.stops_early(settings.patience):
                    break

            # Always evaluate and save after the last step.
            if progress.evaluated != progress.step:
                evaluate_and_save()
        except Interrupted:
            with journal.paused():
                saved.save()
            raise

    return journal


def _score_and_record(training: Training, progress: Progress, journal: Journal) -> None:
    """Score the model on validation, and record whether it is the best so far."""
    model = training.model
    assert training.validation is not None
    scores = model.evaluate(training.validation)
    main_score = model.task.main_score

    # The record keeps the highest score, so a score of which the least is best changes its sign.
    sign = -1.0 if is_lower_better(main_score) else 1.0
    learned = has_learned(scores, training.label_weights, progress, model.config.training.warmup)
    progress.record_evaluation(sign * scores.values[main_score], scores.values["loss"], learned=learned)
    journal.evaluation("validation", scores, main_score)


def has_learned(scores: SplitScores, weights: LabelWeights | None, progress: Progress, warmup: float) -> bool:
    """Return whether the loss on validation has fallen since the first step: after the warmup, it is clearly below that
    of predicting for every row how frequent the labels are, as far as that is known.

    Runs of 40 and 60 steps ended by patience while they still predicted one label for every row.
    """
    # Where that loss is unknown, the end of the warmup has to do.
    frequency_loss = scores.loss_of_frequencies(None if weights is None else weights.double().cpu().numpy())
    has_fallen = frequency_loss is None or scores.values["loss"] < FALLEN * frequency_loss
    return has_fallen and progress.step > warmup * progress.total


@contextmanager
def _objects_frozen() -> Iterator[None]:
    """Keep Python's garbage collection from visiting all the objects of a run every few steps.

    `GARBAGE_EVERY` in `cli/main.py` has it run less often; what it then visits are the objects made since.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _journal(model: Model, run: Run, state: TrainState) -> Journal:
    """Return the journal of a run, which only the main process keeps."""
    log_every = model.config.training.log_every
    if not model.processes.is_main:
        return Journal(Path(os.devnull), log_every, state.per_epoch, state.progress)
    events = run.events_folder if model.config.tensorboard else None

    # A run that once logged less often has longer gaps between its lines, in which none is lost.
    between = max(log_every, run.most_between_logged_steps)
    return Journal(run.metrics_file, log_every, state.per_epoch, state.progress, events, between)


def _keep_weights(model: Model, run: Run, state: TrainState) -> tuple[dict[str, Any], list[str]]:
    """Put the best checkpoint's weights into the model, or leave the last ones; return which they are, and notes."""
    training = model.config.training
    progress = state.progress
    # Why training ended before its last step.
    notes = []
    if progress.stops_early(training.patience) and progress.step < progress.total:
        evaluations = f"{progress.without_better} evaluations without a better score"
        notes.append(f"Stopped early at step {progress.step:,} of {progress.total:,}: {evaluations}")

    # Without validation, or by request, the last step's weights are kept.
    last = {"step": progress.step, "chosen_by": "last step", "chosen_on": None}
    if training.keep is not Keep.best or not progress.best_step:
        return last, notes

    # Otherwise those of the best step, which the network may hold already.
    is_loaded = progress.best_step == progress.step or _load(model, run, state, progress.best_step)
    if not is_loaded:
        notes.append(f"The best checkpoint, of step {progress.best_step:,}, was damaged, so the last step is used")
        print(f"encoderlab: {notes[-1]}", file=sys.stderr)
        return last, notes
    return {"step": progress.best_step, "chosen_by": model.task.main_score, "chosen_on": "validation"}, notes


def _load(model: Model, run: Run, state: TrainState, step: int) -> bool:
    """Put the weights of that step's checkpoint into the model; return False if it is missing or damaged."""
    # The main process reads the file, and all must agree on whether it could, because all go on from there.
    weights: dict[str, Tensor] = {}
    if model.processes.is_main:
        with suppress(DataError):
            weights = checkpoints.read_weights(run.checkpoints_folder / f"step-{step}")
    [is_intact] = model.processes.all_reduce_sum([bool(weights)])
    if is_intact:
        state.distributed.load(weights)
    return bool(is_intact)


class TrainState:
    """All that the next step of a run depends on, as a checkpoint keeps it: model, optimizer, random generators,
    progress.

    Whatever config and data reproduce is not part of it: batches and masks are functions of seed and position, the
    schedule of the step. For a stream, the place where its window begins is part of it. With several processes all must
    call the same methods in the same order.
    """

    def __init__(self, training: Training) -> None:
        model = training.model
        train = training.rows
        config = model.config
        settings = config.training
        self.model = model
        self.processes = model.processes

        # A stream is read once, by all processes together.
        self.stream = train if isinstance(train, RowStream) else None
        if self.stream is not None:
            self.stream.share_with(self.processes)
        self.progress = Progress()

        # The network, whole or sharded, and what trains it.
        reads_frozen = config.starts_from is not None
        device = model.compute.device
        self.distributed = distribute(model.network, settings, self.processes, device, reads_frozen=reads_frozen)
        optimizer = build_optimizer(self.distributed.network, settings, model.compute.precision)
        self.record_decay = decay_recorder(self.distributed.network, optimizer)
        self.learner = Learner(
            self.distributed.for_forward,
            optimizer,
            settings,
            model.compute,
            processes=self.processes,
            label_weights=training.label_weights,
            form=model.task.loss_form(),
        )

        # How far the run goes, and the batches on the way.
        compiled = model.network.encoder.is_compiled
        self.horizon = horizon_of(settings, len(train), self.processes, compiled=compiled)
        self.per_epoch = steps_per_epoch(settings, len(train))

        batches = TrainingBatches(
            train, settings, config.seed, model.tokenizer.pad_id, model.compute.device, self.processes
        )
        self.steps = StepsWithinMemory(batches, training.micro_batches)

    def remaining_steps(self) -> Iterator[Step]:
        """Yield each step that the run still has to take, after it has been taken; none if it has stopped early."""
        if self.progress.stops_early(self.model.config.training.patience):
            return
        for step in self.steps.take(self.learner, self.horizon, self.progress.step):
            self.record_decay()
            yield step

    def state_dict(self) -> dict[str, Any]:
        """Return the state, complete on the main process, as plain values. Raises as `NonFiniteGuard.read` does."""
        # A step that was not finite, and has not been noticed yet, must not be saved.
        self.learner.guard.read()
        state = {
            "step": self.progress.step,
            "optimizer": self.distributed.optimizer_state(self.learner.optimizer),
            "token_rows": trained_ids(self.distributed.network),
            "progress": asdict(self.progress),
            "budget_spent": self.horizon.spent(),
            "micro_batches": asdict(self.steps.micro_batches),
            "accumulate": self.model.config.training.accumulate,
            "tokenizer": self.model.tokenizer.fingerprint,
            "random_states": self.processes.gather(checkpoints.random_state(self.model.compute.device)) or [],
        }
        if self.stream is not None:
            state["stream"] = self.stream.position(self.progress.step)
        return state

    def load_state_dict(self, state: dict[str, Any], weights: dict[str, Tensor]) -> None:
        """Continue from a `state_dict`, the same on all processes, and the main process's `weights`.

        Raises KeyError, TypeError, ValueError, AttributeError or RuntimeError if they are not those of this run.
        """
        # Weights, and the optimizer's moments of them.
        if state["tokenizer"] != self.model.tokenizer.fingerprint:
            raise ValueError("it belongs to another tokenizer")
        with self.processes.connection_watched():
            self.distributed.load(weights)
        optimizer = self.learner.optimizer
        adapt_moments(state["optimizer"], state.get("token_rows"), self.distributed.network, optimizer)
        self.distributed.load_optimizer_state(optimizer, state["optimizer"])

        # How far the run is, and in how many micro-batches it computes a step.
        self.progress = Progress(**state["progress"])
        self.horizon.resume(state["budget_spent"])
        if state["accumulate"] == self.model.config.training.accumulate:
            kept = MicroBatchCount(**state["micro_batches"])
            self.steps.micro_batches = replace(kept, open=kept.open and self.processes.size == 1)

        # Where the stream and the random generators are.
        if self.stream is not None:
            self.stream.resume(state["stream"])
        device = self.model.compute.device
        seed = self.model.config.seed
        checkpoints.set_random_states(state["random_states"], device, self.processes, seed, state["step"])


class _SavedSteps:
    """The checkpoints of a run: written after some steps, and read once to resume."""

    def __init__(self, run: Run, state: TrainState) -> None:
        self.folder = run.checkpoints_folder
        self.state = state
        self.last = -1  # the step of the newest checkpoint

    def resume(self) -> None:
        """Load the newest intact checkpoint, if there is one. Raises DataError if it is not one of this run."""
        # What a kill left goes first. Then all processes get the newest checkpoint that the main one has verified.
        processes = self.state.processes
        if processes.is_main:
            checkpoints.clear_unfinished(self.folder)
        checkpoint = processes.broadcast_from_main(lambda: checkpoints.newest_verified(self.folder))
        if checkpoint is None:
            if not processes.is_main:  # the main process draws what a single one would
                checkpoints.seed_dropout(self.state.model.config.seed, 0, processes)
            return

        # A checkpoint that does not fit was written by other code, or with other settings.
        state = processes.broadcast_from_main(lambda: checkpoints.read_state(checkpoint))
        try:
            weights = checkpoints.read_weights(checkpoint) if processes.is_main else {}
            self.state.load_state_dict(state, weights)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            reason = one_line(str(error))[:200]
            raise DataError(f"The checkpoint {checkpoint} does not match the run's config: {reason}") from None
        self.last = self.state.progress.step

    def save(self) -> None:
        """Write a checkpoint, and delete those no longer needed.

        If this step has one already, written before it was evaluated, that stays: a resumed run evaluates again.
        """
        progress = self.state.progress
        if self.last == progress.step:
            return

        # Of a sharded network each process has a part, so all of them gather what the main one writes.
        state = self.state.state_dict()
        weights = self.state.distributed.weights()
        if self.state.processes.is_main:
            checkpoints.save_checkpoint(self.folder, progress.step, weights, state)
            checkpoints.prune(self.folder, newest=CHECKPOINTS_KEPT, keep={progress.best_step} - {0})
        self.last = progress.step
