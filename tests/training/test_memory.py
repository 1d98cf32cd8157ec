"""Running out of memory is recognised and said with what to type; other errors are left alone."""

import pytest
import torch

from encoderlab.batch import Batch
from encoderlab.training.memory import out_of_memory


def parts_of(*rows, length=7):
    return [
        Batch(ids, ids, None, ids[:, 0], ids[:0, 0], None, None, ids.numel())
        for ids in (torch.zeros(n, length, dtype=torch.long) for n in rows)
    ]


def test_a_device_that_is_too_small_is_told_of_with_the_number_of_parts_that_would_help():
    said = out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), 12, parts_of(16, 16))
    assert str(said) == (
        "The memory of the device (cpu) is too small for step 12, a batch of 32 rows of up to 7 tokens in 2 parts. "
        "Type training.accumulate=4 to compute each batch in 4 parts, alike but for what dropout draws."
    )
    assert said.exit_code == 4


def test_an_allocation_that_really_fails_is_recognised():
    with pytest.raises(RuntimeError) as failed:
        torch.empty(2**60, dtype=torch.int8)
    assert "in 1 part. Type training.accumulate=2 " in str(out_of_memory(failed.value, 1, parts_of(3)))


def test_no_more_parts_are_asked_for_than_a_batch_has_rows():
    error = torch.OutOfMemoryError("")
    assert "training.accumulate=3 " in str(out_of_memory(error, 1, parts_of(2, 1)))
    assert str(out_of_memory(error, 1, parts_of(1, 1))).endswith("Choose a smaller model, or a smaller model.max_length.")


def test_another_error_is_not_taken_for_it():
    assert out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"), 1, parts_of(1)) is None
