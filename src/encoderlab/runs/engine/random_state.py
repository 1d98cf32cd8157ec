"""The generators that dropout is drawn from, in every process of a run: kept in its checkpoints, and set again from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from encoderlab.system.distributed import Processes


def random_states(device: torch.device, processes: Processes) -> list[dict[str, Any]]:
    """The states of the generators in each process, by rank.

    All processes call it; the others than the first are given an empty list.
    """
    return processes.gather(random_state(device)) or []


def set_random_states(states: list[dict[str, Any]], device: torch.device, processes: Processes, seed: int, step: int) -> None:
    """Have the generators go on from `states`, those of all processes.

    Where there were more processes, or fewer, what they would have drawn next cannot be drawn: dropout begins anew.
    """
    if len(states) != processes.size:
        begin_dropout(seed, step, processes)
        return
    set_random_state(states[processes.rank], device)


def random_state(device: torch.device) -> dict[str, Any]:
    """The states of the generators that a step of this process draws from: the CPU's, and that of `device`."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["device"] = torch.cuda.get_rng_state(device)
    if device.type == "mps":
        state["device"] = torch.mps.get_rng_state()
    return state


def set_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Have this process's generators go on from `state`, which may have been taken on another kind of device."""
    torch.set_rng_state(state["cpu"])
    if "device" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["device"], device)
    if "device" in state and device.type == "mps":
        torch.mps.set_rng_state(state["device"])


def begin_dropout(seed: int, step: int, processes: Processes) -> None:
    """Seed dropout by the run's seed, the step it begins behind, and the process: each drops other numbers than the others do."""
    drawn = np.random.SeedSequence([seed, step, processes.rank]).generate_state(1, np.uint64)
    torch.manual_seed(int(drawn[0]))
