"""Batches are answered in order, each by a core of its own, and in halves where memory is too small."""

import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.batch import Batch
from encoderlab.system.device import Compute
from encoderlab.training.evaluation import predict_batches


@pytest.fixture(autouse=True)
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    assert torch.get_num_threads() == 4, "the threads of PyTorch were not restored"
    torch.set_num_threads(before)


def running():
    return [thread for thread in threading.enumerate() if thread.name.startswith("predictions")]


class Reader:
    """Returns the index of each row, if it is given at most so many tokens at once."""

    def __init__(self, room):
        self.room, self.sizes_read = room, []

    def __call__(self, batch):
        self.sizes_read.append(batch.input_ids.numel())
        if batch.input_ids.numel() > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return batch.rows.tolist()


def of_rows(start, n, length=7, device="cpu"):
    ids = torch.zeros(n, length, dtype=torch.long, device=device)
    return Batch(ids, ids, None, torch.arange(n) + start, ids[:0, 0], None, None, ids.numel())


def compute(threads, device="cpu"):
    return Compute(torch.device(device), torch.float32, threads, "test")


@given(sizes=st.lists(st.integers(1, 9), max_size=5), room=st.integers(7, 70), threads=st.integers(1, 3))
def test_every_row_is_predicted_once_and_in_order_however_little_memory_there_is(sizes, room, threads):
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    found = list(
        predict_batches(
            (of_rows(start, n) for start, n in zip(starts, sizes, strict=True)), Reader(room), compute(threads)
        )
    )
    assert [row for _, rows in found for row in rows] == list(range(sum(sizes)))
    assert all(batch.rows.tolist() == rows for batch, rows in found)


def test_a_processor_computes_one_batch_per_core_at_once():
    met = threading.Barrier(4, timeout=60)

    def answer(batch):
        met.wait()  # until four of them are here
        return torch.get_num_threads()

    found = list(predict_batches([of_rows(n, 1) for n in range(8)], answer, compute(4)))
    assert [threads for _, threads in found] == [1] * 8
    assert not running()


def test_only_one_caller_at_a_time_uses_all_cores():
    mine = threading.current_thread()
    first = predict_batches([of_rows(n, 1) for n in range(9)], Reader(7), compute(4))
    next(first)
    second = list(
        predict_batches([of_rows(n, 1) for n in range(9)], lambda batch: threading.current_thread(), compute(4))
    )
    assert {thread for _, thread in second} == {mine}
    first.close()
    third = predict_batches([of_rows(n, 1) for n in range(9)], lambda batch: threading.current_thread(), compute(4))
    assert mine not in {thread for _, thread in third}


def test_the_threads_end_with_a_consumer_that_stops_early():
    found = predict_batches([of_rows(n, 1) for n in range(20)], Reader(7), compute(2))
    next(found)
    found.close()
    assert not running()


def test_denormal_numbers_are_zero_in_every_thread():
    torch.set_flush_denormal(True)
    found = predict_batches(
        [of_rows(n, 1) for n in range(4)], lambda batch: (torch.tensor([1e-38]) / 1e3).item(), compute(2)
    )
    assert [number for _, number in found] == [0.0] * 4
