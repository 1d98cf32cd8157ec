"""A smaller copy of a trained encoder: its most important directions, heads and neurons, with maps refitted by least
squares.

Importance is measured on texts, as in Minitron (Muralidharan et al. 2024, section 2.2). The vectors of tokens are
narrowed by principal components, rotated so that layer norm changes little, as in SliceGPT (Ashkboos et al. 2024,
section 3). No gradient is computed: 60,000 tokens and a minute give a student as close to its teacher as hundreds of
training steps from fresh weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from encoderlab.batch import Batch
from encoderlab.model.encoder import Encoder, EncoderLayer
from encoderlab.model.layers import FeedForward
from encoderlab.model.packing import Layout

RIDGE = 1e-3  # of the mean variance: limits the weight of directions that hardly occur


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts on which both encoders are compared. Vectors of their tokens are flat, [tokens, width], without
    padding.
    """

    batches: Sequence[Batch]

    def padded(self, x: Tensor) -> list[tuple[Tensor, Layout]]:
        """Return the vectors `x` of all tokens, batch by batch: each as [batch, length, width], with its layout."""
        found, begin = [], 0
        for batch in self.batches:
            real = _real(batch)
            end = begin + int(real.sum())
            vectors = x.new_zeros(*real.shape, x.shape[1])
            vectors[real] = x[begin:end]
            found.append((vectors, _layout(batch)))
            begin = end
        return found

    def embedded(self, encoder: Encoder) -> Tensor:
        """Return the input of the lowest layer of `encoder`."""
        return self._flat([encoder.embeddings(batch.input_ids, batch.token_type_ids) for batch in self.batches])

    def heads(self, layer: EncoderLayer, x: Tensor) -> Tensor:
        """Return the outputs of the heads of `layer` for the vectors `x`, concatenated, before the output map."""
        seen: list[Tensor] = []
        hook = layer.attention.output.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        for vectors, layout in self.padded(x):
            layer.attention(vectors, layout)
        hook.remove()
        return self._flat(seen)

    def _flat(self, parts: Sequence[Tensor]) -> Tensor:
        return torch.cat([part[_real(batch)] for part, batch in zip(parts, self.batches, strict=True)])


@dataclass(frozen=True, slots=True)
class Stream:
    """The vectors of all tokens in one layer, each [tokens, d_model or inner width]; the sums are the norms' inputs."""

    given: Tensor
    heads: Tensor
    attention_sum: Tensor
    attended: Tensor
    neurons: Tensor
    feed_forward_sum: Tensor
    answer: Tensor


@torch.inference_mode()
def prune(teacher: Encoder, student: Encoder, texts: Texts) -> tuple[Tensor, Tensor]:
    """Give `student` the weights that bring it closest to `teacher` on `texts`, layer by layer, from the lowest.

    Both are post-norm encoders with learned positions and heads of one width. Returns the vectors of student and
    teacher for the tokens: [tokens, d_student] and [tokens, d_teacher].
    """
    sources = source_layers(len(student.layers), len(teacher.layers))
    basis, inputs = _basis(teacher, texts, student.embeddings.token.embedding_dim, sources)
    x = _prune_embeddings(teacher, student, basis, texts, inputs[0])
    for layer, source in zip(student.layers, sources, strict=True):
        stream = _stream(teacher.layers[source], texts, inputs[source])
        x = _prune_layer(teacher.layers[source], layer, texts, stream, x, basis)
    return x, inputs[len(teacher.layers)]


def source_layers(n_student: int, n_teacher: int) -> list[int]:
    """Return which of the teacher's layers each of the student's layers follows: evenly spaced, ending with the last."""
    return [(layer + 1) * n_teacher // n_student - 1 for layer in range(n_student)]


def least_squares(x: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Return weight [out, in] and bias [out] of the linear map from the rows of `x` to those of `wanted`, by ridge
    regression.
    """
    x_mean, wanted_mean = x.mean(0), wanted.mean(0)
    centred = x - x_mean
    gram = (centred.T @ centred).double()
    gram += RIDGE * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
    weight = torch.linalg.solve(gram, (centred.T @ (wanted - wanted_mean)).double()).float().T
    return weight, wanted_mean - weight @ x_mean


def set_linear(linear: nn.Linear, x: Tensor, wanted: Tensor) -> Tensor:
    """Fit a linear map by `least_squares`; return its output for `x`."""
    weight, bias = least_squares(x, wanted)
    linear.weight.copy_(weight)
    if linear.bias is not None:
        linear.bias.copy_(bias)
    return linear(x)


def _layout(batch: Batch) -> Layout:
    n, length = batch.input_ids.shape
    return Layout.padded(n, length, batch.attention_mask)


def _real(batch: Batch) -> Tensor:
    """Return True at tokens that are not padding: [batch, length]."""
    return torch.ones_like(batch.input_ids, dtype=torch.bool) if batch.attention_mask is None else batch.attention_mask


def _stream(layer: EncoderLayer, texts: Texts, x: Tensor) -> Stream:
    """Return what happens in a teacher's layer with the input `x`."""
    heads = texts.heads(layer, x)
    attention_sum = x + layer.attention.output(heads)
    attended = layer.attention_norm(attention_sum)
    neurons = _neurons(layer.feed_forward, attended)
    feed_forward_sum = attended + layer.feed_forward.outer(neurons)
    return Stream(
        x, heads, attention_sum, attended, neurons, feed_forward_sum, layer.feed_forward_norm(feed_forward_sum)
    )


def _neurons(network: FeedForward, x: Tensor) -> Tensor:
    return network.activation(network.inner(x))


def _basis(teacher: Encoder, texts: Texts, width: int, sources: Sequence[int]) -> tuple[Tensor, dict[int, Tensor]]:
    """Return the student's directions in the teacher's space, orthonormal: [d_teacher, width], and inputs of its
    layers.

    They are the principal components of the vectors between all sublayers, each sublayer weighted equally. Then they
    are rotated: the mean over the features, which layer norm subtracts, is the weakest component, and the others are
    spread over all features. The inputs [tokens, d_teacher] are those of the lowest layer (0), of the layers `sources`,
    and the last layer's output (the number of layers); the rest of a `Stream` takes ten times as much memory.
    """
    x = texts.embedded(teacher)
    inputs, covariance = {0: x}, _covariance(x)
    for number, layer in enumerate(teacher.layers, start=1):
        stream = _stream(layer, texts, x)
        covariance += _covariance(stream.attended) + _covariance(stream.answer)
        x = stream.answer
        if number in (*sources, len(teacher.layers)):
            inputs[number] = x
    _, directions = torch.linalg.eigh(covariance)  # ascending eigenvalues: the weakest of those kept comes first
    generator = torch.Generator().manual_seed(0)
    spread = torch.randn(width, width, generator=generator, dtype=torch.double)
    spread[:, 0] = 1
    rotation, _ = torch.linalg.qr(spread)
    return (directions[:, -width:] @ rotation.T).float(), inputs


def _covariance(x: Tensor) -> Tensor:
    found = _scatter(x).double()
    return found / found.trace()


def _scatter(x: Tensor) -> Tensor:
    """Return the sum over the rows of `x` of the products of their features, relative to the mean: [width, width]."""
    centred = x - x.mean(0)
    return centred.T @ centred


def _prune_embeddings(teacher: Encoder, student: Encoder, basis: Tensor, texts: Texts, wanted: Tensor) -> Tensor:
    """Fit the student's embeddings to `wanted`, the teacher's; return their output."""
    its, mine = teacher.embeddings, student.embeddings
    assert isinstance(its.norm, nn.LayerNorm)
    for part in ("token", "position", "segment"):
        source, into = (_table(getattr(side, part)) for side in (its, mine))
        if into is not None:
            assert source is not None
            centred = source - source.mean(1, keepdim=True)  # the norm subtracts the mean
            into.copy_((centred * its.norm.weight @ basis)[: len(into)])
    mine.token.weight[mine.token.padding_idx] = 0
    norm, mine.norm = mine.norm, nn.Identity()
    summed = texts.embedded(student)
    mine.norm = norm
    return _set_norm(norm, summed, wanted @ basis)


def _table(part: nn.Module | None) -> Tensor | None:
    """Return the rows of an embedding, or of learned positions."""
    table: Any = getattr(part, "embedding", part)
    return None if table is None else table.weight


def _set_norm(norm: nn.Module, x: Tensor, wanted: Tensor) -> Tensor:
    """Fit the scale and shift of a layer norm, feature by feature; return its output for `x`."""
    assert isinstance(norm, nn.LayerNorm)
    centred = F.layer_norm(x, list(x.shape[-1:]))
    x_mean, wanted_mean = centred.mean(0), wanted.mean(0)
    scale = ((centred - x_mean) * (wanted - wanted_mean)).mean(0) / (centred - x_mean).square().mean(0).clamp_min(1e-6)
    norm.weight.copy_(scale)
    if norm.bias is not None:
        norm.bias.copy_(wanted_mean - scale * x_mean)
    return norm(x)


def _prune_layer(
    source: EncoderLayer, layer: EncoderLayer, texts: Texts, stream: Stream, x: Tensor, basis: Tensor
) -> Tensor:
    """Fit a student's layer, with the input `x`, to what happens in the teacher's; return its output."""
    mine, its = layer.attention, source.attention
    kept = _strongest_heads(its.output.weight, stream.heads, its.d_head, len(mine.query.weight) // mine.d_head)
    for name in ("query", "key", "value"):
        set_linear(getattr(mine, name), x, getattr(its, name)(stream.given)[:, kept])
    change = _reduced_sum(source.attention_norm, stream.attention_sum, basis) - x
    x = _set_norm(
        layer.attention_norm, x + set_linear(mine.output, texts.heads(layer, x), change), stream.attended @ basis
    )
    neurons = _strongest_neurons(source.feed_forward.outer.weight, stream.neurons, len(layer.feed_forward.inner.weight))
    set_linear(layer.feed_forward.inner, x, source.feed_forward.inner(stream.attended)[:, neurons])
    change = _reduced_sum(source.feed_forward_norm, stream.feed_forward_sum, basis) - x
    outer = set_linear(layer.feed_forward.outer, _neurons(layer.feed_forward, x), change)
    return _set_norm(layer.feed_forward_norm, x + outer, stream.answer @ basis)


def _reduced_sum(norm: nn.Module, summed: Tensor, basis: Tensor) -> Tensor:
    """Return a teacher's norm input in the student's directions, relative to its mean, with features scaled as by that
    norm.
    """
    assert isinstance(norm, nn.LayerNorm)
    relative = norm.weight / norm.weight.abs().mean()
    return (summed - summed.mean(1, keepdim=True)) * relative @ basis


def _strongest_heads(output: Tensor, heads: Tensor, d_head: int, n: int) -> Tensor:
    """Return the features of the `n` heads that change the tokens' vectors most, in order."""
    parts = zip(heads.split(d_head, dim=1), output.split(d_head, dim=1), strict=True)
    # the variance of `given @ weight.T`, summed over the features
    strength = torch.stack([(weight @ _scatter(given) * weight).sum() for given, weight in parts])
    best = strength.topk(n).indices.sort().values
    return (best[:, None] * d_head + torch.arange(d_head, device=best.device)).flatten()


def _strongest_neurons(outer: Tensor, neurons: Tensor, n: int) -> Tensor:
    """Return the `n` neurons that change the tokens' vectors most, in order."""
    variance = (neurons - neurons.mean(0)).square_().mean(0)  # faster than Tensor.var
    return (variance * outer.square().sum(0)).topk(n).indices.sort().values
