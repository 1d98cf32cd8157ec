"""The matrices of a model, the work of training it, and what fraction of the machine's limit a speed is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Product:
    """`count` products of `rows` vectors with an `inputs` x `outputs` matrix in a forward pass."""

    rows: int
    inputs: int
    outputs: int
    count: int

    @property
    def flops(self) -> int:
        """Return the FLOPs of one of them: a multiplication and an addition for each weight and row."""
        return 2 * self.rows * self.inputs * self.outputs


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of an encoder and of its task.

    `width` is that of all heads side by side. `mlm_rate` is the fraction of tokens for which logits over the
    `vocabulary` are computed: 0 if none is a target.
    """

    n_layers: int
    d_model: int
    width: int
    d_ff: int
    vocabulary: int = 0
    mlm_rate: float = 0.0

    @property
    def non_embedding(self) -> int:
        """Return the number of matrix weights inside the layers; biases and norms, under one percent, are left out."""
        return self.n_layers * (4 * self.d_model * self.width + 2 * self.d_model * self.d_ff)

    def flops_per_token(self, length: float) -> float:
        """Return the FLOPs of a training step per real token, for sequences of `length` on average.

        They are 6 per weight (2 forward, 4 backward; Kaplan et al. 2020, section 2.1), attention's two products, and
        the head for masked tokens with its dense layer.
        """
        head = self.mlm_rate * (self.vocabulary * self.d_model + self.d_model**2)
        return 6 * self.non_embedding + 12 * self.n_layers * self.width * length + 6 * head

    def products(self, tokens: int) -> list[Product]:
        """Return the distinct matrix products of a forward pass over `tokens` tokens, without attention's own."""
        layers, d = self.n_layers, self.d_model
        inside = {(d, self.width): 3 * layers}
        for shape, count in (((self.width, d), layers), ((d, self.d_ff), layers), ((self.d_ff, d), layers)):
            inside[shape] = inside.get(shape, 0) + count
        found = [Product(tokens, inputs, outputs, count) for (inputs, outputs), count in inside.items()]
        targets = round(self.mlm_rate * tokens)
        head = [Product(targets, d, d, 1), Product(targets, d, self.vocabulary, 1)] if targets else []
        return found + head

    def share_of(self, roof: float, tokens_per_second: float, length: float) -> float:
        """Return the MFU: the fraction of `roof` (FLOP/s) that `tokens_per_second` real tokens amount to."""
        return tokens_per_second * self.flops_per_token(length) / roof


SHAPES = {  # the notebooks' models, then Google's small BERTs (Turc et al. 2019)
    "notebook": Shape(2, 64, 64, 256),
    "notebook_bert": Shape(1, 256, 192, 1024),
    "tiny": Shape(2, 128, 128, 512),
    "mini": Shape(4, 256, 256, 1024),
    "minilm": Shape(6, 384, 384, 1536),
    "base": Shape(12, 768, 768, 3072),
}
