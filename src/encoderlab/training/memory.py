"""Running out of memory: how a device says so, and what to type then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from encoderlab.batch import Batch
from encoderlab.errors import TrainingError

SIGNS = ("out of memory", "can't allocate memory", "not enough memory")  # of CUDA and MPS; of a CPU; of a CPU under Windows


@contextmanager
def memory_errors_explained(step: int, parts: Sequence[Batch]) -> Iterator[None]:
    """Raise TrainingError with what to type where the enclosed part of a step runs out of memory."""
    try:
        yield
    except RuntimeError as error:
        raise out_of_memory(error, step, parts) or error from None


def out_of_memory(error: RuntimeError, step: int, parts: Sequence[Batch]) -> TrainingError | None:
    """What to say of an `error` in a step whose batch was computed in these `parts`; None where it is about something else."""
    if not isinstance(error, torch.OutOfMemoryError) and not any(sign in str(error) for sign in SIGNS):
        return None
    rows, longest = sum(len(part) for part in parts), max(part.input_ids.shape[1] for part in parts)
    device = parts[0].input_ids.device.type
    more = min(2 * len(parts), rows)
    remedy = f"Type training.accumulate={more} to compute each batch in {more} parts, alike but for what dropout draws"
    if len(parts) == rows:
        remedy = "Choose a smaller model, or a smaller model.max_length"
    batch = f"a batch of {rows} rows of up to {longest} tokens in {len(parts)} part{'s' * (len(parts) > 1)}"
    return TrainingError(f"The memory of the device ({device}) is too small for step {step}, {batch}", remedy=remedy)
