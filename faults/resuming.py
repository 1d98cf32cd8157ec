"""Promises of resuming: the same weights, bit for bit, under every setting; and every piece of the state is needed for
that.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch

from encoderlab.runs.folder import RunFolder
from encoderlab.training.checkpoint import (
    checkpoints,
    newest_verified,
    read_state,
    read_weights,
    save_checkpoint,
    step_of,
)
from faults.promise import Conditions, Trial
from faults.running import HOURS, SMALL, Bed
from faults.shim import Action, Fault

STEPS, EVALUATE = 24, 8
STOPS = (
    0,
    5,
    8,
    20,
    23,
)  # before the first step, within an epoch, at an evaluation, between epochs, before the last step
ENOUGH = ("training.log_every=1", "training.learning_rate=0.01", "seed=1")
EVERY = (f"training.steps={STEPS}", f"training.evaluate_every={EVALUATE}", "training.checkpoint_every=1", *ENOUGH)
REVERSE = ("train", "task=reverse", *SMALL, *EVERY)
DOCS = ("task=intents", "dataset.limit=160", "tokenizer.vocabulary_size=500", *SMALL[3:], *EVERY)
PRETRAIN = ("pretrain", "dataset.limit=60", "tokenizer.vocabulary_size=300", *SMALL[4:], *EVERY)
EARLY = "stopped early"
GRID: dict[str, tuple[str, ...]] = {
    "dropout": REVERSE,
    "masked tokens and pairs": PRETRAIN,
    "parts of a batch": (*REVERSE, "training.accumulate=3"),
    EARLY: (*REVERSE, "training.patience=1", "training.learning_rate=1e-9"),
    "patience": (*REVERSE, "training.patience=2", "training.learning_rate=0.3"),
    "the last is kept": (*REVERSE, "training.keep=last"),
    "one cycle": (*REVERSE, "training.schedule=one_cycle"),
    "cosine": (*REVERSE, "training.schedule=cosine"),
    "constant": (*REVERSE, "training.schedule=constant", "training.warmup=0"),
    "random batches": (*REVERSE, "training.batching=random"),
    "by epochs": (*REVERSE, "training.steps=null", "training.epochs=1.25", "training.evaluate_every=null"),
    "a class for a text": ("train", *DOCS, "training.batching=random"),
    "brackets": ("train", "task=brackets", *SMALL, *EVERY),
    "frozen, by layers": (*REVERSE, "model.n_layers=2", "training.freeze_layers=1", "training.layer_decay=0.5"),
    "whole words": (*PRETRAIN, "task.whole_words=true", "training.accumulate=2"),
    "segments": (*PRETRAIN, "dataset.pack=segments"),
    "modern": (*REVERSE, "model=modern", *SMALL),
}
# What no step of these runs depends on: settings that the config and the schedule provide again; and what is kept for
# running out of memory, skipped steps, another accumulate, tokenizer or processor, which have their own tests.
NOT_ASKED = {
    ("optimizer", "param_groups"),
    ("micro_batches",),
    ("skipped",),
    ("accumulate",),
    ("tokenizer",),
    ("computed_on",),
    ("progress", "recent_losses"),
    ("progress", "first_loss"),
    ("progress", "diverged_at"),
}
NOTICING = ("dropout", EARLY, "patience")  # the cases that must notice a missing piece
CLOCK = ("progress", "counted", "seconds")
BUDGET = ("budget_spent",)
ANY = "*"  # in place of the number of a weight: pieces of an optimizer are reset for all weights together
Keys = tuple[str, ...]


def equal(conditions: Conditions) -> Iterator[Trial]:
    """Kill a run after the checkpoint of a step and resume it: once for each setting and each stop."""
    for stop, name in conditions.of([(stop, name) for stop in STOPS for name in GRID]):
        bed = Bed(GRID[name])
        failure = put_back(bed, stop)
        if not failure:
            ended = bed.resume()
            failure = bed.differs() if ended.code == 0 else f"exit code {ended.code}: {ended.last_line}"
        yield Trial(f"{name}, stopped after step {stop}", failure)
        bed.clear()


def nothing_left_out(conditions: Conditions) -> Iterator[Trial]:
    """Reset a piece of a checkpoint to its value before the first step: some case of the grid must notice."""
    bed = Bed(GRID["dropout"])
    if _notices(bed, STOPS[-1], ()):
        yield Trial("nothing left out, but rewritten", "rewriting alone is noticed")
    for keys in conditions.of([("weights",), *_pieces(_read(bed, STOPS[-1])[1])]):
        trials = ((name, stop) for name in NOTICING for stop in (STOPS[-1], EVALUATE))
        noticed = (
            _budget_is_kept() if keys == BUDGET else any(_notices(Bed(GRID[name]), stop, keys) for name, stop in trials)
        )
        yield Trial(f"{'.'.join(keys)} left out", "" if noticed else "no run noticed")


@cache
def _stopped(bed: Bed, stop: int) -> tuple[Path | None, str]:
    """Return a run killed when its checkpoint of step `stop` (or its last) had its name; or what went wrong."""
    bed.clear()
    saved = [call for call in bed.calls if call.name == "rename" and "/step-" in call.other]
    call = next((call for call in saved if call.other.endswith(f"/step-{stop}")), saved[-1])
    ended = bed.start(fault=Fault(Action.signal_after, call.number, signal.SIGKILL))
    if ended.code != -signal.SIGKILL:
        return None, f"it was not killed: exit code {ended.code}: {ended.last_line}"
    kept = bed.folder / f"stopped-{stop}"
    bed.trial.rename(kept)
    newest = newest_verified(RunFolder(kept).checkpoints)
    wrong = newest is None or newest.name != Path(call.other).name
    return kept, f"the newest checkpoint is {newest}" if wrong else ""


def put_back(bed: Bed, stop: int) -> str:
    """Put a run that was killed after step `stop` into its place; return what went wrong, "" if nothing did."""
    bed.clear()
    kept, failure = _stopped(bed, stop)
    if not failure:
        shutil.copytree(kept, bed.trial)
    return failure


def _read(bed: Bed, stop: int) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Return weights and state of the checkpoint after which the run was killed."""
    kept, failure = _stopped(bed, stop)
    assert not failure, failure
    newest = newest_verified(RunFolder(kept).checkpoints)
    return read_weights(newest), read_state(newest)


def _pieces(state: dict[str, Any], above: Keys = ()) -> list[Keys]:
    """Return the keys of every piece of a state that steps depend on, each piece once."""
    found: dict[Keys, None] = {}
    for key, value in state.items():
        keys = (*above, ANY if isinstance(key, int) else key)
        if keys not in NOT_ASKED:
            found |= dict.fromkeys(_pieces(value, keys) if isinstance(value, dict) else [keys])
    return list(found)


def _notices(bed: Bed, stop: int, keys: Keys) -> bool:
    """Return whether a run resumed without that piece (None: with all) is refused, or ends differently."""
    (weights, state), (first_weights, first_state) = _read(bed, stop), _read(bed, 0)
    put_back(bed, stop)
    if keys == ("weights",):
        weights = first_weights
    elif keys:
        _reset(state, first_state, keys)
    folder = RunFolder(bed.trial).checkpoints
    newest = newest_verified(folder)
    shutil.rmtree(newest)
    save_checkpoint(folder, step_of(newest), weights, state)
    ended = bed.resume()
    return ended.code != 0 or bed.differs() != ""


def _reset(state: dict[Any, Any], first: dict[Any, Any], keys: Keys, above: Keys = ()) -> None:
    """Give the piece its value before the first step: zeros if there is none yet; for the clock, one that shows."""
    key, *rest = keys
    for name in list(state) if key == ANY else [key]:
        if rest:
            _reset(state[name], first.get(name, {}), tuple(rest), (*above, key))
        elif (*above, key) == CLOCK:
            state[name] = HOURS
        else:
            state[name] = first[name] if name in first else torch.zeros_like(state[name])


def _budget_is_kept() -> bool:
    """Return whether a run whose time is used up ends at once when resumed."""
    bed = Bed((*REVERSE, "training.steps=null", "training.budget=4s"))
    weights, state = _read(bed, EVALUATE)
    put_back(bed, EVALUATE)
    folder = RunFolder(bed.trial).checkpoints
    shutil.rmtree(newest_verified(folder))
    save_checkpoint(folder, EVALUATE, weights, state | {BUDGET[0]: HOURS})
    ended = bed.resume()
    return ended.code == 0 and max(map(step_of, checkpoints(folder))) <= EVALUATE + 1
