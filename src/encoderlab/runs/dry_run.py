"""A dry run: some real steps and evaluation batches of a run that is not started, and estimates for the whole run.

The assembly and the steps are those of a real run; the weights are thrown away."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from torch import nn

from encoderlab.metrics import SplitScores
from encoderlab.runs.assembly import Assembly
from encoderlab.system.device import peak_memory, reset_peak_memory
from encoderlab.training.batches import (
    EVALUATION_SEED,
    EpochCounts,
    Rows,
    epoch_counts,
    n_scoring_batches,
    scoring_batches,
)
from encoderlab.training.config import seconds_of
from encoderlab.training.evaluation import evaluate
from encoderlab.training.horizon import Horizon, horizon_of, steps_per_epoch, total_steps
from encoderlab.training.loop import Learner, NonFiniteGuard
from encoderlab.training.micro_batches import MicroBatches, StepsWithinMemory
from encoderlab.training.optimizer import build_optimizer

WARM_UP, WARM_UP_SECONDS = (
    3,
    30.0,
)  # uncounted steps, within this many seconds: they compile, allocate memory and fill caches
MEASURED, MEASURED_SECONDS = 30, 10.0  # most counted steps, within this many seconds
LEAST_MEASURED = 2
EVALUATED, EVALUATION_SECONDS = 20, 3.0  # most scored batches, within about this many seconds
FORWARD_SHARE = 1 / 3  # of a step's time: a backward pass takes about twice as long as a forward one
STATE_BYTES = 12  # per weight in a checkpoint: the weight and AdamW's two averages


@dataclass
class _Measured:
    """Seconds and tokens (with padding) of each counted step, the number of steps before them, and of micro-batches."""

    micro_batches: MicroBatches
    warm_up: int = 0
    seconds: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)


def dry_run(assembly: Assembly, rows: Mapping[str, Rows]) -> dict[str, Any]:
    """Take the first steps of the run, score a few batches of each split, and return estimates for the whole run.

    `rows` are those of `train` and of the splits that are scored. The model's weights are changed. All processes
    of a run call it. `time` is in seconds and `memory` in bytes. Raises MemoryTooSmallError and TrainingError as a
    run does.
    """
    device = assembly.compute.device
    reset_peak_memory(device)
    distributed = assembly.distribute()
    stepping = replace(assembly, model=distributed.model)
    measured = _steps(stepping, distributed.stepped, rows["train"])
    epoch = _epoch(assembly, rows["train"], measured.micro_batches.number)
    per_token = sum(measured.seconds) / sum(measured.tokens)
    step = per_token * epoch.padded_tokens / epoch.steps
    scored = {name: _evaluation(stepping, part, per_token) for name, part in rows.items() if name != "train"}
    estimate = _time(assembly, rows["train"], step, {name: seconds for name, (seconds, _) in scored.items()})
    return {
        "task": assembly.config.task.name,
        "seed": assembly.config.seed,
        "choices": replace(assembly, micro_batches=measured.micro_batches).choices,
        "model": _model(assembly),
        "rows": {name: len(part) for name, part in rows.items()},
        "steps": _counts(assembly, epoch, estimate, measured.micro_batches),
        "padding_fraction": 1 - epoch.tokens / epoch.padded_tokens,
        "memory": {
            "checkpoint": assembly.model.n_parameters * STATE_BYTES,
            "peak": peak_memory(device),
            "device": device.type,
        },
        "time": estimate | {"step": step, "warm_up_steps": measured.warm_up, "measured_steps": len(measured.seconds)},
        "figures": {name: list(scores.as_dict()) for name, (_, scores) in scored.items()},
    }


def _epoch(assembly: Assembly, train: Rows, micro_batches: int) -> EpochCounts:
    config = assembly.config
    lengths, longest = train.epoch(config.seed, 0).lengths, assembly.task.max_length
    return epoch_counts(lengths, config.training, config.seed, micro_batches, assembly.processes, longest=longest)


def _steps(assembly: Assembly, stepped: nn.Module, train: Rows) -> _Measured:
    """Take the run's first steps and time each; the main process decides how many there are."""
    training, compute, processes = assembly.config.training, assembly.compute, assembly.processes
    horizon = horizon_of(training, len(train))[0] if training.budget is None else Horizon(WARM_UP + MEASURED)
    optimizer = build_optimizer(assembly.model, training)
    guard = NonFiniteGuard(training.skip_nonfinite, waits=True)
    learner = Learner(stepped, optimizer, training, compute, guard, processes)
    assert assembly.micro_batches is not None, "a settled assembly has them"
    within = StepsWithinMemory(partial(assembly.training_batches, train), assembly.micro_batches, training.batch_size)
    measured, warm_up = _Measured(within.micro_batches), min(WARM_UP, horizon.steps(0) - LEAST_MEASURED)
    started = before = time.perf_counter()
    for step in within.take(learner, horizon):
        step.figures()  # waits for the device
        now = time.perf_counter()
        if step.number <= warm_up and before - started < WARM_UP_SECONDS:
            measured.warm_up = step.number
        else:
            measured.seconds.append(now - before)
            measured.tokens.append(step.totals.padded_tokens)
        if processes.broadcast_from_main(lambda: _is_enough(measured)):
            break
        before = time.perf_counter()
    measured.micro_batches = within.micro_batches
    return measured


def _is_enough(measured: _Measured) -> bool:
    taken = len(measured.seconds)
    return taken >= MEASURED or (taken >= LEAST_MEASURED and sum(measured.seconds) > MEASURED_SECONDS)


def _evaluation(assembly: Assembly, rows: Rows, per_token: float) -> tuple[float, SplitScores]:
    """Return the estimated seconds of scoring all of `rows`, from some batches spread over them, and the scores of
    these.
    """
    device, d_model, processes = assembly.compute.device, assembly.config.model.d_model, assembly.processes
    lengths = rows.epoch(EVALUATION_SEED, 0).lengths
    batches = n_scoring_batches(lengths, device, d_model, processes)
    a_batch = per_token * FORWARD_SHARE * float(lengths.sum()) / batches
    every = processes.broadcast_from_main(
        lambda: math.ceil(batches / max(min(EVALUATED, int(EVALUATION_SECONDS / max(a_batch, 1e-9))), 1))
    )
    some = scoring_batches(rows, assembly.tokenizer.pad_id, device, d_model, processes, every=every)
    started = time.perf_counter()
    scores = evaluate(assembly.model, some, assembly.task.metrics(), assembly.compute, processes)
    return (time.perf_counter() - started) * batches / math.ceil(batches / every), scores


def _model(assembly: Assembly) -> dict[str, Any]:
    model = assembly.model
    learning = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    return {"parameters": model.n_parameters, "parameters_by_part": model.parameters_by_part(), "learning": learning}


def _time(assembly: Assembly, train: Rows, step: float, evaluations: Mapping[str, float]) -> dict[str, Any]:
    training = assembly.config.training
    budget = None if training.budget is None else seconds_of(training.budget)
    steps = None if budget else total_steps(training, len(train))
    per_evaluation = training.evaluate_every or steps_per_epoch(training, len(train))
    validation, final = evaluations.get("validation", 0.0), sum(evaluations.values())
    if steps is None:
        assert budget is not None, "a run ends after some steps or some time"
        steps = max(int(budget / (step + validation / per_evaluation)), 1)
    n_evaluations = -(-steps // per_evaluation)
    evaluation = n_evaluations * validation + final
    return {
        "steps": steps,
        "evaluations": n_evaluations,
        "training": steps * step,
        "evaluation": evaluation,
        "total": steps * step + evaluation if budget is None else budget + final,
    }


def _counts(
    assembly: Assembly, epoch: EpochCounts, estimate: Mapping[str, Any], micro_batches: MicroBatches
) -> dict[str, Any]:
    """Return the counts of steps, epochs and tokens; `total` is an estimate if a budget ends the run."""
    training, total = assembly.config.training, estimate["steps"]
    return {
        "per_epoch": epoch.steps,
        "total": total,
        "epochs": total / epoch.steps,
        "warmup": math.ceil(training.warmup * total),
        "evaluations": estimate["evaluations"],
        "batch_size": training.batch_size,
        "parts": micro_batches.number,
        "budget": training.budget,
        "tokens": total * epoch.tokens / epoch.steps,
    }
