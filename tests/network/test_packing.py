"""Packing: removing padding changes no output, and a GPU is given what its kernel expects without waiting for it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.nn.attention import varlen
from torch.testing import assert_close

from encoderlab.network import attention
from encoderlab.network.config import NormPosition, Pooling, Positions
from encoderlab.network.packing import Selection, places_of, worth_packing
from tests.pretended_card import pretended

CHOICES = {
    "positions": st.sampled_from(Positions),
    "segments": st.sampled_from([0, 2]),
    "embedding_norm": st.booleans(),
    "norm_position": st.sampled_from(NormPosition),
    "pooling": st.sampled_from(Pooling),
    "n_layers": st.integers(1, 3),
}
HEADS = [
    {"token_classes": None},
    {"sequence_classes": None},
    {},
    {"token_classes": None, "vocabulary": True},
    {"sequence_classes": None, "token_classes": None, "vocabulary": True},
]
any_model = st.fixed_dictionaries({**CHOICES, "heads": st.sampled_from(HEADS)}).map(
    lambda drawn: {**drawn.pop("heads"), **drawn}
)
some_lengths = st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any)


def padded_batch(make_batch, lengths, *, hole=False, **settings):
    """Return a batch with some padding; a hole is padding in the middle of a sequence."""
    batch = make_batch(lengths, width=max(lengths) + 1, **settings)
    mask = batch.attention_mask.clone()
    mask[:, 1] &= not hole
    positions = batch.target_positions[mask.flatten()[batch.target_positions]]
    return replace(batch, attention_mask=mask, target_positions=positions, token_labels=None, n_tokens=int(mask.sum()))


def answers_and_gradients(model, batch, *, packs):
    """Return the logits of sequences with at least one token and of target tokens, and their gradients."""
    model.packs = packs
    model.zero_grad()
    prediction, full = model(batch), batch.attention_mask.any(1)
    answers = [] if prediction.sequence_logits is None else [prediction.sequence_logits[full]]
    answers += [] if prediction.token_logits is None else [prediction.token_logits]
    sum(answer.square().sum() for answer in answers).backward()
    return answers, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def encode(model, batch, n_tokens=None, selection=None):
    return model.encoder.encode(batch.input_ids, batch.token_type_ids, batch.attention_mask, n_tokens, selection)


@given(settings=any_model, lengths=some_lengths, hole=st.booleans())
@settings(deadline=None, max_examples=80)
def test_removing_padding_changes_neither_logits_nor_gradients(make_model, make_batch, settings, lengths, hole):
    model, batch = make_model(**settings), padded_batch(make_batch, lengths, hole=hole)
    batch.input_ids[batch.attention_mask.logical_not()] = (
        0  # else padding itself would learn, in a sequence of padding alone
    )
    padded, packed = (answers_and_gradients(model, batch, packs=packs) for packs in (False, True))
    assert_close(packed[0], padded[0], rtol=1e-5, atol=1e-5)
    assert_close(packed[1], padded[1], rtol=1e-4, atol=1e-4)


@given(settings=any_model, lengths=some_lengths, first=st.integers(1, 8))
@settings(deadline=None, max_examples=40)
def test_tokens_can_be_selected_in_any_order_and_twice(make_model, make_batch, settings, lengths, first):
    model, batch = make_model(**settings).eval(), padded_batch(make_batch, lengths)
    real = batch.attention_mask
    everything = model.encoder(batch.input_ids, batch.token_type_ids, real)
    assert_close(encode(model, batch), everything)
    packed = encode(model, batch, n_tokens=batch.n_tokens)
    assert_close(packed[real], everything[real], rtol=1e-5, atol=1e-5)
    assert not packed[~real].any()
    positions = torch.cat([batch.target_positions.flip(0), batch.target_positions])
    for n_tokens in (None, batch.n_tokens):
        some = encode(model, batch, n_tokens, Selection(positions, 2 * max(lengths)))
        assert_close(some, everything.flatten(0, 1)[positions], rtol=1e-5, atol=1e-5)
        firsts = encode(model, batch, n_tokens, Selection(None, first))
        assert firsts.shape == everything[:, :first].shape
        assert_close(firsts[real[:, :first]], everything[:, :first][real[:, :first]], rtol=1e-5, atol=1e-5)


@given(settings=any_model, lengths=some_lengths, data=st.data())
@settings(deadline=None, max_examples=50)
def test_nothing_leaks_from_padding_or_between_sequences(make_model, make_batch, settings, lengths, data):
    model, batch = make_model(**settings).eval(), padded_batch(make_batch, lengths)
    model.packs = True
    before, real = model(batch), batch.attention_mask
    changed = torch.arange(len(lengths)) == data.draw(st.integers(0, len(lengths) - 1), "row that changes")
    batch.input_ids[~real | changed[:, None]] = 7
    after = model(batch)
    if before.sequence_logits is not None:
        assert before.sequence_logits.isfinite().all()
        assert_close(before.sequence_logits[~changed], after.sequence_logits[~changed], rtol=1e-6, atol=1e-6)
    if before.token_logits is not None:
        others = ~changed[batch.target_positions // real.shape[1]]
        assert_close(before.token_logits[others], after.token_logits[others], rtol=1e-6, atol=1e-6)


def varlen_attention(q, k, v, q_bounds, k_bounds, q_width, k_width):
    """Compute what the kernel does, sequence by sequence, and check what it requires of its callers."""
    assert q_bounds.dtype == k_bounds.dtype == torch.int32
    assert q_bounds[0] == k_bounds[0] == 0 and q_bounds[-1] == len(q) and k_bounds[-1] == len(k) == len(v)
    assert q_bounds.diff().min() >= 0 and q_bounds.diff().max() <= q_width
    assert k_bounds.diff().min() >= 0 and k_bounds.diff().max() <= k_width
    answers = []
    for i in range(len(q_bounds) - 1):
        queries, keys = slice(*q_bounds[i : i + 2]), slice(*k_bounds[i : i + 2])
        one = (x.transpose(0, 1) for x in (q[queries], k[keys], v[keys]))
        empty = k_bounds[i] == k_bounds[i + 1]  # the kernel answers zero then
        answers.append(q[queries] * 0 if empty else F.scaled_dot_product_attention(*one).transpose(0, 1))
    return torch.cat(answers)


@given(settings=any_model, lengths=some_lengths)
@settings(deadline=None, max_examples=40)
def test_the_kernel_for_packed_sequences_is_given_what_it_expects_in_every_layer(
    make_model, make_batch, settings, lengths
):
    model, batch, calls = make_model(**settings), padded_batch(make_batch, lengths), []

    def kernel(*arguments):
        calls.append(arguments)
        return varlen_attention(*arguments)

    padded = answers_and_gradients(model, batch, packs=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "packed_kernel_takes", lambda *question: True)
        patch.setattr(varlen, "varlen_attn", kernel)
        packed = answers_and_gradients(model, batch, packs=True)
    assert len(calls) == settings["n_layers"]
    assert_close(packed[0], padded[0], rtol=1e-5, atol=1e-5)
    assert_close(packed[1], padded[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize("positions", Positions)
@pytest.mark.parametrize("pooling", [Pooling.cls, Pooling.mean])
@pytest.mark.parametrize("heads", HEADS, ids=str)
def test_a_training_step_on_a_device_never_waits_for_it(
    kernel, positions, pooling, heads, make_model, make_batch, monkeypatch
):
    # tensors without numbers: whoever asks for one of them, or for a shape that depends on one, gets an error
    device = torch.device("meta")
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.ones(3, device=device).nonzero()
    monkeypatch.setattr(attention, "packed_kernel_takes", lambda *question: kernel)
    model = make_model(positions=positions, pooling=pooling, dropout=0.1, **heads).to(device, torch.bfloat16)
    model.packs = True
    prediction = model(padded_batch(make_batch, [5, 3, 0]).to(device))
    logits = [x for x in (prediction.sequence_logits, prediction.token_logits) if x is not None]
    sum(x.sum() for x in logits).backward()
    assert model.encoder.layers[0].attention.query.weight.grad.device == device


def test_the_kernel_is_not_used_where_it_would_refuse(monkeypatch):
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: SimpleNamespace(major=8))
    card, half = torch.device("cuda"), torch.bfloat16
    assert attention.packed_kernel_takes(card, half, 0.0, 64)
    assert attention.attention_kernel(card, half, 0.0) == "PyTorch's fused kernels, without padding"
    for refused in (
        (torch.device("cpu"), half, 0.0, 64),
        (card, torch.float32, 0.0, 64),
        (card, half, 0.1, 64),
        (card, half, 0.0, 12),
    ):
        assert not attention.packed_kernel_takes(*refused)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: SimpleNamespace(major=7))
    assert not attention.packed_kernel_takes(card, half, 0.0, 64)


def test_padding_is_removed_automatically_if_there_is_enough_of_it(make_model, make_batch):
    model, computed = make_model(), []
    model.encoder.layers[0].register_forward_hook(
        lambda layer, inputs, output: computed.append(inputs[0].shape[:-1].numel())
    )
    for batch in (make_batch([5, 3]), make_batch([12, 11]), make_batch([4, 4], mask=False)):
        model(batch)
    assert computed == [8, 24, 8]
    nowhere, card = torch.empty(2, 5, device="meta", dtype=torch.long), make_batch([5, 4]).input_ids
    assert worth_packing(8, nowhere, kernel=False) and not worth_packing(9, nowhere, kernel=False)
    assert worth_packing(9, card, kernel=True) and not worth_packing(0, nowhere, kernel=True)


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_places_are_found_on_a_card_that_lacks_the_function_which_does_not_wait(kind):
    with pretended(kind):
        marks = torch.tensor([0, 1, 1, 0, 1], device=kind)
        places = places_of(marks, 3)
        assert places.device.type == kind and places.tolist() == [1, 2, 4]
