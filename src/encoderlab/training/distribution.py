"""A model in training: in one process, in several that each hold all of it, or in several that each hold a shard.

Several processes use PyTorch's DistributedDataParallel (Li et al. 2020), or its `fully_shard` (FSDP2; Zhao et al. 2023;
the idea is ZeRO's third stage, Rajbhandari et al. 2020). Either way, weights and optimizer states are returned whole,
as one process would have them, so every kind reads every other kind's checkpoints. Only the random generators of
dropout are those of each process.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from encoderlab.network.heads import EncoderWithHeads
from encoderlab.system.processes import Processes
from encoderlab.training.checkpoint import frozen_names, load_trained, weights_of
from encoderlab.training.config import Sharding, TrainingConfig
from encoderlab.training.occurring_rows import untouched_rows, with_whole_table


class WholeNetwork:
    """A network that each process holds completely.

    The loop calls `for_forward`; `network`, with the same weights, is what is optimised and, between steps, scored. All
    processes call the same methods.
    """

    def __init__(
        self, network: EncoderWithHeads, processes: Processes, *, exact: bool = True, reads_frozen: bool = False
    ) -> None:
        """If `exact`, a resumed run ends bit for bit like one that was never stopped. If it `reads_frozen` weights from
        the file of an encoder, whose hash is checked, checkpoints do not hold them.
        """
        self.left_out = frozen_names(network) if reads_frozen else set[str]()
        self.network = network
        self.processes = processes
        self.for_forward: nn.Module = network
        if processes.size > 1:
            # an encoder of transformers may have weights that nothing uses, as of global attention
            may_be_unused = not network.encoder.is_drawn
            self.for_forward = _replicated(network, fixed_order=(exact and processes.size > 2) or may_be_unused)

    def weights(self) -> dict[str, Tensor]:
        """Return the weights of a checkpoint, on the CPU, to the main process."""
        if not self.processes.is_main:
            return {}
        return {name: weight for name, weight in weights_of(self.network).items() if name not in self.left_out}

    def load(self, weights: dict[str, Tensor]) -> None:
        """Load the main process's weights on all processes."""
        if self.processes.is_main:
            load_trained(self.network, weights)
        self.processes.broadcast_tensors([*self.network.state_dict().values(), *untouched_rows(self.network)])

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Return the optimizer's state, whole and numbered as one process would number it, to the main process."""
        return optimizer.state_dict()

    def load_optimizer_state(self, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
        """Load a state from `optimizer_state`, the same on all processes."""
        optimizer.load_state_dict(state)

    def finish(self) -> None:
        """End training: the original model has all weights, on every process, and is used from here on."""
        self.network.eval()


class ShardedNetwork(WholeNetwork):
    """A network of which each process holds a shard, and gathers a layer while it computes it.

    The main process's network, which stays on its CPU until training has ended, has the initial weights. They are
    broadcast and sharded one tensor at a time, so the others' networks need no weights.
    """

    def __init__(self, network: EncoderWithHeads, processes: Processes, device: torch.device) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        self.original = network
        self.processes = processes
        self.device = device
        self.network = _shapes_of(network)

        # Each layer is a unit, which is gathered when it is computed.
        mesh = init_device_mesh(device.type, (processes.size,))
        for layer in self.network.encoder.layers:
            fully_shard(layer, mesh=mesh)
        # Everything else is one unit, because the heads use the table of embeddings. It is sharded again after each
        # forward pass: otherwise the model would hold whole weights after an evaluation, and writes to them would be
        # lost.
        fully_shard(self.network, mesh=mesh, reshard_after_forward=True)
        self.for_forward: Any = self.network
        self.for_forward.no_sync = partial(_no_sync, self.network)  # as DDP has it

        # Memory for this process's shards, and the main process's weights in it.
        _allocate(self.network, device)
        self.load(network.state_dict())

    def weights(self) -> dict[str, Tensor]:
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        weights: dict[str, Any] = get_model_state_dict(self.network, options=options)
        return {name: weight.contiguous() for name, weight in weights.items()}

    def load(self, weights: dict[str, Tensor]) -> None:
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        mine: Any = {}
        if self.processes.is_main:  # a checkpoint of an unsharded run has no weights that were frozen
            frozen = frozen_names(self.original)
            known = {name: weight for name, weight in self.original.state_dict().items() if name in frozen}
            mine = known | with_whole_table(weights, self.original)
        set_model_state_dict(self.network, mine, options=options)

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        from torch.distributed.tensor import DTensor

        plain = optimizer.state_dict()
        state = {}
        for key, averages in plain["state"].items():  # one at a time, because all averages together are twice the model
            whole = {}
            for name, value in averages.items():
                whole[name] = value.full_tensor() if isinstance(value, DTensor) else value
            state[key] = {name: value.cpu() for name, value in whole.items()} if self.processes.is_main else {}
        return plain | {"state": state}

    def load_optimizer_state(self, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
        from torch.distributed.tensor import distribute_tensor

        parameters = [weight for group in optimizer.param_groups for weight in group["params"]]
        shards = {}
        for key, averages in state["state"].items():
            layout = (parameters[key].device_mesh, parameters[key].placements)
            shards[key] = {
                name: distribute_tensor(value.to(self.device), *layout, src_data_rank=None) if value.ndim else value
                for name, value in averages.items()
            }
        optimizer.load_state_dict(state | {"state": shards})

    def finish(self) -> None:
        weights = self.weights()
        if self.processes.is_main:
            self.original.load_state_dict(weights)
            self.original.to(self.device)
        else:
            _allocate(self.original, self.device)
        self.original.eval()
        self.processes.broadcast_tensors(list(self.original.state_dict().values()))


def is_sharded(config: TrainingConfig, processes: Processes) -> bool:
    """Return whether each process holds a shard of the model; a single process never does."""
    return config.sharding is Sharding.full and processes.size > 1


def distribute(
    network: EncoderWithHeads,
    config: TrainingConfig,
    processes: Processes,
    device: torch.device,
    *,
    reads_frozen: bool = False,
) -> WholeNetwork:
    """Return the `network` as the `processes` train it on `device`; it is already there unless it is to be sharded.
    Checkpoints of a run that `reads_frozen` weights again when it is resumed do not hold them.
    """
    if is_sharded(config, processes):
        return ShardedNetwork(network, processes, device)
    is_exact = device.type == "cpu" or config.deterministic
    return WholeNetwork(network, processes, exact=is_exact, reads_frozen=reads_frozen)


def distribution_in_words(config: TrainingConfig, processes: Processes) -> str | None:
    """Return how a run is distributed; None if there is nothing to say."""
    if processes.size == 1:
        return "not sharded (one process)" if config.sharding is Sharding.full else None
    return f"{processes.size} processes{' with a shard of the weights each' if is_sharded(config, processes) else ''}"


def _replicated(network: nn.Module, *, fixed_order: bool) -> nn.Module:
    # After its first step, DDP arranges gradients by the order in which they arrived, and that decides the order in
    # which those of more than two processes are added. A resumed run would round its first step differently, unless DDP
    # expects unused parameters: then it rearranges nothing, but traverses the graph at each step.
    with warnings.catch_warnings():
        # PyTorch 2.13 renames broadcast_buffers. Our buffers are tables that never change.
        warnings.simplefilter("ignore", FutureWarning)
        return nn.parallel.DistributedDataParallel(
            network, broadcast_buffers=False, gradient_as_bucket_view=True, find_unused_parameters=fixed_order
        )


@contextmanager
def _no_sync(sharded: Any) -> Iterator[None]:
    """Accumulate the gradients of the enclosed work, to be synchronised with the next ones."""
    sharded.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        sharded.set_requires_gradient_sync(True)


def _shapes_of(network: EncoderWithHeads) -> EncoderWithHeads:
    """Return the same network with weights that take no memory; its tables keep theirs."""
    empty = {
        id(weight): nn.Parameter(torch.empty_like(weight, device="meta"), requires_grad=weight.requires_grad)
        for weight in network.parameters()
    }
    return copy.deepcopy(network, empty)


def _allocate(network: nn.Module, device: torch.device) -> None:
    """Allocate memory for the weights of `network` on `device`, uninitialised; the tables keep their content."""
    tables = {name: table.clone() for name, table in network.named_buffers()}
    network.to_empty(device=device)
    for name, table in network.named_buffers():
        table.copy_(tables[name])
