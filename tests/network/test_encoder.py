"""The encoder: padding, attention maps, and the layout of its layers. test_huggingface.py compares its numbers with
BERT's.
"""

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from encoderlab.network import attention
from encoderlab.network.config import Activation, Norm, NormPosition, Pooling, Positions
from encoderlab.network.packing import Layout

CHOICES = {
    "positions": st.sampled_from(Positions),
    "segments": st.sampled_from([0, 2]),
    "embedding_norm": st.booleans(),
    "norm": st.sampled_from(Norm),
    "norm_position": st.sampled_from(NormPosition),
    "activation": st.sampled_from(Activation),
    "bias": st.booleans(),
    "pooling": st.sampled_from(Pooling),
    "d_head": st.sampled_from([None, 6]),
}
any_shape = st.fixed_dictionaries(CHOICES)


def encode(model, batch):
    return model.encoder(batch.input_ids, batch.token_type_ids, batch.attention_mask)


@given(shape=any_shape, lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), extra=st.integers(0, 4))
@settings(deadline=None, max_examples=40)
def test_padding_never_changes_an_output(make_model, make_batch, shape, lengths, extra):
    model = make_model(**shape).eval()
    padded = make_batch(lengths, width=max(lengths) + extra)
    together, hidden = model(padded), encode(model, padded)
    for row, length in enumerate(lengths):
        ids, types = padded.input_ids[row : row + 1, :length], padded.token_type_ids[row : row + 1, :length]
        alone = model.encoder(ids, types, None)
        assert_close(hidden[row, :length], alone[0], rtol=1e-5, atol=2e-5)
        pooled = model.pool(alone, None)
        assert_close(together.sequence_logits[row], model.sequence_head(pooled)[0], rtol=1e-5, atol=2e-5)


@given(shape=any_shape)
@settings(deadline=None, max_examples=30)
def test_a_sequence_of_padding_gives_no_nan_and_does_not_affect_the_others(make_model, make_batch, shape):
    model = make_model(**shape)
    batch = make_batch([4, 0, 2])
    batch.input_ids[1] = 0
    prediction = model(batch)
    (prediction.sequence_logits.square().sum() + prediction.token_logits.square().sum()).backward()
    assert prediction.sequence_logits.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)
    others = torch.tensor([0, 2])
    without = model.encoder(batch.input_ids[others], batch.token_type_ids[others], batch.attention_mask[others])
    assert_close(encode(model, batch)[others], without, rtol=1e-5, atol=2e-5)


@given(shape=any_shape)
@settings(deadline=None, max_examples=30)
def test_attention_maps_are_the_weights_that_every_layer_uses(make_model, make_batch, shape):
    model, batch, used = make_model(n_layers=3, **shape).eval(), make_batch([5, 3]), []

    def attend_and_keep(q, k, v, mask, dropout, bias=None):
        used.append(attention.attention_weights(q, k, mask, bias))
        return used[-1] @ v

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "attend", attend_and_keep)
        explicit = encode(model, batch)
    maps = model.encoder.attention_maps(batch.input_ids, batch.token_type_ids, batch.attention_mask)
    assert len(maps) == 3
    for shown, really in zip(maps, used, strict=True):
        assert_close(shown, really, rtol=1e-5, atol=1e-5)
        assert_close(shown.sum(-1), torch.ones(2, 2, 5))
        assert not shown[1, :, :, 3:].any()
    assert_close(encode(model, batch), explicit, rtol=1e-5, atol=2e-5)


class DropAll(torch.nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)


@pytest.mark.parametrize("norm_position", NormPosition)
def test_dropout_applies_to_both_sublayers_but_not_to_the_residual(norm_position, make_model):
    layer, x = make_model(norm_position=norm_position).encoder.layers[0], torch.randn(2, 5, 16)
    layer.dropout = DropAll()
    normed = layer.feed_forward_norm(layer.attention_norm(x))
    assert_close(layer(x, Layout.padded(2, 5)), normed if norm_position is NormPosition.post else x)


@given(shape=any_shape)
@settings(deadline=None, max_examples=20)
def test_mixed_precision_trains_and_agrees_with_float32(make_model, make_batch, shape):
    model, batch = make_model(**shape), make_batch([5, 3])
    with torch.autocast("cpu", torch.bfloat16):
        mixed = encode(model, batch)
    mixed.float().square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.encoder.parameters())
    assert (mixed - encode(model, batch)).abs().mean() < 0.05


COMPILE = """
import torch
from encoderlab.network.config import HeadSizes
from encoderlab.network.config import Activation, ModelConfig, Norm, Positions
from encoderlab.network.heads import EncoderWithHeads
from encoderlab.network.packing import FIRST_TOKENS, Selection
for shape in ({}, {"positions": Positions.rotary, "norm": Norm.rms, "activation": Activation.geglu}):
    encoder = EncoderWithHeads(ModelConfig(d_model=16, d_ff=24, **shape), 9, 0, HeadSizes(2)).encoder
    compiled = torch.compile(encoder, backend="eager", fullgraph=True)
    inputs = torch.ones(2, 5, dtype=torch.long), torch.zeros(2, 5, dtype=torch.long), torch.ones(2, 5, dtype=torch.bool)
    assert compiled(*inputs).shape == (2, 5, 16)
    encoder.eval()
    torch.testing.assert_close(compiled(*inputs), encoder(*inputs))
    torch._dynamo.reset()
    compiled = torch.compile(encoder.encode, backend="eager", fullgraph=True, dynamic=True)
    for length, n_tokens in ((5, 7), (6, 8)):
        ids, mask = torch.ones(2, length, dtype=torch.long), torch.arange(length) < torch.tensor([[length], [2]])
        for selection in (None, FIRST_TOKENS, Selection(torch.tensor([0, length, 1, length + 1]), 2)):
            inputs = ids, torch.zeros_like(ids), mask, n_tokens, selection
            torch.testing.assert_close(compiled(*inputs), encoder.encode(*inputs))
"""


@pytest.mark.slow
def test_an_encoder_in_training_compiles_to_one_graph():
    # in a process of its own: the compiler cannot see through the checks of shapes that are on in this one
    assert subprocess.run([sys.executable, "-c", COMPILE], check=False).returncode == 0


def test_without_positions_the_order_of_tokens_is_unknown_unless_distances_are_learned(make_model):
    ids = torch.tensor([[1, 2, 3, 4, 5]])
    types = torch.zeros_like(ids)
    for buckets, knows_order in ((0, False), (8, True)):
        model = make_model(positions=Positions.none, relative_buckets=buckets).eval()
        if buckets:
            torch.nn.init.normal_(model.encoder.relative.bias.weight)
        forward = model.encoder(ids, types, None)
        backward = model.encoder(ids.flip(1), types, None).flip(1)
        assert torch.allclose(forward, backward, atol=1e-5) is not knows_order
