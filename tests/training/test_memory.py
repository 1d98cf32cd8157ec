"""Running out of memory is recognised and reported with a remedy; other errors pass unchanged."""

import pytest
import torch

from encoderlab.batch import Batch
from encoderlab.training.micro_batches import out_of_memory


def micro_batches_of(*rows, length=7):
    return [
        Batch(ids, ids, None, ids[:, 0], ids[:0, 0], None, None, ids.numel())
        for ids in (torch.zeros(n, length, dtype=torch.long) for n in rows)
    ]


def test_a_device_out_of_memory_is_reported_with_the_accumulation_that_would_help():
    error = out_of_memory(
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), 12, micro_batches_of(16, 16)
    )
    assert str(error) == (
        "The memory of the device (cpu) is too small for step 12, a batch of 32 rows of up to 7 tokens in 2 micro-batches. "
        "Set training.accumulate=4 to compute each batch in 4 micro-batches; only dropout's random draws differ."
    )
    assert error.exit_code == 4


def test_a_real_failed_allocation_is_recognised():
    with pytest.raises(RuntimeError) as failed:
        torch.empty(2**60, dtype=torch.int8)
    assert "in 1 micro-batch. Set training.accumulate=2 " in str(out_of_memory(failed.value, 1, micro_batches_of(3)))


def test_the_allocation_error_of_cublas_is_recognised():
    error = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")
    assert "Set training.accumulate=2 " in str(out_of_memory(error, 1, micro_batches_of(3)))


def test_no_more_micro_batches_are_suggested_than_a_batch_has_rows():
    error = torch.OutOfMemoryError("")
    assert "training.accumulate=3 " in str(out_of_memory(error, 1, micro_batches_of(2, 1)))
    assert str(out_of_memory(error, 1, micro_batches_of(1, 1))).endswith(
        "Choose a smaller model, or a smaller model.max_length."
    )


def test_other_errors_are_not_taken_for_it():
    assert out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"), 1, micro_batches_of(1)) is None


def test_an_error_before_the_first_batch_suggests_fewer_rows():
    error = out_of_memory(torch.OutOfMemoryError(""), 3, [])
    assert str(error).startswith("The memory is too small for the batch of step 3.")
    assert error.fewer_rows_help
