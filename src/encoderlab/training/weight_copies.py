"""Copies of weights that a step on a CPU reads instead of them: linear maps in the precision of the products, and of a
small token table the rows of the step's tokens.

Autocast casts each weight of a linear map in each forward pass, and its gradient back in each backward pass. The
gradient of a table is zeros but for a few rows, and all of it is allocated, cleared, measured and scaled in each step.
Here the casts are one call, into memory that is kept, and only the rows that were read are measured and scaled.
Autograd sees the copies; their gradients are then added to those of the weights. The numbers are the same, bit for bit,
but for the order of the sum in the norm of the table's gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from encoderlab.network.heads import EncoderWithHeads
from encoderlab.training.occurring_rows import OccurringRows, occurring_rows

MOST_KEPT = 2**26  # bytes of gradients that are not freed between steps: of larger models, the products take longer


class WeightCopies:
    """The copies for a network's training.

    A step calls `renew` first, computes each micro-batch with them `in_place` and then calls `collect`. It measures and
    scales what `gradients` returns, and then calls `put_back`.
    """

    def __init__(self, network: nn.Module | None) -> None:
        """Without a network there are no copies, and the methods change nothing."""
        linear = [] if network is None else [module for module in network.modules() if type(module) is nn.Linear]
        # Where a module looks its weights up.
        self._places: list[tuple[dict[str, Any], str]] = [
            (module._parameters, name) for module in linear for name, _ in module.named_parameters()
        ]
        self._weights: list[Tensor] = [parameters[name] for parameters, name in self._places]
        self._copies: list[Tensor] = []
        size = sum(weight.nbytes for weight in self._weights)
        self._kept = [torch.empty_like(weight) for weight in self._weights] if size <= MOST_KEPT else []
        small = None if network is None else occurring_rows(network)
        self._table = None if small is None else _TableGradient(small)

    @classmethod
    def worthwhile(cls, network: nn.Module, *, processes: int) -> WeightCopies:
        """Return the copies for our own encoder on a CPU, not compiled and in one process; otherwise there are none.

        Compiled code knows weights by their identity, several processes wait for the gradients of the weights, and in
        transformers' encoders others than the linear maps may read them.
        """
        if not isinstance(network, EncoderWithHeads) or processes > 1:
            return cls(None)
        encoder = network.encoder
        suits = encoder.is_drawn and "encode" not in vars(encoder) and encoder.token_table.device.type == "cpu"
        return cls(network if suits else None)

    def renew(self, precision: torch.dtype) -> None:
        """Begin a step: copy the weights as they are now, and forget the gradients of the step before."""
        if self._table is not None:
            self._table.clear()
        if precision is torch.float32 or not self._weights:
            self._copies = []
            return
        if not self._copies:
            self._copies = [torch.empty_like(weight, dtype=precision) for weight in self._weights]
        with torch.no_grad():
            torch._foreach_copy_(self._copies, self._weights)  # pyright: ignore[reportPrivateImportUsage]
        for copy, weight in zip(self._copies, self._weights, strict=True):
            copy.requires_grad_(weight.requires_grad)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the network read the copies in the enclosed forward pass."""
        if self._table is not None:
            self._table.small.rows_read = []
        for (parameters, name), copy in zip(self._places, self._copies, strict=False):
            parameters[name] = copy
        try:
            yield
        finally:
            for (parameters, name), weight in zip(self._places, self._weights, strict=True):
                parameters[name] = weight

    @torch.no_grad()
    def collect(self) -> None:
        """Add the gradients of the copies, after a backward pass, to those of the weights."""
        firsts: tuple[list[Tensor], list[Tensor]] = ([], [])
        others: tuple[list[Tensor], list[Tensor]] = ([], [])
        for number, copy in enumerate(self._copies):
            if copy.grad is None:
                continue
            weight = self._weights[number]
            into, found = others
            if weight.grad is None:  # of the first micro-batch
                into, found = firsts
                weight.grad = self._kept[number] if self._kept else torch.empty_like(weight)
            into.append(weight.grad)
            found.append(copy.grad)
            copy.grad = None
        if firsts[0]:
            torch._foreach_copy_(*firsts)  # pyright: ignore[reportPrivateImportUsage]
        if others[0]:
            torch._foreach_add_(*others)  # pyright: ignore[reportPrivateImportUsage]
        if self._table is not None:
            self._table.collect()

    def gradients(self, optimizer: torch.optim.Optimizer) -> list[Tensor]:
        """Return the gradients of all weights of the optimizer; of a small table, those of the rows that were read."""
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        table = self._table
        if table is None:
            return [weight.grad for weight in weights if weight.grad is not None]
        gradients = [table.of_rows if weight is table.small.weight else weight.grad for weight in weights]
        return [gradient for gradient in gradients if gradient is not None]

    def put_back(self) -> None:
        """Put the gradients of the rows, scaled meanwhile, into the gradient of their table."""
        if self._table is not None:
            self._table.put_back()


class _TableGradient:
    """The gradient of a small token table: zeros, but for the `rows` that the step has read."""

    def __init__(self, small: OccurringRows) -> None:
        self.small = small
        self.rows: Int[Tensor, " read"] = small.ids[:0]
        self.of_rows: Float[Tensor, "read width"] | None = None
        self._whole = torch.zeros_like(small.weight)

    def clear(self) -> None:
        self._whole[self.rows] = 0
        self.rows = self.rows[:0]
        self.of_rows = None

    def collect(self) -> None:
        """Add the gradients of the rows that the micro-batch has read."""
        for rows, copies in self.small.rows_read or ():
            gradient = copies.grad
            if gradient is None:
                continue
            if self.small.padding_row is not None:
                gradient.masked_fill_((rows == self.small.padding_row)[:, None], 0)
            if self.of_rows is None:
                self.rows, self.of_rows = rows, gradient
                continue
            # A further micro-batch has read some of these rows, and others.
            both, places = torch.cat([self.rows, rows]).unique(return_inverse=True)
            summed = gradient.new_zeros(len(both), gradient.shape[1])
            summed[places[: len(self.rows)]] = self.of_rows
            summed[places[len(self.rows) :]] += gradient
            self.rows, self.of_rows = both, summed
        self.small.rows_read = None

    def put_back(self) -> None:
        if self.of_rows is not None:
            self._whole[self.rows] = self.of_rows
            self.small.weight.grad = self._whole
