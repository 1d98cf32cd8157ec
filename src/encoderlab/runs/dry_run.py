"""A dry run: some real steps and evaluation batches of a run that is not started, and what the whole run would take.

The assembly and the steps are those of a real run; the weights are thrown away.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from torch import nn

from encoderlab.runs.assembly import Assembly
from encoderlab.runs.journal import in_words
from encoderlab.training.batches import EVALUATION_SEED, Rows, epoch_counts, n_scoring_batches
from encoderlab.training.config import seconds_of
from encoderlab.training.evaluation import evaluate
from encoderlab.training.horizon import Horizon, horizon_of, steps_per_epoch, total_steps
from encoderlab.training.loop import Learner
from encoderlab.training.micro_batches import MicroBatches, StepsWithinMemory
from encoderlab.training.optimizer import build_optimizer

WARM_UP = 3  # uncounted steps: they compile, allocate memory and fill caches
TIMED, TIMED_SECONDS = 30, 10.0  # most steps that are timed, within this many seconds
LEAST_TIMED = 2
SCORED_BATCHES = 10  # of each split


def dry_run(assembly: Assembly, rows: Mapping[str, Rows], command: str) -> None:
    """Take the first steps of the run, score a few batches of each split, and print what the whole run would take.

    `rows` are those of `train` and of the splits that are scored. The model's weights are changed. All processes of a
    run call it. Raises MemoryTooSmallError and TrainingError as a run does.
    """
    config, train = assembly.config, rows["train"]
    training, model = config.training, assembly.model
    distributed = assembly.distribute()
    assembly = replace(assembly, model=distributed.model)
    n_steps, seconds, padded_tokens = _timed_steps(assembly, distributed.stepped, train)
    lengths = train.epoch(config.seed, 0).lengths
    micro_batches = 1 if assembly.micro_batches is None else assembly.micro_batches.number
    longest, processes = assembly.task.max_length, assembly.processes
    epoch = epoch_counts(lengths, training, config.seed, micro_batches, processes, longest=longest)
    per_step = seconds / padded_tokens * epoch.padded_tokens / epoch.steps
    scoring = {name: _scoring_seconds(assembly, part) for name, part in rows.items() if name != "train"}
    every = training.evaluate_every or steps_per_epoch(training, len(train))
    budget = None if training.budget is None else seconds_of(training.budget)
    if budget is None:
        steps = total_steps(training, len(train))
    else:
        steps = max(int(budget / (per_step + scoring.get("validation", 0.0) / every)), 1)
    evaluations = -(-steps // every)
    evaluating = evaluations * scoring.get("validation", 0.0) + sum(scoring.values())
    total = steps * per_step + evaluating if budget is None else budget + sum(scoring.values())
    parts = ", ".join(f"{part} {n:,}" for part, n in model.parameters_by_part().items())
    frozen = sum(weight.numel() for weight in model.parameters() if not weight.requires_grad)
    about, within = ("about ", f" within training.budget={training.budget}") if budget else ("", "")
    tokens = steps * epoch.tokens / epoch.steps
    lines = {
        f"{command} {config.task.name}, seed {config.seed}": "dry run: only the cache is written",
        "Parameters": f"{model.n_parameters:,} ({parts}){f'; {frozen:,} frozen' if frozen else ''}",
        "Choices": "; ".join(assembly.choices),
        "Rows": ", ".join(f"{len(part):,} {name}" for name, part in rows.items()),
        "Steps": f"{about}{steps:,}{within} of {training.batch_size} rows ({steps / epoch.steps:,.2f} epochs of "
        f"{epoch.steps:,}), {math.ceil(training.warmup * steps):,} of warmup, {evaluations:,} evaluation"
        f"{'s' * (evaluations != 1)} during training",
        "Tokens": f"{tokens:,.0f} to train on; {1 - epoch.tokens / epoch.padded_tokens:.1%} padding",
        "Time": f"about {in_words(total)}: training {in_words(steps * per_step)} at {in_words(per_step)} a step, "
        f"evaluation {in_words(evaluating)}; from {n_steps} step{'s' * (n_steps != 1)} on this machine at its present "
        "load",
        "Not included": "reading and tokenising, baselines, writing checkpoints and the report",
    }
    print(*(f"{name}: {words}" for name, words in lines.items()), sep="\n")


def _timed_steps(assembly: Assembly, stepped: nn.Module, train: Rows) -> tuple[int, float, int]:
    """Take the run's first steps; return how many were timed, their seconds, and their tokens with padding."""
    training, compute, processes = assembly.config.training, assembly.compute, assembly.processes
    horizon = Horizon(WARM_UP + TIMED) if training.budget is not None else horizon_of(training, len(train))[0]
    optimizer = build_optimizer(assembly.model, training)
    learner = Learner(stepped, optimizer, training, compute, processes, assembly.label_weights)
    micro_batches = assembly.micro_batches or MicroBatches(1, "as set")
    within = StepsWithinMemory(partial(assembly.training_batches, train), micro_batches, training.batch_size)
    warm_up = min(WARM_UP, horizon.steps(0) - LEAST_TIMED)
    n_steps, seconds, tokens, before = 0, 0.0, 0, time.perf_counter()
    for step in within.take(learner, horizon):
        step.numbers()  # waits for the device
        now = time.perf_counter()
        if step.number > warm_up:
            n_steps, seconds, tokens = n_steps + 1, seconds + now - before, tokens + step.totals.padded_tokens
        enough = n_steps >= TIMED or (n_steps >= LEAST_TIMED and seconds > TIMED_SECONDS)
        if processes.broadcast_from_main(lambda enough=enough: enough):
            break
        before = time.perf_counter()
    return n_steps, seconds, tokens


def _scoring_seconds(assembly: Assembly, rows: Rows) -> float:
    """Return the estimated seconds of scoring all of `rows`, from some batches spread over them."""
    lengths, width = rows.epoch(EVALUATION_SEED, 0).lengths, assembly.config.model.d_model
    batches = n_scoring_batches(lengths, assembly.compute.device, width, assembly.processes)
    every = math.ceil(batches / SCORED_BATCHES)
    some = assembly.scoring_batches(rows, assembly.processes, every=every)
    started = time.perf_counter()
    evaluate(assembly.model, some, assembly.task.metrics(), assembly.compute, assembly.processes)
    return (time.perf_counter() - started) * batches / math.ceil(batches / every)
