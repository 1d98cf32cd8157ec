"""What travels between the rooms goes whole, to any device."""

import torch

from encoderlab.batch import Batch, Encoded, Prediction

TENSORS = ("input_ids", "token_type_ids", "attention_mask", "rows", "asked", "labels", "token_labels")


def batch(**changes):
    ids = torch.arange(6).reshape(2, 3)
    given = {
        "input_ids": ids,
        "token_type_ids": ids % 2,
        "attention_mask": ids < 5,
        "rows": torch.tensor([7, 3]),
        "asked": torch.tensor([0, 4]),
        "labels": torch.tensor([1, 0]),
        "token_labels": torch.tensor([2, 2]),
        "n_tokens": 5,
    }
    return Batch(**(given | changes))


def test_a_batch_is_as_long_as_it_has_examples():
    assert len(batch()) == 2


def test_a_batch_moves_whole_and_leaves_the_original_where_it_was():
    here = batch()
    there = here.to(torch.device("meta"))
    assert [getattr(there, name).device.type for name in TENSORS] == ["meta"] * len(TENSORS)
    assert [getattr(here, name).device.type for name in TENSORS] == ["cpu"] * len(TENSORS)
    assert there.n_tokens == 5
    assert len(there) == 2


def test_what_a_batch_does_not_have_it_does_not_get_by_moving():
    there = batch(attention_mask=None, labels=None, token_labels=None).to(torch.device("cpu"))
    assert (there.attention_mask, there.labels, there.token_labels) == (None, None, None)
    assert all(torch.equal(getattr(there, name), getattr(batch(), name)) for name in ("input_ids", "rows", "asked"))


def test_nothing_is_asked_or_answered_unless_it_is_said():
    example = Encoded([1], [0])
    assert (example.label, example.token_labels, example.truncated) == (None, None, False)
    assert (Prediction().sequence_logits, Prediction().token_logits) == (None, None)
