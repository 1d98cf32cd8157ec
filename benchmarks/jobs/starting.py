"""Starting: the cost of a first prediction, of a small run, and of commands that only read settings."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.jobs.job import OURS, Job, Target
from benchmarks.sides import Side, processor_time

_train_smoke = (
    *("-m", "encoderlab", "train", "task=brackets", "training=smoke", "training.threads={threads}"),
    *(f"dataset.{split}_rows=64" for split in ("train", "validation", "test")),
)
_READING = {
    OURS: ("--help",),
    "list": ("list",),
    "version": ("--version",),
    "completion": ("completion", "bash", "encoderlab train training.lea", "=:"),
}


def _start(what: str, ours: tuple[str, ...], at_most: float) -> Job:
    sides = (Side(OURS, ours, processor_time), Side("import_torch", ("-c", "import torch"), processor_time))
    note = (
        "Processor time of the whole process, user and system, with Python's bytecode of all modules cached. It is a cost: the "
        "ratio says how many times as much ours takes."
    )
    target = Target("processor_seconds", "import_torch", at_most=at_most)
    return Job(
        what, sides, (target,), figure="processor_seconds", setup=((*_train_smoke, "run_dir={work}/run"),), note=note
    )


STARTING: Mapping[str, Job] = {
    "start_predict": _start(
        "predicting one text",
        ("-m", "encoderlab", "predict", "run={work}/run", "text=()()", "threads={threads}"),
        1.4,
    ),
    "start_train": _start(
        "training on 64 rows of brackets, to the finished report", (*_train_smoke, "run_dir={folder}/run"), 3
    ),
    "start_help": Job(
        "`encoderlab --help`, `list`, `--version`, and a setting completed with TAB",
        tuple(Side(name, ("-m", "encoderlab", *typed), processor_time) for name, typed in _READING.items()),
        tuple(Target("processor_seconds", at_most=0.2, side=name) for name in _READING),
        figure="processor_seconds",
        note="The first row is `encoderlab --help`. Processor time of the whole process, including the start of Python.",
    ),
}
