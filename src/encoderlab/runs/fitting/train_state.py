"""A run in progress: everything that its next step depends on, as a checkpoint keeps it.

Whatever config and data reproduce is not part of it: batches and masks are functions of seed and position, the schedule
of the step. For a stream, the place where its window begins is part of it.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from typing import Any

from torch import Tensor

from encoderlab.runs.fitting.progress import Progress
from encoderlab.runs.models.assembly import Assembly
from encoderlab.tasks.stream import StreamedRows
from encoderlab.training.batches import Rows
from encoderlab.training.compilation import is_compiled
from encoderlab.training.distribution import begin_dropout, random_states, set_random_states
from encoderlab.training.horizon import horizon_of
from encoderlab.training.loop import Learner
from encoderlab.training.micro_batches import MicroBatches, StepsWithinMemory
from encoderlab.training.optimizer import build_optimizer


class TrainState:
    """Model, optimizer, random generators, and how far training has come.

    `learner` and `horizon` are what the loop takes, `steps` retries those that run out of memory, `progress` counts
    what is done. With several processes all must call the same methods in the same order.
    """

    def __init__(self, assembly: Assembly, train: Rows) -> None:
        training, self.processes = assembly.config.training, assembly.processes
        self.stream = train if isinstance(train, StreamedRows) else None
        if self.stream is not None:
            self.stream.share_with(self.processes)
        self.assembly, self.distributed, self.progress = assembly, assembly.distribute(), Progress()
        optimizer = build_optimizer(self.distributed.model, training)
        stepped, compute, label_loss = self.distributed.stepped, assembly.compute, assembly.label_loss
        self.learner = Learner(stepped, optimizer, training, compute, processes=self.processes, label_loss=label_loss)
        self.horizon, self.per_epoch = horizon_of(
            training, len(train), self.processes, compiled=is_compiled(assembly.compiled)
        )
        micro_batches = assembly.micro_batches or MicroBatches(training.accumulate or 1, "as set")
        self.steps = StepsWithinMemory(partial(assembly.training_batches, train), micro_batches, training.batch_size)

    def begin(self) -> None:
        """Start a new run: each process draws its own dropout, and the main process what a single process would."""
        if not self.processes.is_main:
            begin_dropout(self.assembly.config.seed, 0, self.processes)

    @property
    def computed_on(self) -> dict[str, Any]:
        """Return what determines rounding: a run that resumes on something else takes slightly different steps."""
        compute = self.assembly.compute
        precision = str(compute.precision).removeprefix("torch.")
        return {
            "device": compute.device.type,
            "precision": precision,
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
        """Return notes for the report: on skipped steps, on memory that ran out, and on damaged shards."""
        found = (self.learner.guard.note(), self.steps.note(), None if self.stream is None else self.stream.note())
        return [note for note in found if note]

    def weights(self) -> dict[str, Tensor]:
        """Return the model's weights, on the CPU; complete on the main process."""
        return self.distributed.weights()
