"""A dry run: takes some real steps of a run that is not started, and says what the whole run would take."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

import numpy as np
import torch

from encoderlab.runs.fit import TrainState
from encoderlab.runs.journal import in_words
from encoderlab.runs.training import Training
from encoderlab.training.batches import Rows
from encoderlab.training.config import seconds_of, steps_per_epoch, total_steps
from encoderlab.training.occurring_rows import rows_left_out

WARM_UP = 3  # uncounted steps: they compile, allocate memory and fill caches
TIMED = 30  # the most steps that are timed
TIMED_SECONDS = 10.0
SCORING = 1 / 3  # of the time that training takes for a row: the forward pass, without the backward pass


def estimate(training: Training, rows: Mapping[str, Rows]) -> None:
    """Take the first steps of the run, and print what the whole run would take.

    `rows` are those of the splits, of which all but `train` are scored. The model's weights are changed. All processes
    of a run call it. Raises MemoryTooSmallError and TrainingError as a run does.
    """
    model = training.model
    config = model.config
    settings = config.training
    network = model.network

    # How long one step takes here.
    per_step = _seconds_per_step(training)

    # How many steps and evaluations there would be, and how long they would take together.
    n_rows = len(training.rows)
    per_epoch = steps_per_epoch(settings, n_rows)
    budget = None if settings.budget is None else seconds_of(settings.budget)
    steps = total_steps(settings, n_rows) if budget is None else max(int(budget / per_step), 1)
    evaluations = 0
    if "validation" in rows:
        evaluations = -(-steps // (settings.evaluate_every or per_epoch))

    # Validation is scored at each evaluation, and each split once more in the end.
    scored = evaluations * len(rows.get("validation", ()))
    scored += sum(len(split_rows) for name, split_rows in rows.items() if name != "train")
    scoring = SCORING * scored * per_step / min(settings.batch_size, n_rows)
    total = steps * per_step + scoring if budget is None else budget

    # Frozen weights, and rows of the token table that no text has, take memory but no part in a step.
    frozen = sum(weight.numel() for weight in network.parameters() if not weight.requires_grad)
    left_out = rows_left_out(network)
    by_part = network.parameters_by_part()
    by_part["embeddings"] += left_out
    parts = ", ".join(f"{part} {n:,}" for part, n in by_part.items())
    within = f" within training.budget={settings.budget}" if budget else ""
    peak = _peak_memory(model.compute.device)
    rows_read = {**rows, "train": training.rows}
    lines = {
        f"{config.command} {config.task.name}, seed {config.seed}": "dry run: only the cache is written",
        "Parameters": f"{network.n_parameters + left_out:,} ({parts}){f'; {frozen:,} frozen' if frozen else ''}",
        "Choices": "; ".join(training.choices),
        "Rows": ", ".join(f"{len(split_rows):,} {name}" for name, split_rows in rows_read.items()),
        "Steps": f"{'about ' if budget else ''}{steps:,}{within} of {settings.batch_size} rows "
        f"({steps / per_epoch:,.2f} epochs of {per_epoch:,}), {evaluations:,} evaluation{'s' * (evaluations != 1)}",
    }
    if peak:
        lines["Memory"] = f"{peak / 2**30:.1f} GiB at most so far"
    lines["Time"] = (
        f"about {in_words(total)} at {in_words(per_step)} a step on this machine at its present load, besides reading "
        "and tokenising, baselines and the report"
    )
    print(*(f"{name}: {words}" for name, words in lines.items()), sep="\n")


def _peak_memory(device: torch.device) -> int:
    """Return the most bytes that this process has used, of the GPU's memory or of the machine's; 0 if unknown."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return 0
    import resource  # which Windows lacks

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _seconds_per_step(training: Training) -> float:
    """Take the run's first steps; return the mean time of one."""
    state = TrainState(training)
    times = [time.perf_counter()]
    for step in state.remaining_steps():
        step.numbers()  # waits for the device
        times.append(time.perf_counter())

        # The first steps are slower; a few after them say enough.
        timed = times[WARM_UP:]
        enough = len(timed) > TIMED or (len(timed) > 1 and timed[-1] - timed[0] > TIMED_SECONDS)

        # All processes have to stop after the same step.
        if training.model.processes.broadcast_from_main(lambda enough=enough: enough):
            break
    return float(np.diff(times)[min(WARM_UP, len(times) - 2) :].mean())
