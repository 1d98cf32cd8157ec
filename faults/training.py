"""Trials of runs that are killed, stopped, refused by the disk or resumed: they must end like an undisturbed run.

A small run (dropout, evaluations within an epoch, a best checkpoint and a last one) is started with a user's command
line in a forked child, and disturbed at a random moment or call. Whatever is not restored shows in its weights.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

import torch

from encoderlab.training.checkpoint import (
    checkpoints,
    newest_verified,
    read_state,
    read_weights,
    save_checkpoint,
    step_of,
)
from faults.host import Ended, Host, Job, Sent
from faults.promise import Conditions, Trial
from faults.saving import ERROR_CODES, IN_PLACE
from faults.shim import Action, Fault, calls_in

_ROWS = ("dataset.train_rows=160", "dataset.validation_rows=32", "dataset.test_rows=32")
_SHAPE = ("model.n_layers=1", "model.d_model=16", "model.n_heads=2", "model.d_ff=32", "model.dropout=0.1")
SMALL = ("baselines=false", "training.threads=1", "training.batch_size=8", *_SHAPE)
REVERSE = ("train", "task=reverse", *_ROWS, *SMALL, "training.learning_rate=0.01", "seed=1")
_EVERY_FEW = ("training.checkpoint_every=3", "training.evaluate_every=15", "training.log_every=5")
LONG = (*REVERSE, "training.steps=60", *_EVERY_FEW)
COMMANDS = ("cli.main", "commands.train", "commands.pretrain", "commands.predict", "training.checkpoint")
MODULES = (*(f"encoderlab.{name}" for name in COMMANDS), "faults.training", "hydra.main", "matplotlib.pyplot")
OF_THE_CLOCK = ("seconds", "time", "tokens_per_second", "examples_per_second")
HOURS = 1000.0  # more seconds than any run here takes
STARTS = 6  # of one run, the last ones undisturbed: more than enough to end
MOST_KILLS = 3
FIRST_CALLS = 20  # the folder, its records, and the first checkpoint
SIGNALS = (signal.SIGTERM, signal.SIGINT)
HOW_TO_RESUME = "Progress saved. Resume with: "
IN_USE = ("Another process is using", "already holds", "is finished")

STEPS = 24
EVALUATE = 8
STOPS = (0, 5, 8, 20, 23)  # before the first, within an epoch, at an evaluation, between epochs, before the last
_EVERY = ("training.steps=24", "training.evaluate_every=8", "training.checkpoint_every=1", "training.log_every=1")
SHORT = (*REVERSE, *_EVERY)
_FEW_PIECES = ("dataset.limit=160", "tokenizer.vocabulary_size=500", *SMALL, *_EVERY, "seed=1")
PRETRAIN = ("pretrain", *_FEW_PIECES)
EARLY = "stopped early"
GRID: dict[str, tuple[str, ...]] = {
    "dropout": SHORT,
    "masked tokens and pairs": PRETRAIN,
    "micro-batches": (*SHORT, "training.accumulate=3"),
    EARLY: (*SHORT, "training.patience=1", "training.learning_rate=1e-9"),
    "patience": (*SHORT, "training.patience=2", "training.learning_rate=0.3"),
    "the last is kept": (*SHORT, "training.keep=last"),
    "cosine": (*SHORT, "training.schedule=cosine"),
    "random batches": (*SHORT, "training.batching=random"),
    "by epochs": (*SHORT, "training.steps=null", "training.epochs=1.25", "training.evaluate_every=null"),
    "texts with labels": ("train", *_FEW_PIECES),
    "frozen, by layers": (*SHORT, "model.n_layers=2", "training.freeze_layers=1", "training.layer_decay=0.5"),
    "modern": (*SHORT, "model=modern", *SMALL),
}
NOTICING = ("dropout", EARLY, "patience")  # the settings under which every piece of the state must be missed
# What no step of these runs depends on: settings that the config and the schedule provide again; and what is kept for
# running out of memory, another accumulate, tokenizer or processor, which have their own tests.
NOT_NEEDED = ("optimizer.param_groups", "micro_batches", "accumulate", "tokenizer", "budget_spent")


def run_command(arguments: list[str], folder: str) -> None:
    """In a child: run `encoderlab` with these arguments from `folder`. Raises SystemExit as the program does."""
    from encoderlab.cli.main import main

    os.chdir(folder)
    sys.argv = ["encoderlab", *arguments]
    main()


@cache
def shared_host() -> Host:
    """Return the one host for all runs of this process, which takes seconds to start. Raises UnavailableError."""
    return until_exit(Host(MODULES))


@cache
def shared_folder() -> Path:
    """Return a folder for all runs of this process, deleted at its end."""
    return Path(until_exit(tempfile.TemporaryDirectory(prefix="faults-"))).resolve()


def until_exit(context: Any) -> Any:
    """Return what a context manager gives, which is left when this process ends."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(context)


def finished(run: Path) -> bool:
    """Return whether a run has ended: the report is the last file it writes."""
    return (run / "report.json").exists()


@cache
class Bed:
    """Where runs of the same `settings` are made, and the results of an undisturbed one, with its seconds and calls."""

    def __init__(self, settings: tuple[str, ...] = LONG) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=shared_folder()))
        self.settings = settings
        self.cache = f"cache_dir={shared_folder() / 'cache'}"
        self.journal = self.folder / "journal"
        self.run = self.folder / "run"
        for _ in range(2):  # the first one fills the cache, so its time does not count
            self.clear()
            ended = self.start()
            assert ended.code == 0, ended.output
        self.seconds = ended.seconds
        self.calls = calls_in(self.journal)
        self.reference = outcome(self.run)
        self.clear()

    def start(self, *more: str, fault: Fault | None = None, signals: tuple[Sent, ...] = ()) -> Ended:
        """Start the run under a fault or signals."""
        arguments = [*self.settings, self.cache, f"run_dir={self.run}", *more]
        return self.host_run(arguments, fault, signals)

    def resume(self, *, fault: Fault | None = None, signals: tuple[Sent, ...] = ()) -> Ended:
        """Resume the run as its last line says, or start it if it had not begun."""
        if not (self.run / "config.yaml").exists():
            return self.start("resume=auto", fault=fault, signals=signals)
        return self.host_run([self.settings[0], self.cache, f"resume={self.run}"], fault, signals)

    def host_run(self, arguments: list[str], fault: Fault | None = None, signals: tuple[Sent, ...] = ()) -> Ended:
        """Run a command in a forked child."""
        self.journal.unlink(missing_ok=True)
        return shared_host().run(self.job(arguments, fault, signals))

    def job(self, arguments: list[str], fault: Fault | None = None, signals: tuple[Sent, ...] = ()) -> Job:
        """Return the job of a command."""
        call = {"arguments": arguments, "folder": str(self.folder)}
        return Job("faults.training:run_command", call, str(self.run), fault, str(self.journal), signals)

    def moment(self, draw: random.Random, number: int, *, group: bool = False) -> dict[str, Any]:
        """Draw a moment of a run: half by the clock, a quarter at any call, a quarter at one of the first calls."""
        if draw.random() < 0.5:
            return {"signals": (Sent(draw.uniform(0, self.seconds), number, group),)}
        action = draw.choice((Action.signal_before, Action.signal_after, Action.signal_halfway))
        calls = draw.choice((len(self.calls), FIRST_CALLS))
        return {"fault": Fault(action, draw.randrange(1, calls + 1), number, group)}

    def differs(self) -> str:
        """Return how the run's results differ from the undisturbed ones; "" if not at all."""
        return difference(outcome(self.run), self.reference) if finished(self.run) else "it did not finish"

    def ends_like_undisturbed(self) -> str:
        """Resume the run unless it is finished; return what is wrong with its results."""
        if finished(self.run):
            return self.differs()
        ended = self.resume()
        return self.differs() if ended.code == 0 else f"resuming ended with code {ended.code}: {ended.last_line}"

    def clear(self) -> None:
        """Delete the run."""
        shutil.rmtree(self.run, ignore_errors=True)


def outcome(run: Path, *, with_log: bool = True) -> dict[str, Any]:
    """Return the results of a run without times: weights, report, predictions and, `with_log`, the logged lines."""
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    log = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines() if with_log else []
    lines = [json.loads(line) for line in log]
    predictions = run / "predictions.csv"
    return {
        "weights": hashlib.sha256((run / "model" / "model.safetensors").read_bytes()).hexdigest(),
        "report": {name: value for name, value in report.items() if name != "throughput"},
        "padding": report["throughput"]["padding_fraction"],
        "time": report["throughput"]["train_seconds"] > HOURS / 2,
        "predictions": predictions.read_bytes() if predictions.exists() else None,
        "journal": [{name: value for name, value in line.items() if name not in OF_THE_CLOCK} for line in lines]
        if with_log
        else None,
    }


def difference(run: dict[str, Any], reference: dict[str, Any]) -> str:
    """Return in which of its results a run differs from another; "" if in none."""
    return ", ".join(f"another {name}" for name in reference if run[name] != reference[name])


# The trials


def killed(conditions: Conditions) -> Iterator[Trial]:
    """Kill a run (kill -9) up to three times, at a random time or call, and resume it each time."""
    bed = Bed()
    draw = random.Random(conditions.seed)
    for _ in range(conditions.trials or 0):
        moments = []
        for start in range(STARTS):
            disturbed = start == 0 or (start < MOST_KILLS and draw.random() < 0.5)
            moment = bed.moment(draw, signal.SIGKILL) if disturbed else {}
            ended = bed.resume(**moment)
            moments.append(_words(moment))
            if finished(bed.run) or ended.code not in (0, -signal.SIGKILL):
                break
        failure = "" if ended.code in (0, -signal.SIGKILL) else f"exit code {ended.code}: {ended.last_line}"
        yield Trial(f"killed {', then '.join(moments)}", failure or bed.differs())
        bed.clear()


def signalled(conditions: Conditions) -> Iterator[Trial]:
    """Send SIGTERM and SIGINT, to the process and to its group, at random times and calls; every fifth one twice."""
    bed = Bed()
    draw = random.Random(conditions.seed)
    for place, (number, group) in enumerate(islice(cycle(product(SIGNALS, (False, True))), conditions.trials or 0)):
        moment = bed.moment(draw, number, group=group)
        twice = place % 5 == 4
        if twice:
            first = draw.uniform(0, bed.seconds)
            moment = {"signals": (Sent(first, number, group), Sent(first + 0.02, number, group))}
        ended = bed.start(**moment)
        case = f"{signal.Signals(number).name} to the {'group' if group else 'process'}, {_words(moment)}"
        yield Trial(case, badly_stopped(bed.run, ended, number, twice=twice) or bed.ends_like_undisturbed())
        bed.clear()


def refused(conditions: Conditions) -> Iterator[Trial]:
    """Try a disk that is full, read-only or failing from a call of a run on."""
    bed = Bed()
    draw = random.Random(conditions.seed)
    for number in islice(cycle((errno.ENOSPC, errno.EROFS, errno.EIO)), conditions.trials or 0):
        fault = Fault(Action.fail_from, draw.randrange(1, len(bed.calls) + 1), number)
        ended = bed.start(fault=fault)
        failure = "" if finished(bed.run) else _badly_refused(ended)
        yield Trial(f"{fault.words}, call {fault.at} of {len(bed.calls)}", failure or bed.ends_like_undisturbed())
        bed.clear()


def one_folder(conditions: Conditions) -> Iterator[Trial]:
    """Start two runs at once in one folder; in every other trial it contains a run that both want to resume."""
    bed = Bed()
    draw = random.Random(conditions.seed)
    for place in range(conditions.trials or 0):
        if place % 2:
            bed.start(**bed.moment(draw, signal.SIGKILL))
        begun = (bed.run / "config.yaml").exists()
        if not finished(bed.run):
            words = (bed.settings[0], f"resume={bed.run}") if begun else (*bed.settings, f"run_dir={bed.run}")
            job = bed.job([*words, bed.cache])
            first, second = sorted(shared_host().run_together([job, job]), key=lambda ended: ended.code)
            failure = ""
            if (first.code, second.code) != (0, 2):
                failure = f"exit codes {[first.code, second.code]}"
            elif not any(words in second.last_line for words in IN_USE):
                failure = f"the other said: {second.last_line}"
            yield Trial(f"both {'resume' if begun else 'start'}", failure or bed.differs())
        bed.clear()


def resumed(conditions: Conditions) -> Iterator[Trial]:
    """Kill a run after the checkpoint of a step and resume it: once for each setting and each stop."""
    for stop, name in conditions.select([(stop, name) for stop in STOPS for name in GRID]):
        bed = Bed(GRID[name])
        yield Trial(f"{name}, stopped after step {stop}", put_back(bed, stop) or bed.ends_like_undisturbed())
        bed.clear()


def nothing_left_out(conditions: Conditions) -> Iterator[Trial]:
    """Reset a piece of a checkpoint to its value before the first step: some run must then end differently."""
    bed = Bed(GRID["dropout"])
    if _notices(bed, STOPS[-1], ""):
        yield Trial("nothing left out, but rewritten", "rewriting alone is noticed")
    pieces = sorted({_piece(keys) for keys in _leaves(_read(bed, STOPS[-1])[1])} - {""})
    for piece in conditions.select(["weights", *pieces]):
        trials = product(NOTICING, (STOPS[-1], EVALUATE))
        noticed = any(_notices(Bed(GRID[name]), stop, piece) for name, stop in trials)
        yield Trial(f"{piece} left out", "" if noticed else "no run noticed")


def model_damaged(conditions: Conditions) -> Iterator[Trial]:
    """Damage a file of a finished run's model folder: `predict` must end with one line and exit code 3."""
    bed = Bed()
    draw = random.Random(conditions.seed)
    assert bed.start().code == 0
    model = bed.run / "model"
    good = bed.folder / "good"
    model.rename(good)
    for name, damage in islice(cycle(IN_PLACE.items()), conditions.trials or 0):
        shutil.copytree(good, model)
        for extra in ("README.md", ".gitattributes"):  # nothing is read from them
            (model / extra).unlink(missing_ok=True)
        where = damage(model, draw)
        if not (model / "manifest.json").exists():  # it is read like a folder of transformers
            shutil.rmtree(model)
            continue
        ended = bed.host_run(["predict", f"run={bed.run}", "text=1 2 3", "threads=1"])
        lines = [line for line in ended.lines if line.startswith("encoderlab:")]
        failure = "" if ended.code == 3 and len(lines) == 1 and "Traceback" not in ended.output else ended.output[-300:]
        yield Trial(f"{name}: {where}", failure and f"exit code {ended.code}: {failure!r}")
        shutil.rmtree(model)
    bed.clear()
    shutil.rmtree(good)


# What is wrong


def badly_stopped(run: Path, ended: Ended, number: int, *, twice: bool = False) -> str:
    """Return what is wrong with how a run ended on a signal; "" if nothing is."""
    if ended.code == 0 or (finished(run) and ended.code == -number):  # it was exiting; a shell gets the same number
        return "" if finished(run) else "exit code 0 without a report"
    if ended.code != 128 + number:
        return f"exit code {ended.code}: {ended.last_line}"
    if "Traceback" in ended.output:
        return f"a traceback, ending in {ended.last_line}"
    if twice:  # the second signal ends the process in the middle of anything
        return ""
    if not ended.last_line.startswith("encoderlab: stopped by"):
        return f"it did not say why it ended: {ended.last_line}"
    says_how = any(line.startswith(HOW_TO_RESUME) for line in ended.lines)
    resumable = bool(checkpoints(run / "checkpoints")) and not finished(run)
    return "" if says_how or not resumable else "it did not say how to resume"


def _badly_refused(ended: Ended) -> str:
    if ended.code not in ERROR_CODES:
        return f"exit code {ended.code}: {ended.last_line}"
    lines = [line for line in ended.lines if line.startswith("encoderlab:")]
    return "" if len(lines) == 1 and "Traceback" not in ended.output else f"not one line: {ended.output[-500:]!r}"


def _words(moment: dict[str, Any]) -> str:
    if "fault" in moment:
        return f"{moment['fault'].action.name.replace('signal_', '')} call {moment['fault'].at}"
    return " and ".join(f"after {sent.after:.3f} s" for sent in moment.get("signals", ())) or "no more"


# Runs that were killed after a step


@cache
def _stopped(bed: Bed, stop: int) -> tuple[Path | None, str]:
    """Return a run killed when its checkpoint of step `stop` (or its last) had its name; or what went wrong."""
    bed.clear()
    saved = [call for call in bed.calls if call.name == "rename" and Path(call.other).name.startswith("step-")]
    call = next((call for call in saved if call.other.endswith(f"/step-{stop}")), saved[-1])
    ended = bed.start(fault=Fault(Action.signal_after, call.number, signal.SIGKILL))
    if ended.code != -signal.SIGKILL:
        return None, f"it was not killed: exit code {ended.code}: {ended.last_line}"
    kept = bed.folder / f"stopped-{stop}"
    bed.run.rename(kept)
    newest = newest_verified(kept / "checkpoints")
    return kept, "" if newest and newest.name == Path(call.other).name else f"the newest checkpoint is {newest}"


def put_back(bed: Bed, stop: int) -> str:
    """Put a run that was killed after step `stop` into its place; return what went wrong, "" if nothing did."""
    bed.clear()
    kept, failure = _stopped(bed, stop)
    if not failure:
        shutil.copytree(kept, bed.run)
    return failure


def _read(bed: Bed, stop: int) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Return weights and state of the checkpoint after which the run was killed."""
    kept, failure = _stopped(bed, stop)
    assert not failure, failure
    newest = newest_verified(kept / "checkpoints")
    return read_weights(newest), read_state(newest)


def _leaves(state: dict[Any, Any], above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the keys of every value of a nested state."""
    for key, value in state.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*above, key))
        else:
            yield (*above, key)


def _piece(keys: tuple[Any, ...]) -> str:
    """Return the piece of the state that a value belongs to, in words; "" if it is not needed.

    Pieces of an optimizer are reset for all weights together.
    """
    words = ".".join("*" if isinstance(key, int) else key for key in keys)
    return "" if words.startswith(NOT_NEEDED) else words


def _notices(bed: Bed, stop: int, piece: str) -> bool:
    """Return whether a run resumed with that piece reset is refused, or ends differently."""
    weights, state = _read(bed, stop)
    first_weights, first_state = _read(bed, 0)
    for keys in [keys for keys in _leaves(state) if piece and _piece(keys) == piece]:
        *outer, last = keys
        inner = state
        first = first_state
        for key in outer:
            inner = inner[key]
            first = first.get(key, {})
        if keys[-1] == "seconds":
            inner[last] = HOURS  # a value that shows
        else:
            inner[last] = first[last] if last in first else torch.zeros_like(inner[last])
    put_back(bed, stop)
    folder = bed.run / "checkpoints"
    newest = newest_verified(folder)
    shutil.rmtree(newest)
    save_checkpoint(folder, step_of(newest), first_weights if piece == "weights" else weights, state)
    return bed.ends_like_undisturbed() != ""
