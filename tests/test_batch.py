"""Batches keep all their fields when moved to any device."""

import torch

from encoderlab.batch import Batch

TENSORS = ("input_ids", "token_type_ids", "attention_mask", "rows", "target_positions", "labels", "token_labels")


def batch(**changes):
    ids = torch.arange(6).reshape(2, 3)
    given = {
        "input_ids": ids,
        "token_type_ids": ids % 2,
        "attention_mask": ids < 5,
        "rows": torch.tensor([7, 3]),
        "target_positions": torch.tensor([0, 4]),
        "labels": torch.tensor([1, 0]),
        "token_labels": torch.tensor([2, 2]),
        "n_tokens": 5,
        "n_targets": 2,
    }
    return Batch(**(given | changes))


def test_all_fields_of_a_batch_move_and_the_original_stays():
    here = batch()
    there = here.to(torch.device("meta"))
    assert [getattr(there, name).device.type for name in TENSORS] == ["meta"] * len(TENSORS)
    assert [getattr(here, name).device.type for name in TENSORS] == ["cpu"] * len(TENSORS)
    assert (there.n_tokens, there.n_targets) == (5, 2)
    assert len(there) == 2


def test_the_halves_of_a_batch_keep_each_row_with_its_targets():
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1]], dtype=torch.bool)
    ids = torch.arange(9).reshape(3, 3)
    positions, answers, rows = torch.tensor([1, 3, 6, 8]), torch.tensor([11, 13, 16, 18]), torch.tensor([4, 2, 9])
    first, last = Batch(ids, ids % 2, mask, rows, positions, rows + 1, answers, 6).halves()
    assert (first.rows.tolist(), last.rows.tolist()) == ([4], [2, 9])
    assert (
        first.input_ids.flatten()[first.target_positions].tolist(),
        last.input_ids.flatten()[last.target_positions].tolist(),
    ) == ([1], [3, 6, 8])
    assert (first.token_labels.tolist(), last.token_labels.tolist()) == ([11], [13, 16, 18])
    assert (first.labels.tolist(), last.labels.tolist()) == ([5], [3, 10])
    assert (first.n_tokens, last.n_tokens) == (2, 4)
    assert torch.equal(last.attention_mask, mask[1:])


def test_halves_of_a_batch_without_padding_and_labels_have_none():
    first, last = batch(attention_mask=None, labels=None, token_labels=None, n_tokens=6).halves()
    assert first.attention_mask is first.labels is first.token_labels is None
    assert first.n_tokens == last.n_tokens == 3
