"""Finds the precision and the number of threads with which a model trains fastest on this machine's CPU, among those
that the settings leave open: a few real steps are taken with each before the first one, and leave nothing behind.

Rules know the processor, but not where a model's time goes: of small models in small batches, whose steps are mostly
calls of small operations, one thread and float32 may be faster (benchmarks/results/training_speed.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from operator import truediv
from statistics import mean, median
from time import perf_counter

import torch

from encoderlab.batch import Batch
from encoderlab.runs.fit import TrainState
from encoderlab.runs.training import Training
from encoderlab.system.device import PRECISION_NAMES, Compute
from encoderlab.system.processes import stop_if_interrupted
from encoderlab.training.batches import RowStream
from encoderlab.training.checkpoint import random_state, set_random_state
from encoderlab.training.config import Compile, Precision, TrainingConfig, total_steps
from encoderlab.training.loop import Learner, accumulate_gradients, count_totals
from encoderlab.training.optimizer import clip_gradients

LEAST_STEPS = 500  # of a run: a shorter one is over before a choice has paid for itself
BATCHES = 3  # of different lengths, which every choice computes
ROUNDS = 3  # of them, the first of which is not counted: it allocates memory and plans kernels
LONGEST_STEP = 1.0  # seconds; in longer ones, matrix products decide, of which the rules know
GAIN = 1.1  # the least speed-up for which another choice replaces that of the rules


@dataclass(frozen=True, slots=True)
class PrecisionAndThreads:
    """A precision of the matrix products, and a number of threads."""

    precision: torch.dtype
    threads: int

    def __str__(self) -> str:
        return f"{PRECISION_NAMES[self.precision]}, {self.threads} thread{'s' * (self.threads > 1)}"


def fastest_compute(training: Training, *, resumed: bool) -> Compute:
    """Return how the model is to be computed: by the fastest choice if some are open, and otherwise as it is now.

    The model, its gradients and the random generators are as before. A `resumed` run keeps what it began with.
    """
    model = training.model
    compute = model.compute
    choices = _choices(model.config.training, compute)

    # A resumed run keeps its choice, because another one rounds differently.
    if resumed or len(choices) < 2 or not _can_be_timed(training):
        return compute
    seconds = _seconds_of_steps(training, choices)
    if not seconds:
        return compute

    # The rules' choice is the first, whose speed is 1. Other load on the machine affects the steps on one batch alike.
    first = choices[0]
    speeds = {choice: median(map(truediv, seconds[first], seconds[choice])) for choice in choices}
    fastest = max(speeds, key=lambda choice: speeds[choice])
    if speeds[fastest] < GAIN:
        fastest = first

    # The process computes so from here on, and the report says why.
    torch.set_num_threads(fastest.threads)
    reason = f"the fastest of {len(choices)} choices that were timed"
    if fastest != first:
        reason += f", {speeds[fastest]:.2f} times as fast as {first}"
    return replace(
        compute,
        precision=fastest.precision,
        threads=fastest.threads,
        reason=reason,
        prediction_threads=compute.threads,
        follows_load=compute.follows_load and fastest.threads == compute.threads,
        speeds={str(choice): round(speed, 2) for choice, speed in speeds.items()},
        step_seconds=mean(seconds[fastest]),
    )


def _choices(training: TrainingConfig, compute: Compute) -> list[PrecisionAndThreads]:
    """Return what the settings and the rules leave open; first what the rules have chosen."""
    precisions = [compute.precision]
    if training.precision is Precision.auto and compute.precision is torch.bfloat16:
        precisions.append(torch.float32)

    # Threads wait for each other at each small operation, so fewer of them may be faster.
    threads = [compute.threads]
    while compute.follows_load and threads[-1] > 1:
        threads.append(threads[-1] // 2)
    return [PrecisionAndThreads(*pair) for pair in product(precisions, threads)]


def _can_be_timed(training: Training) -> bool:
    """Return whether a run is one of many steps in one process on a CPU, whose numbers may depend on its speed."""
    model = training.model
    settings = model.config.training

    # Not where results must not depend on the load of the machine, or where compiling changes what is fast.
    stays = not settings.measure or settings.deterministic or settings.compile is Compile.always
    if stays or model.compute.device.type != "cpu" or model.processes.size > 1 or isinstance(training.rows, RowStream):
        return False
    return settings.budget is not None or total_steps(settings, len(training.rows)) >= LEAST_STEPS


def _seconds_of_steps(
    training: Training, choices: Sequence[PrecisionAndThreads]
) -> Mapping[PrecisionAndThreads, list[float]]:
    """Return how long each of some steps takes with each choice, which compute the same batches in turn; {} if steps
    take long, or are not finite.
    """
    model = training.model

    # What these steps change is put back in the end: the state of the generators and the number of threads.
    generators = random_state(model.compute.device)
    threads = torch.get_num_threads()
    state = TrainState(training)
    batches = list(islice(state.steps.batches.steps(0, training.micro_batches.number), BATCHES))
    taken: dict[PrecisionAndThreads, list[float]] = {choice: [] for choice in choices}
    try:
        # The choices take turns, so that other load on the machine slows down all of them alike.
        for round_number, batch in product(range(ROUNDS), batches):
            for choice in choices:
                stop_if_interrupted(model.processes)
                seconds = _seconds(state.learner, batch, choice)
                if not seconds or (choice == choices[0] and seconds > LONGEST_STEP):
                    return {}
                if round_number > 0:
                    taken[choice].append(seconds)
    finally:
        state.distributed.finish()
        torch.set_num_threads(threads)
        set_random_state(generators, model.compute.device)
    return taken


def _seconds(learner: Learner, micro_batches: Sequence[Batch], choice: PrecisionAndThreads) -> float:
    """Return how long a step takes that changes no weight, because its learning rate is 0; or 0 if it is not finite."""
    torch.set_num_threads(choice.threads)
    timed = replace(learner, compute=replace(learner.compute, precision=choice.precision))
    timed.copies = learner.copies
    timed.network.train()

    # At a learning rate of 0 a step takes as long as any other, and leaves the weights as they are.
    optimizer = timed.optimizer
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    started = perf_counter()
    accumulate_gradients(timed, micro_batches, count_totals(micro_batches).targets)
    norm = clip_gradients(timed.copies.gradients(optimizer), timed.config.clip_norm)
    timed.copies.put_back()

    # Even at this rate, a gradient that is not finite would reach the weights.
    is_finite = bool(norm.isfinite())
    if is_finite:
        optimizer.step()
    optimizer.zero_grad()
    return perf_counter() - started if is_finite else 0.0
