"""A dry run: some real steps of a run that is not started, and the size, memory and time of the whole run.

The assembly and the steps are those of a real run; the weights are thrown away.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

import numpy as np
import torch

from encoderlab.runs.assembly import Assembly
from encoderlab.runs.fit import TrainState
from encoderlab.runs.journal import in_words
from encoderlab.training.batches import Rows
from encoderlab.training.config import seconds_of
from encoderlab.training.horizon import steps_per_epoch, total_steps

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
    lines = {
        f"{command} {config.task.name}, seed {config.seed}": "dry run: only the cache is written",
        "Parameters": f"{model.n_parameters:,} ({parts}){f'; {frozen:,} frozen' if frozen else ''}",
        "Choices": "; ".join(assembly.choices),
        "Rows": ", ".join(f"{len(part):,} {name}" for name, part in rows.items()),
        "Steps": f"{'about ' if budget else ''}{steps:,}{within} of {training.batch_size} rows "
        f"({steps / per_epoch:,.2f} epochs of {per_epoch:,}), {evaluations:,} evaluation{'s' * (evaluations != 1)}",
        "Memory": _peak_memory(assembly.compute.device),
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


def _peak_memory(device: torch.device) -> str:
    """Return the largest memory so far: of the GPU, or of this process on a CPU."""
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(device)
    elif sys.platform == "win32":
        return "not measured on Windows"
    else:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return f"{peak / 2**30:.1f} GiB at most so far"
