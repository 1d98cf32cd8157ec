"""Running out of memory: how to recognise it, and how to report it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from encoderlab.batch import Batch
from encoderlab.errors import TrainingError

SIGNS = (
    "out of memory",  # of CUDA and MPS
    "CUBLAS_STATUS_ALLOC_FAILED",  # of cuBLAS, which allocates outside PyTorch
    "can't allocate memory",  # on a CPU
    "not enough memory",  # on a CPU under Windows
)


class MemoryTooSmallError(TrainingError):
    """A device's memory is too small. `fewer_rows_help` tells whether computing fewer rows at a time could help."""

    def __init__(self, wrong: str, *, remedy: str, fewer_rows_help: bool = False) -> None:
        super().__init__(wrong, remedy=remedy)
        self.fewer_rows_help = fewer_rows_help


def out_of_memory(
    error: RuntimeError, step: int, micro_batches: Sequence[Batch], *, fewer_rows_help: bool = True
) -> MemoryTooSmallError | None:
    """Return the explanation of an `error` in a step with these `micro_batches`; None if memory is not the problem.

    No micro-batches means that the batch was still being built.
    """
    if not is_about_memory(error):
        return None
    remedy = "Choose a smaller model, or a smaller model.max_length"
    if not micro_batches:
        return MemoryTooSmallError(
            f"The memory is too small for the batch of step {step}", remedy=remedy, fewer_rows_help=True
        )
    rows = sum(len(micro_batch) for micro_batch in micro_batches)
    longest = max(micro_batch.input_ids.shape[1] for micro_batch in micro_batches)
    device = micro_batches[0].input_ids.device.type
    more = min(2 * len(micro_batches), rows)
    helps = fewer_rows_help and len(micro_batches) < rows
    if helps:
        remedy = f"Set training.accumulate={more} to compute each batch in {more} micro-batches; only dropout's random draws differ"
    number = f"{len(micro_batches)} micro-batch{'es' * (len(micro_batches) > 1)}"
    batch = f"a batch of {rows} rows of up to {longest} tokens in {number}"
    wrong = f"The memory of the device ({device}) is too small for step {step}, {batch}"
    return MemoryTooSmallError(wrong, remedy=remedy, fewer_rows_help=helps)


def is_about_memory(error: RuntimeError) -> bool:
    """Return whether `error` says that memory ran out."""
    return isinstance(error, torch.OutOfMemoryError) or any(sign in str(error) for sign in SIGNS)


def give_back_memory() -> None:
    """Make PyTorch release its unused memory, so that it can be allocated in other sizes."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
