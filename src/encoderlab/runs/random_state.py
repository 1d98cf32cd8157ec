"""The generators that dropout is drawn from, in every process of a run: kept in its checkpoints, and set again from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from encoderlab.world import World


def random_states(device: torch.device, world: World) -> list[dict[str, Any]]:
    """The states of PyTorch's generators in each process, by rank: of the CPU, and of its own `device`.

    All processes call it; the others than the first are given an empty list.
    """
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["device"] = torch.cuda.get_rng_state(device)
    if device.type == "mps":
        state["device"] = torch.mps.get_rng_state()
    return world.gather(state) or []


def set_random_states(states: list[dict[str, Any]], device: torch.device, world: World, seed: int, step: int) -> None:
    """Have the generators go on from `states`, those of all processes.

    Where there were more processes, or fewer, what they would have drawn next cannot be drawn: dropout begins anew.
    """
    if len(states) != world.size:
        begin_dropout(seed, step, world)
        return
    state = states[world.rank]
    torch.set_rng_state(state["cpu"])
    if "device" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["device"], device)
    if "device" in state and device.type == "mps":
        torch.mps.set_rng_state(state["device"])


def begin_dropout(seed: int, step: int, world: World) -> None:
    """Seed dropout by the run's seed, the step it begins behind, and the process: each drops other numbers than the others do."""
    drawn = np.random.SeedSequence([seed, step, world.rank]).generate_state(1, np.uint64)
    torch.manual_seed(int(drawn[0]))
