"""The roof: the FLOP/s that this machine reaches on the matrix products of a model's training step."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from benchmarks.processes import finished, python

if TYPE_CHECKING:
    import torch

SECONDS = 0.9  # for each product, so that other load for a moment does not count
SMALL_SECONDS = 0.03  # if the numbers are not kept


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

    def flops_per_token(self, length: float) -> float:
        """Return the FLOPs of a training step per real token, for sequences of `length` on average.

        They are 6 per weight of the layers (2 forward, 4 backward; Kaplan et al. 2020, section 2.1), attention's two
        products, and the head for masked tokens with its dense layer.
        """
        weights = self.n_layers * (4 * self.d_model * self.width + 2 * self.d_model * self.d_ff)
        head = self.mlm_rate * (self.vocabulary * self.d_model + self.d_model**2)
        return 6 * weights + 12 * self.n_layers * self.width * length + 6 * head

    def products(self, tokens: int) -> list[Product]:
        """Return the distinct matrix products of a forward pass over `tokens` tokens, without attention's own."""
        layers = self.n_layers
        d = self.d_model
        counts = {(d, self.width): 3 * layers}
        for sizes in ((self.width, d), (d, self.d_ff), (self.d_ff, d)):
            counts[sizes] = counts.get(sizes, 0) + layers
        products = [Product(tokens, inputs, outputs, count) for (inputs, outputs), count in counts.items()]
        targets = round(self.mlm_rate * tokens)
        if targets:
            products += [Product(targets, d, d, 1), Product(targets, d, self.vocabulary, 1)]
        return products

    def mfu(self, roof: float, tokens_per_second: float, length: float) -> float:
        """Return the fraction of `roof` (FLOP/s) that `tokens_per_second` real tokens amount to."""
        return tokens_per_second * self.flops_per_token(length) / roof


SHAPES = {  # the notebooks' models, then Google's small BERTs (Turc et al. 2019)
    "notebook": Shape(2, 64, 64, 256),
    "notebook_bert": Shape(1, 256, 192, 1024),
    "tiny": Shape(2, 128, 128, 512),
    "mini": Shape(4, 256, 256, 1024),
    "minilm": Shape(6, 384, 384, 1536),
    "base": Shape(12, 768, 768, 3072),
}


def probe(
    shape: Shape, tokens: int, device: str, threads: int, *, small: bool, seconds_at_most: float | None = None
) -> dict[str, float]:
    """Return FLOP/s by precision, measured in a child process; `tokens` is the number in one step.

    A `small` probe is quick and rough. Raises OutOfTimeError after `seconds_at_most`.
    """
    seconds = SMALL_SECONDS if small else SECONDS
    request = [asdict(shape), tokens, device, threads, seconds]
    command = python("-m", "benchmarks.roof", json.dumps(request))
    return json.loads(finished(command, seconds_at_most=seconds_at_most).last_line)


def roof(products: list[Product], seconds: Callable[[Product], float]) -> float:
    """Return the FLOP/s of a whole training step: all FLOPs over all seconds, each product at its own best speed.

    `seconds` is the time of a product's forward and two backward multiplications.
    """
    work = sum(3 * product.flops * product.count for product in products)
    return work / sum(seconds(product) * product.count for product in products)


def best_seconds(product: Product, dtype: torch.dtype, device: str, seconds: float) -> float:
    """Return the shortest time of a training step's three products: forward, gradients of input and of weights."""
    import torch

    sizes = (product.rows, product.inputs), (product.outputs, product.inputs), (product.rows, product.outputs)
    x, weight, gradient = (torch.randn(size, device=device).to(dtype) for size in sizes)
    three = (lambda: x @ weight.T, lambda: gradient @ weight, lambda: gradient.T @ x)
    return sum(_best(multiply, device, seconds / 3) for multiply in three)


def _best(multiply: Callable[[], torch.Tensor], device: str, seconds: float) -> float:
    """Return the shortest of as many runs as `seconds` allow, at least three, without the first."""
    import torch

    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    best = math.inf
    until = time.perf_counter() + seconds
    runs = 0
    while runs < 4 or time.perf_counter() < until:
        started = time.perf_counter()
        multiply()
        wait()
        if runs:
            best = min(best, time.perf_counter() - started)
        runs += 1
    return best


def main() -> None:
    """Probe what the JSON argument specifies, and print FLOP/s by precision."""
    import torch

    shape, tokens, device, threads, seconds = json.loads(sys.argv[1])
    torch.set_num_threads(threads)
    products = Shape(**shape).products(tokens)
    dtypes = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    roofs = {
        name: roof(products, lambda product, dtype=dtype: best_seconds(product, dtype, device, seconds))
        for name, dtype in dtypes.items()
    }
    print(json.dumps(roofs))


if __name__ == "__main__":
    main()
