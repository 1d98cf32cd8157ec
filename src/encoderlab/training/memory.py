"""Running out of memory: how to recognise it, how to report it, and how to predict in smaller batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import torch

from encoderlab.batch import Batch
from encoderlab.errors import TrainingError

SIGNS = (
    "out of memory",  # of CUDA and MPS
    "CUBLAS_STATUS_ALLOC_FAILED",  # of cuBLAS, which allocates outside PyTorch
    "can't allocate memory",  # on a CPU
    "not enough memory",  # on a CPU under Windows
)
Answer = TypeVar("Answer")


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
        return MemoryTooSmallError(f"The memory is too small for the batch of step {step}", remedy=remedy, fewer_rows_help=True)
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


def answered(batches: Iterable[Batch], answer: Callable[[Batch], Answer], *, halve: bool = True) -> Iterator[tuple[Batch, Answer]]:
    """Yield each batch with its answer. A batch that does not fit in memory is halved, and so are all later ones of its size.

    Processes that compute each batch together must not `halve` one alone. `answer` must leave nothing behind if it fails, and
    its answer for a row must not depend on the batch. Raises MemoryTooSmallError if a single row is too much, or halving is not
    allowed.
    """
    too_many = math.inf  # tokens, including padding
    for batch in batches:
        waiting = [batch]
        while waiting:
            micro_batch = waiting.pop()
            found = (
                _unless_too_much(micro_batch, answer) if micro_batch.input_ids.numel() < too_many or len(micro_batch) == 1 else None
            )
            if found is not None:
                yield micro_batch, found[0]
                continue
            if len(micro_batch) == 1 or not halve:
                raise _too_small_for_a_row(micro_batch)
            too_many = min(too_many, micro_batch.input_ids.numel())
            give_back_memory()
            waiting.extend(reversed(micro_batch.halves()))


def _unless_too_much(batch: Batch, answer: Callable[[Batch], Answer]) -> tuple[Answer] | None:
    try:
        return (answer(batch),)
    except RuntimeError as error:
        if not is_about_memory(error):
            raise
    return None  # by now the error is freed, and with it the tensors in its frames


def _too_small_for_a_row(batch: Batch) -> MemoryTooSmallError:
    what = "a row" if len(batch) == 1 else f"{len(batch)} rows"
    sequences, length = batch.input_ids.shape
    of = f"{length} tokens" if sequences == len(batch) else f"{sequences} windows of {length} tokens"
    wrong = f"The memory of the device ({batch.input_ids.device.type}) is too small for {what} of {of}"
    return MemoryTooSmallError(wrong, remedy="Choose another device, or a smaller model")
