"""The roof: the FLOP/s this machine reaches on the matrix products of a model's training step, in a separate process."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

from benchmarks.processes import finished, python
from benchmarks.shapes import Product, Shape

if TYPE_CHECKING:
    import torch

SECONDS = 0.9  # for each product, so that other load for a moment does not count
SMALL_SECONDS = 0.03  # if the figures are not saved


def probe(
    shape: Shape,
    tokens: int,
    device: str = "cpu",
    threads: int | None = None,
    *,
    small: bool = False,
    seconds_at_most: float | None = None,
) -> dict[str, float]:
    """Return FLOP/s by precision, measured in a child process; `tokens` is the number in one step.

    A `small` probe is quick and rough. Raises OutOfTimeError after `seconds_at_most`.
    """
    seconds = SMALL_SECONDS if small else SECONDS
    request = json.dumps(
        {"shape": asdict(shape), "tokens": tokens, "device": device, "threads": threads, "seconds": seconds}
    )
    return json.loads(finished(python("-m", "benchmarks.roof", request), seconds_at_most=seconds_at_most).last_line)


def roof(products: list[Product], seconds: Callable[[Product], float]) -> float:
    """Return the FLOP/s of a whole training step: all FLOPs over all seconds, each product at its own best speed.

    `seconds` is the time of a product's forward and two backward multiplications.
    """
    work = sum(3 * product.flops * product.count for product in products)
    return work / sum(seconds(product) * product.count for product in products)


def best_seconds(product: Product, dtype: torch.dtype, device: str, seconds: float = SECONDS) -> float:
    """Return the shortest time of the three products of a training step: forward, and the gradients of input and
    weights.
    """
    import torch

    x, weight, gradient = (
        torch.randn(size, device=device).to(dtype)
        for size in (
            (product.rows, product.inputs),
            (product.outputs, product.inputs),
            (product.rows, product.outputs),
        )
    )
    three = (lambda: x @ weight.T, lambda: gradient @ weight, lambda: gradient.T @ x)
    return sum(_best(multiply, device, seconds / 3) for multiply in three)


def _best(multiply: Callable[[], torch.Tensor], device: str, seconds: float) -> float:
    """Return the shortest of as many runs as `seconds` allow, at least three, without the first."""
    import torch

    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    best, until, runs = math.inf, time.perf_counter() + seconds, 0
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

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("request", type=json.loads, help="JSON: shape, tokens, device, threads, seconds")
    request = parser.parse_args().request
    torch.set_num_threads(request["threads"] or torch.get_num_threads())
    products = Shape(**request["shape"]).products(request["tokens"])
    dtypes = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    found = {
        name: roof(
            products, lambda product, dtype=dtype: best_seconds(product, dtype, request["device"], request["seconds"])
        )
        for name, dtype in dtypes.items()
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
