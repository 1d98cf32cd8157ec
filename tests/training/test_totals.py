"""What a step consists of: counted over its micro-batches, with targets by the name of their loss."""

from dataclasses import replace

import torch

from encoderlab.batch import Batch
from encoderlab.training.loop import count_totals


def batch(rows, positions, n_tokens):
    ids, targets = torch.ones(rows, 5, dtype=torch.long), torch.arange(positions)
    return Batch(ids, ids, None, torch.arange(rows), targets, torch.zeros(rows, dtype=torch.long), targets, n_tokens)


def test_all_micro_batches_count_and_padding_is_not_counted_as_tokens():
    totals = count_totals([batch(3, 4, 11), batch(1, 0, 5)])
    assert (totals.examples, totals.tokens, totals.padded_tokens) == (4, 16, 20)
    assert totals.targets == {"sequence": 4, "token": 4, "teacher_sequence": 0, "teacher_token": 0}
    assert not totals.stop


def test_a_batch_without_answers_adds_nothing_but_its_padding():
    totals = count_totals([batch(2, 3, 9).without_answers()])
    assert (totals.examples, totals.tokens, totals.padded_tokens) == (0, 0, 10)
    assert not any(totals.targets.values())


def test_a_single_process_is_never_polled_for_stopping():
    assert not count_totals([replace(batch(1, 1, 5), labels=None)], stopping=lambda: True).stop
