"""Trains only those rows of the token table that a run's texts have; the others are put back when training has ended.

A row whose token occurs in no text never has a gradient, so AdamW's moments of it stay zero, and all that ever happens
to it is weight decay: each step multiplies it by 1 - learning rate * weight decay (Loshchilov and Hutter 2019,
algorithm 2). If the texts are known beforehand, a small table of the rows that occur is therefore trained in the place
of the whole one, and the others are multiplied by the product of these factors at the end. The model, its losses and
the norm of its gradient are the same, but for rounding. What a step does to a row of zeros costs as much as any other:
of an encoder of a hundred languages, whose table has 250,002 rows, an English data set has some 5,000.

Five tokens, of which texts have 0, 1 and 3:

>>> table = nn.Embedding(5, 1, padding_idx=0, _weight=torch.tensor([[0.0], [10.0], [20.0], [30.0], [40.0]]))
>>> network = nn.Sequential(table)
>>> small = OccurringRows(table, torch.tensor([0, 1, 3]))
>>> network[0] = small
>>> network(torch.tensor([3, 1, 0])).flatten().tolist()
[30.0, 10.0, 0.0]

The optimizer sees three rows, and the step is recorded:

>>> optimizer = torch.optim.AdamW(network.parameters(), lr=0.1, weight_decay=0.5)
>>> network(torch.tensor([3, 1])).sum().backward()
>>> small.weight.shape, optimizer.step()
(torch.Size([3, 1]), None)
>>> small.record_step(optimizer.param_groups[0])

Any other token can be read in evaluation, and has been decayed like the rest; so it is in the whole table:

>>> [round(value, 4) for value in network.eval()(torch.tensor([2, 3])).flatten().tolist()]
[19.0, 28.4]
>>> [round(value, 4) for value in small.whole().weight.flatten().tolist()]
[0.0, 9.4, 19.0, 28.4, 38.0]
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from encoderlab.network.heads import EncoderWithHeads
from encoderlab.system.tensor_files import set_aside

FEWEST_LEFT_OUT = 1_000  # rows: the work on fewer is not noticed
LEAST_SHARE_LEFT_OUT = 0.25  # the whole table is kept beside the small one and its gradient and moments


class OccurringRows(nn.Module):
    """The rows `ids`, ascending, of a token table: in training the only ones; in evaluation it reads all.

    `weight` is trained. `decay` is the product of the factors by which weight decay has multiplied the others, which
    stay as they were in `untouched`. The weights of a checkpoint are `weight`, `ids` and `decay`.
    """

    ids: Int[Tensor, " rows"]
    decay: Float[Tensor, ""]
    untouched: Float[Tensor, "vocabulary width"]
    row_of_id: Int[Tensor, " vocabulary"]
    # Where a step reads copies of rows (`weight_copies`): which, and the copies.
    rows_read: list[tuple[Int[Tensor, " read"], Float[Tensor, "read width"]]] | None = None

    def __init__(self, table: nn.Embedding, ids: Int[Tensor, " rows"], folder: Path | None = None) -> None:
        """A large table is kept in a file in `folder` meanwhile (None: in memory)."""
        super().__init__()
        untouched = table.weight.detach()
        ids = ids.to(untouched.device)
        row_of_id = torch.full((len(untouched),), -1, dtype=torch.int32, device=ids.device)
        row_of_id[ids] = torch.arange(len(ids), dtype=torch.int32, device=ids.device)
        self.padding_id = table.padding_idx
        self.padding_row = None if self.padding_id is None else int(row_of_id[self.padding_id])
        self.weight = nn.Parameter(untouched[ids])
        self.register_buffer("ids", ids)
        self.register_buffer("decay", torch.ones((), dtype=torch.float64, device=ids.device))
        # It is no buffer: DDP would send it to the other processes, which have the same.
        self.untouched = untouched if folder is None else set_aside({"table": untouched}, folder)["table"]
        self.register_buffer("row_of_id", row_of_id, persistent=False)

    def forward(self, input_ids: Int[Tensor, "*tokens"]) -> Float[Tensor, "*tokens width"]:
        """Return the rows of these ids. Raises IndexError in training for one that is not among `ids`."""
        rows = self.row_of_id[input_ids]
        if self.training and self.rows_read is not None:
            read, places = rows.unique(return_inverse=True)
            copies = self.weight.detach()[read].requires_grad_()
            self.rows_read.append((read, copies))
            return F.embedding(places, copies)
        if self.training:
            return F.embedding(rows, self.weight, self.padding_row)
        never_trained = rows < 0
        trained = F.embedding(rows.clamp(min=0), self.weight)
        if rows.device.type == "cpu" and not never_trained.any():  # on another device, the host would have to wait
            return trained
        return torch.where(never_trained[..., None], F.embedding(input_ids, self.untouched) * self.decay, trained)

    def record_step(self, group: Mapping[str, Any]) -> None:
        """Record a step that the optimizer has taken with the group of settings that `weight` is in."""
        self.decay *= 1 - group["lr"] * group["weight_decay"]

    @torch.no_grad()
    def whole(self) -> nn.Embedding:
        """Return the whole table as it is now, in the memory of the one that this was made of."""
        table = self.untouched.mul_(self.decay)
        table[self.ids] = self.weight
        return nn.Embedding(*table.shape, padding_idx=self.padding_id, _weight=table)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Load the rows of a checkpoint, which must be the same; or the table of a run that trained it whole."""
        *_, errors = rest
        names = [f"{prefix}{name}" for name in ("weight", "ids", "decay")]
        weight, ids, _ = (state_dict.get(name) for name in names)
        if ids is None and weight is not None and weight.shape == self.untouched.shape:
            self.untouched.copy_(weight)
            own = (weight[self.ids.to(weight.device)], self.ids, torch.ones_like(self.decay))
            state_dict = state_dict | dict(zip(names, own, strict=True))
        elif ids is not None and not torch.equal(ids.to(self.ids.device), self.ids):
            errors.append("its token table has the rows of other texts")
            return
        super()._load_from_state_dict(state_dict, prefix, *rest)


def train_occurring_rows(
    network: EncoderWithHeads, texts: Iterable[np.ndarray], special: Iterable[int], folder: Path
) -> str:
    """Train only the rows of the token table whose ids occur in `texts` or are `special`; return in words what was
    done: nothing, if that would not pay or other parts use the table too.

    `texts` yields ids, a part of the texts at a time. A large table is kept in a temporary file in `folder` meanwhile.
    """
    table = network.encoder.token_table
    n_rows = len(table)
    places = [name for name, module in network.named_modules() if getattr(module, "weight", None) is table]
    module = network.get_submodule(places[0])
    if len(places) > 1 or network.masked_token_head is not None or type(module) is not nn.Embedding:
        return f"all {n_rows:,} rows of the token table are trained, which other parts use too"
    if not table.requires_grad:
        return f"the {n_rows:,} rows of the token table are frozen"
    most = n_rows - max(FEWEST_LEFT_OUT, int(LEAST_SHARE_LEFT_OUT * n_rows))
    ids = occurring_ids(texts, special, n_rows, most)
    if ids is None:
        return f"all {n_rows:,} rows of the token table are trained: too few of them do not occur"
    _replace(network, places[0], OccurringRows(module, torch.from_numpy(ids), folder))
    return f"{len(ids):,} of the {n_rows:,} rows of the token table are trained, those that occur"


def occurring_ids(
    texts: Iterable[np.ndarray], special: Iterable[int], n_rows: int, most: int
) -> Int[np.ndarray, " rows"] | None:
    """Return the ids below `n_rows` that occur in any part of the texts or are special, ascending; None if there are
    more than `most`.
    """
    occurs = np.zeros(n_rows, bool)
    occurs[0] = True  # the compiler is tried with a batch of zeros
    occurs[list(special)] = True
    for ids in texts:
        occurs[ids] = True
        if np.count_nonzero(occurs) > most:
            return None
    return np.flatnonzero(occurs) if np.count_nonzero(occurs) <= most else None


def occurring_rows(network: nn.Module) -> OccurringRows | None:
    """Return the small table that a network trains; None if it has the whole one."""
    return next((module for module in network.modules() if isinstance(module, OccurringRows)), None)


def decay_recorder(network: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    """Return what is to be called after each step of the optimizer; without a small table it does nothing."""
    small = occurring_rows(network)
    if small is None:
        return lambda: None
    groups = enumerate(optimizer.param_groups)
    number = next(number for number, group in groups if any(small.weight is one for one in group["params"]))
    # The group is looked up each time: an optimizer that loads a state has other dictionaries.
    return lambda: small.record_step(optimizer.param_groups[number])


def put_back_rows(network: nn.Module) -> None:
    """Give a network its whole token table again, as it is now."""
    for name, module in network.named_modules():
        if isinstance(module, OccurringRows):
            _replace(network, name, module.whole())
            return


def set_table_aside(network: EncoderWithHeads, folder: Path) -> None:
    """Keep a large table in a temporary file in `folder` from now on, of which only what is read takes memory."""
    table = network.encoder.token_table
    table.data = set_aside({"table": table.data}, folder)["table"]


def rows_left_out(network: nn.Module) -> int:
    """Return how many weights of the token table are not among the network's parameters, because no text has them."""
    small = occurring_rows(network)
    return 0 if small is None else small.untouched.numel() - small.weight.numel()


def untouched_rows(network: nn.Module) -> list[Tensor]:
    """Return the table whose rows, but for the trained ones, are part of the network; an empty list without one."""
    small = occurring_rows(network)
    return [] if small is None else [small.untouched]


def copied(network: EncoderWithHeads) -> EncoderWithHeads:
    """Return a copy of a network that can be trained without changing it; what neither trains is shared."""
    small = occurring_rows(network)
    shared = [] if small is None else [small.untouched, small.row_of_id, small.ids]
    shared += [parameter for parameter in network.parameters() if not parameter.requires_grad]
    return copy.deepcopy(network, {id(tensor): tensor for tensor in shared})


# Checkpoints of a run that trained other rows: a sharded one trains all


def trained_ids(network: nn.Module) -> Tensor | None:
    """Return the ids of the rows that are trained, on the CPU; None: all."""
    small = occurring_rows(network)
    return None if small is None else small.ids.cpu()


def with_whole_table(weights: dict[str, Tensor], before: nn.Module) -> dict[str, Tensor]:
    """Return a checkpoint's weights with the whole token table, whose other rows are those of the network `before` its
    first step.
    """
    name = next((name.removesuffix(".ids") for name in weights if name.endswith(".ids")), None)
    if name is None or f"{name}.decay" not in weights:
        return weights
    ids, decay, rows = (weights[f"{name}.{kind}"] for kind in ("ids", "decay", "weight"))
    table = before.state_dict()[f"{name}.weight"].cpu() * decay
    table[ids] = rows
    kept = {key: value for key, value in weights.items() if key not in (f"{name}.ids", f"{name}.decay")}
    return kept | {f"{name}.weight": table}


def adapt_moments(
    state: dict[str, Any], ids: Tensor | None, network: nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Give the moments in a state of the optimizer, of a run that trained the rows `ids` (None: all), to the rows that
    are trained here. A row that was not trained has moments of zero.
    """
    own = trained_ids(network)
    if (own is None) == (ids is None):
        return
    parameters = [weight for group in optimizer.param_groups for weight in group["params"]]
    for number, averages in state["state"].items():
        for name, value in averages.items():
            shape = parameters[number].shape
            if value.ndim == 0 or value.shape == shape:
                continue
            averages[name] = value[own] if ids is None else value.new_zeros(shape).index_copy_(0, ids, value)


def _replace(network: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, attribute = name.rpartition(".")
    setattr(network.get_submodule(parent), attribute, module.train(network.training))
