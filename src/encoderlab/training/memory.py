"""Running out of memory: how to recognise it, what to tell the user, and predictions in smaller batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import torch

from encoderlab.batch import Batch
from encoderlab.errors import TrainingError

SIGNS = (
    "out of memory",  # of CUDA and MPS
    "CUBLAS_STATUS_ALLOC_FAILED",  # of cuBLAS, which allocates beside PyTorch
    "can't allocate memory",  # of a CPU
    "not enough memory",  # of a CPU under Windows
)
Answer = TypeVar("Answer")


class MemoryTooSmallError(TrainingError):
    """A device whose memory is too small. `fewer_rows_help` says whether computing fewer rows at a time could help."""

    def __init__(self, wrong: str, *, remedy: str, fewer_rows_help: bool = False) -> None:
        super().__init__(wrong, remedy=remedy)
        self.fewer_rows_help = fewer_rows_help


def out_of_memory(
    error: RuntimeError, step: int, micro_batches: Sequence[Batch], *, fewer_rows_help: bool = True
) -> MemoryTooSmallError | None:
    """The explanation of an `error` in a step whose batch was computed in these `micro_batches`; None if memory is not the problem.

    Without micro-batches the batch was still being made.
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
    """Whether `error` says that there was no memory left."""
    return isinstance(error, torch.OutOfMemoryError) or any(sign in str(error) for sign in SIGNS)


def give_back_memory() -> None:
    """Have PyTorch hold no memory that nothing uses any more, so that it can be had in other sizes."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def answered(batches: Iterable[Batch], answer: Callable[[Batch], Answer], *, halve: bool = True) -> Iterator[tuple[Batch, Answer]]:
    """Each batch with its answer; one for which memory is too small in halves, as are all later ones of its size.

    Processes that compute each batch together must not `halve` one alone.
    `answer` must leave nothing behind where it fails, and give each row the answer it gives it in any batch. Raises
    MemoryTooSmallError where a single row is too much, or none may be halved.
    """
    too_many = math.inf  # tokens, padding among them
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
    return None  # the error is gone by now, and with it what its frames held


def _too_small_for_a_row(batch: Batch) -> MemoryTooSmallError:
    what = "a row" if len(batch) == 1 else f"{len(batch)} rows"
    sequences, length = batch.input_ids.shape
    of = f"{length} tokens" if sequences == len(batch) else f"{sequences} windows of {length} tokens"
    wrong = f"The memory of the device ({batch.input_ids.device.type}) is too small for {what} of {of}"
    return MemoryTooSmallError(wrong, remedy="Choose another device, or a smaller model")
