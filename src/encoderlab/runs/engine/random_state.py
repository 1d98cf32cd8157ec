"""The random generators of dropout, in every process of a run: saved in its checkpoints, and restored from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from encoderlab.system.distributed import Processes


def random_states(device: torch.device, processes: Processes) -> list[dict[str, Any]]:
    """Return the states of the generators in each process, by rank.

    All processes call it; only the main process gets the states, the others an empty list.
    """
    return processes.gather(random_state(device)) or []


def set_random_states(
    states: list[dict[str, Any]], device: torch.device, processes: Processes, seed: int, step: int
) -> None:
    """Restore the generators from `states`, those of all processes.

    If the number of processes has changed, their next draws cannot be reproduced, and dropout is seeded again.
    """
    if len(states) != processes.size:
        begin_dropout(seed, step, processes)
        return
    set_random_state(states[processes.rank], device)


def random_state(device: torch.device) -> dict[str, Any]:
    """Return the states of the generators that a step of this process draws from: the CPU's and that of `device`."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["device"] = torch.cuda.get_rng_state(device)
    if device.type == "mps":
        state["device"] = torch.mps.get_rng_state()
    return state


def set_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Restore this process's generators from `state`, which may come from another kind of device."""
    torch.set_rng_state(state["cpu"])
    if "device" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["device"], device)
    if "device" in state and device.type == "mps":
        torch.mps.set_rng_state(state["device"])


def begin_dropout(seed: int, step: int, processes: Processes) -> None:
    """Seed dropout by the run's seed, the last step before it, and the process, so that each process drops other
    numbers.
    """
    drawn = np.random.SeedSequence([seed, step, processes.rank]).generate_state(1, np.uint64)
    torch.manual_seed(int(drawn[0]))
